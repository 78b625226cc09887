//! The sampler of single-agent environments: it steps environment copies with a policy, and fills fragments.
//!
//! The rollout buffer is time-major, `[T, N, ...]`, allocated once and reused: the environment writes its observations
//! into row `t + 1`, and the policy reads row `t` without a copy. A step allocates nothing, takes no lock and, on the
//! CPU, reads nothing back from libtorch.

use crate::base::{Episode, Laps, PolicyId, SamplerPerf, notice_once};
use crate::policy::{Policy, PolicyMap};
use crate::sample::callbacks::{Callbacks, StepView};
use crate::sample::connector::Connector;
use crate::sample::filter::MeanStdFilter;
use crate::sample::out_of_bounds::OutOfBounds;
use crate::sample::rollout_buffer::RolloutBuffer;
use crate::sample::running_episodes::{Numbers, RunningEpisodes};
use crate::sample::source::{FragmentSource, TakeRows, came_back};
use crate::settings::{ClipRewards, Common};
use pavlov_envs::AnyVectorEnv;
use pavlov_learn::base::{Error, Kind, Result, Spaces, State, Stream};
use pavlov_learn::experience::{EpisodeStart, Fragment};
use serde_json::Value;
use std::collections::BTreeMap;

/// Copies of a single-agent environment, the buffers of a fragment, and the episodes in progress.
#[derive(Debug)]
pub(crate) struct Sampler {
    env: Box<dyn AnyVectorEnv>,
    /// Id of the policy that acts.
    policy: PolicyId,
    /// Connection between environment and policy.
    connector: Connector,
    storage: RolloutBuffer,
    /// The episodes in progress.
    running_episodes: RunningEpisodes,
    clip_rewards: Option<ClipRewards>,
    out_of_bounds: OutOfBounds,
    /// Whether everything that an environment may not do is an error.
    is_strict: bool,
    /// Where the episodes stood before the first row of the fragment.
    starts: Vec<EpisodeStart>,
    /// Number of environment copies in the whole run.
    total_envs: u64,
    /// Number of steps per copy in a fragment.
    steps: usize,

    /// Whether the next fragment's first observations are still in the last row of `storage`, not yet in its row 0.
    carry: bool,
    perf: SamplerPerf,
}

impl Sampler {
    /// Allocates the buffers and starts the first episodes. `first_env` is the index of this worker's first copy among
    /// all copies of the run.
    pub(crate) fn new(
        env: Box<dyn AnyVectorEnv>,
        common: &Common,
        (id, policy): (PolicyId, &dyn Policy),
        worker: usize,
        (run_seed, first_env): (u64, u64),
        callbacks: Option<&mut Box<dyn Callbacks>>,
    ) -> Result<Self> {
        let n = env.num_envs();
        let t = common.rollout_fragment_length;
        let rngs = (0..n as u64).map(|i| Stream::new(run_seed, "action", first_env + i)).collect();
        let spaces = Spaces::of(env.as_ref());
        let connector = Connector::new(&spaces, env.act_dtype(), common, policy, worker, rngs)?;
        let mut sampler = Self {
            policy: id,
            storage: connector.steps(t)?,
            connector,
            running_episodes: RunningEpisodes::new(run_seed, first_env, n),
            clip_rewards: common.clip_rewards,
            out_of_bounds: OutOfBounds::new(
                [&spaces.observation_space].into_iter(),
                n,
                common.strict_env_checking,
            ),
            is_strict: common.strict_env_checking,
            starts: Vec::with_capacity(n),
            total_envs: common.total_envs() as u64,
            steps: t,
            carry: false,
            perf: SamplerPerf::default(),
            env,
        };
        sampler.start_episodes(callbacks)?;
        Ok(sampler)
    }

    /// Resets all copies, and starts their running episodes.
    fn start_episodes(&mut self, callbacks: Option<&mut Box<dyn Callbacks>>) -> Result<()> {
        let Self { env, connector, storage, running_episodes, .. } = self;
        env.reset(Some(&running_episodes.seeds()), connector.first(storage))?;
        connector.observe(storage, 0, true)?;
        if let Some(masks) = &mut storage.masks {
            masks.read(env.as_ref(), 0)?;
        }
        (0..running_episodes.copies()).for_each(|copy| connector.begin(copy, None));
        running_episodes.start(callbacks)
    }

    /// Chooses the error to report when acting on row `t` or its step failed with `error`. If an observation of that
    /// row is not finite, no action can be right, and the error about the observation is returned.
    fn blame_observation(&self, t: usize, error: Error) -> Error {
        if self.connector.encoding().kind() != Kind::F32 {
            return error;
        }
        let width = self.connector.encoding().shape().iter().product::<i64>() as usize;
        let row = self.running_episodes.copies() * width;
        let obs = &self.storage.obs.lend().read()[t * row..][..row];
        self.running_episodes.not_finite(obs, width, t).unwrap_or(error)
    }

    /// Steps all copies with the actions of row `t`, and stores observations and masks in row `t + 1`.
    fn step_env(&mut self, t: usize, laps: &mut Laps) -> Result<()> {
        let Self { env, connector, storage, running_episodes, perf, out_of_bounds, steps, .. } = self;
        let (actions, out) = connector.exchange(storage, t);
        laps.lap(&mut perf.action_processing);
        env.step(actions, Some(running_episodes.next_seeds()), out)?;
        laps.lap(&mut perf.env_wait);
        let n = running_episodes.copies();
        if out_of_bounds.looks_at(t, running_episodes.sampled() / n as u64, *steps) {
            let rows = connector.raw(storage, t + 1);
            let width = rows.len() / n;
            rows.chunks_exact(width)
                .enumerate()
                .try_for_each(|(copy, row)| out_of_bounds.look(copy, 0, row))?;
        }
        connector.observe(storage, t + 1, true)?;
        match &mut storage.masks {
            Some(masks) => masks.read(env.as_ref(), t + 1),
            None => Ok(()),
        }
    }

    /// Adds step `t` of every copy to its episode, and stores last observation, mask and recurrent state of episodes
    /// that ended.
    fn count(&mut self, t: usize, callbacks: &mut Option<&mut Box<dyn Callbacks>>) -> Result<()> {
        let Self { connector, storage, running_episodes, env, out_of_bounds, .. } = self;
        let n = running_episodes.copies();
        for i in 0..n {
            let row = t * n + i;
            let terminated = storage.terminated[row];
            let truncated = storage.truncated[row];
            let ended = terminated || truncated;
            if ended {
                out_of_bounds.end(i, running_episodes);
                let RolloutBuffer { masks, endings, .. } = storage;
                let mask = masks.as_mut().map(|masks| {
                    if endings.rows().last().is_none_or(|&last| last < t * n) {
                        masks.read_ended(env.as_ref());
                    }
                    masks.ended(i, truncated && !terminated)
                });
                let (obs, memory) = connector.last_seen(i, None)?;
                endings.push(row, obs, mask.into_iter().flatten().copied(), memory);
                connector.begin(i, None);
            }
            // Only callbacks read the observation.
            let obs: &[f32] = if callbacks.is_some() {
                connector.model_row(storage, (!ended).then_some((t + 1, i)))
            } else {
                &[]
            };
            let step = StepView { obs, reward: storage.rewards[row], terminated, truncated };
            running_episodes.step(i, f64::from(step.reward), step, callbacks)?;
        }
        Ok(())
    }
}

impl FragmentSource for Sampler {
    fn fill(
        &mut self,
        policies: &mut PolicyMap,
        explore: bool,
        timestep: u64,
        mut callbacks: Option<&mut Box<dyn Callbacks>>,
    ) -> Result<u64> {
        let policy = policies.get_mut(&self.policy)?.as_mut();
        if self.carry {
            self.storage.carry();
        }
        self.carry = false;
        self.storage.endings.clear();
        self.starts.clear();
        self.starts.extend(self.running_episodes.starts());
        self.connector.begin_fragment();
        let mut laps = Laps::start();
        for t in 0..self.steps {
            let now = timestep + t as u64 * self.total_envs;
            let acted = self.connector.act(policy, &mut self.storage, t, explore, now);
            acted.map_err(|error| self.blame_observation(t, error))?;
            laps.lap(&mut self.perf.inference);
            let stepped = self.step_env(t, &mut laps);
            stepped.map_err(|error| self.blame_observation(t, error))?;
            self.count(t, &mut callbacks)?;
            laps.lap(&mut self.perf.raw_obs_processing);
        }
        if let Some(memories) = &mut self.storage.memories {
            memories.next.copy_from_slice(self.connector.memories());
        }
        self.perf.steps += self.steps as u32;
        self.carry = true;
        // Integers are always finite.
        let is_float = self.connector.encoding().kind() == Kind::F32;
        let endings = &self.storage.endings;
        let last = if is_float { endings.obs_f32() } else { Vec::new() };
        self.running_episodes.check_and_count(Numbers {
            rewards: &self.storage.rewards,
            obs: if is_float { self.storage.obs.lend().read() } else { &[] },
            ended: (endings.rows(), &last),
            width: self.connector.encoding().shape().iter().product::<i64>() as usize,
        })?;
        if let Some(clip) = self.clip_rewards {
            clip.apply(&mut self.storage.rewards);
        }
        if self.is_strict
            && let Some(message) = self.env.remarks()?.into_iter().next()
        {
            return Err(Error::Env(pavlov_envs::Error::Contract { check: "form", message }));
        }
        Ok((self.steps * self.running_episodes.copies()) as u64)
    }

    fn lend(&mut self, f: &mut TakeRows<'_>) -> Result<()> {
        let fragment = self.connector.lend(&self.storage, self.steps, None);
        f(&self.policy, Fragment { episodes: Some(&self.starts), ..fragment })
    }

    fn take_episodes(&mut self) -> Vec<Episode> {
        self.running_episodes.take_finished()
    }

    fn set_task(&mut self, task: &Value) -> Result<()> {
        Ok(self.env.set_task(task)?)
    }

    fn take_perf(&mut self) -> SamplerPerf {
        std::mem::take(&mut self.perf)
    }

    fn filters(&mut self) -> BTreeMap<&str, &mut MeanStdFilter> {
        self.connector.filter.as_mut().map(|filter| (self.policy.as_str(), filter)).into_iter().collect()
    }

    fn copies(&self) -> usize {
        self.running_episodes.copies()
    }

    fn state(&self) -> Result<State> {
        let mut state = State::default();
        let row = if self.carry { self.steps } else { 0 };
        self.storage.save(row, &mut state);
        match self.env.save_state()? {
            Some(bytes) => state.set_array("envs", bytes),
            None => state.set("envs", &Option::<u8>::None)?,
        }
        self.connector.save(&mut state)?;
        self.running_episodes.save(&mut state)?;
        self.out_of_bounds.save(&mut state)?;
        Ok(state)
    }

    fn set_state(&mut self, state: &State, callbacks: Option<&mut Box<dyn Callbacks>>) -> Result<bool> {
        self.running_episodes.set_state(state)?;
        self.out_of_bounds.restore(state)?;
        self.connector.set_state(state, self.running_episodes.beginnings())?;
        self.carry = false;
        if state.has("envs") || !self.env.can_load_state() {
            notice_once("these environments cannot save their state: every copy starts a new episode");
            self.running_episodes.follow_all();
            self.start_episodes(callbacks)?;
            return Ok(false);
        }
        let envs = state.array("envs")?;
        if !came_back(self.env.load_state(envs.read::<u8>()))? {
            self.running_episodes.follow_all();
            self.start_episodes(callbacks)?;
            return Ok(false);
        }
        self.storage.restore(state)?;
        Ok(true)
    }
}
