//! What tells one particle environment from another.

use std::fmt;

use serde::{Serialize, de::DeserializeOwned};

use super::{observation::Observation, world::World};
use crate::NpRandom;

/// A scenario, as its settings: the bodies of its world, how an episode begins, what agents see and what they get.
pub trait Scenario:
    Clone + fmt::Debug + Default + Serialize + DeserializeOwned + Send + Sync + 'static
{
    /// The id in the registry.
    const ID: &'static str;
    /// The type of the environment.
    const NAME: &'static str;
    /// The last stage of the curriculum.
    const LAST_STAGE: usize = 0;

    fn common(&self) -> Common;

    /// What is wrong with the settings, if anything is; `max_cycles` is checked elsewhere.
    fn problem(&self) -> Option<String> {
        None
    }

    /// The bodies, before they have a place.
    fn world(&self) -> World;

    /// Puts every body in its place and draws the goals.
    fn reset(&self, world: &mut World, random: &mut NpRandom) {
        world.place_agents(random);
        world.place_landmarks(1.0, random);
    }

    /// Gives bodies the colors that follow from the goals.
    fn paint(&self, world: &mut World) {
        let _ = world;
    }

    fn observe(&self, world: &World, agent: usize, obs: &mut Observation);

    /// The reward of one agent; in a world with a [`local_ratio`](Self::local_ratio), its own part.
    fn reward(&self, world: &World, agent: usize) -> f64;

    /// The part of the reward that all agents have in common.
    fn global_reward(&self, world: &World) -> f64 {
        let _ = world;
        0.0
    }

    /// Share of the agents' own rewards; the rest is the common part.
    fn local_ratio(&self) -> Option<f64> {
        None
    }

    /// Whether the episode terminates before its last step.
    fn is_success(&self, world: &World) -> bool {
        let _ = world;
        false
    }
}

/// The settings that all scenarios have.
#[derive(Clone, Copy, Debug)]
pub struct Common {
    pub(super) max_cycles: usize,
    pub(super) continuous_actions: bool,
    pub(super) dynamic_rescaling: bool,
}

/// What is wrong with a number of neighbors that agents see.
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

/// What is wrong with a share.
pub(super) fn no_share(name: &str, value: f64) -> Option<String> {
    (!(0.0..=1.0).contains(&value)).then(|| format!("`{name}` is {value}, but it must be in 0..=1"))
}

/// The method of [`Scenario`] that hands out the settings that all scenarios have.
macro_rules! common {
    () => {
        fn common(&self) -> $crate::native::mpe::scenario::Common {
            $crate::native::mpe::scenario::Common {
                max_cycles: self.max_cycles,
                continuous_actions: self.continuous_actions,
                dynamic_rescaling: self.dynamic_rescaling,
            }
        }
    };
}

/// Settings of a scenario that has only those that all have.
macro_rules! common_settings {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
        #[serde(default)]
        pub struct $name {
            /// Steps after which all agents are truncated.
            pub max_cycles: usize,
            /// Whether an action is one number in 0..=1 for each push and word instead of one choice.
            pub continuous_actions: bool,
            /// Whether bodies in pictures are larger when all are near the middle.
            pub dynamic_rescaling: bool,
        }

        impl Default for $name {
            fn default() -> Self {
                Self { max_cycles: 25, continuous_actions: false, dynamic_rescaling: true }
            }
        }
    };
}

pub(super) use {common, common_settings};
