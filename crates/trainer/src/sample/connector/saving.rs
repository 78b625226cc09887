//! Saving and restoring a connector's filter, random streams, recurrent states and noise in the middle of episodes.

use crate::sample::connector::Connector;
use pavlov_learn::base::{Array, Error, Result, State, Stream, StreamState};

impl Connector {
    /// Saves filter, random streams, recurrent states and noise to `state`, for [`set_state`](Self::set_state).
    pub(crate) fn save(&self, state: &mut State) -> Result<()> {
        state.set("filter", &self.filter)?;
        state.set("rngs", &self.rngs.iter().map(Stream::state).collect::<Vec<_>>())?;
        if !self.memory.is_empty() {
            state.set_array("memory", &self.memory);
        }
        if self.noise.iter().any(|&x| x != 0.0) {
            state.set_array("noise", &self.noise);
        }
        Ok(())
    }

    /// Restores the parts that [`save`](Self::save) wrote; `resets` says for each copy whether its next step is the
    /// first of an episode.
    pub(crate) fn set_state(&mut self, state: &State, resets: impl Iterator<Item = bool>) -> Result<()> {
        let rngs: Vec<StreamState> = state.get("rngs")?;
        if rngs.len() != self.copies {
            let reason = format!("there are {}, but {} are needed", rngs.len(), self.copies);
            return Err(Error::state("a worker's random streams", reason));
        }
        if !self.memory.is_empty() {
            restore_numbers("the policy's memory", state.array("memory")?, &mut self.memory)?;
        }
        match state.array("noise") {
            Ok(noise) => restore_numbers("exploration's noise", noise, &mut self.noise)?,
            // A checkpoint without noise is from a run that had drawn none.
            Err(_) => self.noise.fill(0.0),
        }
        self.filter = state.get("filter")?;
        self.rngs = rngs.into_iter().map(Stream::from_state).collect();
        self.resets.iter_mut().zip(resets).for_each(|(to, reset)| *to = reset);
        Ok(())
    }
}

/// Copies the numbers of `saved` to `to`; returns an error about `what` if their number differs.
fn restore_numbers(what: &str, saved: &Array, to: &mut [f32]) -> Result<()> {
    if saved.numel() != to.len() {
        let reason = format!("it is {} numbers, but {} are needed", saved.numel(), to.len());
        return Err(Error::state(what, reason));
    }
    to.copy_from_slice(&saved.to_f32());
    Ok(())
}
