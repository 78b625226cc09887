//! Execution plans: std iterators over batches, which read in the order of execution.
//!
//! Most steps pass on a [`TrainBatch`], the rows of every policy. A step treats all policies alike and skips those
//! without rows, so a plan of one policy never names this policy.
//!
//! A plan is lazy: each `next` does one round of work and yields the learner's report. Adapters are methods of
//! [`PlanExt`], each in its own file and all of the same form; steps that turn one item into another are plain
//! functions for [`PlanExt::then`]. A plan keeps no state: everything that must survive a checkpoint (counters,
//! random streams, the replay buffer) lives in the [`WorkerSet`].
//!
//! To write one function per iteration instead, use `Box::new(std::iter::repeat_with(move || ...))`.

pub(crate) mod after_training;
mod concat;
mod learner_info;
pub(crate) mod learner_thread;
mod mix_in_replay;
mod owed;
mod replay;
mod rollouts;
mod rollouts_async;
mod round_robin;
mod select;
pub(crate) mod standardize;
mod store;
mod sync;
mod target;
mod then;
mod train;
pub(crate) mod train_in_turn;
pub(crate) mod when;

pub use after_training::after_training;
pub use concat::ConcatBatches;
pub use learner_info::{LearnerInfo, PolicyInfo};
pub use learner_thread::learner_thread;
pub use mix_in_replay::MixInReplay;
pub use owed::owed;
pub use replay::{Replay, Replayed, replay, train_on_replay, update_priorities};
pub use rollouts::Rollouts;
pub use rollouts_async::RolloutsAsync;
pub use round_robin::round_robin;
pub use select::Select;
pub use standardize::{standardize, standardized, standardized_by_sample};
pub use store::{keep_in_replay, store_to_replay};
pub use sync::{broadcast_weights, sync_weights};
pub use target::update_target;
pub use then::Then;
pub(crate) use train::prepared_minibatches;
pub use train::{minibatches, train_epochs};
pub use train_in_turn::train_in_turn;
pub use when::when;

use crate::experience::TrainBatch;
pub use crate::workers::Order;
use crate::workers::WorkerSet;
use pavlov_learn::base::Result;

/// A training loop as an iterator: each `next` does one round of training and yields its report.
pub type Plan = Box<dyn Iterator<Item = Result<LearnerInfo>> + Send>;

/// Methods that turn one iterator of a plan into another. Every iterator implements this trait already; do not
/// implement it.
pub trait PlanExt: Iterator + Sized {
    /// Passes every item through `step`.
    fn then<T, U, F>(self, step: F) -> Then<Self, F>
    where
        Self: Iterator<Item = Result<T>>,
        F: FnMut(T) -> Result<U>,
    {
        Then::new(self, step)
    }

    /// Joins batches until they have at least `min_steps` environment steps together.
    fn concat_batches(self, min_steps: usize) -> ConcatBatches<Self>
    where
        Self: Iterator<Item = Result<TrainBatch>>,
    {
        ConcatBatches::new(self, min_steps)
    }

    /// Adds `proportion` earlier fragments to every fragment, drawn from the last `slots` fragments. A fractional
    /// part of `proportion` is the probability of one more. The kept fragments are saved with the run.
    fn mix_in_replay(self, workers: &WorkerSet, proportion: f64, slots: usize) -> MixInReplay<Self>
    where
        Self: Iterator<Item = Result<TrainBatch>>,
    {
        MixInReplay::new(self, workers, proportion, slots)
    }

    /// Keeps only the rows of these policies; the batch's number of environment steps does not change.
    fn select(self, policies: &[&str]) -> Select<Self>
    where
        Self: Iterator<Item = Result<TrainBatch>>,
    {
        Select::new(self, policies)
    }
}

impl<I: Iterator> PlanExt for I {}
