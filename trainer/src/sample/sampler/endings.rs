//! The endings of a fragment's episodes, and what the environments showed there.

use crate::learn::params::Encoding;
use tch::Tensor;

/// Everything is in the order of the steps.
#[derive(Debug, Default)]
pub(crate) struct Endings {
    /// Rows (`t * N + copy`) that ended an episode.
    pub(super) rows: Vec<usize>,
    /// Which actions were legal at the last observation of each, `[ended, options]`.
    pub(super) masks: Vec<bool>,
    obs: AlignedBytes,
}

impl Endings {
    pub(super) fn clear(&mut self) {
        self.rows.clear();
        self.masks.clear();
        self.obs.clear();
    }

    /// The episode of that row has ended with this observation.
    pub(super) fn push(&mut self, row: usize, obs: &[u8]) {
        self.rows.push(row);
        self.obs.push(obs);
    }

    /// The last observations, `[ended, ...]`.
    pub(super) fn obs(&self, encoding: &Encoding) -> Tensor {
        let shape = [&[self.rows.len() as i64], encoding.shape()].concat();
        Tensor::from_data_size(self.obs.bytes(), &shape, encoding.kind())
    }

    /// The same where they are f32.
    pub(super) fn obs_f32(&self) -> &[f32] {
        bytemuck::cast_slice(self.obs.bytes())
    }

    /// The masks, `[ended, options]`.
    pub(super) fn masks(&self, options: usize) -> Tensor {
        Tensor::from_slice(&self.masks).view([self.rows.len() as i64, options as i64])
    }
}

/// Bytes, aligned for whatever scalars they are.
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
