//! The lowest layer: episodes, warnings, measured times, Parquet files.

mod episode;
mod notice;
pub(crate) mod parquet;
mod profile;

pub(crate) use episode::AgentReward;
pub(crate) use episode::part_of;
pub use episode::{DEFAULT_POLICY, Episode, PolicyId};
pub use notice::notice;
pub(crate) use notice::{notice_if_slow, notice_once, notice_unoptimised};
pub use profile::SamplerPerf;
pub(crate) use profile::{Breakdown, Laps};
