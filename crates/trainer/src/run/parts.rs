//! Parts of what a run has learned, by themselves: its policies with their optimizers, and its replay buffers.

use crate::base::PolicyId;
use crate::run::algorithm::Algorithm;
use crate::run::trainer::Trainer;
use pavlov_learn::base::{Result, State};
use std::collections::BTreeMap;

impl<T: Trainer> Algorithm<T> {
    /// The states of all policies, nested by policy id: weights, target networks, optimizers and random streams.
    ///
    /// # Errors
    /// Fails if a policy's own [`get_state`](crate::policy::Policy::get_state) does. Returns
    /// [`Error::State`](crate::Error::State) if the algorithm is not set up.
    pub fn get_policy_states(&self) -> Result<State> {
        self.run()?.workers().learners.lend(|policies, _| policies.get_state())
    }

    /// Restores the states that [`get_policy_states`](Self::get_policy_states) returned. Everything else goes on.
    ///
    /// # Errors
    /// Returns [`Error::State`](crate::Error::State) if `states` lacks a policy or does not fit one, or the algorithm is not
    /// set up, and [`Error::Worker`](crate::Error::Worker) if a worker fails and no setting lets the run go on without it.
    pub fn set_policy_states(&mut self, states: &State) -> Result<()> {
        let workers = self.run()?.workers();
        workers.learners.with_policies(|policies| policies.set_state(states))?;
        workers.sync_weights()
    }

    /// The replay buffers by policy id; none if the algorithm keeps none.
    ///
    /// # Errors
    /// Fails if a buffer cannot be copied. Returns [`Error::State`](crate::Error::State) if the algorithm is not set up.
    pub fn get_replay_buffers(&self) -> Result<BTreeMap<PolicyId, State>> {
        self.run()?.workers().learners.replay_buffers()
    }

    /// Replaces the replay buffers of the policies that `buffers` names. Everything else goes on.
    ///
    /// # Errors
    /// Returns [`Error::State`](crate::Error::State) if a policy has no buffer or one of another kind or capacity, or the
    /// algorithm is not set up.
    pub fn set_replay_buffers(&mut self, buffers: &BTreeMap<PolicyId, State>) -> Result<()> {
        self.run()?.workers().learners.set_replay_buffers(buffers)
    }
}
