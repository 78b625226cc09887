//! Inputs of a network: observations, masks and recurrent states.

use crate::base::{Array, ArrayRef};
use std::fmt::Debug;

/// The inputs of an acting policy, one row per copy.
#[derive(Debug)]
pub struct Seen<'a> {
    /// Observations, `[copies, ...]` in the shape and type of the space; after a filter `[copies, width]` f32.
    pub obs: ArrayRef<'a>,
    /// Which discrete actions are legal, `[copies, options]`, with the options of several choices one after the
    /// other. `None` without `mask_actions`.
    pub mask: Option<&'a [bool]>,
    /// The policy's recurrent state, `[copies, memory_width]`, read and written in place. It is zero where an episode
    /// begins.
    pub memory: &'a mut [f32],
    /// Whether the copy's episode begins with this row, `[copies]`.
    pub resets: &'a [bool],
    /// Whether to explore; false asks for the best known action, without randomness.
    pub explore: bool,
    /// Number of environment steps of the whole run, for schedules.
    pub timestep: u64,
}

/// Recurrent states for computing a head of a recurrent policy.
#[derive(Debug)]
pub struct Remembered<'a> {
    /// Recurrent state before the first row of each sequence, `[sequences, width]`. Computing the head replaces it by
    /// the state after the last row.
    pub memory: &'a mut [f32],
    /// Whether an episode begins with the row, `[rows]`.
    pub resets: &'a [bool],
    /// Number of rows of each sequence; `None`: every row is a sequence of its own.
    pub lengths: Option<&'a [usize]>,
}

/// The rows that a head is computed for, in the caller's memory. An array of observations is enough for a policy without
/// recurrent layers.
#[derive(Debug)]
pub struct Observed<'a> {
    /// Observations, `[rows, ...]`.
    pub obs: ArrayRef<'a>,
    /// Which discrete actions are legal, `[rows, options]`; `None` without `mask_actions`.
    pub mask: Option<&'a [bool]>,
    /// Recurrent states; `None` unless the policy is recurrent.
    pub remembered: Option<Remembered<'a>>,
}

impl<'a> From<ArrayRef<'a>> for Observed<'a> {
    fn from(obs: ArrayRef<'a>) -> Self {
        Self { obs, mask: None, remembered: None }
    }
}

impl<'a> From<&'a Array> for Observed<'a> {
    fn from(obs: &'a Array) -> Self {
        obs.lend().into()
    }
}
