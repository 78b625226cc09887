//! One copy of an environment and its running episode, which can be saved and replayed.

use std::sync::Arc;

use serde_json::Value;

use crate::{
    Env, Error, ResetOptions, Result,
    contract::state::{StateReader, StateWriter},
};

/// What a saved state holds of a copy: its actions, which are replayed; its own state; or the options of its reset and its
/// actions.
const REPLAYED: u64 = 0;
const OWN_STATE: u64 = 1;
const REPLAYED_WITH_OPTIONS: u64 = 2;

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

    pub(super) fn save(&self, state: &mut StateWriter) -> Result<()> {
        state.option(self.seed);
        state.u64(self.step as u64);
        match self.env.save_state() {
            Some(own) => {
                state.u64(OWN_STATE);
                state.bytes(&own);
            }
            None if self.seed.is_none() => {
                return Err(Error::state(
                    "the episode was started without a seed, so it cannot be replayed; reset with seeds or implement `save_state`",
                ));
            }
            None if !self.keeps_actions => {
                return Err(Error::state(
                    "`save_state` gave a state when the environment was made but gives none now",
                ));
            }
            None => {
                state.u64(if self.options.is_some() { REPLAYED_WITH_OPTIONS } else { REPLAYED });
                if let Some(options) = &self.options {
                    state.bytes(Value::Object((**options).clone()).to_string().as_bytes());
                }
                state.row(&self.actions);
            }
        }
        Ok(())
    }

    pub(super) fn load(
        &mut self,
        state: &mut StateReader<'_>,
        obs: &mut [E::Obs],
        act_width: usize,
        limit: usize,
        options: &Option<Arc<ResetOptions>>,
    ) -> Result<()> {
        let seed = state.option()?;
        let step = state.u64()? as usize;
        // An episode that reached the limit was reset in the same step, so it is never saved.
        if step >= limit.max(1) {
            return Err(Error::state(format!(
                "an episode is at step {step}, but episodes end at step {limit} here; it is damaged or of another limit"
            )));
        }
        let kind = state.u64()?;
        if kind == OWN_STATE {
            self.env.load_state(state.bytes()?)?;
            self.seed = seed;
            self.step = step;
            return Ok(());
        }
        let own_options = match kind {
            REPLAYED_WITH_OPTIONS => {
                let own = serde_json::from_slice::<ResetOptions>(state.bytes()?);
                let own = own.map_err(|error| Error::state(format!("the options of a reset: {error}")))?;
                Some(Arc::new(own))
            }
            _ => None,
        };
        let actions = state.row::<E::Act>()?;
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
                return Err(Error::state(format!(
                    "the replayed episode ended at step {} of {step}: the environment is not a function of seed and actions, or it changed",
                    self.step
                )));
            }
        }
        self.actions.extend_from_slice(&actions);
        Ok(())
    }
}
