//! The agents of one policy in all copies of an environment: which of them act next, their finished rows, and the
//! unfinished row of each.
//!
//! A slot stands for one agent of one copy. It opens a row when its agent acts. It closes the row when the agent is to
//! act again or its episode ends: only then the reward and the next observation of the row are known. Agents that wait
//! for each other have different numbers of rows, so every slot counts its own rows.

use crate::base::{AgentReward, Episode, PolicyId};
use crate::policy::Policy;
use crate::sample::acting_rows::ActingRows;
use crate::sample::agents::{AgentStep, Agents};
use crate::sample::connector::Connector;
use crate::sample::filter::{MeanStdFilter, RunningStat};
use crate::sample::rollout_buffer::RolloutBuffer;
use crate::sample::running_episodes::not_finite_at;
use crate::settings::{ClipRewards, Common};
use pavlov_learn::base::{Error, Kind, Result, Spaces, State, Stream};
use pavlov_learn::experience::Fragment;
use std::ops::Range;

/// State of all slots of one policy. A slot stands for one agent of one copy; slots are ordered by copy and then by
/// agent.
#[derive(Debug)]
pub(crate) struct Seats {
    /// Id of the policy.
    id: PolicyId,
    /// For each slot (agent of a copy), the index of its copy, and the index of its agent among all agents of the copy.
    places: Vec<(usize, usize)>,
    /// Number of slots per copy: one for each agent that acts by this policy in some episode.
    agents: usize,
    /// Connection between environment and policy; each slot is one of its copies.
    pub(crate) connector: Connector,
    /// The rows of all slots.
    pub(crate) storage: RolloutBuffer,
    /// Buffers for the slots that act in a step, if others wait.
    pub(crate) gathered: ActingRows,
    /// Whether the observation filter counts new observations.
    learning: bool,
    /// Components of an observation that the filter does not count, because they belong to agents that are not there.
    absent: Vec<Range<usize>>,

    /// For each slot (agent of a copy), whether its agent acts by this policy in the running episode of its copy.
    pub(crate) plays: Vec<bool>,
    /// For each slot (agent of a copy), the number of its finished rows. This is also the index of its unfinished row
    /// and current observation.
    pub(crate) closed: Vec<usize>,
    /// For each slot (agent of a copy), whether its agent acts in the next step.
    pub(crate) due: Vec<bool>,
    /// For each slot (agent of a copy), whether its agent has acted and the row is not finished.
    pub(crate) open: Vec<bool>,
    /// For each slot (agent of a copy), the sum of its rewards since its agent acted last.
    pub(crate) earned: Vec<f64>,
    /// For each slot (agent of a copy), the recurrent state before the action of its unfinished row, `[slots, width]`;
    /// empty for policies that are not recurrent.
    pub(crate) before: Vec<f32>,
    /// For each slot (agent of a copy), whether its unfinished row is the first of an episode.
    pub(crate) began: Vec<bool>,
    /// The slots whose episode was cut before it had a finished row in this fragment.
    pub(crate) abandoned: Vec<usize>,
}

impl Seats {
    /// Makes a slot in every copy for each agent in `agents`, with room for `steps` rows; `rngs` has a random stream
    /// per slot.
    pub(crate) fn new(
        (id, policy): (PolicyId, &dyn Policy),
        (agents, spaces): (Vec<usize>, &Spaces),
        copies: &impl Agents,
        (common, worker): (&Common, usize),
        rngs: Vec<Stream>,
        steps: usize,
    ) -> Result<Self> {
        let slots = rngs.len();
        let connector = Connector::new(spaces, copies.act_dtype(), common, policy, worker, rngs)?;
        Ok(Self {
            id,
            places: (0..copies.len())
                .flat_map(|copy| agents.iter().map(move |&agent| (copy, agent)))
                .collect(),
            agents: agents.len(),
            storage: connector.steps(steps)?,
            gathered: connector.gathered()?,
            learning: true,
            absent: Vec::new(),
            plays: vec![true; slots],
            closed: vec![0; slots],
            due: vec![false; slots],
            open: vec![false; slots],
            earned: vec![0.0; slots],
            before: vec![0.0; connector.memories().len()],
            began: vec![false; slots],
            abandoned: Vec::new(),
            connector,
        })
    }

    /// Replaces the observation filter by one with the statistics `running`, which no longer change; with `None`
    /// observations are not filtered.
    pub(crate) fn filtered_by(mut self, running: Option<&RunningStat>) -> Result<Self> {
        self.connector = self.connector.filtered_by(running)?;
        self.learning = false;
        Ok(self)
    }

    /// Id of the policy.
    pub(crate) fn id(&self) -> &str {
        &self.id
    }

    /// The policy's id and its observation filter; `None` without a filter.
    pub(crate) fn filter_mut(&mut self) -> Option<(&str, &mut MeanStdFilter)> {
        self.connector.filter.as_mut().map(|filter| (self.id.as_str(), filter))
    }

    /// Restores the observation filter, if there is one, from `state`; without a state it starts empty.
    pub(crate) fn set_filter(&mut self, state: Option<&State>) -> Result<()> {
        if self.connector.filter.is_some() {
            self.connector.filter = Some(match state {
                Some(state) => state.get("filter")?,
                None => self.connector.new_filter(),
            });
        }
        Ok(())
    }

    /// Starts a fragment: state-dependent noise is drawn anew.
    pub(crate) fn begin_fragment(&mut self) {
        self.connector.begin_fragment();
    }

    /// Number of slots, one for each agent of each copy.
    pub(crate) fn slots(&self) -> usize {
        self.closed.len()
    }

    /// Indices of the slots of one copy, one for each agent.
    fn slots_of(&self, copy: usize) -> std::ops::Range<usize> {
        copy * self.agents..(copy + 1) * self.agents
    }

    /// Starts an episode of one copy, in which each agent acts by its policy in `seated`. Agents that do not act in the
    /// first step get no row yet. `stream` may give an agent a new random stream. Returns the number of the copy's
    /// agents that act by this policy.
    pub(crate) fn begin(
        &mut self,
        copies: &impl Agents,
        (copy, seated): (usize, &[AgentReward]),
        stream: &dyn Fn(usize) -> Option<Stream>,
    ) -> Result<usize> {
        let mut playing = 0;
        for slot in self.slots_of(copy) {
            let (_, agent) = self.places[slot];
            self.connector.begin(slot, stream(agent));
            self.plays[slot] = seated[agent].policy == self.id;
            self.open[slot] = false;
            self.due[slot] = false;
            if self.plays[slot] {
                playing += 1;
                if copies.agent(copy, agent).acting {
                    self.see(copies, slot)?;
                    self.check_seen(copies, slot)?;
                }
            }
        }
        Ok(playing)
    }

    /// Stores the current observation of an agent that acts next, given by its `slot`, in the row after its finished
    /// rows.
    fn see(&mut self, copies: &impl Agents, slot: usize) -> Result<()> {
        let (copy, agent) = self.places[slot];
        let t = self.closed[slot];
        self.due[slot] = true;
        if let Some(masks) = &mut self.storage.masks {
            masks.read_agent(|mask| copies.read_mask(copy, agent, mask), agent, t, slot)?;
        }
        let raw = copies.obs(copy, agent);
        self.absent.clear();
        if self.connector.filter.is_some() {
            copies.absent_parts(copy, agent, &mut self.absent);
        }
        self.connector.observe_one(&mut self.storage, (t, slot), (raw, &self.absent), self.learning)
    }

    /// Number of finished rows of every agent, if it is the same for all agents of all copies; otherwise `None`.
    fn common_row(&self) -> Option<usize> {
        let t = *self.closed.first()?;
        self.closed.iter().all(|&rows| rows == t).then_some(t)
    }

    /// Returns an error if the current observation of one agent of a copy, given by its `slot`, is not finite.
    fn check_seen(&mut self, copies: &impl Agents, slot: usize) -> Result<()> {
        let slots = self.slots();
        let agent = self.places[slot].1;
        let obs = self.storage.obs.part_mut(self.closed[slot], slot, slots);
        check_finite(obs, self.connector.encoding().kind(), &copies.names()[agent])
    }

    /// Returns an error if the current observation of an agent that acts next is not finite.
    fn check_all_seen(&mut self, copies: &impl Agents) -> Result<()> {
        if self.connector.encoding().kind() != Kind::F32 {
            return Ok(());
        }
        // A check of one row that all slots share is faster than a check of every slot.
        if let Some(t) = self.common_row()
            && not_finite_at(self.storage.obs.slice_mut(t)).is_none()
        {
            return Ok(());
        }
        for slot in 0..self.slots() {
            if self.due[slot] {
                self.check_seen(copies, slot)?;
            }
        }
        Ok(())
    }

    /// Chooses the actions of all agents that act next.
    pub(crate) fn act(
        &mut self,
        policy: &mut dyn Policy,
        copies: &mut impl Agents,
        explore: bool,
        timestep: u64,
    ) -> Result<()> {
        let slots = self.slots();
        self.gathered.slots.clear();
        self.gathered.slots.extend(
            (0..slots).filter(|&slot| self.due[slot] && self.closed[slot] + 1 < self.storage.obs.len()),
        );
        let acting = self.gathered.slots.len();
        if acting == 0 {
            return Ok(());
        }
        let common_row = self.common_row();
        let Self { connector, storage, gathered, closed, before, began, .. } = self;
        if storage.memories.is_some() {
            for &slot in &gathered.slots {
                let memory = connector.memory(slot);
                before[slot * memory.len()..][..memory.len()].copy_from_slice(memory);
                began[slot] = connector.resets()[slot];
            }
        }
        // If all agents act in the same row, their observations are adjacent already.
        let actions = if let Some(t) = common_row.filter(|_| acting == slots) {
            connector.act(policy, storage, t, explore, timestep)?;
            connector.taken(storage, t)
        } else {
            connector.act_some(policy, storage, gathered, closed, explore, timestep)?;
            connector.taken(&mut gathered.rows, 0)
        };
        let width = actions.len() / slots;
        for (i, &slot) in gathered.slots.iter().enumerate() {
            let (copy, agent) = self.places[slot];
            copies.action_mut(copy, agent).copy_from_slice(&actions[i * width..][..width]);
            self.due[slot] = false;
            self.open[slot] = true;
            self.earned[slot] = 0.0;
        }
        Ok(())
    }

    /// Adds each agent's result of the step: its reward, the end of its episode, and its next observation if it acts
    /// next.
    pub(crate) fn settle(&mut self, copies: &impl Agents) -> Result<()> {
        for slot in 0..self.slots() {
            if self.plays[slot] {
                self.settle_slot(copies, slot)?;
            }
        }
        self.check_all_seen(copies)
    }

    /// Adds the result of the step of one agent, given by its `slot`.
    pub(crate) fn settle_slot(&mut self, copies: &impl Agents, slot: usize) -> Result<()> {
        let (copy, agent) = self.places[slot];
        let step = copies.agent(copy, agent);
        if !step.reward.is_finite() {
            return Err(not_finite(format!("the reward of agent `{}`", copies.names()[agent]), step.reward));
        }
        self.earned[slot] += step.reward;
        if step.terminated || step.truncated {
            if self.open[slot] {
                self.end(copies, slot, step)?;
            }
        } else if step.acting {
            if self.open[slot] {
                self.close(slot, step);
            }
            self.see(copies, slot)?;
        }
        Ok(())
    }

    /// Finishes an agent's unfinished row with its reward and the flags of the step.
    fn close(&mut self, slot: usize, step: AgentStep) {
        let row = self.closed[slot] * self.slots() + slot;
        self.storage.rewards[row] = self.earned[slot] as f32;
        self.storage.terminated[row] = step.terminated;
        self.storage.truncated[row] = step.truncated;
        self.closed[slot] += 1;
        self.open[slot] = false;
    }

    /// Finishes an agent's unfinished row at the end of its episode, and stores the last observation.
    fn end(&mut self, copies: &impl Agents, slot: usize, step: AgentStep) -> Result<()> {
        let (copy, agent) = self.places[slot];
        let row = self.closed[slot] * self.slots() + slot;
        let kind = self.connector.encoding().kind();
        let (obs, memory) = self.connector.last_seen(slot, Some(copies.obs(copy, agent)))?;
        check_finite(obs, kind, &copies.names()[agent])?;
        let mask: &[bool] = match &mut self.storage.masks {
            Some(masks) => {
                masks.read_end(|mask| copies.read_mask(copy, agent, mask), slot);
                masks.ended(slot, step.truncated)
            }
            None => &[],
        };
        self.storage.endings.push(row, obs, mask.iter().copied(), memory);
        self.close(slot, step);
        Ok(())
    }

    /// Passes the finished rows to `f` as a fragment, if there are any.
    pub(crate) fn lend(
        &mut self,
        clip: Option<ClipRewards>,
        f: &mut dyn FnMut(&str, Fragment<'_>) -> Result<()>,
    ) -> Result<()> {
        let slots = self.slots();
        let steps = self.closed.iter().copied().max().unwrap_or(0);
        if steps == 0 {
            return Ok(());
        }
        if let Some(clip) = clip {
            clip.apply(&mut self.storage.rewards[..steps * slots]);
        }
        self.storage.endings.sort();
        if let Some(memories) = &mut self.storage.memories {
            let width = memories.next.len() / slots;
            for slot in 0..slots {
                // The next value of a slot belongs to its current observation, so the recurrent state is that before
                // the action on it.
                let memory = if self.open[slot] {
                    &self.before[slot * width..][..width]
                } else {
                    self.connector.memory(slot)
                };
                memories.next[slot * width..][..width].copy_from_slice(memory);
            }
        }
        let equal = self.closed.iter().all(|&rows| rows == steps);
        let lengths = (!equal).then_some(&self.closed[..]);
        f(
            &self.id,
            Fragment { abandoned: &self.abandoned, ..self.connector.lend(&self.storage, steps, lengths) },
        )?;
        self.abandoned.clear();
        Ok(())
    }
}

/// Starts an episode of one copy for all policies, as [`Seats::begin`] does for one; returns an error if an agent has
/// none of these policies.
pub(crate) fn begin<T>(
    all: &mut [T],
    seats_of: impl Fn(&mut T) -> &mut Seats,
    copies: &impl Agents,
    (copy, episode): (usize, &Episode),
    stream: &dyn Fn(usize) -> Option<Stream>,
) -> Result<()> {
    let seated = &episode.agent_rewards;
    let mut playing = 0;
    for one in all.iter_mut() {
        playing += seats_of(one).begin(copies, (copy, seated), stream)?;
    }
    if playing == seated.len() {
        return Ok(());
    }
    let plays = |agent: usize, seats: &Seats| {
        let slots = seats.slots_of(copy);
        slots.into_iter().any(|slot| seats.plays[slot] && seats.places[slot].1 == agent)
    };
    let all: Vec<&Seats> = all.iter_mut().map(|one| &*seats_of(one)).collect();
    let unseated = (0..seated.len()).find(|&agent| !all.iter().any(|seats| plays(agent, seats)));
    let AgentReward { agent, policy, .. } = &seated[unseated.unwrap_or_default()];
    let ids = all.iter().map(|seats| seats.id()).collect::<Vec<_>>().join(", ");
    let rule = format!(
        "in episode {} of environment copy {} it says so of the agent `{agent}`, and there is {ids}, some of them perhaps \
         for agents with other spaces. Answer with one of these in every episode, or add the policy to \
         `multiagent.policies`",
        episode.number, episode.env_index
    );
    Err(Error::config("multiagent.policy_mapping_fn", format_args!("{policy:?}"), rule))
}

/// Returns an error if an observation of the agent named `agent` is not finite; integers always are.
fn check_finite(obs: &[u8], kind: Kind, agent: &str) -> Result<()> {
    if kind != Kind::F32 {
        return Ok(());
    }
    let obs: &[f32] = bytemuck::cast_slice(obs);
    match not_finite_at(obs) {
        None => Ok(()),
        Some(i) => {
            Err(not_finite(format!("component {i} of an observation of agent `{agent}`"), f64::from(obs[i])))
        }
    }
}

/// Makes the error for a number that is not finite; the caller fills in `step`.
fn not_finite(what: String, value: f64) -> Error {
    let hint = "look at what the environment computes, or normalise its observations and rewards".into();
    Error::NotFinite { what, value, step: 0, hint }
}
