//! Execution plans: std iterators over batches, read in the order things happen.
//!
//! A plan is lazy; each `next` does one round of work and yields what the learner reported. Adapters are methods of
//! [`PlanExt`], each in a file of its own and all of one shape; steps that change one item into another are plain
//! functions for [`PlanExt::then`]. A plan keeps no state of its own: what must survive a checkpoint (counters, random
//! streams, the replay buffer) lives in the [`WorkerSet`](crate::WorkerSet).
//!
//! Whoever prefers one function per iteration writes `Box::new(std::iter::repeat_with(move || ...))`.

mod concat;
pub(crate) mod learner_info;
mod replay;
mod rollouts;
mod round_robin;
mod standardize;
mod store;
mod sync;
mod target;
mod then;
mod train;
mod update_kl;

pub use concat::ConcatBatches;
pub use replay::{Replay, update_priorities};
pub use rollouts::Rollouts;
pub use round_robin::{RoundRobin, round_robin};
pub use standardize::{standardize, standardized};
pub use store::store_to_replay;
pub use sync::sync_weights;
pub use target::update_target;
pub use then::Then;
pub use train::{train_epochs, train_on_replay};
pub use update_kl::update_kl;

use crate::{
    base::{batch::SampleBatch, error::Result},
    plan::learner_info::LearnerInfo,
};

/// A lazy sequence of training rounds.
pub type Plan = Box<dyn Iterator<Item = Result<LearnerInfo>> + Send>;

/// Adapters of plans. Implemented for every iterator; do not implement it.
pub trait PlanExt: Iterator + Sized {
    /// Hands every item to `step`.
    fn then<T, U, F>(self, step: F) -> Then<Self, F>
    where
        Self: Iterator<Item = Result<T>>,
        F: FnMut(T) -> Result<U>,
    {
        Then::new(self, step)
    }

    /// Collects batches until they have `min_rows` rows together.
    fn concat_batches(self, min_rows: usize) -> ConcatBatches<Self>
    where
        Self: Iterator<Item = Result<SampleBatch>>,
    {
        ConcatBatches::new(self, min_rows)
    }
}

impl<I: Iterator> PlanExt for I {}
