//! A learner's state in checkpoints, and its weights for acting.

use crate::base::{Result, State, Stream};
use crate::learner::Learner;

impl Learner {
    /// The parameters by name, with those of the target copy under `target` if workers need them.
    pub fn weights(&self) -> State {
        let mut weights = self.sets[0].weights();
        if let (true, Some(target)) = (self.target_in_workers, self.sets.get(1)) {
            weights.nest("target", target.weights());
        }
        weights
    }

    /// Replaces the parameters, and those of the target copy if `weights` has them. Changes nothing if one does not fit.
    ///
    /// # Errors
    /// Returns [`Error::State`](crate::base::Error::State) if a parameter is missing or has another shape.
    pub fn set_weights(&mut self, weights: &State) -> Result<()> {
        let own = self.sets[0].flat_of(weights)?;
        if let (Some(target), Ok(weights)) = (self.sets.get_mut(1), weights.nested("target")) {
            target.set_weights(&weights)?;
        }
        self.sets[0].set_flat(&own);
        Ok(())
    }

    /// The learner's whole state, for checkpoints.
    ///
    /// # Errors
    /// Does not fail today: everything in it can be written.
    pub fn state(&self) -> Result<State> {
        let mut state = State::default();
        state.nest("weights", self.sets[0].weights());
        if let Some(target) = self.sets.get(1) {
            state.nest("target", target.weights());
        }
        if let Some(noise) = &self.noise {
            state.set("noise", &noise.state())?;
        }
        state.set("rng", &self.rng.state())?;
        state.set("learning_steps", &self.steps)?;
        match self.optimizers.as_slice() {
            [one] => state.nest("optimizer", one.state()?),
            several => {
                let mut all = State::default();
                for (group, optimizer) in self.groups.iter().zip(several) {
                    all.nest(&group.name, optimizer.state()?);
                }
                state.nest("optimizer", all);
            }
        }
        Ok(state)
    }

    /// Continues from a state that [`state`](Self::state) saved.
    ///
    /// # Errors
    /// Returns [`Error::State`](crate::base::Error::State) if the state is of another network or of another optimizer.
    pub fn set_state(&mut self, state: &State) -> Result<()> {
        self.sets[0].set_weights(&state.nested("weights")?)?;
        if let Some(target) = self.sets.get_mut(1) {
            target.set_weights(&state.nested("target")?)?;
        }
        if let Some(noise) = &mut self.noise {
            *noise = Stream::from_state(state.get("noise")?);
        }
        // Checkpoints that are older than parameter groups have neither `rng` nor `learning_steps`.
        if state.has("rng") {
            self.rng = Stream::from_state(state.get("rng")?);
            self.steps = state.get("learning_steps")?;
        }
        let optimizer = state.nested("optimizer")?;
        match self.optimizers.as_mut_slice() {
            [one] => one.set_state(&optimizer),
            several => self
                .groups
                .iter()
                .zip(several)
                .try_for_each(|(group, one)| one.set_state(&optimizer.nested(&group.name)?)),
        }
    }
}
