//! The ends of episodes in a fragment: their last rows, last observations, masks and recurrent states.

use pavlov_learn::base::{ArrayRef, Kind};
use pavlov_learn::params::Encoding;

/// Episodes that ended in a fragment, with one entry per episode in each field.
#[derive(Debug, Default)]
pub(crate) struct Endings {
    rows: Vec<usize>,
    obs: AlignedBytes,
    masks: Vec<bool>,
    memories: Vec<f32>,
}

impl Endings {
    pub(crate) fn clear(&mut self) {
        self.rows.clear();
        self.obs.clear();
        self.masks.clear();
        self.memories.clear();
    }

    /// Adds an episode: the index `t * N + copy` of its last row, its last observation, the legal actions at that
    /// observation, and the recurrent state after its last step.
    pub(crate) fn push(&mut self, row: usize, obs: &[u8], mask: impl Iterator<Item = bool>, memory: &[f32]) {
        self.rows.push(row);
        self.obs.extend(obs);
        self.masks.extend(mask);
        self.memories.extend_from_slice(memory);
    }

    /// Sorts the episodes by their last rows: with agents that take turns, episodes may be added in another order.
    pub(crate) fn sort(&mut self) {
        if self.rows.is_sorted() {
            return;
        }
        let mut order: Vec<usize> = (0..self.rows.len()).collect();
        order.sort_by_key(|&k| self.rows[k]);
        let obs = ordered(self.obs.bytes(), &order);
        self.obs.clear();
        self.obs.extend(&obs);
        self.rows = ordered(&self.rows, &order);
        self.masks = ordered(&self.masks, &order);
        self.memories = ordered(&self.memories, &order);
    }

    /// Index `t * N + copy` of the last row of each episode.
    pub(crate) fn rows(&self) -> &[usize] {
        &self.rows
    }

    /// Recurrent states after the last steps of the episodes, `[ended, width]`.
    pub(crate) fn memories(&self) -> &[f32] {
        &self.memories
    }

    /// Last observations of the episodes, `[ended, ...]`.
    pub(crate) fn obs(&self, encoding: &Encoding) -> ArrayRef<'_> {
        ArrayRef::of_rows(encoding.kind(), self.rows.len(), encoding.shape(), self.obs.bytes())
    }

    /// Last observations of the episodes as f32; only for observations that are stored as f32.
    pub(crate) fn obs_f32(&self) -> Vec<f32> {
        self.obs.bytes().chunks_exact(4).map(bytemuck::pod_read_unaligned).collect()
    }

    /// Legal actions at the last observations of the episodes, `[ended, options]`.
    pub(crate) fn masks(&self, options: usize) -> ArrayRef<'_> {
        let flags = bytemuck::cast_slice(&self.masks);
        ArrayRef::of_rows(Kind::Bool, self.rows.len(), &[options as i64], flags)
    }
}

/// Bytes that begin where any number may: in words of eight bytes.
#[derive(Debug, Default)]
struct AlignedBytes {
    words: Vec<u64>,
    len: usize,
}

impl AlignedBytes {
    fn clear(&mut self) {
        self.words.clear();
        self.len = 0;
    }

    fn extend(&mut self, bytes: &[u8]) {
        let end = self.len + bytes.len();
        self.words.resize(end.div_ceil(size_of::<u64>()), 0);
        bytemuck::cast_slice_mut::<u64, u8>(&mut self.words)[self.len..end].copy_from_slice(bytes);
        self.len = end;
    }

    fn bytes(&self) -> &[u8] {
        &bytemuck::cast_slice(&self.words)[..self.len]
    }
}

/// Reorders `all`, which consists of one equally long part per episode: part `order[k]` becomes part `k`.
fn ordered<T: Copy>(all: &[T], order: &[usize]) -> Vec<T> {
    let width = all.len() / order.len();
    order.iter().flat_map(|&k| &all[k * width..][..width]).copied().collect()
}
