//! Requests to a rollout worker, and its replies.

use crate::base::{Episode, SamplerPerf};
use crate::experience::TrainBatch;
use crate::sample::evaluation::{Evaluation, EvaluationTask};
use crate::sample::filter::FilterStats;
use crate::sample::follower::Follow;
use pavlov_learn::base::{Result, State, Weights};
use serde_json::Value;
use std::net::SocketAddr;
use std::sync::Arc;

/// A request to a rollout worker.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Request {
    /// Sample one fragment.
    Sample {
        /// Environment steps that the whole run has sampled so far.
        timestep: u64,
    },
    /// Replace the worker's weights by those that the learner has published.
    SetWeights {
        /// Version of the weights: 0 for the initial ones, `n` for the `n`-th published.
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
    /// Return the statistics that the observation filters have gathered since the last request of this kind.
    FlushFilters,
    /// Replace the statistics of the observation filters by those merged from all workers.
    SetFilters(Arc<FilterStats>),
    /// Set the task of the environments.
    SetTask(Arc<Value>),
    /// Take part in learning, as one of several learners.
    Follow(Follow),
}

/// The reply of a rollout worker to a request.
#[derive(Debug)]
#[non_exhaustive]
pub enum Reply {
    /// The request was carried out, and it has no result.
    Done,
    /// The sampled fragment.
    Sample(Sampled),
    /// The finished episodes of the evaluation.
    Evaluation(Evaluation),
    /// The state that the next fragment of the worker depends on.
    State(State),
    /// Statistics of the observation filters, by policy id; empty without filters.
    Filters(FilterStats),
    /// Address at which a learner listens for the other learners.
    Listens(SocketAddr),
}

/// A sampled and postprocessed fragment.
#[derive(Debug)]
pub struct Sampled {
    /// Rows to learn from, and the number of environment steps in them.
    pub batch: TrainBatch,
    /// Episodes that ended while the fragment was sampled.
    pub episodes: Vec<Episode>,
    /// Version of the weights by which the worker acted.
    pub version: u64,
    /// Time that the worker spent on each phase of sampling.
    pub perf: SamplerPerf,
}

impl Sampled {
    /// Returns the fragment for a checkpoint, without its times; `keep` turns a tensor into a stored array.
    pub(crate) fn state(&self) -> Result<State> {
        let mut state = State::default();
        self.batch.save(&mut state)?;
        state.set("episodes", &self.episodes)?;
        state.set("version", &self.version)?;
        Ok(state)
    }

    /// Restores a fragment that [`state`](Self::state) returned.
    pub(crate) fn from_state(state: &mut State) -> Result<Self> {
        let batch = TrainBatch::saved(state)?;
        let episodes = state.get("episodes")?;
        // Checkpoints of the first format have no versions.
        let version = if state.has("version") { state.get("version")? } else { 0 };
        Ok(Self { batch, episodes, version, perf: SamplerPerf::default() })
    }
}
