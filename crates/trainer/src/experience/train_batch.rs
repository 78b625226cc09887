//! The batch that the operators of an execution plan pass on: rows of each policy, and a number of environment steps.

use crate::base::{DEFAULT_POLICY, PolicyId};
use pavlov_learn::base::{Error, Result, State};
use pavlov_learn::experience::SampleBatch;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The rows of each policy. The operators of a plan treat all policies alike, so a plan for one policy never names it.
#[derive(Debug, Default)]
pub struct TrainBatch {
    /// The rows by the id of their policy. A policy without rows may be absent.
    pub policies: BTreeMap<PolicyId, SampleBatch>,
    /// Number of environment steps in which the rows were sampled.
    pub env_steps: u64,
    /// The origin of each fragment that the rows come from.
    pub sources: Vec<Source>,
}

/// The origin of a fragment in a batch: its worker, and the version of the weights.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Source {
    /// The worker that sampled the fragment; 0 is the trainer itself.
    pub worker: usize,
    /// Version of the weights that the fragment was sampled with: 0 for the initial ones, `n` for the `n`-th published.
    pub version: u64,
    /// Number of environment steps of the fragment.
    pub env_steps: u64,
}

impl TrainBatch {
    /// Makes a batch of one policy's rows.
    pub fn of(id: impl Into<PolicyId>, batch: SampleBatch, env_steps: u64) -> Self {
        Self { policies: BTreeMap::from([(id.into(), batch)]), env_steps, sources: Vec::new() }
    }

    /// Number of rows of all policies, which is the number of agent steps.
    pub fn rows(&self) -> usize {
        self.policies.values().map(SampleBatch::rows).sum()
    }

    /// Makes a second batch that shares the rows, without a copy.
    pub(crate) fn share(&self) -> Self {
        let rows = |(id, rows): (&PolicyId, &SampleBatch)| (id.clone(), rows.slice(0, rows.rows()));
        let policies = self.policies.iter().map(rows).collect();
        Self { policies, env_steps: self.env_steps, sources: self.sources.clone() }
    }

    /// Adds the batch to the state of a checkpoint.
    pub(crate) fn save(&self, state: &mut State) -> Result<()> {
        state.set("env_steps", &self.env_steps)?;
        if !self.sources.is_empty() {
            state.set("sources", &self.sources)?;
        }
        // The rows of a single-agent run are saved without a prefix.
        if let Some(rows) = self.policies.get(DEFAULT_POLICY) {
            rows.save(state)?;
        }
        let others = || self.policies.iter().filter(|(id, _)| *id != DEFAULT_POLICY);
        if others().next().is_some() {
            state.set("policies", &others().map(|(id, _)| id).collect::<Vec<_>>())?;
        }
        for (id, rows) in others() {
            let mut own = State::default();
            rows.save(&mut own)?;
            state.nest(id, own);
        }
        Ok(())
    }

    /// Reads the batch that [`save`](Self::save) added to a checkpoint.
    pub(crate) fn saved(state: &mut State) -> Result<Self> {
        let mut batch = Self { env_steps: state.get("env_steps")?, ..Self::default() };
        if state.has("sources") {
            batch.sources = state.get("sources")?;
        }
        if state.has("columns") {
            batch.policies.insert(DEFAULT_POLICY.to_owned(), SampleBatch::saved(state)?);
        }
        let others = if state.has("policies") { state.get::<Vec<String>>("policies")? } else { Vec::new() };
        for id in others {
            let rows = SampleBatch::saved(&mut state.take_nested(&id)?)?;
            batch.policies.insert(id, rows);
        }
        Ok(batch)
    }

    /// Returns the rows of the only policy.
    ///
    /// # Errors
    /// Returns [`Error::State`] if the batch has rows of several policies; `policies` has the rows of each.
    pub fn single(mut self) -> Result<SampleBatch> {
        match self.policies.len() {
            0 => Ok(SampleBatch::default()),
            1 => Ok(self.policies.pop_first().map(|(_, batch)| batch).unwrap_or_default()),
            _ => {
                let ids = self.policies.into_keys().collect::<Vec<_>>().join(", ");
                let reason = format!("it has rows of {ids}, but those of a single policy are asked for");
                Err(Error::state("a batch", format!("{reason}; look into `policies`")))
            }
        }
    }

    /// Appends the rows of all batches, separately for each policy, and adds up the environment steps.
    ///
    /// # Errors
    /// Returns [`Error::MissingColumn`] if a later batch lacks a column that the policy's rows have in the first.
    pub fn concat(mut batches: Vec<Self>) -> Result<Self> {
        if batches.len() == 1 {
            return Ok(batches.remove(0));
        }
        let mut parts: BTreeMap<PolicyId, Vec<SampleBatch>> = BTreeMap::new();
        let mut out = Self::default();
        for batch in batches {
            out.env_steps += batch.env_steps;
            out.sources.extend(batch.sources);
            for (id, rows) in batch.policies.into_iter().filter(|(_, rows)| rows.rows() > 0) {
                parts.entry(id).or_default().push(rows);
            }
        }
        for (id, parts) in parts {
            out.policies.insert(id, SampleBatch::concat(parts)?);
        }
        Ok(out)
    }
}
