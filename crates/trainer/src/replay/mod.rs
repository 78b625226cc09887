//! Experience replay: a ring of rows, drawn uniformly, by priority, or with the goals that their episodes achieved.

mod buffer;
mod episodes;
mod fragments;
mod frames;
mod goals;
mod hindsight;
mod kept;
mod minibatch_buffer;
mod sum_tree;

pub use buffer::ReplayBuffer;
pub(crate) use fragments::Fragments;
pub use goals::{Goals, RewardOfGoals};
pub(crate) use minibatch_buffer::MinibatchBuffer;
pub use sum_tree::SumTree;

use crate::base::PolicyId;
use crate::experience::TrainBatch;
pub use crate::settings::{GoalColumns, GoalSelectionStrategy, OffPolicy, ReplayBufferConfig, ReplayKind};
use pavlov_learn::base::{Error, Result, lock};
use pavlov_learn::experience::SampleBatch;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};

/// Replay buffers, one for each of several policies, shared by the steps of a plan.
#[derive(Clone, Debug, Default)]
pub struct SharedReplay {
    buffers: BTreeMap<PolicyId, Arc<Mutex<ReplayBuffer>>>,
    lockstep: bool,
}

impl SharedReplay {
    /// Adds a buffer for the rows of `policy`.
    #[must_use]
    pub fn with(mut self, policy: impl Into<PolicyId>, buffer: Arc<Mutex<ReplayBuffer>>) -> Self {
        self.buffers.insert(policy.into(), buffer);
        self
    }

    /// Puts the buffers in lockstep: all must get equally many rows at a time, so that equal random streams draw rows
    /// of the same steps from every buffer.
    #[must_use]
    pub fn in_lockstep(self, lockstep: bool) -> Self {
        Self { lockstep, ..self }
    }

    /// Returns an error if the buffers are in lockstep and policies have different numbers of rows in `batch`.
    pub(crate) fn check(&self, batch: &TrainBatch) -> Result<()> {
        if !self.lockstep {
            return Ok(());
        }
        let mut all = self.buffers.keys().map(|id| (id, batch.policies.get(id).map_or(0, SampleBatch::rows)));
        let Some((one, few)) = all.next() else { return Ok(()) };
        match all.find(|(_, rows)| *rows != few) {
            None => Ok(()),
            Some((other, many)) => {
                let reason = format!(
                    "`{one}` got {few} rows of a fragment, and `{other}` {many}, but rows of the same steps are to be drawn together; \
                     give policies equally many agents that act in the same steps, or leave out `replay_mode`"
                );
                Err(Error::state("`multiagent.replay_mode` = \"lockstep\"", reason))
            }
        }
    }

    /// The ids of the policies that have a buffer, in order.
    pub fn policies(&self) -> impl Iterator<Item = &str> {
        self.buffers.keys().map(String::as_str)
    }

    /// Locks the buffer of a policy until the guard is dropped; `None` if the policy has no buffer.
    pub fn lock(&self, policy: &str) -> Option<MutexGuard<'_, ReplayBuffer>> {
        self.buffers.get(policy).map(|buffer| lock(buffer))
    }
}
