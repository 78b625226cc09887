//! Reinforcement learning in Rust on libtorch: RLlib's Trainer and Ray Tune's Trainable, rebuilt.
//!
//! A whole program that trains PPO to balance a pole:
//!
//! ```no_run
//! use pavlov::prelude::*;
//!
//! fn main() -> Result<()> {
//!     let mut ppo = Ppo::get_default_config();
//!     ppo.common_mut().num_workers = 0;
//!     let mut trainer = ppo.build("CartPole-v1")?;
//!     for _ in 0..30 {
//!         let result = trainer.train()?;
//!         println!("{} {}", result["training_iteration"], result["episode_reward_mean"]);
//!     }
//!     println!("saved in {}", trainer.save()?.display());
//!     Ok(())
//! }
//! ```
//!
//! # The four concepts
//!
//! * An **environment** is an [`Env`](envs::Env): spaces, `reset`, `step`. The built-in ones have ids
//!   ([`envs::ids`]); for your own, pass a closure that makes a copy: `ppo.build(|| Corridor::new(10))`.
//! * An **algorithm** is its settings: a struct with public fields that implements
//!   [`Trainer`](trainer::Trainer). Change fields, then [`build`](trainer::TrainerExt::build).
//! * A **run** is the [`Driver`](tune::Driver) that `build` returns. It has `train`, `save`, `restore` and `stop`,
//!   and the methods of its [`Algorithm`](trainer::Algorithm): `evaluate`, `compute_single_action`, `get_weights`.
//! * A **result** is a JSON object ([`Metrics`](tune::Metrics)) with Ray's names. The run directory
//!   (`~/pavlov_results/...`) stores results as `result.json`, `progress.csv` and TensorBoard events.
//!
//! A run can be saved and continued in another process, with the same results as without the break:
//!
//! ```no_run
//! # use pavlov::prelude::*;
//! # fn main() -> Result<()> {
//! let settings = Ppo::get_default_config();
//! let mut first = settings.clone().build("CartPole-v1")?;
//! first.train()?;
//! let checkpoint = first.save()?;
//!
//! let mut second = settings.build("CartPole-v1")?;
//! second.restore(&checkpoint)?;
//! second.train()?;
//! # Ok(())
//! # }
//! ```
//!
//! An environment of your own:
//!
//! ```no_run
//! use pavlov::{envs, prelude::*};
//!
//! /// Walk right along five fields.
//! struct Corridor(i64);
//!
//! impl Env for Corridor {
//!     type Obs = f32;
//!     type Act = i64;
//!     fn observation_space(&self) -> Space {
//!         Space::boxed(0.0, 5.0, &[1])
//!     }
//!     fn action_space(&self) -> Space {
//!         Space::discrete(2)
//!     }
//!     fn reset(&mut self, _seed: Option<u64>, obs: &mut [f32]) -> envs::Result<()> {
//!         self.0 = 0;
//!         obs[0] = 0.0;
//!         Ok(())
//!     }
//!     fn step(&mut self, action: &[i64], obs: &mut [f32]) -> envs::Result<Step> {
//!         self.0 = (self.0 + 2 * action[0] - 1).max(0);
//!         obs[0] = self.0 as f32;
//!         Ok(Step { reward: -1.0, terminated: self.0 == 5, truncated: false })
//!     }
//!     fn max_episode_steps(&self) -> Option<usize> {
//!         Some(50)
//!     }
//! }
//!
//! fn main() -> Result<()> {
//!     let mut trainer = Ppo::get_default_config().build(|| Corridor(0))?;
//!     println!("{}", trainer.train()?["episode_reward_mean"]);
//!     Ok(())
//! }
//! ```
//!
//! # Where to look
//!
//! | module | content |
//! |---|---|
//! | [`algorithms`] | PPO, DQN, SAC, DDPG, TD3, IMPALA and QMIX |
//! | [`trainer`] | interfaces for your own algorithm, policy or callbacks |
//! | [`envs`] | interfaces for your own environment, one copy or many at once |
//! | [`tune`] | lifecycle, checkpoints, loggers, layers of settings, sweeps; independent of reinforcement learning |
//! | [`data`], [`train`] | datasets in batches; training loops over them, alone or on several workers |
//! | [`registry`], [`presets`] | algorithms by name, tuned settings by name |
//! | [`torch`] | tch, libtorch's Rust interface, in the version that pavlov uses |
//!
//! The command `pavlov` does all this without a program: `pavlov train PPO --env CartPole-v1`. With `cli::main` your
//! own program becomes that command, with your algorithms and environments in it.

pub use pavlov_algorithms as algorithms;
pub use pavlov_data as data;
pub use pavlov_envs as envs;
pub use pavlov_processes as processes;
pub use pavlov_report::doctor;
pub use pavlov_train as train;
pub use pavlov_trainer as trainer;
pub use pavlov_tune as tune;

/// tch, libtorch's Rust interface.
///
/// Public items of pavlov have tch's types in their signatures, so this re-export follows tch's major version, and
/// tch's version follows PyTorch's: `cargo update -p tch --precise` selects the version that fits your libtorch.
#[cfg(feature = "torch")]
pub use tch as torch;

#[cfg(feature = "cli")]
pub mod cli;
#[cfg(feature = "serve")]
pub mod external;
pub mod presets;
pub mod registry;
pub mod sb3;
#[cfg(feature = "serve")]
pub mod serve;

mod any_algorithm;
mod league;
mod load;
#[cfg(feature = "torch")]
mod torch_train;

pub use league::{League, LeagueConfig};
pub use load::{Load, algorithm_of, load, load_policy, load_shared};
pub use pavlov_trainer::{Error, Result};
#[cfg(feature = "torch")]
pub use torch_train::{DatasetExt, Dtypes, TorchBatch, TorchBatches, TorchTrainer, TorchWorker};

/// The names that most programs need: `use pavlov::prelude::*`.
pub mod prelude {
    pub use crate::algorithms::{Ddpg, Dqn, Impala, Ppo, Qmix, Sac, Td3};
    pub use crate::data::{Dataset, IterBatches, Shuffle};
    pub use crate::envs::{Env, EnvCreator, Space, Step, VectorEnv};
    pub use crate::train::{TrainLoop, WorkerContext};
    pub use crate::trainer::{
        Action, Algorithm, Callbacks, Common, Error, Evaluation, Result, RunHandle, Trainer, TrainerExt,
    };
    pub use crate::tune::{
        Config, Driver, ExportFormat, LoggerChoice, Metrics, Resume, RunOptions, Trainable,
    };
    #[cfg(feature = "torch")]
    pub use crate::{DatasetExt, TorchTrainer, TorchWorker};
}

/// The Rust blocks of the README, compiled by `cargo test --doc`.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

/// The Rust blocks of the first page, compiled by `cargo test --doc`.
#[cfg(doctest)]
#[doc = include_str!("../docs/start.md")]
struct Start;

/// The Rust blocks of the page about sweeps, compiled by `cargo test --doc`.
#[cfg(doctest)]
#[doc = include_str!("../docs/sweeps.md")]
struct Sweeps;

/// The Rust blocks of the page about installing, compiled by `cargo test --doc`.
#[cfg(doctest)]
#[doc = include_str!("../docs/install.md")]
struct Install;

/// The Rust blocks of the page about callbacks, compiled by `cargo test --doc`.
#[cfg(doctest)]
#[doc = include_str!("../docs/callbacks.md")]
struct CallbacksPage;

/// The Rust blocks of the page about exports, compiled by `cargo test --doc`.
#[cfg(doctest)]
#[doc = include_str!("../docs/export.md")]
struct Export;

/// The Rust blocks of the page about packed models, compiled by `cargo test --doc`.
#[cfg(doctest)]
#[doc = include_str!("../docs/share.md")]
struct Share;
