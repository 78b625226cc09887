//! Recurrent state of a policy in a fragment: at the first row of every sequence, and after every cut.

use crate::base::HostTensor;
use tch::Kind;

/// Recurrent state of every copy, stored at every `every`-th step.
#[derive(Debug)]
pub(crate) struct Memories {
    /// Number of steps per sequence.
    pub(crate) every: usize,
    /// Recurrent state at the start of every sequence, `[ceil(T / every), N, width]`.
    pub(crate) rows: HostTensor,
    /// Whether an episode begins at each step, `[T * N]`.
    pub(crate) resets: Vec<bool>,
    /// Recurrent state after the last step of the fragment, `[N, width]`.
    pub(crate) next: Vec<f32>,
}

impl Memories {
    pub(crate) fn new(steps: usize, copies: usize, width: usize, every: usize) -> Self {
        let tail = [copies as i64, width as i64];
        Self {
            every,
            rows: HostTensor::zeros(steps.div_ceil(every), &tail, Kind::Float),
            resets: vec![false; steps * copies],
            next: vec![0.0; copies * width],
        }
    }

    /// Stores the recurrent state of all copies before step `t`, and whether their episodes begin there.
    pub(crate) fn store(&mut self, t: usize, memory: &[f32], resets: &[bool]) {
        if t.is_multiple_of(self.every) {
            self.rows.slice_mut(t / self.every).copy_from_slice(memory);
        }
        self.resets[t * resets.len()..][..resets.len()].copy_from_slice(resets);
    }

    /// Stores the recurrent state of one copy before step `t`, and whether its episode begins there.
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
