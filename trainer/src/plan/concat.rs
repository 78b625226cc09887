//! `concat_batches`: fragments to training batches.

use crate::base::{batch::SampleBatch, error::Result};

/// Created by [`PlanExt::concat_batches`](super::PlanExt::concat_batches).
#[derive(Debug)]
#[must_use = "plans are lazy and do nothing unless pulled"]
pub struct ConcatBatches<I> {
    base: I,
    min_rows: usize,
}

impl<I> ConcatBatches<I> {
    pub(super) fn new(base: I, min_rows: usize) -> Self {
        Self { base, min_rows }
    }
}

impl<I: Iterator<Item = Result<SampleBatch>>> Iterator for ConcatBatches<I> {
    type Item = Result<SampleBatch>;

    fn next(&mut self) -> Option<Self::Item> {
        let (mut parts, mut rows) = (Vec::new(), 0);
        while rows < self.min_rows {
            match self.base.next()? {
                Ok(batch) if batch.rows() == 0 => {}
                Ok(batch) => {
                    rows += batch.rows();
                    parts.push(batch);
                }
                Err(error) => return Some(Err(error)),
            }
        }
        Some(SampleBatch::concat(parts))
    }
}
