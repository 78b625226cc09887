//! `mix_in_replay`: adds earlier fragments to each new one (Ray's MixInReplay).

use crate::experience::TrainBatch;
use crate::workers::{Learners, WorkerSet};
use pavlov_learn::base::Result;

/// The iterator that [`PlanExt::mix_in_replay`](crate::plan::PlanExt::mix_in_replay) returns.
#[derive(Debug)]
#[must_use = "plans are lazy and do nothing unless pulled"]
pub struct MixInReplay<I> {
    base: I,
    learners: Learners,
    proportion: f64,
    slots: usize,
}

impl<I> MixInReplay<I> {
    pub(super) fn new(base: I, workers: &WorkerSet, proportion: f64, slots: usize) -> Self {
        if slots > 0 {
            workers.learners.keep_fragments(slots);
        }
        Self { base, learners: workers.learners.clone(), proportion, slots }
    }
}

impl<I: Iterator<Item = Result<TrainBatch>>> Iterator for MixInReplay<I> {
    type Item = Result<TrainBatch>;

    fn next(&mut self) -> Option<Self::Item> {
        let Self { base, learners, proportion, slots } = self;
        Some(base.next()?.and_then(|fragment| match slots {
            0 => Ok(fragment),
            _ => learners.mix_in(fragment, *proportion),
        }))
    }
}
