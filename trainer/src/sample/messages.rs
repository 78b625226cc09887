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

/// What a worker is asked to do.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Request {
    /// Sample one fragment; `timestep` is the number of steps the run has sampled so far.
    Sample {
        /// Environment steps of the whole run.
        timestep: u64,
    },
    /// Take over the learner's weights.
    SetWeights {
        /// How many times weights were published until then.
        version: u64,
        /// The weights of all policies.
        weights: Weights,
    },
    /// Play whole episodes without learning from them.
    Evaluate(EvaluationTask),
    /// Hand over everything the next fragment depends on.
    GetState,
    /// Continue from such a state.
    SetState(Arc<State>),
    /// Hand over what the filters have seen since the last time.
    FlushFilters,
    /// Take over the merged filters.
    SetFilters(Arc<FilterStats>),
    /// Change the task of the environments.
    SetTask(Arc<Value>),
    /// Learn along with the trainer.
    Follow(Follow),
}

/// What a worker answers.
#[derive(Debug)]
#[non_exhaustive]
pub enum Reply {
    /// The request is done, and there is nothing to say of it.
    Done,
    /// The fragment that was asked for.
    Sample(Sampled),
    /// Finished evaluation episodes.
    Evaluation(Evaluation),
    /// The worker's state.
    State(State),
    /// What the filters have seen; nothing without filters.
    Filters(FilterStats),
    /// Where a learner waits for the others.
    Listens(SocketAddr),
}

/// One fragment, postprocessed.
#[derive(Debug)]
pub struct Sampled {
    /// Rows to learn from, and the environment steps they took.
    pub batch: TrainBatch,
    /// Episodes that ended meanwhile.
    pub episodes: Vec<Episode>,
    /// The version of the weights that made the fragment.
    pub version: u64,
    /// What the worker's time went to.
    pub perf: SamplerPerf,
}

impl Sampled {
    /// As a checkpoint has it; what the time went to is not kept.
    pub(crate) fn state(&self, keep: fn(&Tensor) -> Array) -> Result<State> {
        let mut state = State::default();
        self.batch.save(&mut state, keep)?;
        state.set("episodes", &self.episodes)?;
        state.set("version", &self.version)?;
        Ok(state)
    }

    /// What [`state`](Self::state) saved.
    pub(crate) fn from_state(state: &mut State) -> Result<Self> {
        let batch = TrainBatch::saved(state)?;
        let episodes = state.get("episodes")?;
        // Runs of the first layout had no versions.
        let version = if state.has("version") { state.get("version")? } else { 0 };
        Ok(Self { batch, episodes, version, perf: SamplerPerf::default() })
    }
}
