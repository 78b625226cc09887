//! Saving the connector in the middle of episodes.

use crate::base::{Error, Result, State, Stream, StreamState, host};
use crate::sample::connector::Connector;
use tch::Tensor;

impl Connector {
    /// Saves the state that [`set_state`](Self::set_state) restores.
    pub(crate) fn save(&self, state: &mut State) -> Result<()> {
        state.set("filter", &self.filter)?;
        state.set("rngs", &self.rngs.iter().map(Stream::state).collect::<Vec<_>>())?;
        if !self.memory.is_empty() {
            state.set_tensor("memory", &Tensor::from_slice(&self.memory));
        }
        if self.noise.iter().any(|&x| x != 0.0) {
            state.set_tensor("noise", &Tensor::from_slice(&self.noise));
        }
        Ok(())
    }

    /// Restores the state in the middle of episodes; `resets` tells which copies begin an episode.
    pub(crate) fn set_state(&mut self, state: &State, resets: impl Iterator<Item = bool>) -> Result<()> {
        let rngs: Vec<StreamState> = state.get("rngs")?;
        if rngs.len() != self.copies {
            let reason = format!("there are {}, but {} are needed", rngs.len(), self.copies);
            return Err(Error::state("a worker's random streams", reason));
        }
        if !self.memory.is_empty() {
            restore_numbers("the policy's memory", &state.tensor("memory")?, &mut self.memory)?;
        }
        match state.tensor("noise") {
            Ok(noise) => restore_numbers("exploration's noise", &noise, &mut self.noise)?,
            // The checkpoint has no noise: none was drawn.
            Err(_) => self.noise.fill(0.0),
        }
        self.filter = state.get("filter")?;
        self.rngs = rngs.into_iter().map(Stream::from_state).collect();
        self.resets.iter_mut().zip(resets).for_each(|(to, reset)| *to = reset);
        Ok(())
    }
}

fn restore_numbers(what: &str, saved: &Tensor, to: &mut [f32]) -> Result<()> {
    if saved.numel() != to.len() {
        let reason = format!("it is {} numbers, but {} are needed", saved.numel(), to.len());
        return Err(Error::state(what, reason));
    }
    to.copy_from_slice(host::read(saved));
    Ok(())
}
