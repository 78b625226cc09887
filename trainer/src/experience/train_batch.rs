//! What a plan carries from step to step: the rows of each policy, and how many environment steps they took.

use crate::base::{Array, DEFAULT_POLICY, Error, PolicyId, Result, State};
use crate::experience::batch::SampleBatch;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use tch::Tensor;

/// Rows by policy. Steps of a plan treat every entry alike, so a plan of one policy never names it.
#[derive(Debug, Default)]
pub struct TrainBatch {
    /// The rows of each policy that has some.
    pub policies: BTreeMap<PolicyId, SampleBatch>,
    /// Environment steps that the rows took together.
    pub env_steps: u64,
    /// Who sampled the rows with which weights.
    pub sources: Vec<Source>,
}

/// Where a fragment of a batch comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Source {
    /// The worker that sampled the fragment; 0 is the trainer itself.
    pub worker: usize,
    /// Which weights made the fragment: so many were published before them.
    pub version: u64,
    /// Environment steps of the fragment.
    pub env_steps: u64,
}

impl TrainBatch {
    /// The rows of one policy.
    pub fn of(id: impl Into<PolicyId>, batch: SampleBatch, env_steps: u64) -> Self {
        Self { policies: BTreeMap::from([(id.into(), batch)]), env_steps, sources: Vec::new() }
    }

    /// Rows of all policies: agent steps.
    pub fn rows(&self) -> usize {
        self.policies.values().map(SampleBatch::rows).sum()
    }

    /// The same rows once more, without a copy.
    pub(crate) fn share(&self) -> Self {
        let rows = |(id, rows): (&PolicyId, &SampleBatch)| (id.clone(), rows.slice(0, rows.rows()));
        let policies = self.policies.iter().map(rows).collect();
        Self { policies, env_steps: self.env_steps, sources: self.sources.clone() }
    }

    /// Adds everything to a checkpoint.
    pub(crate) fn save(&self, state: &mut State, keep: fn(&Tensor) -> Array) -> Result<()> {
        state.set("env_steps", &self.env_steps)?;
        if !self.sources.is_empty() {
            state.set("sources", &self.sources)?;
        }
        // The rows of a single-agent run stand at the top.
        if let Some(rows) = self.policies.get(DEFAULT_POLICY) {
            rows.save(state, keep)?;
        }
        let others = || self.policies.iter().filter(|(id, _)| *id != DEFAULT_POLICY);
        if others().next().is_some() {
            state.set("policies", &others().map(|(id, _)| id).collect::<Vec<_>>())?;
        }
        for (id, rows) in others() {
            let mut own = State::default();
            rows.save(&mut own, keep)?;
            state.nest(id, own);
        }
        Ok(())
    }

    /// What [`save`](Self::save) added.
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

    /// The only policy's rows.
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

    /// Row-wise concatenation, policy by policy; steps add up.
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
