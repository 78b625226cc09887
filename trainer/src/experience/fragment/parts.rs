//! The parts that a fragment borrows, and one number for each of its observations.

use crate::experience::columns::Column;
use crate::experience::fragment::Fragment;
use tch::Tensor;

/// The parts of a fragment: rows of a rollout buffer, or an episode that was collected. The fields are those of
/// [`Fragment`].
#[derive(Debug)]
pub(crate) struct FragmentParts<'a> {
    pub(crate) steps: usize,
    pub(crate) num_envs: usize,
    pub(crate) lengths: Option<&'a [usize]>,
    pub(crate) obs: Tensor,
    pub(crate) actions: Tensor,
    pub(crate) columns: Vec<(Column, Tensor)>,
    pub(crate) rewards: &'a [f32],
    pub(crate) terminated: &'a [bool],
    pub(crate) truncated: &'a [bool],
    pub(crate) ended: &'a [usize],
    pub(crate) final_obs: Tensor,
    /// Legal actions at the observations, and at the last observations of episodes.
    pub(crate) masks: Option<(Tensor, Tensor)>,
    pub(crate) memory: Option<FragmentMemory<'a>>,
    pub(crate) gamma: f64,
}

impl FragmentParts<'_> {
    /// The fragment that borrows these parts.
    pub(crate) fn fragment(&self) -> Fragment<'_> {
        Fragment {
            steps: self.steps,
            num_envs: self.num_envs,
            lengths: self.lengths,
            obs: &self.obs,
            actions: &self.actions,
            rewards: self.rewards,
            terminated: self.terminated,
            truncated: self.truncated,
            columns: self.columns.iter().map(|(column, data)| (*column, data)).collect(),
            ended: self.ended,
            final_obs: &self.final_obs,
            masks: self.masks.as_ref().map(|(rows, behind)| FragmentMasks { rows, behind }),
            gamma: self.gamma,
            memory: self.memory,
        }
    }
}

/// Recurrent states in a [`Fragment`](crate::experience::fragment::Fragment).
#[derive(Clone, Copy, Debug)]
pub struct FragmentMemory<'a> {
    /// Number of rows of a sequence. The last sequence of a copy is shorter if T is no multiple of it.
    pub max_seq_len: usize,
    /// Recurrent state before the first row of every sequence, `[ceil(T / max_seq_len), N, width]`.
    pub rows: &'a Tensor,
    /// Whether an episode begins with the row, `[T * N]`.
    pub resets: &'a [bool],
    /// Recurrent state after the last step of every episode that ended, `[ended, width]`.
    pub behind: &'a [f32],
    /// Recurrent state after the last step of the fragment, `[N, width]`.
    pub next: &'a [f32],
}

/// Which actions were legal at every observation of a [`Fragment`](crate::experience::fragment::Fragment), bool.
#[derive(Clone, Copy, Debug)]
pub struct FragmentMasks<'a> {
    /// Flags at the rows of [`Fragment::obs`](crate::experience::fragment::Fragment::obs), `[T + 1, N, options]`.
    pub rows: &'a Tensor,
    /// Flags at the last observation of every episode that ended, `[ended, options]`.
    pub behind: &'a Tensor,
}

/// One number for every observation of a fragment.
#[derive(Clone, Debug)]
pub struct Values {
    pub(crate) copies: usize,
    pub(crate) lengths: Option<Vec<usize>>,
    /// Numbers of the time-major observations, `[(T + 1) * N]`.
    pub(crate) at_rows: Vec<f32>,
    /// Numbers of the last observations of episodes that ended.
    pub(crate) at_ends: Vec<f32>,
}

impl Values {
    /// Values of the observations with an action, ordered as
    /// [`Fragment::rows`](crate::experience::fragment::Fragment::rows).
    pub fn rows(&self) -> Vec<f32> {
        let steps = self.at_rows.len() / self.copies - 1;
        let length = |copy: usize| self.lengths.as_ref().map_or(steps, |lengths| lengths[copy]);
        let of_copy = |copy| (0..length(copy)).map(move |t| self.at_rows[t * self.copies + copy]);
        (0..self.copies).flat_map(of_copy).collect()
    }
}
