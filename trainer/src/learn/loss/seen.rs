//! What a network sees of a batch: observations, masks and recurrent states.

use std::fmt::Debug;
use tch::Tensor;

/// What a policy sees: one row per copy.
#[derive(Debug)]
pub struct Seen<'a> {
    /// Observations, `[copies, ...]` in the shape and the scalars of the space; behind a filter `[copies, width]` f32.
    pub obs: &'a Tensor,
    /// Which discrete actions are legal, `[copies, options]`, the options of several choices one after the other. There
    /// are none unless `mask_actions` asks for them.
    pub mask: Option<&'a [bool]>,
    /// What the policy remembers, `[copies, memory_width]`, read and written in place. It is zeros where an episode
    /// begins.
    pub memory: &'a mut [f32],
    /// Whether the copy's episode begins with this row, `[copies]`.
    pub resets: &'a [bool],
    /// Whether to explore; false asks for the best known action, without randomness.
    pub explore: bool,
    /// Environment steps sampled in the whole run, for schedules.
    pub timestep: u64,
}

/// What a policy remembers of the rows that a head is asked about.
#[derive(Debug)]
pub(crate) struct Remembered<'a> {
    /// `[sequences, width]`: before the first row of each, and when the head was computed, behind the last.
    pub(crate) memory: &'a mut [f32],
    /// Whether an episode begins with the row, `[rows]`.
    pub(crate) resets: &'a [bool],
    /// Rows of each sequence; without them every row is one.
    pub(crate) lengths: Option<&'a [usize]>,
}

/// The rows that a head is asked about, in plain memory of the caller.
#[derive(Debug)]
pub(crate) struct Observed<'a> {
    /// `[rows, ...]`.
    pub(crate) obs: &'a Tensor,
    /// Which discrete actions are legal, `[rows, choices]`.
    pub(crate) mask: Option<&'a [bool]>,
    /// Only where a policy remembers.
    pub(crate) remembered: Option<Remembered<'a>>,
}
