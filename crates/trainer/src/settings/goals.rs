//! Where the goals of an environment are in its observations.

use crate::settings::Common;
use pavlov_envs::{Layout, Leaf, Space};
use pavlov_learn::base::{Error, Result, Spaces};
use std::ops::Range;

/// The setting that asks for goals, in errors.
const SETTING: &str = "replay_buffer_config.type";

/// Where the goals are in a stored observation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GoalColumns {
    /// Scalars of the goal that the observation achieves.
    pub achieved: Range<usize>,
    /// Scalars of the goal that the policy is to achieve.
    pub desired: Range<usize>,
}

impl GoalColumns {
    /// Finds the goals in the observations that a run with these settings stores.
    ///
    /// # Errors
    /// Returns [`Error::Config`] if the observations are not a Dict with goals, or are not stored as such.
    pub fn of(common: &Common, spaces: &Spaces) -> Result<Self> {
        let space = &spaces.observation_space;
        let refuse = |why: String| Err(Error::config(SETTING, "\"HerReplayBuffer\"", why));
        let Space::Dict(_) = space else {
            return refuse(format!(
                "the observations of this environment are {space}, without goals: it needs a Dict with the parts \
                 `observation`, `achieved_goal` and `desired_goal`; use \"ReplayBuffer\""
            ));
        };
        let layout = Layout::new(space);
        let parts = [layout.leaf("achieved_goal"), layout.leaf("desired_goal")];
        let [Some(achieved), Some(desired)] = parts else {
            return refuse(format!(
                "the observations of this environment are {space}, in which `achieved_goal` or `desired_goal` is missing \
                 or composite; use \"ReplayBuffer\""
            ));
        };
        if achieved.space.shape() != desired.space.shape() || achieved.space.dtype() != desired.space.dtype()
        {
            let (one, other) = (&achieved.space, &desired.space);
            return refuse(format!(
                "`achieved_goal` is {one}, but `desired_goal` is {other}: they must be alike"
            ));
        }
        let is_flat = !matches!(common.policy_spaces(spaces).observation_space, Space::Dict(_));
        let is_number = |leaf: &Leaf| matches!(leaf.space, Space::Box { .. } | Space::MultiBinary { .. });
        if is_flat && !is_number(achieved) {
            let kind = &achieved.space;
            return refuse(format!(
                "goals of {kind} beside numbers of 64 bits are not supported; make them a Box in a wrapper"
            ));
        }
        let columns = |leaf: &Leaf| if is_flat { leaf.flat.clone() } else { leaf.row.clone() };
        Ok(Self { achieved: columns(achieved), desired: columns(desired) })
    }
}
