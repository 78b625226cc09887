//! What stays of the seats from one fragment to the next, and what a checkpoint holds of them.

use crate::base::{Result, State, host};
use crate::sample::seats::Seats;
use tch::Tensor;

impl Seats {
    /// Removes the finished rows; moves each slot's current observation and unfinished row to the front.
    pub(crate) fn carry(&mut self) {
        for slot in 0..self.slots() {
            if self.closed[slot] > 0 {
                // A waiting seat has nothing to carry over.
                if self.due[slot] || self.open[slot] {
                    self.storage.carry_copy(self.closed[slot], slot, self.open[slot]);
                }
                self.closed[slot] = 0;
                if self.open[slot] {
                    self.reopen(slot);
                }
            }
        }
        self.storage.endings.clear();
    }

    /// Stores the recurrent state of a slot's unfinished row at the front, too.
    fn reopen(&mut self, slot: usize) {
        let slots = self.slots();
        if let Some(memories) = &mut self.storage.memories {
            let width = self.before.len() / slots;
            let memory = &self.before[slot * width..][..width];
            memories.store_one(0, (slot, slots), memory, self.began[slot]);
        }
    }

    /// The state that the next rows depend on; call [`carry`](Self::carry) before.
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

    /// Whether the state has as many seats.
    pub(crate) fn fits(&self, state: &State) -> Result<bool> {
        Ok(state.get::<Vec<bool>>("due")?.len() == self.slots())
    }

    /// Restores the [`state`](Self::state) in the middle of episodes.
    pub(crate) fn set_state(&mut self, state: &State) -> Result<()> {
        let resets: Vec<bool> = state.get("resets")?;
        self.pilot.set_state(state, resets.into_iter())?;
        self.carry();
        self.storage.restore_chosen(state)?;
        let due = state.get("due")?;
        let open = state.get("open")?;
        let earned = state.get("earned")?;
        self.due = due;
        self.open = open;
        self.earned = earned;
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
