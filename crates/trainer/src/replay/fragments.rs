//! A store of whole past fragments, for algorithms that mix them with new ones.

use crate::experience::TrainBatch;
use pavlov_learn::base::{Error, Result, State, Stream};

/// A ring of fragments: once it is full, a new fragment replaces the oldest.
#[derive(Debug, Default)]
pub(crate) struct Fragments {
    slots: Vec<TrainBatch>,
    /// Index of the oldest fragment once the ring is full; 0 before.
    next: usize,
}

impl Fragments {
    /// Adds a fragment, in place of the oldest if the ring has `capacity` fragments already.
    pub(crate) fn add(&mut self, fragment: TrainBatch, capacity: usize) {
        if self.slots.len() < capacity {
            self.slots.push(fragment);
        } else {
            self.slots[self.next] = fragment;
            self.next = (self.next + 1) % capacity;
        }
    }

    /// Draws a stored fragment uniformly; `None` if the ring is empty. The rows are shared, not copied.
    pub(crate) fn draw(&self, rng: &mut Stream) -> Option<TrainBatch> {
        match self.slots.len() {
            0 => None,
            n => self.slots.get(rng.below(n as u64) as usize).map(TrainBatch::share),
        }
    }

    /// The whole ring, for checkpoints.
    pub(crate) fn state(&self) -> Result<State> {
        let mut state = State::default();
        state.set("fragments", &self.slots.len())?;
        state.set("next", &self.next)?;
        for (i, fragment) in self.slots.iter().enumerate() {
            let mut own = State::default();
            fragment.save(&mut own)?;
            state.nest(&i.to_string(), own);
        }
        Ok(state)
    }

    /// Restores the ring that [`state`](Self::state) saved.
    pub(crate) fn from_state(state: &State, capacity: usize) -> Result<Self> {
        let saved: usize = state.get("fragments")?;
        if saved > capacity {
            let reason =
                format!("it has {saved} fragments, but there is room for {capacity}; use the saved settings");
            return Err(Error::state("the saved fragments", reason));
        }
        let slots = (0..saved)
            .map(|i| TrainBatch::saved(&mut state.nested(&i.to_string())?))
            .collect::<Result<_>>()?;
        Ok(Self { slots, next: state.get("next")? })
    }
}
