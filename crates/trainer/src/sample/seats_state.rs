//! The state of the agents of a policy that is carried from one fragment to the next, and saved in checkpoints.

use crate::sample::seats::Seats;
use pavlov_learn::base::{Result, State};

impl Seats {
    /// Drops the finished rows; copies each agent's current observation and unfinished row to row 0.
    pub(crate) fn carry(&mut self) {
        for slot in 0..self.slots() {
            if self.closed[slot] > 0 {
                // A slot whose agent waits has nothing to carry over.
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

    /// Stores the recurrent state before an agent's unfinished row, for row 0.
    fn reopen(&mut self, slot: usize) {
        let slots = self.slots();
        if let Some(memories) = &mut self.storage.memories {
            let width = self.before.len() / slots;
            let memory = &self.before[slot * width..][..width];
            memories.store_one(0, (slot, slots), memory, self.began[slot]);
        }
    }

    /// Returns the state that the next rows depend on. Call [`carry`](Self::carry) first: finished rows are not part of
    /// it.
    pub(crate) fn state(&self) -> Result<State> {
        let mut state = State::default();
        self.storage.save_chosen(&mut state);
        if self.plays.contains(&false) {
            state.set("plays", &self.plays)?;
        }
        state.set("due", &self.due)?;
        state.set("open", &self.open)?;
        state.set("earned", &self.earned)?;
        state.set("resets", &self.connector.resets())?;
        if !self.before.is_empty() {
            state.set_array("before", &self.before);
            state.set("began", &self.began)?;
        }
        self.connector.save(&mut state)?;
        Ok(state)
    }

    /// Whether a saved state is for as many agents and copies as this policy has now.
    pub(crate) fn fits(&self, state: &State) -> Result<bool> {
        Ok(state.get::<Vec<bool>>("due")?.len() == self.slots())
    }

    /// Restores the state that [`state`](Self::state) returned in the middle of episodes.
    pub(crate) fn set_state(&mut self, state: &State) -> Result<()> {
        let resets: Vec<bool> = state.get("resets")?;
        self.connector.set_state(state, resets.into_iter())?;
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
            self.before.copy_from_slice(state.array("before")?.read());
            self.began = state.get("began")?;
        }
        for slot in (0..self.slots()).filter(|&slot| self.open[slot]).collect::<Vec<_>>() {
            self.reopen(slot);
        }
        Ok(())
    }
}
