//! Iterator over batches of equal size, which a thread can make in advance.

use std::fmt;
use std::iter;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread;

use crossbeam_channel::bounded;
use pavlov_processes::panic_text;
use pavlov_tune::{Error, Result};

use crate::block::Block;
use crate::shuffle::ShuffleBuffer;
use crate::source::{Blocks, Datasource, checked};

/// Upper limit of `prefetch_batches`; values this large never help.
const MAX_AHEAD: usize = 10_000;

/// Options for iterating over batches; the defaults are Ray's.
#[derive(Clone, Debug)]
pub struct IterBatches {
    /// Number of rows per batch; the last batch may have fewer.
    pub batch_size: usize,
    /// Whether a last batch with fewer rows is left out.
    pub drop_last: bool,
    /// Number of batches that a thread makes in advance. 0: each batch is made on the caller's thread, when it is asked for.
    pub prefetch_batches: usize,
    /// The random order of the rows. `None`: the rows keep their order.
    pub shuffle: Option<Shuffle>,
}

impl Default for IterBatches {
    fn default() -> Self {
        IterBatches { batch_size: 256, drop_last: false, prefetch_batches: 1, shuffle: None }
    }
}

/// A random order of rows; it depends only on these fields and the data.
///
/// Rows in memory are shuffled as a whole ([`materialize`](super::Dataset::materialize) reads a dataset into memory). Rows
/// of other datasets stream through a buffer, so a row moves by about the buffer's size.
#[derive(Clone, Debug)]
pub struct Shuffle {
    /// The seed of the random numbers.
    pub seed: u64,
    /// Number of this pass over the data; every pass has a different order.
    pub epoch: u64,
    /// Minimum number of buffered rows from which each row is drawn, for data that is not in memory.
    pub buffer_size: usize,
}

impl Default for Shuffle {
    fn default() -> Self {
        Shuffle { seed: 0, epoch: 0, buffer_size: 10_000 }
    }
}

/// Iterator over the batches of one pass over a dataset; it ends after the first error.
///
/// Dropping the iterator ends its prefetch thread at the next batch.
pub struct Batches {
    batches: Blocks,
}

impl Batches {
    /// Makes the iterator over `source`; the source is opened by the first call of `next`.
    ///
    /// # Errors
    /// Returns [`Error::Config`] if a size is 0 or `prefetch_batches` is too large. Fails if the prefetch thread cannot be
    /// started. Data that cannot be read is an error of the iterator.
    pub(super) fn new(source: Arc<dyn Datasource>, options: IterBatches) -> Result<Self> {
        let above_0 = |key: &str| Error::config(key, 0, "it must be above 0");
        if options.batch_size == 0 {
            return Err(above_0("batch_size"));
        }
        if options.shuffle.as_ref().is_some_and(|shuffle| shuffle.buffer_size == 0) {
            return Err(above_0("shuffle.buffer_size"));
        }
        let ahead = options.prefetch_batches;
        if ahead > MAX_AHEAD {
            let rule = format!("it must be at most {MAX_AHEAD}: that many batches are held in memory");
            return Err(Error::config("prefetch_batches", ahead, rule));
        }
        // Lazy datasets are made when they are opened, so the source is not opened before the first call of `next`.
        let batches = iter::once_with(move || {
            open(&*source, options).unwrap_or_else(|error| Box::new(iter::once(Err(error))))
        });
        let batches: Blocks = Box::new(batches.flatten());
        Ok(Batches { batches: if ahead == 0 { batches } else { Box::new(prefetch(batches, ahead)?) } })
    }
}

impl Iterator for Batches {
    type Item = Result<Block>;

    fn next(&mut self) -> Option<Self::Item> {
        self.batches.next()
    }
}

impl fmt::Debug for Batches {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Batches").finish_non_exhaustive()
    }
}

fn open(source: &dyn Datasource, options: IterBatches) -> Result<Blocks> {
    let IterBatches { batch_size, drop_last, shuffle, .. } = options;
    let blocks: Blocks = match (source.in_memory()?, shuffle) {
        (Some(rows), shuffle) => {
            let rows = match shuffle {
                Some(Shuffle { seed, epoch, .. }) => rows.shuffled(seed, epoch),
                None => rows,
            };
            Box::new(rows.into_blocks(batch_size).map(Ok))
        }
        (None, Some(Shuffle { seed, epoch, buffer_size })) => {
            Box::new(ShuffleBuffer::new(checked(source)?, buffer_size, seed, epoch))
        }
        (None, None) => checked(source)?,
    };
    Ok(Box::new(Rebatch { blocks, batch_size, drop_last, block: Block::default(), at: 0, ended: false }))
}

/// Iterator that cuts and joins blocks into batches of `batch_size` rows.
struct Rebatch {
    blocks: Blocks,
    batch_size: usize,
    drop_last: bool,
    /// The block being cut; its rows from `at` on are not in a batch yet.
    block: Block,
    at: usize,
    ended: bool,
}

impl Rebatch {
    fn batch(&mut self) -> Result<Option<Block>> {
        let mut parts = vec![];
        let mut missing = self.batch_size;
        while missing > 0 {
            let left = self.block.num_rows() - self.at;
            if left == 0 {
                match self.blocks.next().transpose()? {
                    Some(block) => {
                        self.block = block;
                        self.at = 0;
                    }
                    None => break,
                }
                continue;
            }
            let count = left.min(missing);
            // A whole block is moved, not copied.
            let whole = self.at == 0 && count == left;
            parts.push(if whole {
                std::mem::take(&mut self.block)
            } else {
                self.block.slice(self.at, 1, count)
            });
            self.at = if whole { 0 } else { self.at + count };
            missing -= count;
        }
        self.ended = missing > 0;
        if parts.is_empty() || (self.drop_last && missing > 0) {
            return Ok(None);
        }
        Block::concat(parts.into_iter().map(Ok)).map(Some)
    }
}

impl Iterator for Rebatch {
    type Item = Result<Block>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.ended {
            return None;
        }
        let batch = self.batch();
        self.ended |= batch.is_err();
        batch.transpose()
    }
}

/// Yields the items of `batches`, which a thread makes up to `ahead` (not 0) items in advance. A panic of that thread
/// becomes an error of the iterator.
fn prefetch(batches: Blocks, ahead: usize) -> Result<impl Iterator<Item = Result<Block>> + Send> {
    // One less, because the thread holds one more batch while it waits to send it.
    let (sender, receiver) = bounded(ahead - 1);
    let run = move || {
        let made = catch_unwind(AssertUnwindSafe(|| {
            for batch in batches {
                // The send fails when the iterator was dropped.
                if sender.send(batch).is_err() {
                    break;
                }
            }
        }));
        if let Err(panic) = made {
            let reason = format!("reading panicked: {}", panic_text(&*panic));
            let _ = sender.send(Err(Error::Dataset { reason }));
        }
    };
    thread::Builder::new().name("pavlov-data".into()).spawn(run).map_err(Error::other)?;
    Ok(receiver.into_iter())
}
