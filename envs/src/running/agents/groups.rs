//! A wrapper that makes teams of agents: one policy observes and moves a team, for one reward.

use crate::{
    AnyMultiAgentEnv, DType, Error, MultiAgentOut, Result, Space,
    contract::forward::{agent_methods, forward_to},
    contract::multi_agent::{AgentRows, check_bytes},
};
use std::ops::Range;

/// A multi-agent environment in which each group of agents is one agent.
///
/// A group observes the `Tuple` of its members' observations, chooses an action for every member (`MultiDiscrete`), and
/// gets the sum of their rewards. It acts while any member acts, and ends with its last member. Agents without a group
/// are unchanged.
pub(crate) struct Grouped {
    env: Box<dyn AnyMultiAgentEnv>,
    groups: Vec<Group>,
    /// Number and first value of each member's discrete actions; unused for agents without a group.
    choices: Vec<(usize, i64)>,
    /// Rows of all agents.
    rows: AgentRows,
}

#[derive(Debug)]
struct Group {
    name: String,
    /// Indices of the members among the agents.
    members: Vec<usize>,
    /// True for a group; false for a single agent without one.
    is_team: bool,
}

impl Grouped {
    /// Groups the agents of `env`; `group_of` returns the group of an agent, if it has one.
    pub(crate) fn new(
        name: &str,
        env: Box<dyn AnyMultiAgentEnv>,
        group_of: &dyn Fn(&str) -> Option<String>,
    ) -> Result<Self> {
        let agents = env.agents();
        let mut groups: Vec<Group> = Vec::new();
        for (agent, own) in agents.iter().enumerate() {
            let team = group_of(own);
            let is_team = team.is_some();
            let name = team.unwrap_or_else(|| own.clone());
            match groups.iter_mut().find(|group| is_team && group.is_team && group.name == name) {
                Some(group) => group.members.push(agent),
                None => groups.push(Group { name, members: vec![agent], is_team }),
            }
        }
        let mut choices = vec![(0, 0); agents.len()];
        for &agent in groups.iter().filter(|group| group.is_team).flat_map(|group| &group.members) {
            match env.action_space(agent) {
                Space::Discrete { n, start } => choices[agent] = (n as usize, start),
                _ => {
                    let way_out = "members of a group need Discrete actions; leave its agents ungrouped";
                    return Err(Error::unsupported(name, "group of agents with such actions", way_out));
                }
            }
        }
        Ok(Self { rows: AgentRows::new(env.as_ref()), env, groups, choices })
    }

    fn call(
        &mut self,
        out: MultiAgentOut<'_, u8>,
        f: impl FnOnce(&mut dyn AnyMultiAgentEnv, &[u8], MultiAgentOut<'_, u8>) -> Result<()>,
    ) -> Result<()> {
        check_bytes("`obs`", out.obs.len(), self.rows.all_obs().len())?;
        let (actions, own) = self.rows.split();
        f(self.env.as_mut(), actions, own)?;
        let AgentRows { rewards, terminated, truncated, alive, acting, .. } = &self.rows;
        let mut rest = out.obs;
        for (i, Group { members, .. }) in self.groups.iter().enumerate() {
            for &agent in members {
                let own = self.rows.obs(agent);
                let (row, behind) = rest.split_at_mut(own.len());
                row.copy_from_slice(own);
                rest = behind;
            }
            let any = |flags: &[bool]| members.iter().any(|&agent| flags[agent]);
            out.rewards[i] = members.iter().map(|&agent| rewards[agent]).sum();
            out.alive[i] = any(alive);
            out.acting[i] = any(acting);
            let cut = members.iter().any(|&agent| truncated[agent] && !terminated[agent]);
            out.truncated[i] = !out.alive[i] && cut;
            out.terminated[i] = !out.alive[i] && any(terminated) && !out.truncated[i];
        }
        Ok(())
    }
}

impl AnyMultiAgentEnv for Grouped {
    fn agents(&self) -> Vec<String> {
        self.groups.iter().map(|group| group.name.clone()).collect()
    }

    fn observation_space(&self, agent: usize) -> Space {
        let group = &self.groups[agent];
        let of = |&agent: &usize| self.env.observation_space(agent);
        if group.is_team {
            Space::Tuple(group.members.iter().map(of).collect())
        } else {
            of(&group.members[0])
        }
    }

    fn action_space(&self, agent: usize) -> Space {
        let group = &self.groups[agent];
        if group.is_team {
            let nvec: Vec<i64> = group.members.iter().map(|&agent| self.choices[agent].0 as i64).collect();
            Space::multi_discrete(&nvec)
        } else {
            self.env.action_space(group.members[0])
        }
    }

    agent_methods! {
        forward_to env:
        fn obs_dtype(&self) -> DType;
        fn act_dtype(&self) -> DType;
    }

    fn reset(&mut self, seed: Option<u64>, out: MultiAgentOut<'_, u8>) -> Result<()> {
        self.call(out, |env, _, out| env.reset(seed, out))
    }

    fn step(&mut self, actions: &[u8], out: MultiAgentOut<'_, u8>) -> Result<()> {
        self.rows.check_actions(actions)?;
        let mut rest = actions;
        for Group { members, is_team, .. } in &self.groups {
            for &agent in members {
                let to = self.rows.action_mut(agent);
                let (from, behind) = rest.split_at(to.len());
                to.copy_from_slice(from);
                if *is_team {
                    let action: &mut [i64] = bytemuck::cast_slice_mut(to);
                    // The actions of a group's `MultiDiscrete` space start at 0.
                    action[0] = action[0].wrapping_add(self.choices[agent].1);
                }
                rest = behind;
            }
        }
        self.call(out, |env, actions, out| env.step(actions, out))
    }

    fn action_mask(&self, agent: usize, mask: &mut [bool]) -> bool {
        let Group { members, is_team, .. } = &self.groups[agent];
        if !is_team {
            return self.env.action_mask(members[0], mask);
        }
        if mask.len() != members.iter().map(|&agent| self.choices[agent].0).sum::<usize>() {
            return false;
        }
        let mut rest = &mut *mask;
        for &agent in members {
            let (own, behind) = rest.split_at_mut(self.choices[agent].0);
            if !self.env.action_mask(agent, own) {
                return false;
            }
            rest = behind;
        }
        if !mask.contains(&true) {
            return true;
        }
        // Actions of members that are not acting are ignored, so all are legal.
        let mut rest = mask;
        for &agent in members {
            let (own, behind) = rest.split_at_mut(self.choices[agent].0);
            if !own.contains(&true) {
                own.fill(true);
            }
            rest = behind;
        }
        true
    }

    fn absent_parts(&self, agent: usize, parts: &mut Vec<Range<usize>>) {
        let Group { members, is_team, .. } = &self.groups[agent];
        let AgentRows { terminated, truncated, alive, .. } = &self.rows;
        let mut start = 0;
        for &member in members.iter().filter(|_| *is_team) {
            let width = self.env.observation_space(member).flat_width();
            if !alive[member] && !terminated[member] && !truncated[member] {
                parts.push(start..start + width);
            }
            start += width;
        }
    }

    fn info(&self, agent: usize, key: &str) -> Option<f64> {
        let group = &self.groups[agent];
        (!group.is_team).then(|| self.env.info(group.members[0], key)).flatten()
    }

    fn info_value(&mut self, agent: usize, key: &str) -> Result<Option<serde_json::Value>> {
        let group = &self.groups[agent];
        if group.is_team { Ok(None) } else { self.env.info_value(group.members[0], key) }
    }
}
