//! Room for the rows of those copies that act while others wait, one behind the other.

use crate::base::Stream;
use crate::sample::rollout_buffer::RolloutBuffer;
use tch::Tensor;

/// Rows of as many copies as act, up to all. Everything stands before the first step.
#[derive(Debug)]
pub(crate) struct ActingRows {
    /// Who acts: the copy that each row is of.
    pub(crate) slots: Vec<usize>,
    /// One step; as many of its rows count as there are `slots`.
    pub(crate) rows: RolloutBuffer,
    /// Their streams, memory, noise and reset flags.
    pub(crate) rngs: Vec<Stream>,
    pub(crate) memory: Vec<f32>,
    pub(crate) noise: Vec<f32>,
    pub(crate) resets: Vec<bool>,
    /// The observations of the first 0, 1, ... rows.
    views: Vec<Tensor>,
}

impl ActingRows {
    /// For up to `copies` copies that remember `memory_width` numbers each and have `noise_width` numbers of noise; `rows` is
    /// storage of one step.
    pub(crate) fn new(rows: RolloutBuffer, copies: usize, memory_width: usize, noise_width: usize) -> Self {
        let views = (0..=copies as i64).map(|acting| rows.obs.row(0).narrow(0, 0, acting)).collect();
        Self {
            slots: Vec::with_capacity(copies),
            rows,
            rngs: (0..copies).map(|_| Stream::new(0, "gathered", 0)).collect(),
            memory: vec![0.0; copies * memory_width],
            noise: vec![0.0; copies * noise_width],
            resets: vec![false; copies],
            views,
        }
    }

    /// The parts that acting reads and writes: rows, observations, streams, memory, noise, reset flags.
    #[allow(clippy::type_complexity)]
    pub(crate) fn acting(
        &mut self,
    ) -> (&mut RolloutBuffer, &Tensor, &mut [Stream], &mut [f32], &mut [f32], &[bool]) {
        let Self { slots, rows, rngs, memory, noise, resets, views } = self;
        let (acting, copies) = (slots.len(), resets.len());
        let of_acting = |all: &Vec<f32>| acting * (all.len() / copies.max(1));
        let (memories, noises) = (of_acting(memory), of_acting(noise));
        (
            rows,
            &views[acting],
            &mut rngs[..acting],
            &mut memory[..memories],
            &mut noise[..noises],
            &resets[..acting],
        )
    }
}
