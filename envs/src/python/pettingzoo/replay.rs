//! Brings an environment of several agents back to the middle of an episode by replaying its seed and actions.

use std::sync::Arc;

use super::{super::episode::Episode, Host};
use crate::{Error, ResetOptions, Result, contract::state};

impl Host {
    pub(super) fn replay(&mut self, state: &[u8]) -> Result<()> {
        let act_bytes = self.act_width() * self.rows.act_dtype.size();
        let (saved, obs): (_, Vec<u8>) = state::load(&self.tag(), state).or_else(|error| {
            // States of older versions have no observations.
            state::load(&self.name, state).map(|saved| (saved, vec![])).map_err(|_| error)
        })?;
        let saved = Episode::load(saved, act_bytes)?;
        let options = self.options.clone();
        let set = |options: &Option<Arc<ResetOptions>>| options.as_deref().cloned().unwrap_or_default();
        if saved.options() != &options {
            self.set_reset_options(&set(saved.options()))?;
        }
        self.reset(saved.seed())?;
        if saved.options() != &options {
            self.set_reset_options(&set(&options))?;
        }
        for (step, actions) in saved.actions().chunks_exact(act_bytes).enumerate() {
            if !self.alive.contains(&true) {
                let message = format!("the replayed episode ended at step {step} of {}", saved.step());
                return Err(Error::Replay { env: self.name.clone(), message });
            }
            self.step(actions)?;
        }
        if obs.is_empty() || obs == self.shown() {
            return Ok(());
        }
        let message = format!("after {} steps the observations are others", saved.step());
        Err(Error::Replay { env: self.name.clone(), message })
    }

    /// The tag of saved states with observations. Those of older versions have none, and the name as their tag.
    pub(super) fn tag(&self) -> String {
        format!("{} with observations", self.name)
    }

    /// The observations of all agents.
    pub(super) fn shown(&self) -> Vec<u8> {
        let mut obs = vec![0; self.agents.len() * self.rows.obs_bytes()];
        self.memory.read(self.offsets.obs, &mut obs);
        obs
    }
}
