//! The agents of one policy in all copies of an environment: whose turn it is, the rows they have finished, and the row
//! that each is in the middle of.
//!
//! A slot is a copy times an agent. It opens a row when it acts, and closes it when it is to act again or its episode
//! has ended: only then it has all its reward, and what it led to. Slots that wait for each other have fewer rows than
//! others, so each has a place of its own in the storage.

use crate::base::{AgentReward, Episode, Error, HostTensor, PolicyId, Result, Spaces, State, Stream};
use crate::experience::{Fragment, FragmentMasks, FragmentMemory};
use crate::policy::Policy;
use crate::sample::acting_rows::ActingRows;
use crate::sample::agent_copies::{AgentCopies, AgentStep};
use crate::sample::connector::Connector;
use crate::sample::filter::{MeanStdFilter, RunningStat};
use crate::sample::rollout_buffer::RolloutBuffer;
use crate::sample::running_episodes::not_finite_at;
use crate::settings::{ClipRewards, Common};
use tch::{Kind, Tensor};

/// Slots, ordered by copy and then by agent.
#[derive(Debug)]
pub(crate) struct Seats {
    id: PolicyId,
    /// By slot: its copy, and the place of its agent among all of the copy.
    places: Vec<(usize, usize)>,
    /// Slots of a copy: the agents that act by this policy in some episode.
    agents: usize,
    pub(crate) pilot: Connector,
    pub(crate) storage: RolloutBuffer,
    gathered: ActingRows,
    /// Observations are counted by the filter.
    learning: bool,

    /// By slot: its agent acts by this policy in this episode.
    pub(crate) plays: Vec<bool>,
    /// By slot: rows that are closed. What it sees now, and the row that is open, stand behind them.
    pub(crate) closed: Vec<usize>,
    /// It is to act in the next step.
    pub(crate) due: Vec<bool>,
    /// It has acted, and the row is not closed yet.
    pub(crate) open: Vec<bool>,
    /// Its reward since.
    pub(crate) earned: Vec<f64>,
    /// What it remembered when it acted, and whether its episode began with that; only where the policy remembers.
    pub(crate) before: Vec<f32>,
    pub(crate) began: Vec<bool>,

    /// Time-major `[T * slots]`.
    rewards: Vec<f32>,
    terminated: Vec<bool>,
    truncated: Vec<bool>,
    /// Rows that ended an episode, in whatever order, and what was behind each.
    pub(crate) ended: Vec<usize>,
    pub(crate) ended_obs: Vec<u8>,
}

impl Seats {
    /// For the agents at these places of every copy. There is room for `steps` steps of every copy; `rngs` has a stream
    /// per slot.
    pub(crate) fn new(
        (id, policy): (PolicyId, &dyn Policy),
        (agents, spaces): (Vec<usize>, &Spaces),
        copies: &AgentCopies,
        (common, worker): (&Common, usize),
        rngs: Vec<Stream>,
        steps: usize,
    ) -> Result<Self> {
        let slots = rngs.len();
        let pilot = Connector::new(spaces, copies.act_dtype(), common, policy, worker, rngs)?;
        Ok(Self {
            id,
            places: (0..copies.len())
                .flat_map(|copy| agents.iter().map(move |&agent| (copy, agent)))
                .collect(),
            agents: agents.len(),
            storage: pilot.steps(steps)?,
            gathered: pilot.gathered()?,
            learning: false,
            plays: vec![true; slots],
            closed: vec![0; slots],
            due: vec![false; slots],
            open: vec![false; slots],
            earned: vec![0.0; slots],
            before: vec![0.0; pilot.memories().len()],
            began: vec![false; slots],
            rewards: vec![0.0; steps * slots],
            terminated: vec![false; steps * slots],
            truncated: vec![false; steps * slots],
            ended: Vec::new(),
            ended_obs: Vec::new(),
            pilot,
        })
    }

    /// Observations pass a filter, which learns from them.
    pub(crate) fn with_filter(mut self) -> Self {
        self.pilot.filter = Some(MeanStdFilter::new(self.pilot.encoding().width()));
        self.learning = true;
        self
    }

    /// Observations are normalised by these statistics, if there are any.
    pub(crate) fn filtered_by(mut self, running: Option<&RunningStat>) -> Result<Self> {
        self.pilot = self.pilot.filtered_by(running)?;
        Ok(self)
    }

    /// The id of the policy.
    pub(crate) fn id(&self) -> &str {
        &self.id
    }

    /// The policy's filter and its id.
    pub(crate) fn filter_mut(&mut self) -> Option<(&str, &mut MeanStdFilter)> {
        self.pilot.filter.as_mut().map(|filter| (self.id.as_str(), filter))
    }

    /// The filter goes on from a state that fits in nothing else, or begins anew.
    pub(crate) fn set_filter(&mut self, state: Option<&State>) -> Result<()> {
        if self.pilot.filter.is_some() {
            self.pilot.filter = Some(match state {
                Some(state) => state.get("filter")?,
                None => MeanStdFilter::new(self.pilot.encoding().width()),
            });
        }
        Ok(())
    }

    pub(crate) fn slots(&self) -> usize {
        self.closed.len()
    }

    fn slots_of(&self, copy: usize) -> std::ops::Range<usize> {
        copy * self.agents..(copy + 1) * self.agents
    }

    /// One copy begins an episode, in which agents act by the policies that `seated` names; agents without an action yet have no
    /// row. `stream` gives an agent's place one of its own. Returns how many agents act by this policy.
    fn begin(
        &mut self,
        copies: &AgentCopies,
        (copy, seated): (usize, &[AgentReward]),
        stream: &dyn Fn(usize) -> Option<Stream>,
    ) -> Result<usize> {
        let mut playing = 0;
        for slot in self.slots_of(copy) {
            let (_, agent) = self.places[slot];
            self.pilot.begin(slot, stream(agent));
            self.plays[slot] = seated[agent].policy == self.id;
            (self.open[slot], self.due[slot]) = (false, false);
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

    /// It is this slot's turn: what it sees now stands behind its closed rows.
    fn see(&mut self, copies: &AgentCopies, slot: usize) -> Result<()> {
        let ((copy, agent), t) = (self.places[slot], self.closed[slot]);
        self.due[slot] = true;
        if let Some(masks) = &mut self.storage.masks {
            masks.read_agent(copies.env(copy), agent, t, slot)?;
        }
        let raw = copies.obs(copy, agent);
        self.pilot.observe_one(&mut self.storage, (t, slot), raw, self.learning)
    }

    /// The row in which all slots stand, if they stand in the same.
    fn common_row(&self) -> Option<usize> {
        let t = *self.closed.first()?;
        self.closed.iter().all(|&rows| rows == t).then_some(t)
    }

    /// Refuses what this slot sees, if it is not finite.
    fn check_seen(&mut self, copies: &AgentCopies, slot: usize) -> Result<()> {
        let (slots, agent) = (self.slots(), self.places[slot].1);
        let obs = self.storage.obs.part_mut(self.closed[slot], slot, slots);
        check_finite(obs, self.pilot.encoding().kind(), &copies.names()[agent])
    }

    /// Refuses what agents see whose turn it is, if it is not finite.
    fn check_all_seen(&mut self, copies: &AgentCopies) -> Result<()> {
        if self.pilot.encoding().kind() != Kind::Float {
            return Ok(());
        }
        // One look at rows that stand side by side costs less than one at each.
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

    /// Every agent whose turn it is chooses an action.
    pub(crate) fn act(
        &mut self,
        policy: &mut dyn Policy,
        copies: &mut AgentCopies,
        explore: bool,
        timestep: u64,
    ) -> Result<()> {
        let slots = self.slots();
        self.gathered.slots.clear();
        self.gathered.slots.extend((0..slots).filter(|&slot| self.due[slot]));
        let acting = self.gathered.slots.len();
        if acting == 0 {
            return Ok(());
        }
        let common_row = self.common_row();
        let Self { pilot, storage, gathered, closed, before, began, .. } = self;
        if storage.memories.is_some() {
            for &slot in &gathered.slots {
                let memory = pilot.memory(slot);
                before[slot * memory.len()..][..memory.len()].copy_from_slice(memory);
                began[slot] = pilot.resets()[slot];
            }
        }
        // When all agents act, each in the same row, the rows stand side by side already.
        let actions = if let Some(t) = common_row.filter(|_| acting == slots) {
            pilot.act(policy, storage, t, explore, timestep)?;
            pilot.taken(storage, t)
        } else {
            pilot.act_some(policy, storage, gathered, closed, explore, timestep)?;
            pilot.taken(&mut gathered.rows, 0)
        };
        let width = actions.len() / slots;
        for (i, &slot) in gathered.slots.iter().enumerate() {
            let (copy, agent) = self.places[slot];
            copies.action_mut(copy, agent).copy_from_slice(&actions[i * width..][..width]);
            (self.due[slot], self.open[slot], self.earned[slot]) = (false, true, 0.0);
        }
        Ok(())
    }

    /// Books what the step gave to each agent: rewards, endings, and who acts next.
    pub(crate) fn settle(&mut self, copies: &AgentCopies) -> Result<()> {
        for slot in 0..self.slots() {
            if !self.plays[slot] {
                continue;
            }
            let (copy, agent) = self.places[slot];
            let step = copies.agent(copy, agent);
            if !step.reward.is_finite() {
                return Err(not_finite(
                    format!("the reward of agent `{}`", copies.names()[agent]),
                    step.reward,
                ));
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
        }
        self.check_all_seen(copies)
    }

    fn close(&mut self, slot: usize, step: AgentStep) {
        let row = self.closed[slot] * self.slots() + slot;
        self.rewards[row] = self.earned[slot] as f32;
        (self.terminated[row], self.truncated[row]) = (step.terminated, step.truncated);
        self.closed[slot] += 1;
        self.open[slot] = false;
    }

    fn end(&mut self, copies: &AgentCopies, slot: usize, step: AgentStep) -> Result<()> {
        let (copy, agent) = self.places[slot];
        self.ended.push(self.closed[slot] * self.slots() + slot);
        let kind = self.pilot.encoding().kind();
        let obs = self.pilot.last_obs(copies.obs(copy, agent))?;
        check_finite(obs, kind, &copies.names()[agent])?;
        self.ended_obs.extend_from_slice(obs);
        if let Some(memories) = &mut self.storage.memories {
            memories.behind.extend_from_slice(self.pilot.memory(slot));
        }
        self.close(slot, step);
        Ok(())
    }

    /// Lends the closed rows to `f`, if there are any.
    pub(crate) fn lend(
        &mut self,
        clip: Option<ClipRewards>,
        f: &mut dyn FnMut(&str, Fragment<'_>) -> Result<()>,
    ) -> Result<()> {
        let (slots, width) = (self.slots(), self.pilot.row_bytes());
        let steps = self.closed.iter().copied().max().unwrap_or(0);
        if steps == 0 {
            return Ok(());
        }
        if let Some(clip) = clip {
            clip.apply(&mut self.rewards[..steps * slots]);
        }
        // Slots are in different rows at the same time, so endings come in no order.
        let mut order: Vec<usize> = (0..self.ended.len()).collect();
        order.sort_by_key(|&k| self.ended[k]);
        let ended: Vec<usize> = order.iter().map(|&k| self.ended[k]).collect();
        let last: Vec<u8> =
            order.iter().flat_map(|&k| &self.ended_obs[k * width..][..width]).copied().collect();
        let encoding = self.pilot.encoding();
        let shape = [&[ended.len() as i64], encoding.shape()].concat();
        let final_obs = Tensor::from_data_size(&last, &shape, encoding.kind());
        if let Some(memories) = &mut self.storage.memories {
            let remembers = memories.next.len() / slots;
            for slot in 0..slots {
                // What it sees behind its closed rows, it sees with what it remembered before it acted on it.
                memories.next[slot * remembers..][..remembers].copy_from_slice(match self.open[slot] {
                    true => &self.before[slot * remembers..][..remembers],
                    false => self.pilot.memory(slot),
                });
            }
        }
        let behind: Vec<f32> = match &self.storage.memories {
            None => Vec::new(),
            Some(memories) => {
                let remembers = memories.next.len() / slots;
                order.iter().flat_map(|&k| &memories.behind[k * remembers..][..remembers]).copied().collect()
            }
        };
        let cut = |t: &Tensor, rows: usize| t.narrow(0, 0, rows as i64);
        let Self { pilot, storage, .. } = self;
        let (obs, actions) = (cut(storage.obs.tensor(), steps + 1), cut(storage.actions.tensor(), steps));
        let columns: Vec<Tensor> =
            storage.columns.iter().map(HostTensor::tensor).map(|column| cut(column, steps)).collect();
        // No environment of several agents says what was legal behind an ending.
        let masks = storage.masks.as_ref().map(|masks| {
            let behind = [ended.len() as i64, masks.options() as i64];
            let behind = Tensor::ones(behind, (Kind::Bool, tch::Device::Cpu));
            (cut(masks.rows.tensor(), steps + 1), behind)
        });
        let equal = self.closed.iter().all(|&rows| rows == steps);
        f(
            &self.id,
            Fragment {
                steps,
                num_envs: slots,
                lengths: (!equal).then_some(&self.closed),
                obs: &obs,
                actions: &actions,
                rewards: &self.rewards[..steps * slots],
                terminated: &self.terminated[..steps * slots],
                truncated: &self.truncated[..steps * slots],
                columns: pilot.columns().iter().copied().zip(&columns).collect(),
                ended: &ended,
                final_obs: &final_obs,
                gamma: pilot.gamma,
                masks: masks.as_ref().map(|(rows, behind)| FragmentMasks { rows, behind }),
                memory: storage.memories.as_ref().map(|memories| FragmentMemory {
                    max_seq_len: memories.every,
                    rows: memories.rows.tensor(),
                    resets: &memories.resets[..steps * slots],
                    behind: &behind,
                    next: &memories.next,
                }),
            },
        )
    }
}

/// One copy begins an episode with all policies; see [`Seats::begin`].
pub(crate) fn begin<T>(
    all: &mut [T],
    seats_of: impl Fn(&mut T) -> &mut Seats,
    copies: &AgentCopies,
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

/// Integers are always finite.
fn check_finite(obs: &[u8], kind: Kind, agent: &str) -> Result<()> {
    if kind != Kind::Float {
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

/// `step` is put in by who counts them.
fn not_finite(what: String, value: f64) -> Error {
    let hint = "look at what the environment computes, or normalise its observations and rewards".into();
    Error::NotFinite { what, value, step: 0, hint }
}
