//! The ends of episodes in a fragment: their rows, last observations and masks.

use crate::learn::params::Encoding;
use tch::Tensor;

/// Episodes that ended in a fragment, in the order of the steps.
#[derive(Debug, Default)]
pub(crate) struct Endings {
    /// Last row (`t * N + copy`) of each episode.
    pub(super) rows: Vec<usize>,
    /// Legal actions at the last observation of each episode, `[ended, options]`.
    pub(super) masks: Vec<bool>,
    obs: AlignedBytes,
}

impl Endings {
    pub(super) fn clear(&mut self) {
        self.rows.clear();
        self.masks.clear();
        self.obs.clear();
    }

    /// Adds an episode with its last row and its last observation.
    pub(super) fn push(&mut self, row: usize, obs: &[u8]) {
        self.rows.push(row);
        self.obs.push(obs);
    }

    /// Last observations of the episodes, `[ended, ...]`.
    pub(super) fn obs(&self, encoding: &Encoding) -> Tensor {
        let shape = [&[self.rows.len() as i64], encoding.shape()].concat();
        Tensor::from_data_size(self.obs.bytes(), &shape, encoding.kind())
    }

    /// Last observations of the episodes, if they are stored as f32.
    pub(super) fn obs_f32(&self) -> &[f32] {
        bytemuck::cast_slice(self.obs.bytes())
    }

    /// Legal actions at the last observations, `[ended, options]`.
    pub(super) fn masks(&self, options: usize) -> Tensor {
        Tensor::from_slice(&self.masks).view([self.rows.len() as i64, options as i64])
    }
}

/// A buffer of bytes that is aligned for every scalar type.
#[derive(Debug, Default)]
struct AlignedBytes {
    words: Vec<u64>,
    len: usize,
}

impl AlignedBytes {
    fn bytes(&self) -> &[u8] {
        &bytemuck::cast_slice(&self.words)[..self.len]
    }

    fn push(&mut self, row: &[u8]) {
        let start = self.len;
        self.len += row.len();
        self.words.resize(self.len.div_ceil(8), 0);
        bytemuck::cast_slice_mut(&mut self.words)[start..self.len].copy_from_slice(row);
    }

    fn clear(&mut self) {
        self.len = 0;
    }
}
