//! The seed and actions of a running episode, which can bring a copy back to the same point.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::{
    Error, ResetOptions, Result,
    running::replay::{options_of, options_text},
};

/// Largest number of steps for whose actions memory is reserved at the start; longer episodes reallocate.
const MAX_RESERVED_STEPS: usize = 1 << 12;

/// Seed and actions of the running episode of one copy.
#[derive(Clone, Debug)]
pub(super) struct Episode {
    seed: Option<u64>,
    step: usize,
    /// Actions of all steps so far, as bytes, one row after the other.
    actions: Vec<u8>,
    /// Options of the reset; `None` if there were none.
    options: Option<Arc<ResetOptions>>,
}

/// A copy and its point in the episode, for error messages.
#[derive(Clone, Copy, Debug)]
pub(super) struct CopyPosition {
    pub(super) row: usize,
    pub(super) seed: Option<u64>,
    /// Number of the step, from 1; 0 during the reset.
    pub(super) step: usize,
}

impl Episode {
    pub(super) fn new(most_steps: Option<usize>, act_bytes: usize) -> Self {
        let room = most_steps.unwrap_or(MAX_RESERVED_STEPS).min(MAX_RESERVED_STEPS) * act_bytes;
        Self { seed: None, step: 0, actions: Vec::with_capacity(room), options: None }
    }

    pub(super) fn begin(&mut self, seed: Option<u64>, options: &Option<Arc<ResetOptions>>) {
        self.options.clone_from(options);
        self.seed = seed;
        self.step = 0;
        self.actions.clear();
    }

    pub(super) fn act(&mut self, action: &[u8]) {
        self.step += 1;
        self.actions.extend_from_slice(action);
    }

    pub(super) fn seed(&self) -> Option<u64> {
        self.seed
    }

    pub(super) fn options(&self) -> &Option<Arc<ResetOptions>> {
        &self.options
    }

    pub(super) fn step(&self) -> usize {
        self.step
    }

    pub(super) fn actions(&self) -> &[u8] {
        &self.actions
    }

    /// Returns what a saved state holds of the episode.
    pub(super) fn save(&self) -> Result<SavedEpisode> {
        let Some(seed) = self.seed else {
            return Err(Error::state(
                "the episode was started without a seed, so it cannot be replayed; reset with seeds",
            ));
        };
        let options = options_text(&self.options);
        Ok(SavedEpisode { seed, step: self.step, actions: self.actions.clone(), options })
    }

    pub(super) fn load(saved: SavedEpisode, act_bytes: usize) -> Result<Self> {
        let SavedEpisode { seed, step, actions, options } = saved;
        if actions.len() != step.saturating_mul(act_bytes) {
            let found = actions.len();
            return Err(Error::state(format!("{found} bytes of actions for {step} steps of {act_bytes}")));
        }
        Ok(Self { seed: Some(seed), step, actions, options: options_of(options)? })
    }
}

/// What a saved state holds of an episode.
#[derive(Serialize, Deserialize)]
pub(super) struct SavedEpisode {
    seed: u64,
    step: usize,
    actions: Vec<u8>,
    /// Options of the reset, as text of JSON.
    options: Option<String>,
}
