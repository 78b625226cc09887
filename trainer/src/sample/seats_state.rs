//! What stays of the seats from one fragment to the next, and what a checkpoint holds of them.

use crate::base::{Result, State, host};
use crate::sample::seats::Seats;
use tch::Tensor;

impl Seats {
    /// Forgets the closed rows. What every agent sees now, and the rows that are open, move to the front.
    pub(crate) fn carry(&mut self) {
        for slot in 0..self.slots() {
            if self.closed[slot] > 0 {
                // Behind the rows of who is not to act there is nothing.
                if self.due[slot] || self.open[slot] {
                    self.storage.carry_copy(self.closed[slot], slot, self.open[slot]);
                }
                self.closed[slot] = 0;
                if self.open[slot] {
                    self.reopen(slot);
                }
            }
        }
        if let Some(memories) = &mut self.storage.memories {
            memories.behind.clear();
        }
        self.ended.clear();
        self.ended_obs.clear();
    }

    /// What an open row began with stands at the front, too.
    fn reopen(&mut self, slot: usize) {
        let slots = self.slots();
        if let Some(memories) = &mut self.storage.memories {
            let width = self.before.len() / slots;
            let memory = &self.before[slot * width..][..width];
            memories.store_one(0, (slot, slots), memory, self.began[slot]);
        }
    }

    /// Everything the next rows depend on; closed rows are carried before.
    pub(crate) fn state(&self) -> Result<State> {
        let mut state = State::default();
        self.storage.save_chosen(&mut state);
        if self.plays.contains(&false) {
            state.set("plays", &self.plays)?;
        }
        state.set("due", &self.due)?;
        state.set("open", &self.open)?;
        state.set("earned", &self.earned)?;
        state.set("resets", &self.pilot.resets())?;
        if !self.before.is_empty() {
            state.set_tensor("before", &Tensor::from_slice(&self.before));
            state.set("began", &self.began)?;
        }
        self.pilot.save(&mut state)?;
        Ok(state)
    }

    /// Whether a state is of as many agents.
    pub(crate) fn fits(&self, state: &State) -> Result<bool> {
        Ok(state.get::<Vec<bool>>("due")?.len() == self.slots())
    }

    /// Continues from [`state`](Self::state) in the middle of episodes.
    pub(crate) fn set_state(&mut self, state: &State) -> Result<()> {
        let resets: Vec<bool> = state.get("resets")?;
        self.pilot.set_state(state, resets.into_iter())?;
        self.carry();
        self.storage.restore_chosen(state)?;
        let (due, open, earned) = (state.get("due")?, state.get("open")?, state.get("earned")?);
        (self.due, self.open, self.earned) = (due, open, earned);
        self.plays = if state.has("plays") { state.get("plays")? } else { vec![true; self.slots()] };
        if !self.before.is_empty() {
            self.before.copy_from_slice(host::read(&state.tensor("before")?));
            self.began = state.get("began")?;
        }
        for slot in (0..self.slots()).filter(|&slot| self.open[slot]).collect::<Vec<_>>() {
            self.reopen(slot);
        }
        Ok(())
    }
}
