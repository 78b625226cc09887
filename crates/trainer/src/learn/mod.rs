//! Learning: networks, losses over values, two engines that run them, optimizers.

mod build;
pub(crate) mod distributions;
pub(crate) mod engines;
#[cfg(feature = "torch")]
mod export;
pub(crate) mod kernels;
pub mod learner;
mod learner_state;
pub(crate) mod loss;
pub mod nets;
pub(crate) mod params;
mod recording;
mod shared_net;
mod values;

pub use learner::Learner;
pub(crate) use learner::Moment;
pub use recording::Recording;
pub(crate) use recording::{Parameter, RecordedOp, most_likely};
pub(crate) use shared_net::SharedNet;
