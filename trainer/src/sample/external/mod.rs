//! [`ExternalSampler`]: fragments of episodes that other programs play.
//!
//! It takes the messages that wait, closes a row with the reward that comes with each, and chooses the actions for all
//! programs that ask in one batch. A program that died loses its running episode only.

mod places;

use crate::agents::Agent;
use crate::base::{
    AgentReward, Episode, Error, Laps, PolicyId, Result, SamplerPerf, Spaces, State, Stream, notice,
};
use crate::export::encoded;
use crate::policy::{Policy, PolicyMap};
use crate::sample::agents::{AgentStep, Agents};
use crate::sample::callbacks::{Callbacks, StepView};
use crate::sample::external::places::{Place, Places, refused};
use crate::sample::filter::MeanStdFilter;
use crate::sample::running_episodes::RunningEpisodes;
use crate::sample::seats::Seats;
use crate::sample::session::Inference;
use crate::sample::source::{FragmentSource, TakeRows};
use crate::sample::spec::WorkerSpec;
use crate::settings::{ClipRewards, Common};
use pavlov_envs::{Answer, Ask, Call, Calls, ExternalEnv, Refused, Reply, Turn};
use serde_json::Value;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Time that the programs which have all rows of a fragment wait for one that is silent.
const PATIENCE: Duration = Duration::from_millis(500);
/// Number of versions that a copy of the policy may be behind, where an algorithm learns from its own actions.
const LAG: u64 = 1;
/// Time between two looks at episodes that are silent.
const LOOK: Duration = Duration::from_millis(50);
/// Time between two notices that nobody plays.
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
    counting: RunningEpisodes,
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
    pub(crate) fn new(
        env: ExternalEnv,
        common: &Common,
        (id, policy): (PolicyId, &dyn Policy),
        spec: &WorkerSpec,
    ) -> Result<Self> {
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
        let agent = Agent::only(spaces).swap_remove(0).name;
        let episode_timeout = env.episode_timeout();
        Ok(Self {
            calls: env.open()?,
            held: VecDeque::new(),
            seats,
            seated: vec![AgentReward { agent, policy: id, reward: 0.0 }],
            counting: RunningEpisodes::new(run_seed, 0, places.len()),
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
        let nobody = !self.places.is_any_playing() && silence < PATIENCE;
        rows > 0 && !nobody && (0..self.places.len()).all(|place| !self.can_go_on(place))
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

    /// Carries out a message. One that the fragment has no room for is held until the next.
    fn handle(&mut self, call: Call, acting: &mut Acting<'_>) -> Result<()> {
        let is_logged = matches!(call.ask, Ask::LogAction { .. });
        let place = episode_of(&call.ask).and_then(|name| self.places.place_of(call.client, name).ok());
        if let Some(place) = place {
            let rows = self.seats.closed[place] + usize::from(self.seats.open[place]);
            if self.is_held(place) || is_logged && rows == self.length {
                self.held.push_back(call);
                return Ok(());
            }
        }
        let Call { client, ask, reply } = call;
        match ask {
            Ask::StartEpisode { episode } => {
                let began = self.places.start(client, episode, self.episodes);
                self.episodes += u64::from(began.is_ok());
                reply.send(began.map(|episode| Answer::Started { episode }));
                Ok(())
            }
            Ask::GetAction(turn) => self.turn(client, &turn, None, reply, acting),
            Ask::LogAction { turn, action, logp, version } => {
                let given = self.check_version(version).and_then(|()| {
                    self.seats.given(&action, logp).map_err(|(code, message)| refused(code, message))
                });
                match given {
                    Ok(given) => self.turn(client, &turn, Some((given, logp)), reply, acting),
                    Err(refused) => {
                        reply.send(Err(refused));
                        Ok(())
                    }
                }
            }
            Ask::EndEpisode { episode, obs, reward, truncated } => {
                let step = AgentStep { reward, terminated: !truncated, truncated, acting: false };
                let ended = match self.places.place_of(client, &episode) {
                    Ok(place) => self.end(place, &obs, step, acting)?,
                    Err(refused) => Err(refused),
                };
                reply.send(ended);
                Ok(())
            }
            Ask::GetPolicy { than } => {
                reply.send(self.policy(than, acting.policy));
                Ok(())
            }
            Ask::Gone => {
                for place in self.places.of_client(client) {
                    self.cut(place);
                }
                Ok(())
            }
        }
    }

    /// A copy of the policy, unless the program has this version already.
    fn policy(&mut self, than: Option<u64>, policy: &dyn Policy) -> std::result::Result<Answer, Refused> {
        let version = self.version;
        if than == Some(version) {
            return Ok(Answer::Policy { version, onnx: None });
        }
        if let Some((_, onnx)) = self.copy.as_ref().filter(|(of, _)| *of == version) {
            return Ok(Answer::Policy { version, onnx: Some(Arc::clone(onnx)) });
        }
        let filter = self.seats.filter_mut().map(|(_, filter)| filter.running().clone());
        let filter = filter.filter(|running| running.count() > 0);
        let rngs = vec![Stream::new(self.run_seed, "copy of the policy", 0)];
        let desk = Inference::new(&self.spec, (self.seats.id(), policy), rngs, filter.as_ref());
        let onnx = desk
            .and_then(|desk| encoded(&desk, policy))
            .map_err(|error| refused("policy", error.to_string()))?;
        let onnx: Arc<[u8]> = onnx.into();
        self.copy = Some((version, Arc::clone(&onnx)));
        Ok(Answer::Policy { version, onnx: Some(onnx) })
    }

    /// Refuses an action of a copy that is too old for an algorithm that learns from its own actions.
    fn check_version(&self, version: Option<u64>) -> std::result::Result<(), Refused> {
        let Some(version) = version.filter(|_| self.seats.needs_logp()) else { return Ok(()) };
        if version <= self.version && self.version - version <= LAG {
            return Ok(());
        }
        let message = format!(
            "the action is of version {version} of the policy, and the run is at {}: get the policy again",
            self.version
        );
        Err(refused("stale", message))
    }

    /// Takes what a program saw, and the action that it chose itself if there is one. The policy's answer follows later.
    fn turn(
        &mut self,
        client: u64,
        turn: &Turn,
        given: Option<(Vec<u8>, Option<f32>)>,
        reply: Reply,
        acting: &mut Acting<'_>,
    ) -> Result<()> {
        let place = match self.places.place_of_turn(client, turn) {
            Ok(Place::Next(place)) => place,
            Ok(Place::Again(place)) => {
                if let Some(playing) = self.places.at_mut(place) {
                    match &playing.answered {
                        Some(answer) => reply.send(Ok(answer.clone())),
                        None => playing.waiting.push(reply),
                    }
                }
                return Ok(());
            }
            Err(refused) => {
                reply.send(Err(refused));
                return Ok(());
            }
        };
        let is_first = self.places.at(place).is_some_and(|playing| playing.turns == 0);
        let step = AgentStep { reward: turn.reward, acting: true, ..AgentStep::default() };
        let mut seen = self.places.see(place, &turn.obs, turn.mask.as_deref(), step);
        if is_first && turn.reward != 0.0 {
            let message = format!("the reward before the first action is {}: it must be 0", turn.reward);
            seen = Err(refused("reward", message));
        }
        if let Err(refused) = seen {
            reply.send(Err(refused));
            return Ok(());
        }
        if is_first {
            let number = self.places.at(place).map_or(0, |playing| playing.number);
            let stream = |_| Some(Stream::new(self.run_seed, "external action", number));
            self.seats.begin(&self.places, (place, &self.seated), &stream)?;
        } else {
            self.seats.settle_slot(&self.places, place)?;
            self.count(place, step, acting)?;
        }
        let version = self.version;
        if let Some(playing) = self.places.at_mut(place) {
            playing.turns += 1;
            playing.answered = None;
            if given.is_none() {
                playing.waiting.push(reply);
                return Ok(());
            }
            playing.answered = Some(Answer::Logged { version });
            reply.send(Ok(Answer::Logged { version }));
        }
        if let Some((action, logp)) = given {
            // The policy acts as well: its columns of the row are those of learning.
            self.act(acting)?;
            self.seats.replace_action(place, &action, logp);
            if let Some(playing) = self.places.at_mut(place) {
                playing.answered = Some(Answer::Logged { version });
            }
        }
        Ok(())
    }

    /// Adds a step to the episode at a place.
    fn count(&mut self, place: usize, step: AgentStep, acting: &mut Acting<'_>) -> Result<()> {
        let AgentStep { reward, terminated, truncated, .. } = step;
        let ended = terminated || truncated;
        // Only callbacks read the observation.
        let obs = if acting.callbacks.is_some() { self.seats.model_row(place, ended) } else { &[] };
        let step = StepView { obs, reward: reward as f32, terminated, truncated };
        let callbacks = &mut acting.callbacks;
        self.counting.step(place, reward, step, callbacks)
    }

    fn end(
        &mut self,
        place: usize,
        obs: &[u8],
        step: AgentStep,
        acting: &mut Acting<'_>,
    ) -> Result<std::result::Result<Answer, Refused>> {
        let Some(playing) = self.places.at(place) else {
            return Ok(Err(refused("unknown_episode", String::new())));
        };
        if !playing.waiting.is_empty() {
            let message = "the action before is not chosen yet: wait for its answer";
            return Ok(Err(refused("out_of_order", message.into())));
        }
        let Episode { total_reward, length, .. } = *self.counting.running(place);
        let mut answer = Answer::Ended { episode_reward: total_reward, episode_len: length };
        // An episode without an action has no rows.
        if playing.turns > 0 {
            if let Err(refused) = self.places.see(place, obs, None, step) {
                return Ok(Err(refused));
            }
            self.seats.settle_slot(&self.places, place)?;
            self.count(place, step, acting)?;
            answer = Answer::Ended { episode_reward: total_reward + step.reward, episode_len: length + 1 };
        }
        self.places.free(place);
        Ok(Ok(answer))
    }

    /// Cuts the episode at a place: its finished rows count, and it is in no result.
    fn cut(&mut self, place: usize) {
        let Some(playing) = self.places.free(place) else { return };
        self.seats.cut(place);
        self.counting.drop_running(place);
        self.held.retain(|call| episode_of(&call.ask) != Some(&playing.name));
        for reply in playing.waiting {
            let message = "the episode was cut: start a new one".into();
            reply.send(Err(refused("unknown_episode", message)));
        }
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
        let policy = policies.get_mut(self.seats.id())?.as_mut();
        let mut acting = Acting { policy, explore, timestep, callbacks };
        let mut laps = Laps::start();
        self.fill_rows(&mut acting, &mut laps)?;
        let rows = self.rows() as u64;
        self.perf.steps += rows as u32;
        self.counting.count(rows);
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
        self.counting.take_finished()
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
        self.counting.save(&mut state)?;
        state.set("started", &self.episodes)?;
        state.set("version", &self.version)?;
        state.nest("rows", self.seats.state()?);
        Ok(state)
    }

    fn set_state(&mut self, state: &State, _: Option<&mut Box<dyn Callbacks>>) -> Result<bool> {
        self.counting.set_state(state)?;
        self.counting.follow_all();
        self.episodes = state.get("started")?;
        self.version = state.get("version")?;
        self.seats.set_state(&state.nested("rows")?)?;
        self.seats.forget();
        // The programs begin anew: the episodes that they played belong to the process before.
        Ok(false)
    }
}
