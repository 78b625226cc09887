//! Learners that take the gradient of the same batch together, each of some of its pieces.
//!
//! How a batch is cut depends on its rows alone, and what the pieces give is added up in their order, whoever computed
//! them. So the gradient has the bits that one learner gives it, whatever the number of learners.

use crate::base::{error::Result, lock};
use bytemuck::{cast_slice, cast_slice_mut};
use pavlov_train::Collective;
use std::{
    ops::Range,
    sync::{Arc, Mutex},
};

/// One of them.
#[derive(Clone, Debug)]
pub(crate) struct Together {
    collective: Arc<dyn Collective>,
    /// Why the others cannot be reached any more.
    lost: Arc<Mutex<Option<String>>>,
}

impl Together {
    pub(crate) fn new(collective: Arc<dyn Collective>) -> Self {
        Self { collective, lost: Arc::default() }
    }

    /// It is the trainer's, which goes on without the others.
    pub(crate) fn leads(&self) -> bool {
        self.collective.rank() == 0
    }

    /// Why the others cannot be reached any more, if so.
    pub(crate) fn lost(&self) -> Option<String> {
        lock(&self.lost).clone()
    }

    /// Which of so many pieces this learner computes; none if there are too few for all learners, and each computes all.
    pub(crate) fn own(&self, pieces: usize) -> Option<Range<usize>> {
        let (rank, learners) = (self.collective.rank(), self.collective.world_size());
        let first = |rank: usize| rank * pieces / learners;
        (pieces >= learners).then(|| first(rank)..first(rank + 1))
    }

    /// Adds up over the pieces in their order: `add` adds those of this learner to the sum of those before. All learners
    /// have the whole sum in the end.
    pub(crate) fn add_up(&self, sum: &mut [f32], add: impl FnOnce(&mut [f32])) -> Result<()> {
        let (rank, mut add) = (self.collective.rank(), Some(add));
        for turn in 0..self.collective.world_size() {
            if let Some(add) = add.take_if(|_| turn == rank) {
                add(sum);
            }
            self.noted(self.collective.broadcast(cast_slice_mut(sum), turn))?;
        }
        Ok(())
    }

    /// What all learners have, in their order.
    pub(crate) fn gather<T: bytemuck::Pod>(&self, own: &[T]) -> Result<Vec<Vec<T>>> {
        let all = self.noted(self.collective.all_gather(cast_slice(own)))?;
        let numbers =
            |bytes: &Vec<u8>| bytes.chunks_exact(size_of::<T>()).map(bytemuck::pod_read_unaligned).collect();
        Ok(all.iter().map(numbers).collect())
    }

    fn noted<R>(&self, result: pavlov_tune::Result<R>) -> Result<R> {
        if let Err(error) = &result {
            lock(&self.lost).get_or_insert(error.to_string());
        }
        Ok(result?)
    }
}
