//! The assignment of a policy to every agent for an episode.

use crate::agents::agent::Agent;
use crate::agents::policies::Policies;
use crate::base::{AgentReward, Episode};

/// Finds the policy of every agent at the beginning of an episode.
#[derive(Clone, Debug)]
pub(crate) struct PolicyAssignment {
    agents: Vec<Agent>,
    policies: Policies,
}

impl PolicyAssignment {
    pub(crate) fn new(agents: &[Agent], policies: &Policies) -> Self {
        Self { agents: agents.to_vec(), policies: policies.clone() }
    }

    /// Every agent with its policy in this episode and a reward of 0, in the order of the agents.
    pub(crate) fn of(&self, episode: &Episode) -> Vec<AgentReward> {
        let agents = self.agents.len();
        let shift = if self.policies.rotates() {
            (episode.env_index.wrapping_add(episode.number) % agents as u64) as usize
        } else {
            0
        };
        let of = |(place, agent): (usize, &Agent)| AgentReward {
            agent: agent.name.clone(),
            policy: self.policies.in_episode(&self.agents[(place + shift) % agents].name, episode),
            reward: 0.0,
        };
        self.agents.iter().enumerate().map(of).collect()
    }
}
