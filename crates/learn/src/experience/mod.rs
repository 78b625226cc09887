//! Sampled experience: columns, batches, fragments, and targets that are computed from rewards.

mod batch;
mod columns;
mod cuts;
mod episode_rows;
mod fragment;
mod gae;
mod n_step;
mod trajectories;
mod vtrace;
mod waiting;
mod whole_trajectories;

pub(crate) use batch::Selection;
pub use batch::{SampleBatch, env_major, read_f32};
pub use columns::Column;
pub use fragment::{EpisodeStart, Fragment, FragmentMasks, FragmentMemory, Values};
pub use gae::{Trajectories, advantages, discount_cumsum};
pub use trajectories::Trajectory;
pub use vtrace::{BatchValues, Targets, VTrace, vtrace};
pub use waiting::WaitingRows;
