//! Integration tests of datasets, in one binary: rows in memory and in files, batches, parts.

mod batches;
mod files;
mod memory;
#[cfg(feature = "parquet")]
mod parquet;
mod parts;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use pavlov_data::{Block, Blocks, Dataset, Datasource, IterBatches};
use pavlov_tune::{Error, Result};

/// Blocks of these sizes with the column `id`, counting up; never in memory. Counts the blocks that were read.
#[derive(Clone, Debug)]
struct Stream {
    sizes: Vec<usize>,
    read: Arc<AtomicUsize>,
    /// The block that is an error instead.
    bad: Option<usize>,
}

impl Stream {
    fn of(sizes: &[usize]) -> Self {
        Stream { sizes: sizes.to_vec(), read: Arc::default(), bad: None }
    }

    fn dataset(&self) -> Dataset {
        Dataset::from_source(self.clone())
    }

    fn blocks_read(&self) -> usize {
        self.read.load(Ordering::SeqCst)
    }
}

impl Datasource for Stream {
    fn blocks(&self) -> Result<Blocks> {
        let Stream { sizes, read, bad } = self.clone();
        let mut first = 0;
        Ok(Box::new(sizes.into_iter().enumerate().map(move |(index, size)| {
            read.fetch_add(1, Ordering::SeqCst);
            if bad == Some(index) {
                return Err(Error::Dataset { reason: format!("block {index} is bad") });
            }
            let ids: Vec<i64> = (first..first + size as i64).collect();
            first += size as i64;
            Block::new([("id", ids)])
        })))
    }
}

fn size(batch_size: usize) -> IterBatches {
    IterBatches { batch_size, prefetch_batches: 0, ..IterBatches::default() }
}

/// The column `id` of each batch.
fn batches(dataset: &Dataset, options: IterBatches) -> Vec<Vec<i64>> {
    dataset.iter_batches(options).unwrap().map(|batch| ids(&batch.unwrap())).collect()
}

/// The column `id` of all rows.
fn all(dataset: &Dataset) -> Vec<i64> {
    dataset.blocks().unwrap().flat_map(|block| ids(&block.unwrap())).collect()
}

fn ids(block: &Block) -> Vec<i64> {
    block.int("id").unwrap().iter().copied().collect()
}

fn sorted(mut ids: Vec<i64>) -> Vec<i64> {
    ids.sort();
    ids
}

/// What is wrong with the dataset.
fn problem(dataset: &Dataset) -> String {
    dataset.materialize().unwrap_err().to_string()
}
