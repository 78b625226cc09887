//! The [`Scenario`] trait of particle environments, and their common settings.

use std::fmt;

use serde::{Serialize, de::DeserializeOwned};

use super::{observation::Observation, world::World};
use crate::NpRandom;

/// A scenario, implemented by its settings: the bodies of the world, the start of an episode, observations and rewards.
pub trait Scenario:
    Clone + fmt::Debug + Default + Serialize + DeserializeOwned + Send + Sync + 'static
{
    /// Registry id of the environment.
    const ID: &'static str;
    /// Last stage of the curriculum; 0 if there is none.
    const LAST_STAGE: usize = 0;

    fn common(&self) -> Common;

    /// Returns an error message if a setting is invalid; `max_cycles` is checked by the environment.
    fn problem(&self) -> Option<String> {
        None
    }

    /// Creates the world with its bodies, not yet placed.
    fn world(&self) -> World;

    /// Places all bodies and draws the goals at random.
    fn reset(&self, world: &mut World, random: &mut NpRandom) {
        world.place_agents(random);
        world.place_landmarks(1.0, random);
    }

    /// Sets the colors of bodies that depend on the goals.
    fn paint(&self, world: &mut World) {
        let _ = world;
    }

    fn observe(&self, world: &World, agent: usize, obs: &mut Observation);

    /// Reward of one agent; with a [`local_ratio`](Self::local_ratio), only its local part.
    fn reward(&self, world: &World, agent: usize) -> f64;

    /// Global part of the reward, common to all agents; used with a [`local_ratio`](Self::local_ratio).
    fn global_reward(&self, world: &World) -> f64 {
        let _ = world;
        0.0
    }

    /// Weight of the local part of rewards, the rest being the global part; `None` if all of the reward is local.
    fn local_ratio(&self) -> Option<f64> {
        None
    }

    /// Whether the task is done, which terminates the episode before `max_cycles`.
    fn is_success(&self, world: &World) -> bool {
        let _ = world;
        false
    }
}

/// Settings that all scenarios have.
#[derive(Clone, Copy, Debug)]
pub struct Common {
    pub(super) max_cycles: usize,
    pub(super) dynamic_rescaling: bool,
}

/// Returns an error message if a number of observed neighbors is 0.
pub(super) fn no_neighbors(
    num_agent_neighbors: Option<usize>,
    num_landmark_neighbors: Option<usize>,
) -> Option<String> {
    let numbers =
        [("num_agent_neighbors", num_agent_neighbors), ("num_landmark_neighbors", num_landmark_neighbors)];
    let (name, _) = numbers.into_iter().find(|(_, number)| *number == Some(0))?;
    Some(at_least_1(name))
}

pub(super) fn at_least_1(name: &str) -> String {
    format!("`{name}` is 0, but it must be at least 1")
}

/// Returns an error message if a value is outside 0..=1.
pub(super) fn no_share(name: &str, value: f64) -> Option<String> {
    (!(0.0..=1.0).contains(&value)).then(|| format!("`{name}` is {value}, but it must be in 0..=1"))
}

/// Implements [`Scenario::common`] from the fields of the settings.
macro_rules! common {
    () => {
        fn common(&self) -> $crate::native::mpe::scenario::Common {
            $crate::native::mpe::scenario::Common {
                max_cycles: self.max_cycles,
                dynamic_rescaling: self.dynamic_rescaling,
            }
        }
    };
}

/// Defines a settings type with only the common settings.
macro_rules! common_settings {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
        #[serde(default)]
        pub struct $name {
            /// Maximum number of steps, after which all agents are truncated.
            pub max_cycles: usize,
            /// Whether pictures show larger bodies when all are near the middle.
            pub dynamic_rescaling: bool,
        }

        impl Default for $name {
            fn default() -> Self {
                Self { max_cycles: 25, dynamic_rescaling: true }
            }
        }
    };
}

pub(super) use {common, common_settings};
