//! Datasets derived from other datasets while they are read: mapped, joined, shuffled.

use std::fmt;
use std::sync::Arc;

use pavlov_tune::Result;
use serde::Serialize;

use crate::block::{Block, Row};
use crate::block_builder::BlockBuilder;
use crate::schema::Schema;
use crate::source::{Blocks, Datasource, Rows, checked};

/// Dataset of the blocks that `function` returns, called with each block of another dataset.
pub(super) struct MapBatches<F> {
    pub(super) of: Arc<dyn Datasource>,
    pub(super) function: Arc<F>,
}

impl<F: Fn(Block) -> Result<Block> + Send + Sync + 'static> Datasource for MapBatches<F> {
    fn blocks(&self) -> Result<Blocks> {
        let function = self.function.clone();
        Ok(Box::new(self.of.blocks()?.map(move |block| function(block?))))
    }
}

impl<F> fmt::Debug for MapBatches<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}, mapped", self.of)
    }
}

/// Dataset of the items that `function` returns, called with each row of another dataset.
pub(super) struct MapRows<F> {
    pub(super) of: Arc<dyn Datasource>,
    pub(super) function: Arc<F>,
}

impl<T: Serialize, F: Fn(Row) -> Result<T> + Send + Sync + 'static> Datasource for MapRows<F> {
    fn blocks(&self) -> Result<Blocks> {
        let function = self.function.clone();
        let mut schema = Schema::default();
        let mut is_fixed = false;
        let mut number = 0_u64;
        let mut map = move |block: Block| -> Result<Block> {
            let mut rows = BlockBuilder::new(&schema, is_fixed);
            for row in block.rows() {
                number += 1;
                rows.push_item(function(row)?, || format!("mapped row {number}"))?;
            }
            let block = rows.finish(|| format!("mapped row {number}"))?;
            if !is_fixed {
                schema = block.schema();
                is_fixed = true;
            }
            Ok(block)
        };
        Ok(Box::new(checked(&*self.of)?.map(move |block| map(block?))))
    }
}

impl<F> fmt::Debug for MapRows<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}, mapped", self.of)
    }
}

/// Dataset of the rows of the first part followed by the rows of the second.
#[derive(Debug)]
pub(super) struct Union {
    pub(super) parts: [Arc<dyn Datasource>; 2],
}

impl Datasource for Union {
    fn blocks(&self) -> Result<Blocks> {
        let [first, second] = self.parts.clone();
        let after = std::iter::once_with(move || {
            second.blocks().unwrap_or_else(|error| Box::new(std::iter::once(Err(error))))
        });
        Ok(Box::new(first.blocks()?.chain(after.flatten())))
    }
}

/// Dataset of another dataset's rows in random order; reading it brings all rows into memory.
#[derive(Debug)]
pub(super) struct RandomShuffle {
    pub(super) of: Arc<dyn Datasource>,
    pub(super) seed: u64,
}

impl Datasource for RandomShuffle {
    fn blocks(&self) -> Result<Blocks> {
        in_memory(&*self.of)?.shuffled(self.seed, 0).blocks()
    }

    fn in_memory(&self) -> Result<Option<Rows>> {
        Ok(Some(in_memory(&*self.of)?.shuffled(self.seed, 0)))
    }
}

/// Returns all rows of a dataset, read into memory if they are not there.
pub(super) fn in_memory(source: &dyn Datasource) -> Result<Rows> {
    match source.in_memory()? {
        Some(rows) => Ok(rows),
        None => Block::concat(checked(source)?).map(Rows::new),
    }
}
