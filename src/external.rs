//! Environments that other programs play: a simulator, a game, a robot or a web site asks the trainer for its actions, over
//! HTTP, and the trainer learns from what it reports. `docs/external.md` describes the messages. The code is the crate
//! `pavlov-serve`.
//!
//! ```no_run
//! use pavlov::envs::Space;
//! use pavlov::external::PolicyServerInput;
//! use pavlov::prelude::*;
//!
//! # fn main() -> pavlov::Result<()> {
//! let input = PolicyServerInput::new("127.0.0.1:9900", Space::real(&[4]), Space::discrete(2));
//! let mut run = Ppo::get_default_config().build(input)?;
//! run.train()?;
//! # Ok(())
//! # }
//! ```

pub use pavlov_serve::external::{ClientError, Ended, ID, PolicyClient, PolicyServerInput, register};
