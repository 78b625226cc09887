//! Buffers for the rows of the copies that act in a step while other copies wait; the rows lie without gaps.

use crate::policy::Matrices;
use crate::sample::rollout_buffer::RolloutBuffer;
use crate::sample::state_noise::StateNoise;
use pavlov_learn::base::Stream;

/// Buffers with a row for each copy that acts in a step, allocated before the first step with room for all copies.
#[derive(Debug)]
pub(crate) struct ActingRows {
    /// Index of the copy that each row belongs to.
    pub(crate) slots: Vec<usize>,
    /// Storage of one step, with a row for each copy; only the first `slots.len()` rows are used.
    pub(crate) rows: RolloutBuffer,
    /// Random stream of each row.
    pub(crate) rngs: Vec<Stream>,
    /// Recurrent state of each row, `[copies, memory_width]`.
    pub(crate) memory: Vec<f32>,
    /// State of the exploration noise of each row, `[copies, noise_width]`.
    pub(crate) noise: Vec<f32>,
    /// State-dependent noise of each row; `None` if the policy has none.
    pub(crate) state_noise: Option<StateNoise>,
    /// Whether an episode begins with the row, `[copies]`.
    pub(crate) resets: Vec<bool>,
}

impl ActingRows {
    /// Makes buffers for at most `copies` copies, each with `memory_width` scalars of recurrent state and
    /// `noise_width` scalars of noise; `rows` is storage of one step.
    pub(crate) fn new(rows: RolloutBuffer, copies: usize, memory_width: usize, noise_width: usize) -> Self {
        Self {
            slots: Vec::with_capacity(copies),
            rows,
            rngs: (0..copies).map(|_| Stream::new(0, "gathered", 0)).collect(),
            memory: vec![0.0; copies * memory_width],
            noise: vec![0.0; copies * noise_width],
            state_noise: None,
            resets: vec![false; copies],
        }
    }

    /// The parts that acting reads and writes, shortened to the rows of acting copies: rows, random streams, recurrent
    /// states, noise, matrices of state-dependent noise, reset flags.
    #[allow(clippy::type_complexity)]
    pub(crate) fn acting(
        &mut self,
    ) -> (&mut RolloutBuffer, &mut [Stream], &mut [f32], &mut [f32], Option<Matrices<'_>>, &[bool]) {
        let Self { slots, rows, rngs, memory, noise, state_noise, resets } = self;
        let acting = slots.len();
        let copies = resets.len();
        let of_acting = |all: &Vec<f32>| acting * (all.len() / copies.max(1));
        let memories = of_acting(memory);
        let noises = of_acting(noise);
        let matrices = state_noise.as_mut().map(|noise| noise.first(acting));
        (
            rows,
            &mut rngs[..acting],
            &mut memory[..memories],
            &mut noise[..noises],
            matrices,
            &resets[..acting],
        )
    }
}
