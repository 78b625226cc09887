//! `select`: keeps only the rows of some policies (Ray's SelectExperiences).

use crate::base::PolicyId;
use crate::experience::TrainBatch;
use pavlov_learn::base::Result;

/// The iterator that [`PlanExt::select`](crate::plan::PlanExt::select) returns.
#[derive(Debug)]
#[must_use = "plans are lazy and do nothing unless pulled"]
pub struct Select<I> {
    base: I,
    policies: Vec<PolicyId>,
}

impl<I> Select<I> {
    pub(super) fn new(base: I, policies: &[&str]) -> Self {
        Self { base, policies: policies.iter().map(|&id| id.to_owned()).collect() }
    }
}

impl<I: Iterator<Item = Result<TrainBatch>>> Iterator for Select<I> {
    type Item = Result<TrainBatch>;

    fn next(&mut self) -> Option<Self::Item> {
        Some(self.base.next()?.map(|mut batch| {
            batch.policies.retain(|id, _| self.policies.contains(id));
            batch
        }))
    }
}
