//! [`RolloutWorker`]: environments, policies, filters and callbacks that answer requests.
//!
//! An `EnvRunner` steps environments with policies that it borrows; the trainer's own runner borrows the policies that
//! learn. A [`RolloutWorker`] is a runner with its own policies, which answers [`Request`]s: a transport only has to
//! carry requests and replies.

use crate::policy::PolicyMap;
use crate::sample::callbacks::CallbacksMaker;
use crate::sample::env_runner::{EnvRunner, Hooks};
use crate::sample::follower::Follower;
use crate::sample::messages::{Reply, Request, Sampled};
use crate::sample::spec::WorkerSpec;
use pavlov_learn::base::{Device, Result};

/// A worker with its own environments and policies, which answers requests.
pub struct RolloutWorker {
    runner: EnvRunner,
    policies: PolicyMap,
    callbacks: Hooks,
    /// Version of the weights by which the worker acts.
    version: u64,
    /// Connections to the other learners, if the worker is a learner.
    follower: Follower,
}

impl std::fmt::Debug for RolloutWorker {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RolloutWorker").field("index", &self.runner.index).finish_non_exhaustive()
    }
}

impl RolloutWorker {
    /// Makes the worker with this index; rollout workers are counted from 1.
    ///
    /// # Errors
    /// Fails if the environment or a policy cannot be made, or a hook fails.
    pub fn new(spec: WorkerSpec, index: usize) -> Result<Self> {
        let mut policies = spec.policies(index, Device::Cpu)?;
        let mut callbacks = spec.code.callbacks.as_ref().map(CallbacksMaker::make);
        let with_env = spec.names.sampling;
        let runner = EnvRunner::new(spec, index, with_env, &mut policies, &mut callbacks)?;
        Ok(Self { runner, policies, callbacks, version: 0, follower: Follower::default() })
    }

    /// Carries out a request and returns the reply.
    ///
    /// # Errors
    /// Fails if the environment, a policy or a hook does. Returns [`Error::State`](crate::Error::State) if weights, a
    /// state or the statistics of a filter do not fit.
    pub fn handle(&mut self, request: Request) -> Result<Reply> {
        let Self { runner, policies, callbacks, version, follower } = self;
        Ok(match request {
            Request::Sample { timestep } => {
                let part = runner.sample(policies, callbacks, timestep)?;
                Reply::Sample(Sampled { version: *version, ..part })
            }
            // Older weights may arrive late; they are ignored.
            Request::SetWeights { version: new, weights } => {
                if new >= *version {
                    policies.set_weights(&weights)?;
                    *version = new;
                }
                Reply::Done
            }
            Request::Evaluate(task) => Reply::Evaluation(runner.evaluate(policies, &task)?),
            Request::GetState => Reply::State(runner.state()?),
            Request::SetState(state) => {
                runner.set_state(&state, callbacks)?;
                Reply::Done
            }
            Request::FlushFilters => Reply::Filters(runner.flush_filters()),
            Request::SetFilters(stats) => {
                runner.set_filter_stats(&stats)?;
                Reply::Done
            }
            Request::SetTask(task) => {
                runner.set_task(&task)?;
                Reply::Done
            }
            Request::Follow(follow) => follower.handle(policies, follow)?.map_or(Reply::Done, Reply::Listens),
        })
    }
}
