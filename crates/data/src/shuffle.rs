//! Shuffle buffer: a random order for rows that are read as a stream.

use pavlov_tune::Result;
use pavlov_tune::rng::stream;
use rand::seq::SliceRandom;
use rand_chacha::ChaCha8Rng;

use crate::block::Block;
use crate::source::Blocks;

/// Iterator over the rows of `blocks` in random order. Each row is drawn from a buffer of at least `buffer_size` rows,
/// while that many are left. Up to three times `buffer_size` rows are in memory.
pub(super) struct ShuffleBuffer {
    blocks: Blocks,
    buffer_size: usize,
    rng: ChaCha8Rng,
    /// Blocks of rows read but not drawn yet; `rows` is their total number of rows.
    buffer: Vec<Block>,
    rows: usize,
    ended: bool,
}

impl ShuffleBuffer {
    pub(super) fn new(blocks: Blocks, buffer_size: usize, seed: u64, epoch: u64) -> Self {
        let rng = stream(seed, epoch);
        ShuffleBuffer { blocks, buffer_size, rng, buffer: vec![], rows: 0, ended: false }
    }

    /// Draws a block of the rows in excess of `buffer_size`, or of all rows at the end; `None` if no rows are left.
    fn draw(&mut self) -> Result<Option<Block>> {
        // Half a buffer more is read, so that the rows that stay are not copied for every few rows drawn.
        let enough = self.buffer_size.saturating_add(self.buffer_size.div_ceil(2));
        while !self.ended && self.rows < enough {
            match self.blocks.next().transpose()? {
                Some(block) => {
                    self.rows += block.num_rows();
                    self.buffer.push(block);
                }
                None => self.ended = true,
            }
        }
        let all = Block::concat(std::mem::take(&mut self.buffer).into_iter().map(Ok))?;
        let mut order: Vec<usize> = (0..self.rows).collect();
        order.shuffle(&mut self.rng);
        let rest = if self.ended { 0 } else { self.buffer_size };
        let (stay, drawn) = order.split_at(rest);
        self.rows = rest;
        if rest > 0 {
            self.buffer.push(all.take(stay));
        }
        Ok((!drawn.is_empty()).then(|| all.take(drawn)))
    }
}

impl Iterator for ShuffleBuffer {
    type Item = Result<Block>;

    fn next(&mut self) -> Option<Self::Item> {
        let drawn = self.draw();
        if drawn.is_err() {
            self.ended = true;
            self.rows = 0;
        }
        drawn.transpose()
    }
}
