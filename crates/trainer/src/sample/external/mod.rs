//! [`ExternalSampler`]: fragments of episodes that other programs play.
//!
//! It takes the messages that wait, closes a row with the reward that comes with each, and chooses the actions for all
//! programs that ask in one batch. A program that died loses its running episode only.

mod copies;
mod messages;
mod places;

pub(crate) use copies::copy_policies_by;

use crate::agents::Agent;
use crate::base::{AgentReward, Episode, Laps, SamplerPerf, notice};
use crate::policy::{Policy, PolicyMap};
use crate::sample::agents::Agents;
use crate::sample::callbacks::Callbacks;
use crate::sample::external::places::Places;
use crate::sample::filter::MeanStdFilter;
use crate::sample::out_of_bounds::OutOfBounds;
use crate::sample::running_episodes::RunningEpisodes;
use crate::sample::seats::Seats;
use crate::sample::source::{FragmentSource, TakeRows};
use crate::sample::spec::WorkerSpec;
use crate::settings::ClipRewards;
use pavlov_envs::ExternalEnv;
use pavlov_envs::external::{Answer, Ask, Call, Calls};
use pavlov_learn::base::{Error, Result, Spaces, State, Stream};
use serde_json::Value;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Time that the programs which have all rows of a fragment wait for one that is silent.
const PATIENCE: Duration = Duration::from_millis(500);
/// Time between two looks at episodes that are silent.
const LOOK: Duration = Duration::from_millis(50);
/// Time between two notices that no program plays an episode.
const NOTICE: Duration = Duration::from_secs(60);

/// Episodes that other programs play, and the rows sampled from them.
#[derive(Debug)]
pub(crate) struct ExternalSampler {
    calls: Calls,
    /// Messages that the next fragment has room for.
    held: VecDeque<Call>,
    places: Places,
    /// The rows of the places; the only agent of each place has a slot with the number of the place.
    seats: Seats,
    /// Who acts: the only agent, by the only policy.
    seated: Vec<AgentReward>,
    running_episodes: RunningEpisodes,
    out_of_bounds: OutOfBounds,
    clip_rewards: Option<ClipRewards>,
    episode_timeout: Duration,
    /// Number of rows of one place in a fragment.
    length: usize,
    run_seed: u64,
    /// What a copy of the policy is made from.
    spec: WorkerSpec,
    /// The policy of this version as ONNX, for programs that choose actions themselves.
    copy: Option<(u64, Arc<[u8]>)>,
    /// Number of episodes that began.
    episodes: u64,
    /// Number of fragments so far, with the one that is being sampled.
    version: u64,
    perf: SamplerPerf,
}

/// What the policy acts by in a fragment.
struct Acting<'a> {
    policy: &'a mut dyn Policy,
    explore: bool,
    /// Number of environment steps before the fragment.
    timestep: u64,
    callbacks: Option<&'a mut Box<dyn Callbacks>>,
}

impl ExternalSampler {
    /// Begins to take messages.
    pub(crate) fn new(env: ExternalEnv, spec: &WorkerSpec, policies: &mut PolicyMap) -> Result<Self> {
        let id = spec.policies.of(&spec.agents()[0].name);
        let policy = &**policies.get_mut(&id)?;
        let common = spec.common_of(&id);
        let run_seed = spec.seed();
        let spaces = Spaces {
            observation_space: env.observation_space().clone(),
            action_space: env.action_space().clone(),
        };
        let n = common.num_envs_per_worker;
        let length = common.rollout_fragment_length;
        let spaces_of = (&spaces.observation_space, &spaces.action_space);
        let places = Places::new(spaces_of, env.has_masks() && common.mask_actions, n);
        let rngs = (0..n as u64).map(|place| Stream::new(run_seed, "external place", place)).collect();
        let seats = Seats::new((id.clone(), policy), (vec![0], &spaces), &places, (common, 0), rngs, length)?;
        let seen = [&spaces.observation_space].into_iter();
        let out_of_bounds = OutOfBounds::new(seen, places.len(), common.strict_env_checking);
        let agent = Agent::only(spaces).swap_remove(0).name;
        let episode_timeout = env.episode_timeout();
        Ok(Self {
            calls: env.open()?,
            held: VecDeque::new(),
            seats,
            seated: vec![AgentReward { agent, policy: id, reward: 0.0 }],
            running_episodes: RunningEpisodes::new(run_seed, 0, places.len()),
            out_of_bounds,
            places,
            clip_rewards: common.clip_rewards,
            episode_timeout,
            length,
            run_seed,
            spec: spec.clone(),
            copy: None,
            episodes: 0,
            version: 0,
            perf: SamplerPerf::default(),
        })
    }

    /// Number of finished rows of the fragment.
    fn rows(&self) -> usize {
        self.seats.closed.iter().sum()
    }

    /// Whether a place has as many rows as a fragment takes.
    fn is_full(&self, place: usize) -> bool {
        self.seats.closed[place] == self.length
    }

    /// Whether the next row of a place is to be waited for.
    fn can_go_on(&self, place: usize) -> bool {
        self.places.at(place).is_some_and(|playing| !playing.is_silent)
            && !self.is_full(place)
            && !self.is_held(place)
    }

    fn is_held(&self, place: usize) -> bool {
        let name = self.places.at(place).map(|playing| playing.name.as_str());
        name.is_some() && self.held.iter().any(|call| episode_of(&call.ask) == name)
    }

    /// Whether the fragment is whole, if the last message came `silence` ago.
    fn is_whole(&self, silence: Duration) -> bool {
        let rows = self.rows();
        if rows >= self.length * self.places.len() {
            return true;
        }
        // A program that has just ended an episode is about to begin another.
        let may_begin = !self.places.is_any_playing() && silence < PATIENCE;
        rows > 0 && !may_begin && (0..self.places.len()).all(|place| !self.can_go_on(place))
    }

    /// Chooses the actions for all that ask for one and have room for a row, and answers them.
    fn act(&mut self, acting: &mut Acting<'_>) -> Result<()> {
        let now = acting.timestep + self.rows() as u64;
        self.seats.act(acting.policy, &mut self.places, acting.explore, now)?;
        for i in 0..self.seats.acted().len() {
            let place = self.seats.acted()[i];
            let action = self.places.action(place).to_vec();
            let answer = Answer::Action { action, version: self.version };
            let Some(playing) = self.places.at_mut(place) else { continue };
            playing.answered = Some(answer.clone());
            for reply in playing.waiting.drain(..) {
                reply.send(Ok(answer.clone()));
            }
        }
        Ok(())
    }

    /// Cuts the episodes that were silent for too long, and marks those for which the others have waited long enough.
    fn look(&mut self, full_since: Option<Instant>) {
        for place in 0..self.places.len() {
            let is_held = self.is_held(place);
            let Some(playing) = self.places.at_mut(place) else { continue };
            if !playing.waiting.is_empty() || is_held {
                continue;
            }
            let silence = playing.heard.elapsed();
            playing.is_silent |= full_since.is_some_and(|since| since.elapsed().min(silence) >= PATIENCE);
            if silence >= self.episode_timeout {
                self.cut(place);
            }
        }
    }

    fn fill_rows(&mut self, acting: &mut Acting<'_>, laps: &mut Laps) -> Result<()> {
        for call in std::mem::take(&mut self.held) {
            self.handle(call, acting)?;
        }
        self.act(acting)?;
        let mut heard = Instant::now();
        let mut noticed = heard;
        let mut full_since = None;
        while !self.is_whole(heard.elapsed()) {
            laps.lap(&mut self.perf.inference);
            let mut next = self.calls.next(LOOK)?;
            laps.lap(&mut self.perf.env_wait);
            match &next {
                Some(_) => heard = Instant::now(),
                None if noticed.elapsed() >= NOTICE && !self.places.is_any_playing() => {
                    noticed = Instant::now();
                    notice("no program plays episodes: training waits for clients; Ctrl-C twice ends it");
                }
                None => {}
            }
            while let Some(call) = next {
                self.handle(call, acting)?;
                next = self.calls.next(Duration::ZERO)?;
            }
            laps.lap(&mut self.perf.raw_obs_processing);
            self.act(acting)?;
            let is_full = (0..self.places.len()).any(|place| self.is_full(place) || self.is_held(place));
            full_since = is_full.then(|| full_since.unwrap_or_else(Instant::now));
            self.look(full_since);
        }
        laps.lap(&mut self.perf.inference);
        Ok(())
    }
}

/// The episode that a message is about.
fn episode_of(ask: &Ask) -> Option<&str> {
    match ask {
        Ask::GetAction(turn) | Ask::LogAction { turn, .. } => Some(&turn.episode),
        Ask::EndEpisode { episode, .. } => Some(episode),
        Ask::StartEpisode { .. } | Ask::GetPolicy { .. } | Ask::Gone => None,
    }
}

impl FragmentSource for ExternalSampler {
    fn fill(
        &mut self,
        policies: &mut PolicyMap,
        explore: bool,
        timestep: u64,
        callbacks: Option<&mut Box<dyn Callbacks>>,
    ) -> Result<u64> {
        self.version += 1;
        self.seats.begin_fragment();
        let policy = policies.get_mut(self.seats.id())?.as_mut();
        let mut acting = Acting { policy, explore, timestep, callbacks };
        let mut laps = Laps::start();
        self.fill_rows(&mut acting, &mut laps)?;
        let rows = self.rows() as u64;
        self.perf.steps += rows as u32;
        self.running_episodes.count(rows);
        Ok(rows)
    }

    fn lend(&mut self, f: &mut TakeRows<'_>) -> Result<()> {
        self.seats.lend(self.clip_rewards, f)?;
        self.seats.carry();
        Ok(())
    }

    fn copies(&self) -> usize {
        self.places.len()
    }

    fn take_episodes(&mut self) -> Vec<Episode> {
        self.running_episodes.take_finished()
    }

    fn set_task(&mut self, task: &Value) -> Result<()> {
        Err(Error::config(
            "set_task",
            task,
            "the environment is played by other programs: set the task there",
        ))
    }

    fn take_perf(&mut self) -> SamplerPerf {
        std::mem::take(&mut self.perf)
    }

    fn filters(&mut self) -> BTreeMap<&str, &mut MeanStdFilter> {
        self.seats.filter_mut().into_iter().collect()
    }

    fn state(&self) -> Result<State> {
        let mut state = State::default();
        self.running_episodes.save(&mut state)?;
        state.set("started", &self.episodes)?;
        state.set("version", &self.version)?;
        state.nest("rows", self.seats.state()?);
        Ok(state)
    }

    fn set_state(&mut self, state: &State, _: Option<&mut Box<dyn Callbacks>>) -> Result<bool> {
        self.running_episodes.set_state(state)?;
        self.running_episodes.follow_all();
        self.episodes = state.get("started")?;
        self.version = state.get("version")?;
        self.seats.set_state(&state.nested("rows")?)?;
        self.seats.forget();
        // The programs begin anew: the episodes that they played belong to the process before.
        Ok(false)
    }
}
