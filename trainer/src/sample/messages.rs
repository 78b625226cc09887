//! Requests to a rollout worker, and its replies.

use crate::base::{Array, Episode, Result, SamplerPerf, State, Weights};
use crate::experience::TrainBatch;
use crate::sample::evaluation::{Evaluation, EvaluationTask};
use crate::sample::filter::FilterStats;
use crate::sample::follower::Follow;
use serde_json::Value;
use std::net::SocketAddr;
use std::sync::Arc;
use tch::Tensor;

/// A request to a rollout worker.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Request {
    /// Sample one fragment.
    Sample {
        /// Environment steps that the whole run has sampled so far.
        timestep: u64,
    },
    /// Replace the weights by the learner's.
    SetWeights {
        /// Number of times that the learner has published weights.
        version: u64,
        /// The weights of all policies.
        weights: Weights,
    },
    /// Play whole episodes without learning from them.
    Evaluate(EvaluationTask),
    /// Return the state that the next fragment depends on.
    GetState,
    /// Restore the state that `GetState` returned.
    SetState(Arc<State>),
    /// Return the statistics of the observation filters since the last such request.
    FlushFilters,
    /// Replace the filters' statistics by those merged from all workers.
    SetFilters(Arc<FilterStats>),
    /// Change the task of the environments.
    SetTask(Arc<Value>),
    /// Do a step of one of several learners.
    Follow(Follow),
}

/// The reply of a rollout worker to a request.
#[derive(Debug)]
#[non_exhaustive]
pub enum Reply {
    /// The request is done; it has no result.
    Done,
    /// The fragment that was asked for.
    Sample(Sampled),
    /// The finished evaluation episodes.
    Evaluation(Evaluation),
    /// The state of the worker.
    State(State),
    /// Statistics of the observation filters, by policy id; empty without filters.
    Filters(FilterStats),
    /// Address at which a learner listens for the others.
    Listens(SocketAddr),
}

/// One postprocessed fragment.
#[derive(Debug)]
pub struct Sampled {
    /// Rows to learn from, and the number of environment steps in them.
    pub batch: TrainBatch,
    /// Episodes that ended in the fragment.
    pub episodes: Vec<Episode>,
    /// Version of the weights that the worker acted by.
    pub version: u64,
    /// Times of the worker's sampling steps.
    pub perf: SamplerPerf,
}

impl Sampled {
    /// The fragment's state for a checkpoint, without its times.
    pub(crate) fn state(&self, keep: fn(&Tensor) -> Array) -> Result<State> {
        let mut state = State::default();
        self.batch.save(&mut state, keep)?;
        state.set("episodes", &self.episodes)?;
        state.set("version", &self.version)?;
        Ok(state)
    }

    /// Restores a fragment that [`state`](Self::state) saved.
    pub(crate) fn from_state(state: &mut State) -> Result<Self> {
        let batch = TrainBatch::saved(state)?;
        let episodes = state.get("episodes")?;
        // Checkpoints of the first layout have no versions.
        let version = if state.has("version") { state.get("version")? } else { 0 };
        Ok(Self { batch, episodes, version, perf: SamplerPerf::default() })
    }
}
