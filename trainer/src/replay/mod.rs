//! Experience replay: a ring of rows, drawn uniformly or by priority.

mod buffer;
mod fragments;
mod frames;
mod minibatch_buffer;
mod sum_tree;

pub use buffer::ReplayBuffer;
pub(crate) use fragments::Fragments;
pub(crate) use minibatch_buffer::MinibatchBuffer;
pub use sum_tree::SumTree;

use crate::base::{Error, PolicyId, Result, lock};
use crate::experience::{SampleBatch, TrainBatch};
pub use crate::settings::{OffPolicy, ReplayBufferConfig, ReplayKind};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};

/// A buffer of rows for each of some policies, shared by the steps of a plan.
#[derive(Clone, Debug, Default)]
pub struct SharedReplay {
    buffers: BTreeMap<PolicyId, Arc<Mutex<ReplayBuffer>>>,
    lockstep: bool,
}

impl SharedReplay {
    /// Shares a buffer of that policy's rows, too.
    #[must_use]
    pub fn with(mut self, policy: impl Into<PolicyId>, buffer: Arc<Mutex<ReplayBuffer>>) -> Self {
        self.buffers.insert(policy.into(), buffer);
        self
    }

    /// The buffers get equally many rows at a time. Those of one stream then draw rows that were added together.
    #[must_use]
    pub fn in_lockstep(self, lockstep: bool) -> Self {
        Self { lockstep, ..self }
    }

    /// Refuses rows that the buffers cannot keep in lockstep, if they are to.
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

    /// The policies whose rows these are, in the order of the ids.
    pub fn policies(&self) -> impl Iterator<Item = &str> {
        self.buffers.keys().map(String::as_str)
    }

    /// The buffer of one policy, for this caller alone until the guard is dropped.
    pub fn lock(&self, policy: &str) -> Option<MutexGuard<'_, ReplayBuffer>> {
        self.buffers.get(policy).map(|buffer| lock(buffer))
    }
}
