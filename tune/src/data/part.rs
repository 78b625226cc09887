//! Every n-th row from a place on: what shards, splits and limits are made of.

use std::sync::Arc;

use super::source::{Blocks, Datasource, Rows};
use crate::Result;

/// Rows `start`, `start + step`, ... of another dataset, at most `len` of them.
#[derive(Clone, Debug)]
pub(super) struct Part {
    pub(super) of: Arc<dyn Datasource>,
    pub(super) start: usize,
    /// Not 0.
    pub(super) step: usize,
    pub(super) len: Option<usize>,
}

impl Datasource for Part {
    fn blocks(&self) -> Result<Blocks> {
        if let Some(rows) = self.in_memory()? {
            return rows.blocks();
        }
        let Part { start: mut next, step, len, .. } = *self;
        let (mut blocks, mut wanted) = (self.of.blocks()?, len.unwrap_or(usize::MAX));
        // `next` counts from the first row of the block that comes.
        let part = move || {
            if wanted == 0 {
                return None;
            }
            let block = match blocks.next()? {
                Ok(block) => block,
                Err(error) => return Some(Err(error)),
            };
            let count = block.num_rows().saturating_sub(next).div_ceil(step).min(wanted);
            let part = block.slice(next, step, count);
            wanted -= count;
            next = (next + count * step).saturating_sub(block.num_rows());
            Some(Ok(part))
        };
        Ok(Box::new(std::iter::from_fn(part)))
    }

    fn in_memory(&self) -> Result<Option<Rows>> {
        Ok(self.of.in_memory()?.map(|rows| rows.part(self.start, self.step, self.len)))
    }
}
