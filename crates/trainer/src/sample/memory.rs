//! The recurrent states that a fragment stores: one before every sequence, and one after the last step.

use pavlov_learn::base::{HostRows, Kind};

/// Recurrent state of every copy, stored before every `every`-th step.
#[derive(Debug)]
pub(crate) struct Memories {
    /// Number of steps of a sequence.
    pub(crate) every: usize,
    /// Recurrent states before the first step of every sequence, `[ceil(T / every), N, width]`.
    pub(crate) rows: HostRows,
    /// For each step and copy, whether an episode begins with that step, `[T * N]`.
    pub(crate) resets: Vec<bool>,
    /// Recurrent states after the last step of the fragment, `[N, width]`.
    pub(crate) next: Vec<f32>,
}

impl Memories {
    pub(crate) fn new(steps: usize, copies: usize, width: usize, every: usize) -> Self {
        let tail = [copies as i64, width as i64];
        Self {
            every,
            rows: HostRows::zeros(steps.div_ceil(every), &tail, Kind::F32),
            resets: vec![false; steps * copies],
            next: vec![0.0; copies * width],
        }
    }

    /// Stores for each copy whether an episode begins with step `t`, and the recurrent state before the step if a
    /// sequence begins there.
    pub(crate) fn store(&mut self, t: usize, memory: &[f32], resets: &[bool]) {
        if t.is_multiple_of(self.every) {
            self.rows.slice_mut(t / self.every).copy_from_slice(memory);
        }
        self.resets[t * resets.len()..][..resets.len()].copy_from_slice(resets);
    }

    /// Stores for one copy whether an episode begins with step `t`, and the recurrent state before the step if a
    /// sequence begins there.
    pub(crate) fn store_one(
        &mut self,
        t: usize,
        (copy, copies): (usize, usize),
        memory: &[f32],
        reset: bool,
    ) {
        if t.is_multiple_of(self.every) {
            let part = self.rows.part_mut(t / self.every, copy, copies);
            part.copy_from_slice(bytemuck::cast_slice(memory));
        }
        self.resets[t * copies + copy] = reset;
    }
}
