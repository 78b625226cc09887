//! Where rows come from.

use std::fmt;
use std::sync::Arc;

use pavlov_tune::rng::stream;
use pavlov_tune::{Error, Result};
use rand::seq::SliceRandom;

use crate::block::{Block, differing};
use crate::schema::Schema;

/// Most rows of a block that this crate makes.
pub(super) const BLOCK_ROWS: usize = 4096;
/// About the most memory of such a block, where a row is not larger.
pub(super) const BLOCK_BYTES: usize = 4 << 20;

/// Where a dataset's rows come from. Reading is lazy: nothing is opened before the first block is asked for.
///
/// # Contract
/// * Each pass yields the same rows in the same order.
/// * All blocks have the same schema; empty ones are allowed.
/// * After an error the pass ends.
pub trait Datasource: Send + Sync + fmt::Debug {
    /// The blocks from the first to the last row, in order; each call begins again.
    ///
    /// # Errors
    /// Fails if the source cannot be found or opened. What can only be seen later, such as a row that cannot be read,
    /// is an error of the iterator, which then ends.
    fn blocks(&self) -> Result<Blocks>;

    /// All rows, where they are in memory already: they are shuffled as a whole, and split without being read.
    ///
    /// # Errors
    /// Fails if the rows must be made first and that fails, for instance because a file cannot be read.
    fn in_memory(&self) -> Result<Option<Rows>> {
        Ok(None)
    }
}

/// The blocks of one pass over a dataset.
pub type Blocks = Box<dyn Iterator<Item = Result<Block>> + Send>;

/// An open file.
pub(super) trait ReadBlocks: Send {
    /// The next rows; `None` after the last. Once `schema` is complete the block has it; until then it says the types of
    /// some columns.
    fn next_block(&mut self, schema: &Schema, is_complete: bool) -> Result<Option<Block>>;
}

/// Rows in memory: a view of a block, cheap to clone and to take parts of.
#[derive(Clone)]
pub struct Rows {
    block: Arc<Block>,
    /// Which row of the block stands at each place; without it they stand as they are.
    order: Option<Arc<[usize]>>,
    start: usize,
    step: usize,
    len: usize,
}

impl Rows {
    /// All rows of a block.
    pub fn new(block: Block) -> Self {
        let len = block.num_rows();
        Rows { block: Arc::new(block), order: None, start: 0, step: 1, len }
    }

    /// The number of rows.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are no rows.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Rows `start`, `start + step`, ...: at most `len` of them. `step` is not 0.
    pub(super) fn part(&self, start: usize, step: usize, len: Option<usize>) -> Self {
        let most = self.len.saturating_sub(start).div_ceil(step);
        Rows {
            start: self.start + start.min(self.len) * self.step,
            step: self.step.saturating_mul(step),
            len: len.unwrap_or(most).min(most),
            ..self.clone()
        }
    }

    /// In a random order, another one for each epoch.
    pub(super) fn shuffled(&self, seed: u64, epoch: u64) -> Self {
        let mut order: Vec<usize> = (0..self.len).map(|row| self.index(row)).collect();
        order.shuffle(&mut stream(seed, epoch));
        Rows { block: self.block.clone(), order: Some(order.into()), start: 0, step: 1, len: self.len }
    }

    /// Copies of `rows` rows each; the last may have fewer.
    pub(super) fn into_blocks(self, rows: usize) -> impl Iterator<Item = Block> + Send {
        (0..self.len).step_by(rows).map(move |first| self.copy(first, rows.min(self.len - first)))
    }

    fn copy(&self, first: usize, count: usize) -> Block {
        if self.order.is_some() {
            let rows: Vec<usize> = (first..first + count).map(|row| self.index(row)).collect();
            self.block.take(&rows)
        } else {
            self.block.slice(self.index(first), self.step, count)
        }
    }

    fn index(&self, row: usize) -> usize {
        let at = self.start + row * self.step;
        self.order.as_ref().map_or(at, |order| order[at])
    }
}

impl Datasource for Rows {
    fn blocks(&self) -> Result<Blocks> {
        let rows = rows_per_block(&self.block.schema());
        Ok(Box::new(self.clone().into_blocks(rows).map(Ok)))
    }

    fn in_memory(&self) -> Result<Option<Rows>> {
        Ok(Some(self.clone()))
    }
}

impl fmt::Debug for Rows {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} rows in memory ({})", self.len, self.block.schema())
    }
}

/// The blocks of `source` that have rows. One with another schema than the first is an error; nothing follows an error.
pub(super) fn checked(source: &dyn Datasource) -> Result<Blocks> {
    let (mut blocks, mut schema, mut failed) = (source.blocks()?, None, false);
    let mut next = move || -> Result<Option<Block>> {
        for block in blocks.by_ref() {
            let block = block?;
            if block.num_rows() == 0 {
                continue;
            }
            let other = block.schema();
            let first = schema.get_or_insert_with(|| other.clone());
            if *first != other {
                return Err(Error::Dataset { reason: differing(first, &other) });
            }
            return Ok(Some(block));
        }
        Ok(None)
    };
    Ok(Box::new(std::iter::from_fn(move || {
        if failed {
            return None;
        }
        let block = next();
        failed = block.is_err();
        block.transpose()
    })))
}

/// How many rows a block has whose size this crate may choose.
pub(super) fn rows_per_block(schema: &Schema) -> usize {
    (BLOCK_BYTES / schema.row_bytes().max(1)).clamp(1, BLOCK_ROWS)
}
