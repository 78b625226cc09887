//! Sources of a dataset's rows: the trait [`Datasource`] and rows in memory.

use std::fmt;
use std::sync::Arc;

use pavlov_tune::rng::stream;
use pavlov_tune::{Error, Result};
use rand::seq::SliceRandom;

use crate::block::{Block, differing};
use crate::schema::Schema;

/// Maximum number of rows of a block that this crate makes.
pub(super) const BLOCK_ROWS: usize = 4096;
/// Approximate maximum size in bytes of a block that this crate makes; a single row may be larger.
pub(super) const BLOCK_BYTES: usize = 4 << 20;

/// Source of a dataset's rows. Reading is lazy: nothing is opened before [`blocks`](Self::blocks) is called.
///
/// # Contract
/// * Each pass yields the same rows in the same order.
/// * All blocks have the same schema; empty ones are allowed.
/// * After an error the pass ends.
pub trait Datasource: Send + Sync + fmt::Debug {
    /// Starts a new pass: iterates over the blocks from the first row to the last.
    ///
    /// # Errors
    /// Fails if the source cannot be found or opened. A problem that shows later, such as a row that cannot be read, is an
    /// error of the iterator, which then ends.
    fn blocks(&self) -> Result<Blocks>;

    /// Returns all rows if they are in memory, else `None`. Rows in memory are shuffled as a whole, and split without being
    /// read.
    ///
    /// # Errors
    /// Fails if the rows must be made first and making them fails, for instance because a file cannot be read.
    fn in_memory(&self) -> Result<Option<Rows>> {
        Ok(None)
    }
}

/// Iterator over the blocks of one pass over a dataset.
pub type Blocks = Box<dyn Iterator<Item = Result<Block>> + Send>;

/// Reader of an open file's rows in blocks.
pub(super) trait ReadBlocks: Send {
    /// Reads the next block; `None` after the last row. If `is_complete`, the block has exactly the columns of `schema`;
    /// else `schema` gives the types of some columns.
    fn next_block(&mut self, schema: &Schema, is_complete: bool) -> Result<Option<Block>>;
}

/// Rows in memory: a view of a block, cheap to clone and to take parts of.
#[derive(Clone)]
pub struct Rows {
    block: Arc<Block>,
    /// Row order: the index in `block` of each row; `None` for the block's own order.
    order: Option<Arc<[usize]>>,
    start: usize,
    step: usize,
    len: usize,
}

impl Rows {
    /// Makes rows of all rows of `block`.
    pub fn new(block: Block) -> Self {
        let len = block.num_rows();
        Rows { block: Arc::new(block), order: None, start: 0, step: 1, len }
    }

    /// Returns the number of rows.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns true if there are no rows.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns a view of the rows `start`, `start + step`, ..., at most `len` of them. `step` is not 0.
    pub(super) fn part(&self, start: usize, step: usize, len: Option<usize>) -> Self {
        let most = self.len.saturating_sub(start).div_ceil(step);
        Rows {
            start: self.start + start.min(self.len) * self.step,
            step: self.step.saturating_mul(step),
            len: len.unwrap_or(most).min(most),
            ..self.clone()
        }
    }

    /// Returns the rows in a random order, which differs from epoch to epoch.
    pub(super) fn shuffled(&self, seed: u64, epoch: u64) -> Self {
        let mut order: Vec<usize> = (0..self.len).map(|row| self.index(row)).collect();
        order.shuffle(&mut stream(seed, epoch));
        Rows { block: self.block.clone(), order: Some(order.into()), start: 0, step: 1, len: self.len }
    }

    /// Copies the rows into blocks of `rows` rows each; the last block may have fewer.
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

/// Iterates over the non-empty blocks of `source`. A block whose schema differs from the first block's is an error, and the
/// iterator ends after the first error.
pub(super) fn checked(source: &dyn Datasource) -> Result<Blocks> {
    let mut blocks = source.blocks()?;
    let mut schema = None;
    let mut failed = false;
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

/// Returns the number of rows per block for blocks made by this crate.
pub(super) fn rows_per_block(schema: &Schema) -> usize {
    (BLOCK_BYTES / schema.row_bytes().max(1)).clamp(1, BLOCK_ROWS)
}
