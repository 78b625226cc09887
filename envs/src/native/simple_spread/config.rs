//! Settings of simple spread.

use serde::{Deserialize, Serialize};

/// Settings of simple spread, by mpe2's names.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct SimpleSpreadConfig {
    /// Number of agents, and of landmarks.
    #[serde(rename = "N")]
    pub n: usize,
    /// Share of an agent's own collisions in its reward, in 0..=1; the rest is the distance all have in common.
    pub local_ratio: f64,
    /// Steps after which all agents are truncated.
    pub max_cycles: usize,
    /// Whether an action is five pushes in 0..=1 instead of one of five directions.
    pub continuous_actions: bool,
    /// Whether bodies in pictures are larger when all are near the middle.
    pub dynamic_rescaling: bool,
    /// Whether collisions cost nothing until
    /// [`set_curriculum_stage`](super::SimpleSpread::set_curriculum_stage) says so.
    pub curriculum: bool,
    /// Whether all agents terminate when every landmark has an agent nearer than 0.1.
    pub terminate_on_success: bool,
    /// Other agents that an agent observes, the nearest ones first, then zeros; `None`: all in their order.
    pub num_agent_neighbors: Option<usize>,
    /// Landmarks that an agent observes, the nearest ones first, then zeros; `None`: all in their order.
    pub num_landmark_neighbors: Option<usize>,
}

impl Default for SimpleSpreadConfig {
    fn default() -> Self {
        Self {
            n: 3,
            local_ratio: 0.5,
            max_cycles: 25,
            continuous_actions: false,
            dynamic_rescaling: true,
            curriculum: false,
            terminate_on_success: false,
            num_agent_neighbors: None,
            num_landmark_neighbors: None,
        }
    }
}

impl SimpleSpreadConfig {
    /// What is wrong with it, if anything is.
    pub(super) fn problem(&self) -> Option<String> {
        let positive = [
            ("N", Some(self.n)),
            ("max_cycles", Some(self.max_cycles)),
            ("num_agent_neighbors", self.num_agent_neighbors),
            ("num_landmark_neighbors", self.num_landmark_neighbors),
        ];
        if let Some((name, _)) = positive.iter().find(|(_, value)| *value == Some(0)) {
            return Some(format!("`{name}` is 0, but it must be at least 1"));
        }
        let local_ratio = self.local_ratio;
        (!(0.0..=1.0).contains(&local_ratio))
            .then(|| format!("`local_ratio` is {local_ratio}, but it must be in 0..=1"))
    }

    /// Landmarks that an agent observes.
    pub(super) fn seen_landmarks(&self) -> usize {
        self.num_landmark_neighbors.unwrap_or(self.n)
    }

    /// Other agents that an agent observes.
    pub(super) fn seen_agents(&self) -> usize {
        self.num_agent_neighbors.unwrap_or(self.n - 1)
    }
}
