//! The algorithms, one file each. A file reads from top to bottom: idea, settings, execution plan, policy.

pub mod ddpg;
pub mod dqn;
pub mod impala;
pub mod ppo;
pub mod qmix;
pub mod sac;
pub mod td3;

pub use ddpg::{Ddpg, DdpgPolicy};
pub use dqn::{Dqn, DqnPolicy};
pub use impala::{Impala, ImpalaPolicy};
pub use ppo::{Ppo, PpoPolicy};
pub use qmix::Qmix;
pub use sac::{Sac, SacPolicy};
pub use td3::Td3;
