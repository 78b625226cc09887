//! Training batches that are each learned from several times (Ray's MinibatchBuffer).

use crate::experience::TrainBatch;
use pavlov_learn::base::{Error, Result, State};

/// A ring of slots, each with a batch that is used several times. The slots take turns: one use of a batch, then the
/// next slot.
#[derive(Debug)]
pub(crate) struct MinibatchBuffer {
    /// For each slot, its batch and the number of uses that are left.
    slots: Vec<Option<(TrainBatch, usize)>>,
    /// Index of the slot whose turn it is.
    turn: usize,
}

impl Default for MinibatchBuffer {
    fn default() -> Self {
        Self::new(1)
    }
}

impl MinibatchBuffer {
    pub(crate) fn new(slots: usize) -> Self {
        Self { slots: (0..slots).map(|_| None).collect(), turn: 0 }
    }

    /// Makes a buffer with as many slots as this one, all free.
    pub(crate) fn emptied(&self) -> Self {
        Self::new(self.slots.len())
    }

    /// Whether the buffer has more than one slot. A single slot never keeps a batch.
    pub(crate) fn has_several(&self) -> bool {
        self.slots.len() > 1
    }

    /// Puts a batch, to be used `uses` times, into the slot whose turn it is. This slot is free after
    /// [`next`](Self::next) has returned `None`.
    pub(crate) fn add(&mut self, batch: TrainBatch, uses: usize) {
        self.slots[self.turn] = Some((batch, uses));
    }

    /// Uses the batch in the slot whose turn it is: returns the batch and passes the turn on. Returns `None` if the
    /// slot is free.
    pub(crate) fn next(&mut self) -> Option<TrainBatch> {
        let slot = &mut self.slots[self.turn];
        let (batch, left) = slot.take()?;
        if left > 1 {
            *slot = Some((batch.share(), left - 1));
        }
        self.turn = (self.turn + 1) % self.slots.len();
        Some(batch)
    }

    /// The whole buffer, for checkpoints.
    pub(crate) fn state(&self) -> Result<State> {
        let mut state = State::default();
        let left = |slot: &Option<(TrainBatch, usize)>| slot.as_ref().map_or(0, |(_, left)| *left);
        state.set("left", &self.slots.iter().map(left).collect::<Vec<_>>())?;
        state.set("turn", &self.turn)?;
        for (i, slot) in self.slots.iter().enumerate() {
            if let Some((batch, _)) = slot {
                let mut own = State::default();
                batch.save(&mut own)?;
                state.nest(&i.to_string(), own);
            }
        }
        Ok(state)
    }

    /// Restores a buffer that [`state`](Self::state) saved, with as many slots as this one.
    pub(crate) fn restored(&self, state: &State) -> Result<Self> {
        let left: Vec<usize> = state.get("left")?;
        let saved = left.len();
        let slots = self.slots.len();
        if saved != slots {
            let reason = format!(
                "there were {saved}, and `minibatch_buffer_size` is {slots}; set it to {saved} to continue this run"
            );
            return Err(Error::state("the batches that are learned from in turn", reason));
        }
        let turn: usize = state.get("turn")?;
        if turn >= slots {
            let reason = format!("the turn of slot {turn} was saved, but there are {slots}, counted from 0");
            return Err(Error::state("the batches that are learned from in turn", reason));
        }
        let slot = |(i, left): (usize, usize)| match left {
            0 => Ok(None),
            _ => Ok(Some((TrainBatch::saved(&mut state.nested(&i.to_string())?)?, left))),
        };
        let slots = left.into_iter().enumerate().map(slot).collect::<Result<_>>()?;
        Ok(Self { slots, turn })
    }
}
