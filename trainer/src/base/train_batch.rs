//! What a plan carries from step to step: the rows of each policy, and how many environment steps they took.

use crate::base::{
    batch::SampleBatch,
    error::{Error, Result},
};
use std::collections::BTreeMap;

/// The id of a policy.
pub type PolicyId = String;

/// The id of the only policy of a single-agent run.
pub const DEFAULT_POLICY: &str = "default_policy";

/// Rows by policy. Steps of a plan treat every entry alike, so a plan of one policy never names it.
#[derive(Debug, Default)]
pub struct TrainBatch {
    /// The rows of each policy that has some.
    pub policies: BTreeMap<PolicyId, SampleBatch>,
    /// Environment steps that they took together.
    pub env_steps: u64,
    /// Who sampled them with which weights: the worker (0 is the trainer itself) and the version.
    pub sources: Vec<(usize, u64)>,
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

    /// The only policy's rows.
    ///
    /// # Errors
    /// There are several policies; `policies` has the rows of each.
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
    pub fn concat(batches: Vec<Self>) -> Result<Self> {
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
