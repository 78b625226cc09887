//! Datasets of every n-th row of another dataset; shards, splits and limits are made of them.

use std::sync::Arc;

use pavlov_tune::Result;

use crate::block::Block;
use crate::source::{Blocks, Datasource, Rows};

/// Dataset of the rows `start`, `start + step`, ... of another dataset, at most `len` of them.
#[derive(Clone, Debug)]
pub(super) struct Part {
    pub(super) of: Arc<dyn Datasource>,
    pub(super) start: usize,
    /// Distance between two rows; not 0.
    pub(super) step: usize,
    pub(super) len: Option<usize>,
}

impl Datasource for Part {
    fn blocks(&self) -> Result<Blocks> {
        if let Some(rows) = self.in_memory()? {
            return rows.blocks();
        }
        let Part { start: mut next, step, len, .. } = *self;
        let mut blocks = self.of.blocks()?;
        let mut wanted = len.unwrap_or(usize::MAX);
        // `next` is the index of the next wanted row, counted from the first row of the next block.
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
            next = count.saturating_mul(step).saturating_add(next).saturating_sub(block.num_rows());
            Some(Ok(part))
        };
        Ok(Box::new(std::iter::from_fn(part)))
    }

    fn in_memory(&self) -> Result<Option<Rows>> {
        Ok(self.of.in_memory()?.map(|rows| rows.part(self.start, self.step, self.len)))
    }
}

/// Dataset of the rows `rank`, `rank + world_size`, ... of another dataset, without the last rows that would make the
/// shards unequal.
#[derive(Clone, Debug)]
pub(super) struct EqualShard {
    pub(super) of: Arc<dyn Datasource>,
    pub(super) rank: usize,
    /// Number of shards; above `rank`.
    pub(super) world_size: usize,
}

impl Datasource for EqualShard {
    fn blocks(&self) -> Result<Blocks> {
        if let Some(rows) = self.in_memory()? {
            return rows.blocks();
        }
        let EqualShard { rank, world_size, .. } = *self;
        let mut seen = 0;
        // This shard's row of an incomplete round; it is dropped if the data ends before each shard has a row of the round.
        let mut held = None;
        let parts = move |block: Result<Block>| -> Vec<Result<Block>> {
            let block = match block {
                Ok(block) => block,
                Err(error) => return vec![Err(error)],
            };
            let first = (rank + world_size - seen % world_size) % world_size;
            let own = block.num_rows().saturating_sub(first).div_ceil(world_size);
            let rounds = (seen + block.num_rows()) / world_size - seen / world_size;
            seen += block.num_rows();
            let mut parts = Vec::with_capacity(2);
            if rounds > 0 {
                parts.extend(held.take().map(Ok));
            }
            let whole = rounds - parts.len();
            if own > whole {
                held = Some(block.slice(first + whole * world_size, world_size, 1));
            }
            parts.push(Ok(block.slice(first, world_size, whole)));
            parts
        };
        Ok(Box::new(self.of.blocks()?.flat_map(parts)))
    }

    fn in_memory(&self) -> Result<Option<Rows>> {
        let part = |rows: Rows| rows.part(self.rank, self.world_size, Some(rows.len() / self.world_size));
        Ok(self.of.in_memory()?.map(part))
    }
}
