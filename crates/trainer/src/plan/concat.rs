//! `concat_batches`: joins fragments into training batches.

use crate::experience::TrainBatch;
use crate::settings::CountStepsBy;
use pavlov_learn::base::Result;

/// The iterator that [`PlanExt::concat_batches`](crate::plan::PlanExt::concat_batches) returns.
#[derive(Debug)]
#[must_use = "plans are lazy and do nothing unless pulled"]
pub struct ConcatBatches<I> {
    base: I,
    min_steps: u64,
    unit: CountStepsBy,
}

impl<I> ConcatBatches<I> {
    pub(super) fn new(base: I, min_steps: usize) -> Self {
        Self { base, min_steps: min_steps as u64, unit: CountStepsBy::EnvSteps }
    }

    /// Sets the unit of the minimum number of steps: environment steps (the default) or agent steps, which are rows.
    pub fn count_steps_by(self, unit: CountStepsBy) -> Self {
        Self { unit, ..self }
    }
}

impl<I: Iterator<Item = Result<TrainBatch>>> Iterator for ConcatBatches<I> {
    type Item = Result<TrainBatch>;

    fn next(&mut self) -> Option<Self::Item> {
        let mut parts = Vec::new();
        let mut steps = 0;
        while steps < self.min_steps {
            match self.base.next()? {
                Ok(batch) => {
                    steps += match self.unit {
                        CountStepsBy::EnvSteps => batch.env_steps,
                        CountStepsBy::AgentSteps => batch.rows() as u64,
                    };
                    parts.push(batch);
                }
                Err(error) => return Some(Err(error)),
            }
        }
        Some(TrainBatch::concat(parts))
    }
}
