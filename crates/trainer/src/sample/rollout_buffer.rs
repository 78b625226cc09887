//! The buffer for the rows of a fragment or of a single step, which acting reads and writes.

use crate::sample::endings::Endings;
use crate::sample::masks::Masks;
use crate::sample::memory::Memories;
use pavlov_envs::Space;
use pavlov_learn::base::{HostRows, Kind, Result, State};

/// The rows of `T` steps of `N` copies, time-major. Observations and masks have `T + 1` rows: the last one is for the
/// observation after the last step.
#[derive(Debug)]
pub(crate) struct RolloutBuffer {
    /// Observations, `[T + 1, N, ...]`, in the space that [`Spaces::stored`](pavlov_learn::base::Spaces::stored) returns.
    pub(crate) obs: HostRows,
    /// Masks of legal actions, `[T + 1, N, options]`; `None` if actions are not masked.
    pub(crate) masks: Option<Masks>,
    /// Actions, `[T, N]` or `[T, N, components]`.
    pub(crate) actions: HostRows,
    /// Columns that the policy adds, `[T, N]` or `[T, N, width]` each.
    pub(crate) columns: Vec<HostRows>,
    /// Recurrent states; `None` if the policy is not recurrent.
    pub(crate) memories: Option<Memories>,
    /// Reward of each step, `[T * N]`.
    pub(crate) rewards: Vec<f32>,
    /// Whether an episode terminated at each step, `[T * N]`.
    pub(crate) terminated: Vec<bool>,
    /// Whether an episode was truncated at each step, `[T * N]`.
    pub(crate) truncated: Vec<bool>,
    /// Last observations, masks and recurrent states of the episodes that ended in these steps.
    pub(crate) endings: Endings,
    /// Number of steps, `T`.
    steps: usize,
    /// Number of copies, `N`.
    copies: usize,
}

impl RolloutBuffer {
    /// Allocates a buffer for `steps` steps of `copies` copies; `columns` gives the width of each column that the
    /// policy adds.
    pub(crate) fn new(
        steps: usize,
        copies: usize,
        (obs_shape, obs_kind): (&[i64], Kind),
        action_space: &Space,
        columns: impl Iterator<Item = usize>,
        masked: bool,
    ) -> Result<Self> {
        let n = copies as i64;
        let tail = |width: usize| if width == 1 { vec![n] } else { vec![n, width as i64] };
        let (action_tail, action_kind) = match action_space {
            Space::Discrete { .. } => (vec![n], Kind::I64),
            Space::MultiDiscrete { .. } | Space::MultiBinary { .. } => {
                (vec![n, action_space.width() as i64], Kind::I64)
            }
            _ => (vec![n, action_space.width() as i64], Kind::F32),
        };
        Ok(Self {
            obs: HostRows::zeros(steps + 1, &[&[n], obs_shape].concat(), obs_kind),
            masks: masked.then(|| Masks::new(action_space, steps + 1, copies)).transpose()?,
            actions: HostRows::zeros(steps, &action_tail, action_kind),
            columns: columns.map(|width| HostRows::zeros(steps, &tail(width), Kind::F32)).collect(),
            memories: None,
            rewards: vec![0.0; steps * copies],
            terminated: vec![false; steps * copies],
            truncated: vec![false; steps * copies],
            endings: Endings::default(),
            steps,
            copies,
        })
    }

    /// Copies the observation and mask of one copy, from row `t` to place `i` in row 0 of the buffer `to`.
    pub(crate) fn lend_seen(&mut self, (t, copy): (usize, usize), to: &mut RolloutBuffer, i: usize) {
        let copies = self.copies;
        to.obs.part_mut(0, i, copies).copy_from_slice(self.obs.part_mut(t, copy, copies));
        if let (Some(from), Some(to)) = (&mut self.masks, &mut to.masks) {
            to.rows.part_mut(0, i, copies).copy_from_slice(from.rows.part_mut(t, copy, copies));
        }
    }

    /// Copies an action and the policy's columns from place `i` in row 0 of `from` to place `copy` in row `t`.
    pub(crate) fn take_choice(&mut self, (t, copy): (usize, usize), from: &mut RolloutBuffer, i: usize) {
        let copies = self.copies;
        self.actions.part_mut(t, copy, copies).copy_from_slice(from.actions.part_mut(0, i, copies));
        for (to, from) in self.columns.iter_mut().zip(&mut from.columns) {
            to.part_mut(t, copy, copies).copy_from_slice(from.part_mut(0, i, copies));
        }
    }

    /// Copies the observation and mask of one copy from row `t` to row 0; with `chosen` its action and the policy's
    /// columns, too.
    pub(crate) fn carry_copy(&mut self, t: usize, copy: usize, chosen: bool) {
        let copies = self.copies;
        self.obs.copy_part(t, 0, copy, copies);
        if let Some(masks) = &mut self.masks {
            masks.rows.copy_part(t, 0, copy, copies);
        }
        if chosen {
            self.actions.copy_part(t, 0, copy, copies);
            self.columns.iter_mut().for_each(|column| column.copy_part(t, 0, copy, copies));
        }
    }

    /// Saves the observations, masks and actions of row 0, and the policy's columns there.
    pub(crate) fn save_chosen(&self, state: &mut State) {
        self.save(0, state);
        state.set_array("actions", self.actions.row(0));
        for (i, column) in self.columns.iter().enumerate() {
            state.set_array(&format!("column{i}"), column.row(0));
        }
    }

    /// Restores row 0 from a state that [`save_chosen`](Self::save_chosen) wrote.
    pub(crate) fn restore_chosen(&mut self, state: &State) -> Result<()> {
        self.restore(state)?;
        self.actions.restore(0, "actions", state.array("actions")?)?;
        for (i, column) in self.columns.iter_mut().enumerate() {
            let key = format!("column{i}");
            column.restore(0, &key, state.array(&key)?)?;
        }
        Ok(())
    }

    /// Copies the observations and masks after the last step to row 0, where the next fragment starts.
    pub(crate) fn carry(&mut self) {
        self.obs.copy_row(self.steps, 0);
        if let Some(masks) = &mut self.masks {
            masks.rows.copy_row(self.steps, 0);
        }
    }

    /// Saves the observations and masks of row `t`; [`restore`](Self::restore) reads them.
    pub(crate) fn save(&self, t: usize, state: &mut State) {
        state.set_array("obs", self.obs.row(t));
        if let Some(masks) = &self.masks {
            state.set_array("mask", masks.rows.row(t));
        }
    }

    /// Restores the observations and masks that [`save`](Self::save) wrote, to row 0.
    pub(crate) fn restore(&mut self, state: &State) -> Result<()> {
        self.obs.restore(0, "obs", state.array("obs")?)?;
        match &mut self.masks {
            Some(masks) => masks.rows.restore(0, "mask", state.array("mask")?),
            None => Ok(()),
        }
    }
}
