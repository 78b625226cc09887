//! Networks, losses, gradients and optimizers: what the trainer of pavlov computes with.
//!
//! From the outside in:
//!
//! * [`learner`]: a network with its parameters, gradients and optimizers. Losses and heads are closures over
//!   [`loss::Value`]s.
//! * [`nets`]: the builder that lays a network out, layers, and the networks that algorithms use. [`layers`] has the settings
//!   of layers.
//! * [`engines`]: what computes them. One engine works in plain memory, for networks on the CPU; the other is libtorch, for
//!   GPUs and for losses over tensors (the feature `torch`). [`kernels`] are the loops of the first.
//! * [`distributions`]: distributions of actions, drawn from and in losses.
//! * [`params`]: parameters in one buffer, the groups in which they learn, and the optimizers.
//! * [`experience`]: rows as named columns ([`SampleBatch`](experience::SampleBatch)), fragments of episodes, advantages and
//!   targets.
//! * [`base`]: arrays, random streams, statistics, schedules, and the state that a checkpoint stores.
//!
//! A network that learns the product of two numbers:
//!
//! ```
//! use pavlov_envs::Space;
//! use pavlov_learn::base::{Array, Device, Result, Spaces};
//! use pavlov_learn::experience::{Column, SampleBatch};
//! use pavlov_learn::layers::Activation;
//! use pavlov_learn::loss::{Loss, Rows};
//! use pavlov_learn::nets::{Init, NetBuilder, PolicySpec};
//! use pavlov_learn::params::Rule;
//!
//! fn main() -> Result<()> {
//!     // A network is laid out for rows of a space, here of two numbers.
//!     let spec = PolicySpec {
//!         spaces: Spaces { observation_space: Space::real(&[2]), action_space: Space::discrete(2) },
//!         own_obs: None,
//!         seed: 1,
//!         device: Device::Cpu,
//!         fused: true,
//!         custom_model: None,
//!         worker_index: 0,
//!         num_workers: 0,
//!     };
//!     let mut net = NetBuilder::new(&spec);
//!     let (_, (hidden, out)) = net.group("net", Rule::adam(1e-2, 1e-8), |net| {
//!         let hidden = net.dense("hidden", 2, 32, Activation::Tanh, Init::Orthogonal(1.0));
//!         Ok((hidden, net.dense("out", 32, 1, Activation::Linear, Init::Orthogonal(1.0))))
//!     })?;
//!     let mut learner = net.finish()?;
//!
//!     // Rows of observations, and the number that the network is to give for each.
//!     let points: Vec<f32> = (0..512).map(|i| (i as f32 * 0.7).sin()).collect();
//!     let wanted: Vec<f32> = points.chunks(2).map(|x| x[0] * x[1]).collect();
//!     let batch = SampleBatch::default()
//!         .with(Column::OBS, Array::from_vec(points, &[256, 2]))
//!         .with_f32s(Column::VALUE_TARGETS, &wanted);
//!
//!     let mut errors = Vec::new();
//!     for _ in 0..300 {
//!         let report = learner.gradient(&batch, |rows: &Rows<'_>| {
//!             let x = hidden.on(rows.online(), rows.obs()?.obs());
//!             let error = out.on(rows.online(), x) - rows.get(Column::VALUE_TARGETS)?;
//!             Ok(Loss::sum([("error", error.square().mean())]))
//!         })?;
//!         errors.extend(report.stats.read("error"));
//!         learner.step(&report);
//!     }
//!     println!("the mean square error fell from {} to {}", errors[0], errors[299]);
//!     assert!(errors[299] < 0.05 * errors[0]);
//!     Ok(())
//! }
//! ```
//!
//! How a batch is cut into pieces, which threads share, depends on its rows alone. So the bits of a gradient depend neither on
//! the number of cores nor, in plain memory, on the kind of processor.
//!
//! [`Recording`] is a network's computation as data, for those who write it down in other languages; [`SharedNet`] evaluates
//! weights that stay for several threads at the same time.

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
mod outline;
pub mod params;
mod recording;
mod shared_net;
mod values;

pub use learner::{Learner, Moment};
pub use recording::{Parameter, RecordedOp, Recording, most_likely};
pub use shared_net::SharedNet;

/// The crate `ndarray`, whose array views [`SampleBatch::array`](experience::SampleBatch::array) returns.
pub use ndarray;
#[cfg(feature = "torch")]
/// tch, libtorch's Rust interface, in the version that this crate uses.
pub use tch as torch;

/// The program of the README, compiled and run by `cargo test --doc`.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
