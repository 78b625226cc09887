//! Learning: networks, losses over values, two engines that run them, optimizers.

// Some parts of layers, steps and statistics are for libtorch alone.
#![cfg_attr(not(feature = "torch"), allow(dead_code, unreachable_code))]

pub mod base;
mod build;
pub mod distributions;
pub mod engines;
pub mod experience;
#[cfg(feature = "torch")]
mod export;
pub mod kernels;
pub mod layers;
pub mod learner;
mod learner_state;
pub mod loss;
pub mod nets;
pub mod params;
mod recording;
mod shared_net;
mod values;

pub use learner::{Learner, Moment};
pub use recording::Recording;
pub use recording::{Parameter, RecordedOp, most_likely};
pub use shared_net::SharedNet;
