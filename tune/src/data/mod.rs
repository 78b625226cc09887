//! Datasets: rows in memory or in files, read in blocks, so that more than fits into memory streams.

use std::fmt;
use std::sync::Arc;

use crate::Result;

mod block;

pub use block::{Block, Column};

/// Where a dataset's rows come from. Reading is lazy: nothing is opened before the first block is asked for.
pub trait Datasource: Send + Sync + fmt::Debug {
    /// The blocks from the first to the last row, in order; each call begins again.
    ///
    /// # Errors
    /// What cannot be opened; blocks are errors from the first bad row on.
    fn blocks(&self) -> Result<Blocks>;
}

/// A pass over a dataset.
pub type Blocks = Box<dyn Iterator<Item = Result<Block>> + Send>;

/// Rows with named columns. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Dataset {
    source: Arc<dyn Datasource>,
}

impl Dataset {
    /// The rows of `source`.
    pub fn from_source(source: impl Datasource + 'static) -> Self {
        Dataset { source: Arc::new(source) }
    }

    /// The blocks from the first to the last row.
    ///
    /// # Errors
    /// As [`Datasource::blocks`].
    pub fn blocks(&self) -> Result<Blocks> {
        self.source.blocks()
    }
}
