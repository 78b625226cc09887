//! The sampler of multi-agent environments: it steps copies of an environment, and fills a fragment per policy.
//!
//! In each step every policy is called once, with the observations of all agents that act by it in that step, from all
//! copies. A step allocates nothing and takes no lock.

use crate::agents::{Agent, Policies, PolicyAssignment};
use crate::base::{Episode, Laps, SamplerPerf, notice_once};
use crate::policy::PolicyMap;
use crate::sample::agents::{ended, restore, save};
use crate::sample::callbacks::{Callbacks, StepView};
use crate::sample::filter::MeanStdFilter;
use crate::sample::out_of_bounds::OutOfBounds;
use crate::sample::running_episodes::RunningEpisodes;
use crate::sample::seats;
use crate::sample::seats::Seats;
use crate::sample::source::{FragmentSource, TakeRows, came_back};
use crate::settings::{ClipRewards, Common};
use pavlov_envs::MultiAgentVector;
use pavlov_learn::base::{Error, Result, State, Stream};
use std::collections::BTreeMap;

/// Copies of a multi-agent environment, the agents of every policy, and the episodes in progress.
#[derive(Debug)]
pub(crate) struct MultiAgentSampler {
    copies: MultiAgentVector,
    /// The agents of each policy; policies that act in evaluations only are left out.
    teams: Vec<Team>,
    /// The episodes in progress.
    running_episodes: RunningEpisodes,
    out_of_bounds: OutOfBounds,
    common: Common,
    perf: SamplerPerf,
}

/// The agents of one policy, and whether the policy learns from their rows.
#[derive(Debug)]
struct Team {
    /// The agents of the policy, with their rows.
    seats: Seats,
    /// Whether the rows are stored for learning; otherwise the policy only acts.
    learns: bool,
    clip_rewards: Option<ClipRewards>,
}

impl MultiAgentSampler {
    /// Allocates the buffers and starts the first episodes. `first_env` is the index of this worker's first copy among
    /// all copies of the run.
    pub(crate) fn new(
        copies: MultiAgentVector,
        common: &Common,
        (agents, policies): (&[Agent], &Policies),
        map: &mut PolicyMap,
        worker: usize,
        (run_seed, first_env): (u64, u64),
        callbacks: Option<&mut Box<dyn Callbacks>>,
    ) -> Result<Self> {
        let mut teams = Vec::new();
        for (id, _) in policies.classes() {
            let own = policies.agents_of(id, agents)?;
            // A policy without agents here acts in evaluations only.
            if own.is_empty() {
                continue;
            }
            let slots = (0..copies.num_envs()).flat_map(|copy| own.iter().map(move |agent| (copy, *agent)));
            // Random streams are numbered over all agents of all copies of the run.
            let role = if policies.change_seats() { format!("action of {id}") } else { "action".to_owned() };
            let stream = |(copy, agent)| {
                let slot = (first_env as usize + copy) * agents.len() + agent;
                Stream::new(run_seed, &role, slot as u64)
            };
            let rngs = slots.map(stream).collect();
            let learns = policies.trains(id);
            let steps = if learns { common.rollout_fragment_length } else { 1 };
            let spaces = policies.spaces(id, agents)?;
            let policy = &**map.get_mut(id)?;
            let settings = policies.settings(id, common);
            let own =
                Seats::new((id.clone(), policy), (own, spaces), &copies, (settings, worker), rngs, steps)?;
            teams.push(Team { learns, clip_rewards: settings.clip_rewards, seats: own });
        }
        let running_episodes = RunningEpisodes::new(run_seed, first_env, copies.num_envs());
        let running_episodes = running_episodes.with_agents(PolicyAssignment::new(agents, policies));
        let mut sampler = Self {
            out_of_bounds: OutOfBounds::new(
                agents.iter().map(|agent| &agent.spaces.observation_space),
                copies.num_envs(),
                common.strict_env_checking,
            ),
            copies,
            teams,
            running_episodes,
            common: common.clone(),
            perf: SamplerPerf::default(),
        };
        sampler.start_episodes(callbacks)?;
        Ok(sampler)
    }

    /// Starts a new episode in every copy.
    fn start_episodes(&mut self, callbacks: Option<&mut Box<dyn Callbacks>>) -> Result<()> {
        (0..self.copies.num_envs()).try_for_each(|copy| self.start(copy))?;
        self.running_episodes.start(callbacks)
    }

    /// Resets one copy, and begins its running episode for all agents.
    fn start(&mut self, copy: usize) -> Result<()> {
        let Self { copies, teams, running_episodes, .. } = self;
        let episode = running_episodes.running(copy);
        copies.reset(copy, episode.seed)?;
        seats::begin(teams, |team| &mut team.seats, copies, (copy, episode), &|_| None)
    }

    /// Adds a step of every copy to its episode, and resets the copies whose episode has ended.
    fn count(&mut self, callbacks: &mut Option<&mut Box<dyn Callbacks>>) -> Result<()> {
        for copy in 0..self.copies.num_envs() {
            let (ended, truncated) = ended(&self.copies, copy);
            let rewards = self.copies.rewards(copy);
            let reward: f64 = rewards.iter().sum();
            self.running_episodes.reward_agents(copy, rewards);
            let step = StepView {
                obs: &[],
                reward: reward as f32,
                terminated: ended && !truncated,
                truncated: ended && truncated,
            };
            if ended {
                self.out_of_bounds.end(copy, &mut self.running_episodes);
            }
            self.running_episodes.step(copy, reward, step, callbacks)?;
            if ended {
                self.start(copy)?;
            }
        }
        Ok(())
    }

    /// Looks at the observations of all agents that are there.
    fn look(&mut self) -> Result<()> {
        let Self { copies, out_of_bounds, .. } = self;
        for copy in 0..copies.num_envs() {
            for agent in (0..copies.agents().len()).filter(|&agent| copies.alive(copy)[agent]) {
                out_of_bounds.look(copy, agent, copies.obs(copy, agent))?;
            }
        }
        Ok(())
    }

    /// Acts by every policy, steps all copies, and stores the results.
    fn step(
        &mut self,
        policies: &mut PolicyMap,
        explore: bool,
        now: u64,
        callbacks: &mut Option<&mut Box<dyn Callbacks>>,
        laps: &mut Laps,
    ) -> Result<()> {
        for Team { seats, .. } in &mut self.teams {
            let policy = policies.get_mut(seats.id())?.as_mut();
            seats.act(policy, &mut self.copies, explore, now)?;
        }
        laps.lap(&mut self.perf.inference);
        self.copies.step()?;
        laps.lap(&mut self.perf.env_wait);
        for Team { seats, learns, .. } in &mut self.teams {
            seats.settle(&self.copies)?;
            if !*learns {
                seats.carry();
            }
        }
        self.count(callbacks)?;
        laps.lap(&mut self.perf.raw_obs_processing);
        Ok(())
    }
}

impl FragmentSource for MultiAgentSampler {
    fn fill(
        &mut self,
        policies: &mut PolicyMap,
        explore: bool,
        timestep: u64,
        mut callbacks: Option<&mut Box<dyn Callbacks>>,
    ) -> Result<u64> {
        let steps = self.common.rollout_fragment_length;
        let total_envs = self.common.total_envs() as u64;
        let mut laps = Laps::start();
        self.teams.iter_mut().for_each(|team| team.seats.begin_fragment());
        for t in 0..steps {
            let now = timestep + t as u64 * total_envs;
            let looks = self.out_of_bounds.looks_at(t, timestep / total_envs, steps).then(|| self.look());
            looks.transpose()?;
            let stepped = self.step(policies, explore, now, &mut callbacks, &mut laps);
            let sampled = self.running_episodes.count(self.copies.num_envs() as u64);
            stepped.map_err(|error| match error {
                Error::NotFinite { what, value, hint, .. } => {
                    Error::NotFinite { what, value, step: sampled, hint }
                }
                other => other,
            })?;
        }
        self.perf.steps += steps as u32;
        Ok((steps * self.copies.num_envs()) as u64)
    }

    fn lend(&mut self, f: &mut TakeRows<'_>) -> Result<()> {
        for Team { seats, clip_rewards, .. } in self.teams.iter_mut().filter(|team| team.learns) {
            seats.lend(*clip_rewards, f)?;
            seats.carry();
        }
        Ok(())
    }

    fn copies(&self) -> usize {
        self.copies.num_envs()
    }

    fn take_episodes(&mut self) -> Vec<Episode> {
        self.running_episodes.take_finished()
    }

    fn set_task(&mut self, task: &serde_json::Value) -> Result<()> {
        let rule = "environments with several agents take no tasks yet; change them where they are made";
        Err(Error::config("set_task", task, rule))
    }

    fn take_perf(&mut self) -> SamplerPerf {
        std::mem::take(&mut self.perf)
    }

    fn filters(&mut self) -> BTreeMap<&str, &mut MeanStdFilter> {
        self.teams.iter_mut().filter_map(|team| team.seats.filter_mut()).collect()
    }

    fn state(&self) -> Result<State> {
        let mut state = State::default();
        save(&self.copies, &mut state)?;
        self.running_episodes.save(&mut state)?;
        self.out_of_bounds.save(&mut state)?;
        for Team { seats, .. } in &self.teams {
            state.nest(&format!("policy_{}", seats.id()), seats.state()?);
        }
        Ok(state)
    }

    fn set_state(&mut self, state: &State, callbacks: Option<&mut Box<dyn Callbacks>>) -> Result<bool> {
        self.running_episodes.set_state(state)?;
        self.out_of_bounds.restore(state)?;
        let new_policies = state.has("new_policies");
        for Team { seats, .. } in &mut self.teams {
            let part = format!("policy_{}", seats.id());
            let saved = if state.has(&part) || !new_policies { Some(state.nested(&part)?) } else { None };
            match &saved {
                Some(saved) if !new_policies || seats.fits(saved)? => seats.set_state(saved)?,
                _ => seats.set_filter(saved.as_ref())?,
            }
        }
        if new_policies || state.has("envs") {
            if !new_policies {
                notice_once("these environments cannot save their state: every copy starts a new episode");
            }
            self.running_episodes.follow_all();
            self.start_episodes(callbacks)?;
            return Ok(false);
        }
        if !came_back(restore(&mut self.copies, state))? {
            self.running_episodes.follow_all();
            self.start_episodes(callbacks)?;
            return Ok(false);
        }
        Ok(true)
    }
}
