//! `batch_mode = "complete_episodes"`: the rows of each copy are kept until its episode ends.

use crate::policy::Policy;
use crate::sample::callbacks::Callbacks;
use pavlov_learn::base::{Array, ArrayRef, Error, Result, State};
use pavlov_learn::experience::{Column, EpisodeStart, Fragment, FragmentMasks, SampleBatch};
use serde::{Deserialize, Serialize};

/// Rows of one copy's episode: arrays `[rows, 1, ...]` in the order of the steps.
#[derive(Debug, Default)]
struct Pending {
    obs: Vec<Array>,
    actions: Vec<Array>,
    columns: Vec<Vec<Array>>,
    masks: Vec<Array>,
    rewards: Vec<f32>,
}

/// A finished episode, which will be postprocessed as a fragment of its own.
#[derive(Debug)]
struct Complete {
    rows: Pending,
    /// The last observation, `[1, width]`.
    final_obs: Array,
    /// Legal actions at the last observation, `[1, options]`.
    final_mask: Option<Array>,
    terminated: bool,
}

#[derive(Serialize, Deserialize)]
struct PendingState {
    columns: usize,
    rewards: Vec<f32>,
}

/// Collects rows of one policy until their episodes end.
#[derive(Debug, Default)]
pub(crate) struct EpisodeCollector {
    pending: Vec<Pending>,
    complete: Vec<Complete>,
    names: Vec<Column>,
    gamma: f64,
}

/// Number of steps after which an episode is taken to be endless.
const ENDLESS: usize = 1_000_000;

impl EpisodeCollector {
    /// Adds the rows of a fragment to the episodes of their copies. Finished episodes are ordered by the step at
    /// which they ended.
    pub(crate) fn add(&mut self, f: &Fragment<'_>) {
        self.names = f.columns.iter().map(|(c, _)| *c).collect();
        self.gamma = f.gamma;
        let n = f.num_envs;
        self.pending.resize_with(n, Pending::default);
        let mut from = vec![0; n];
        for (k, &row) in f.ended.iter().enumerate() {
            let t = row / n;
            let copy = row % n;
            self.extend(f, copy, from[copy], t + 1);
            from[copy] = t + 1;
            let rows = std::mem::take(&mut self.pending[copy]);
            let final_obs = f.final_obs.rows(k..k + 1).copied();
            let final_mask = f.masks.as_ref().map(|masks| masks.behind.rows(k..k + 1).copied());
            self.complete.push(Complete { rows, final_obs, final_mask, terminated: f.terminated[row] });
        }
        for (copy, &start) in from.iter().enumerate() {
            self.extend(f, copy, start, f.length(copy));
        }
    }

    fn extend(&mut self, f: &Fragment<'_>, copy: usize, start: usize, end: usize) {
        if start == end {
            return;
        }
        let index: Vec<i64> = (start..end).map(|t| (t * f.num_envs + copy) as i64).collect();
        let cut = |rows: ArrayRef<'_>| {
            let shape = [&[index.len() as i64, 1], &rows.shape()[2..]].concat();
            rows.merged().gather(&index).reshape(&shape)
        };
        let pending = &mut self.pending[copy];
        pending.obs.push(cut(f.obs));
        pending.actions.push(cut(f.actions));
        pending.masks.extend(f.masks.as_ref().map(|masks| cut(masks.rows)));
        pending.columns.resize_with(f.columns.len(), Vec::new);
        for (rows, (_, column)) in pending.columns.iter_mut().zip(&f.columns) {
            rows.push(cut(*column));
        }
        pending.rewards.extend((start..end).map(|t| f.rewards[t * f.num_envs + copy]));
    }

    /// Returns an error if an unfinished episode has more than [`ENDLESS`] steps.
    pub(crate) fn check_length(&self) -> Result<()> {
        match self.pending.iter().map(|p| p.rewards.len()).max() {
            Some(longest) if longest > ENDLESS => {
                let rule = format!(
                    "an episode has not ended in {longest} steps; give the environment a time limit, or use \"truncate_episodes\""
                );
                Err(Error::config("batch_mode", "\"complete_episodes\"", rule))
            }
            _ => Ok(()),
        }
    }

    /// Removes the finished episodes, postprocesses each on its own, and returns a batch per episode.
    pub(crate) fn take(
        &mut self,
        (id, policy): (&str, &mut dyn Policy),
        mut callbacks: Option<&mut Box<dyn Callbacks>>,
    ) -> Result<Vec<SampleBatch>> {
        let mut batches = Vec::with_capacity(self.complete.len());
        for episode in self.complete.drain(..) {
            let length = episode.rows.rewards.len();
            let joined = |rows: &[Array], last: &Array| {
                let last = last.reshape(&[&[1], last.shape()].concat());
                Array::concat(rows.iter().chain([&last]))
            };
            let obs = joined(&episode.rows.obs, &episode.final_obs);
            let actions = Array::concat(&episode.rows.actions);
            let masks = episode.final_mask.as_ref().map(|behind| joined(&episode.rows.masks, behind));
            let mut terminated = vec![false; length];
            let mut truncated = vec![false; length];
            terminated[length - 1] = episode.terminated;
            truncated[length - 1] = !episode.terminated;
            let columns: Vec<Array> = episode.rows.columns.iter().map(Array::concat).collect();
            let mut batch = policy.postprocess_trajectory(Fragment {
                steps: length,
                num_envs: 1,
                lengths: None,
                obs: obs.lend(),
                actions: actions.lend(),
                rewards: &episode.rows.rewards,
                terminated: &terminated,
                truncated: &truncated,
                columns: self.names.iter().copied().zip(columns.iter().map(Array::lend)).collect(),
                ended: &[length - 1],
                masks: masks
                    .as_ref()
                    .zip(episode.final_mask.as_ref())
                    .map(|(rows, behind)| FragmentMasks { rows: rows.lend(), behind: behind.lend() }),
                final_obs: episode.final_obs.lend(),
                gamma: self.gamma,
                memory: None,
                abandoned: &[],
                // The episode is whole, so the number of its copy does not matter.
                episodes: Some(&[EpisodeStart { env_id: 0, steps: 0 }]),
                waiting: None,
            })?;
            if let Some(callbacks) = &mut callbacks {
                callbacks.on_postprocess_trajectory(id, &mut batch)?;
            }
            batches.push(batch);
        }
        Ok(batches)
    }

    /// The rows of unfinished episodes, for checkpoints. No finished ones are left then: [`take`](Self::take) has
    /// removed them.
    pub(crate) fn state(&self) -> Result<State> {
        let mut state = State::default();
        for (i, pending) in self.pending.iter().enumerate() {
            let mut one = State::default();
            let columns = if pending.rewards.is_empty() { 0 } else { pending.columns.len() };
            one.set("rows", &PendingState { columns, rewards: pending.rewards.clone() })?;
            if !pending.rewards.is_empty() {
                one.set_array("obs", Array::concat(&pending.obs));
                one.set_array("actions", Array::concat(&pending.actions));
                if !pending.masks.is_empty() {
                    one.set_array("masks", Array::concat(&pending.masks));
                }
                for (k, rows) in pending.columns.iter().enumerate() {
                    one.set_array(&format!("column{k}"), Array::concat(rows));
                }
            }
            state.nest(&i.to_string(), one);
        }
        Ok(state)
    }

    pub(crate) fn set_state(&mut self, state: &State) -> Result<()> {
        self.complete.clear();
        self.pending.clear();
        while state.has(&self.pending.len().to_string()) {
            let one = state.nested(&self.pending.len().to_string())?;
            let rows: PendingState = one.get("rows")?;
            let mut pending = Pending { rewards: rows.rewards, ..Pending::default() };
            if !pending.rewards.is_empty() {
                pending.obs.push(one.array("obs")?.clone());
                pending.actions.push(one.array("actions")?.clone());
                if one.array_names().any(|name| name == "masks") {
                    pending.masks.push(one.array("masks")?.clone());
                }
                for k in 0..rows.columns {
                    pending.columns.push(vec![one.array(&format!("column{k}"))?.clone()]);
                }
            }
            self.pending.push(pending);
        }
        Ok(())
    }
}
