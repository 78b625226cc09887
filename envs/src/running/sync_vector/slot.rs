//! One copy of an environment and its running episode, which can be saved and replayed.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::{
    Env, Error, ResetOptions, Result,
    contract::state,
    running::each_copy::InEpisode,
    running::replay::{options_of, options_text},
};

/// What a saved state holds of a copy.
#[derive(Serialize, Deserialize)]
pub(super) struct SavedSlot<A> {
    seed: Option<u64>,
    step: usize,
    course: Course<A>,
}

/// How a copy comes back to its step.
#[derive(Serialize, Deserialize)]
enum Course<A> {
    /// By the environment's own state.
    Own(Vec<u8>),
    /// By a reset with these options, as text of JSON, and these actions.
    Replayed { options: Option<String>, actions: Vec<A> },
}

#[derive(Debug)]
pub(super) struct Slot<E: Env> {
    pub(super) env: E,
    /// Seed of the running episode.
    pub(super) seed: Option<u64>,
    /// Number of steps made in the running episode.
    pub(super) step: usize,
    /// Actions of the running episode; empty if the environment saves its own state.
    pub(super) actions: Vec<E::Act>,
    pub(super) keeps_actions: bool,
    /// Options with which the running episode was started.
    pub(super) options: Option<Arc<ResetOptions>>,
}

impl<E: Env> InEpisode for Slot<E> {
    fn place(&self) -> (Option<u64>, usize) {
        (self.seed, self.step)
    }
}

impl<E: Env> Slot<E> {
    pub(super) fn reset(
        &mut self,
        seed: Option<u64>,
        options: &Option<Arc<ResetOptions>>,
        obs: &mut [E::Obs],
    ) -> Result<()> {
        self.options.clone_from(options);
        self.seed = seed;
        self.step = 0;
        self.actions.clear();
        self.env.reset(seed, obs)
    }

    pub(super) fn save(&self) -> Result<SavedSlot<E::Act>> {
        let course = match (self.env.save_state(), &self.options) {
            (Some(own), _) => Course::Own(own),
            (None, _) if self.seed.is_none() => {
                return Err(Error::state(
                    "the episode was started without a seed, so it cannot be replayed; reset with seeds or implement `save_state`",
                ));
            }
            (None, _) if !self.keeps_actions => {
                return Err(Error::state(
                    "`save_state` gave a state when the environment was made but gives none now",
                ));
            }
            (None, options) => {
                Course::Replayed { options: options_text(options), actions: self.actions.clone() }
            }
        };
        Ok(SavedSlot { seed: self.seed, step: self.step, course })
    }

    pub(super) fn load(
        &mut self,
        saved: SavedSlot<E::Act>,
        obs: &mut [E::Obs],
        act_width: usize,
        limit: usize,
        options: &Option<Arc<ResetOptions>>,
    ) -> Result<()> {
        let SavedSlot { seed, step, course } = saved;
        state::check_step("an episode", step, limit)?;
        let (own_options, actions) = match course {
            Course::Own(own) => {
                self.env.load_state(&own)?;
                self.seed = seed;
                self.step = step;
                return Ok(());
            }
            Course::Replayed { options, actions } => (options_of(options)?, actions),
        };
        if actions.len() != step.saturating_mul(act_width) {
            return Err(Error::state(format!(
                "{} action scalars for {step} steps of {act_width}",
                actions.len()
            )));
        }
        let none = ResetOptions::new();
        if own_options != *options {
            self.env.set_reset_options(own_options.as_deref().unwrap_or(&none))?;
        }
        self.reset(seed, &own_options, obs)?;
        if own_options != *options {
            self.env.set_reset_options(options.as_deref().unwrap_or(&none))?;
        }
        for action in actions.chunks_exact(act_width) {
            self.step += 1;
            let end = self.env.step(action, obs)?;
            if (end.terminated || end.truncated) && self.step < step {
                let message = format!("the replayed episode ended at step {} of {step}", self.step);
                return Err(Error::Replay {
                    env: crate::contract::type_name::short_type_name::<E>(),
                    message,
                });
            }
        }
        self.actions.extend_from_slice(&actions);
        Ok(())
    }
}
