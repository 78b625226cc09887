//! The loop that steps environment copies with a policy and fills fragments.
//!
//! Storage is time-major `[T, N, ...]`, allocated once and reused: the environment writes its observations straight
//! into row `t + 1`, the policy reads row `t` without a copy. Per step and copy there is no allocation, no lock and, on
//! the CPU, no host read.

use crate::{
    base::{
        batch::Column,
        episode::Episode,
        error::{Error, Result},
        host::HostTensor,
        profile::{Laps, SamplerPerf},
        rng::{Stream, StreamState, episode_seed},
        state::State,
    },
    learn::dist::ActionRows,
    policy::{ActInput, ActOutput, Fragment, Policy, StepColumns},
    run::common::{ClipRewards, Common},
    sample::{
        callbacks::{Callbacks, StepView},
        filter::{MeanStdFilter, ObservationFilter},
        transforms::{Preprocess, ToEnv},
    },
};
use pavlov_envs::{AnyVectorEnv, Space, StepOut};
use tch::{Kind, Tensor};

/// Copies of an environment, every buffer a fragment needs, and the episodes in progress.
#[derive(Debug)]
pub(crate) struct Sampler {
    env: Box<dyn AnyVectorEnv>,
    preprocess: Preprocess,
    filter: Option<MeanStdFilter>,
    to_env: ToEnv,
    clip_rewards: Option<ClipRewards>,
    run_seed: u64,
    total_envs: u64,
    steps: usize,

    /// `[T + 1, N, width]`.
    obs: HostTensor,
    actions: HostTensor,
    columns: Vec<HostTensor>,
    /// Time-major `[T * N]`.
    rewards: Vec<f32>,
    terminated: Vec<bool>,
    truncated: Vec<bool>,
    /// One step's raw observations, when they are not the model's own form.
    raw_obs: Vec<u64>,
    /// One step's ended observations, raw.
    raw_final: Vec<u64>,
    ended: Vec<usize>,
    ended_obs: Vec<f32>,

    /// What the next fragment starts from stands in row T, not in row 0.
    carry: bool,
    rngs: Vec<Stream>,
    episodes: Vec<Episode>,
    next_seeds: Vec<u64>,
    finished: Vec<Episode>,
    sampled: u64,
    perf: SamplerPerf,
}

impl Sampler {
    /// Allocates the buffers and starts the first episodes. `first_env` is the index of the first copy in the whole run.
    pub(crate) fn new(
        env: Box<dyn AnyVectorEnv>,
        common: &Common,
        policy: &dyn Policy,
        run_seed: u64,
        first_env: u64,
        callbacks: Option<&mut Box<dyn Callbacks>>,
    ) -> Result<Self> {
        let (n, t) = (env.num_envs(), common.rollout_fragment_length);
        let width = env.observation_space().flat_width();
        let preprocess = Preprocess::new(env.observation_space(), env.obs_dtype());
        let to_env = ToEnv::new(env.action_space(), env.act_dtype(), n, common)?;
        let (action_tail, action_kind): (Vec<i64>, Kind) = match env.action_space() {
            Space::Discrete { .. } => (vec![n as i64], Kind::Int64),
            Space::MultiDiscrete { .. } | Space::MultiBinary { .. } => {
                (vec![n as i64, env.action_space().width() as i64], Kind::Int64)
            }
            _ => (vec![n as i64, env.action_space().width() as i64], Kind::Float),
        };
        let columns = policy
            .step_columns()
            .into_iter()
            .map(|(_, width)| match width {
                1 => HostTensor::zeros(t, &[n as i64], Kind::Float),
                _ => HostTensor::zeros(t, &[n as i64, width as i64], Kind::Float),
            })
            .collect();
        let mut sampler = Self {
            obs: HostTensor::zeros(t + 1, &[n as i64, width as i64], Kind::Float),
            actions: HostTensor::zeros(t, &action_tail, action_kind),
            columns,
            rewards: vec![0.0; t * n],
            terminated: vec![false; t * n],
            truncated: vec![false; t * n],
            raw_obs: preprocess.buffer(n),
            raw_final: vec![0; (n * preprocess.raw_bytes).div_ceil(8)],
            ended: Vec::new(),
            ended_obs: Vec::new(),
            filter: match common.observation_filter {
                ObservationFilter::NoFilter => None,
                ObservationFilter::MeanStdFilter => Some(MeanStdFilter::new(width)),
            },
            preprocess,
            to_env,
            clip_rewards: common.clip_rewards,
            run_seed,
            total_envs: common.total_envs() as u64,
            steps: t,
            carry: false,
            rngs: (0..n as u64).map(|i| Stream::new(run_seed, "action", first_env + i)).collect(),
            episodes: (0..n as u64)
                .map(|i| Episode {
                    env_index: first_env + i,
                    seed: episode_seed(run_seed, first_env + i, 0),
                    ..Episode::default()
                })
                .collect(),
            next_seeds: (0..n as u64).map(|i| episode_seed(run_seed, first_env + i, 1)).collect(),
            finished: Vec::new(),
            sampled: 0,
            perf: SamplerPerf::default(),
            env,
        };
        sampler.start_episodes(callbacks)?;
        Ok(sampler)
    }

    fn start_episodes(&mut self, callbacks: Option<&mut Box<dyn Callbacks>>) -> Result<()> {
        let seeds: Vec<u64> = self.episodes.iter().map(|e| e.seed).collect();
        match self.preprocess.direct() {
            true => self.env.reset(Some(&seeds), self.obs.bytes_mut(0))?,
            false => {
                let bytes = bytemuck::cast_slice_mut(&mut self.raw_obs);
                let bytes = &mut bytes[..seeds.len() * self.preprocess.raw_bytes];
                self.env.reset(Some(&seeds), bytes)?;
                self.preprocess.apply(bytes, self.obs.slice_mut(0))?;
            }
        }
        if let Some(filter) = &mut self.filter {
            filter.apply(self.obs.slice_mut(0), true);
        }
        if let Some(callbacks) = callbacks {
            for episode in &mut self.episodes {
                callbacks.on_episode_start(episode)?;
            }
        }
        Ok(())
    }

    /// Steps every copy `rollout_fragment_length` times.
    pub(crate) fn fill(
        &mut self,
        policy: &mut dyn Policy,
        explore: bool,
        timestep: u64,
        mut callbacks: Option<&mut Box<dyn Callbacks>>,
    ) -> Result<()> {
        if self.carry {
            self.obs.copy_row(self.steps, 0);
        }
        self.carry = false;
        self.ended.clear();
        self.ended_obs.clear();
        let mut laps = Laps::start();
        for t in 0..self.steps {
            let now = timestep + t as u64 * self.total_envs;
            self.act(policy, t, explore, now)?;
            laps.lap(&mut self.perf.inference);
            self.step_env(t, &mut laps)?;
            self.count(t, &mut callbacks)?;
            laps.lap(&mut self.perf.raw_obs_processing);
        }
        self.perf.steps += self.steps as u32;
        self.carry = true;
        self.check_finite()?;
        self.sampled += (self.steps * self.env.num_envs()) as u64;
        self.clip();
        Ok(())
    }

    fn act(&mut self, policy: &mut dyn Policy, t: usize, explore: bool, timestep: u64) -> Result<()> {
        let actions = match self.to_env {
            ToEnv::Int { .. } => ActionRows::Int(self.actions.slice_mut(t)),
            ToEnv::Float { .. } => ActionRows::Float(self.actions.slice_mut(t)),
        };
        let input = ActInput { obs: self.obs.row(t), rngs: &mut self.rngs, explore, timestep };
        let columns = StepColumns { tensors: &mut self.columns, step: t };
        policy.compute_actions(input, ActOutput { actions, columns })
    }

    fn step_env(&mut self, t: usize, laps: &mut Laps) -> Result<()> {
        let n = self.env.num_envs();
        let actions = self.to_env.apply(self.actions.bytes_mut(t));
        laps.lap(&mut self.perf.action_processing);
        let raw_bytes = n * self.preprocess.raw_bytes;
        let (rows, direct) = (t * n..(t + 1) * n, self.preprocess.direct());
        let obs = if direct {
            self.obs.bytes_mut(t + 1)
        } else {
            &mut bytemuck::cast_slice_mut(&mut self.raw_obs)[..raw_bytes]
        };
        self.env.step(
            actions,
            Some(&self.next_seeds),
            StepOut {
                obs,
                final_obs: &mut bytemuck::cast_slice_mut(&mut self.raw_final)[..raw_bytes],
                rewards: &mut self.rewards[rows.clone()],
                terminated: &mut self.terminated[rows.clone()],
                truncated: &mut self.truncated[rows],
            },
        )?;
        laps.lap(&mut self.perf.env_wait);
        if !direct {
            let raw = &bytemuck::cast_slice(&self.raw_obs)[..raw_bytes];
            self.preprocess.apply(raw, self.obs.slice_mut(t + 1))?;
        }
        if let Some(filter) = &mut self.filter {
            filter.apply(self.obs.slice_mut(t + 1), true);
        }
        Ok(())
    }

    /// Counts the step in the episodes; those that ended go to the finished ones.
    fn count(&mut self, t: usize, callbacks: &mut Option<&mut Box<dyn Callbacks>>) -> Result<()> {
        let n = self.episodes.len();
        for i in 0..n {
            let row = t * n + i;
            let ended = self.terminated[row] || self.truncated[row];
            let episode = &mut self.episodes[i];
            episode.total_reward += f64::from(self.rewards[row]);
            episode.length += 1;
            if ended {
                self.ended.push(row);
                let (width, raw) = (self.preprocess.width, self.preprocess.raw_bytes);
                let start = self.ended_obs.len();
                self.ended_obs.resize(start + width, 0.0);
                let bytes = &bytemuck::cast_slice(&self.raw_final)[i * raw..][..raw];
                self.preprocess.apply(bytes, &mut self.ended_obs[start..])?;
                if let Some(filter) = &mut self.filter {
                    filter.apply(&mut self.ended_obs[start..], false);
                }
            }
            if let Some(callbacks) = callbacks {
                let width = self.preprocess.width;
                let obs: &[f32] = if ended {
                    &self.ended_obs[self.ended_obs.len() - width..]
                } else {
                    &self.obs.slice_mut::<f32>(t + 1)[i * width..][..width]
                };
                let (reward, terminated, truncated) =
                    (self.rewards[row], self.terminated[row], self.truncated[row]);
                callbacks.on_episode_step(episode, StepView { obs, reward, terminated, truncated })?;
                if ended {
                    callbacks.on_episode_end(episode)?;
                }
            }
            if ended {
                let next = Episode {
                    env_index: episode.env_index,
                    number: episode.number + 1,
                    seed: self.next_seeds[i],
                    ..Episode::default()
                };
                self.next_seeds[i] = episode_seed(self.run_seed, next.env_index, next.number + 1);
                self.finished.push(std::mem::replace(episode, next));
                if let Some(callbacks) = callbacks {
                    callbacks.on_episode_start(episode)?;
                }
            }
        }
        Ok(())
    }

    /// Refuses rewards and observations that are not finite, those at which episodes ended included. Called before the
    /// fragment is counted.
    fn check_finite(&mut self) -> Result<()> {
        let (n, width, before) = (self.episodes.len(), self.preprocess.width, self.sampled);
        let copy = |row: usize| self.episodes[row % n].env_index;
        // `rows`: steps of this fragment until then.
        let error = |what: String, value: f32, rows: usize| {
            let hint =
                "look at what the environment computes, or normalise its observations and rewards".into();
            Err(Error::NotFinite { what, value: f64::from(value), step: before + rows as u64, hint })
        };
        let component =
            |i: usize, copy| format!("component {} of an observation of environment copy {copy}", i % width);
        if let Some(row) = self.rewards.iter().position(|r| !r.is_finite()) {
            let what = format!("the reward of environment copy {}", copy(row));
            return error(what, self.rewards[row], row + 1);
        }
        if let Some(i) = self.ended_obs.iter().position(|x| !x.is_finite()) {
            let row = self.ended[i / width];
            return error(component(i, copy(row)), self.ended_obs[i], row + 1);
        }
        for t in 0..=self.steps {
            let row: &[f32] = self.obs.slice_mut(t);
            if let Some(i) = row.iter().position(|x| !x.is_finite()) {
                let steps = if t == 0 { 0 } else { (t - 1) * n + i / width + 1 };
                return error(component(i, copy(i / width)), row[i], steps);
            }
        }
        Ok(())
    }

    fn clip(&mut self) {
        match self.clip_rewards {
            None | Some(ClipRewards::Sign(false)) => {}
            Some(ClipRewards::Sign(true)) => {
                self.rewards.iter_mut().for_each(|r| *r = if *r == 0.0 { 0.0 } else { r.signum() });
            }
            Some(ClipRewards::Within(bound)) => {
                self.rewards.iter_mut().for_each(|r| *r = r.clamp(-bound, bound))
            }
        }
    }

    /// Lends the filled fragment to `f`.
    pub(crate) fn with_fragment<T>(
        &mut self,
        columns: &[(Column, usize)],
        f: impl FnOnce(Fragment<'_>) -> T,
    ) -> T {
        let final_obs =
            Tensor::from_slice(&self.ended_obs).view([self.ended.len() as i64, self.preprocess.width as i64]);
        let columns = columns.iter().zip(&self.columns).map(|((c, _), t)| (*c, t.tensor())).collect();
        f(Fragment {
            steps: self.steps,
            num_envs: self.episodes.len(),
            obs: self.obs.tensor(),
            actions: self.actions.tensor(),
            rewards: &self.rewards,
            terminated: &self.terminated,
            truncated: &self.truncated,
            columns,
            ended: &self.ended,
            final_obs: &final_obs,
        })
    }

    /// The episodes that ended since the last call.
    pub(crate) fn take_episodes(&mut self) -> Vec<Episode> {
        std::mem::take(&mut self.finished)
    }

    /// What the time went to since the last call.
    pub(crate) fn take_perf(&mut self) -> SamplerPerf {
        std::mem::take(&mut self.perf)
    }

    /// The filter, if there is one.
    pub(crate) fn filter_mut(&mut self) -> Option<&mut MeanStdFilter> {
        self.filter.as_mut()
    }

    /// Environment copies.
    pub(crate) fn copies(&self) -> usize {
        self.episodes.len()
    }

    /// Everything the next fragment depends on, environments in the middle of their episodes included.
    pub(crate) fn state(&self) -> Result<State> {
        let mut state = State::default();
        let row = if self.carry { self.steps } else { 0 };
        state.set_tensor("obs", self.obs.row(row));
        match self.env.save_state()? {
            Some(bytes) => state.set_tensor("envs", &Tensor::from_slice(&bytes)),
            None => state.set("envs", &Option::<u8>::None)?,
        }
        state.set("filter", &self.filter)?;
        state.set("rngs", &self.rngs.iter().map(Stream::state).collect::<Vec<_>>())?;
        state.set("episodes", &self.episodes)?;
        state.set("finished", &self.finished)?;
        state.set("sampled", &self.sampled)?;
        Ok(state)
    }

    /// Continues from [`state`](Self::state). `false`: these environments cannot be brought back to the middle of an
    /// episode and started new ones.
    pub(crate) fn set_state(
        &mut self,
        state: &State,
        callbacks: Option<&mut Box<dyn Callbacks>>,
    ) -> Result<bool> {
        let rngs: Vec<StreamState> = state.get("rngs")?;
        let episodes: Vec<Episode> = state.get("episodes")?;
        if rngs.len() != self.rngs.len() || episodes.len() != self.rngs.len() {
            let reason = format!(
                "it holds {} environment copies, but this worker has {}; `num_workers` and `num_envs_per_worker` must be those of the saved run",
                rngs.len(),
                self.rngs.len()
            );
            return Err(Error::state("a worker's environments", reason));
        }
        self.filter = state.get("filter")?;
        self.rngs = rngs.into_iter().map(Stream::from_state).collect();
        self.episodes = episodes;
        self.finished = state.get("finished")?;
        self.sampled = state.get("sampled")?;
        self.next_seeds =
            self.episodes.iter().map(|e| episode_seed(self.run_seed, e.env_index, e.number + 1)).collect();
        self.carry = false;
        if state.has("envs") {
            tracing::warn!("these environments cannot save their state: every copy starts a new episode");
            for (episode, next) in self.episodes.iter_mut().zip(&mut self.next_seeds) {
                *episode = Episode {
                    env_index: episode.env_index,
                    number: episode.number + 1,
                    seed: *next,
                    ..Episode::default()
                };
                *next = episode_seed(self.run_seed, episode.env_index, episode.number + 1);
            }
            self.start_episodes(callbacks)?;
            return Ok(false);
        }
        let envs = state.tensor("envs")?;
        self.env.load_state(crate::base::host::read::<u8>(&envs))?;
        let mut row = self.obs.row(0).shallow_clone();
        state.copy_into("obs", &mut row)?;
        Ok(true)
    }
}
