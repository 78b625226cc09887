//! The loop that steps environment copies with a policy and fills fragments.
//!
//! Storage is time-major `[T, N, ...]`, allocated once and reused: the environment writes its observations straight
//! into row `t + 1`, the policy reads row `t` without a copy. Per step and copy there is no allocation, no lock and, on
//! the CPU, no host read.

use crate::{
    base::{
        episode::Episode,
        error::Result,
        host::{self, HostTensor},
        profile::{Laps, SamplerPerf},
        rng::Stream,
        state::State,
        train_batch::PolicyId,
    },
    policy::{Fragment, FragmentMasks, FragmentMemory, Policy, PolicyMap, Spaces},
    run::common::{ClipRewards, Common},
    sample::{
        callbacks::{Callbacks, StepView},
        counting::{Counting, Numbers},
        filter::{MeanStdFilter, ObservationFilter},
        pilot::Pilot,
        source::{FragmentSource, TakeRows},
        steps::Steps,
    },
};
use pavlov_envs::{AnyVectorEnv, StepOut};
use tch::{Kind, Tensor};

/// Copies of an environment, every buffer a fragment needs, and the episodes in progress.
#[derive(Debug)]
pub(crate) struct Sampler {
    env: Box<dyn AnyVectorEnv>,
    /// The id of the policy that acts.
    policy: PolicyId,
    pilot: Pilot,
    storage: Steps,
    counting: Counting,
    clip_rewards: Option<ClipRewards>,
    total_envs: u64,
    steps: usize,

    /// Time-major `[T * N]`.
    rewards: Vec<f32>,
    terminated: Vec<bool>,
    truncated: Vec<bool>,
    /// Steps at which episodes ended, and what was behind each: the last observation and its mask.
    ended: Vec<usize>,
    ended_obs: Rows,
    ended_masks: Vec<bool>,

    /// What the next fragment starts from stands in row T, not in row 0.
    carry: bool,
    perf: SamplerPerf,
}

/// Rows of bytes, aligned for whatever stands in them.
#[derive(Debug, Default)]
struct Rows {
    words: Vec<u64>,
    len: usize,
}

impl Rows {
    fn bytes(&self) -> &[u8] {
        &bytemuck::cast_slice(&self.words)[..self.len]
    }

    fn push(&mut self, row: &[u8]) {
        let start = self.len;
        self.len += row.len();
        self.words.resize(self.len.div_ceil(8), 0);
        bytemuck::cast_slice_mut(&mut self.words)[start..self.len].copy_from_slice(row);
    }

    fn clear(&mut self) {
        self.len = 0;
    }
}

impl Sampler {
    /// Allocates the buffers and starts the first episodes. `first_env` is the index of the first copy in the whole run.
    pub(crate) fn new(
        env: Box<dyn AnyVectorEnv>,
        common: &Common,
        (id, policy): (PolicyId, &dyn Policy),
        worker: usize,
        (run_seed, first_env): (u64, u64),
        callbacks: Option<&mut Box<dyn Callbacks>>,
    ) -> Result<Self> {
        let (n, t) = (env.num_envs(), common.rollout_fragment_length);
        let rngs = (0..n as u64).map(|i| Stream::new(run_seed, "action", first_env + i)).collect();
        let spaces = Spaces::of(env.as_ref());
        let mut pilot = Pilot::new(&spaces, env.act_dtype(), common, policy, worker, rngs)?;
        pilot.filter = match common.observation_filter {
            ObservationFilter::NoFilter => None,
            ObservationFilter::MeanStdFilter => Some(MeanStdFilter::new(pilot.encoding().width())),
        };
        let mut sampler = Self {
            policy: id,
            storage: pilot.steps(t)?,
            pilot,
            counting: Counting::new(run_seed, first_env, n),
            clip_rewards: common.clip_rewards,
            total_envs: common.total_envs() as u64,
            steps: t,
            rewards: vec![0.0; t * n],
            terminated: vec![false; t * n],
            truncated: vec![false; t * n],
            ended: Vec::new(),
            ended_obs: Rows::default(),
            ended_masks: Vec::new(),
            carry: false,
            perf: SamplerPerf::default(),
            env,
        };
        sampler.start_episodes(callbacks)?;
        Ok(sampler)
    }

    fn start_episodes(&mut self, callbacks: Option<&mut Box<dyn Callbacks>>) -> Result<()> {
        let Self { env, pilot, storage, counting, .. } = self;
        env.reset(Some(&counting.seeds()), pilot.first(storage))?;
        pilot.observe(storage, 0, true)?;
        if let Some(masks) = &mut storage.masks {
            masks.read(env.as_ref(), 0)?;
        }
        (0..counting.copies()).for_each(|copy| pilot.begin(copy, None));
        counting.start(callbacks)
    }

    fn step_env(&mut self, t: usize, laps: &mut Laps) -> Result<()> {
        let Self { env, pilot, storage, counting, perf, .. } = self;
        let n = counting.copies();
        let rows = t * n..(t + 1) * n;
        let exchange = pilot.exchange(storage, t);
        laps.lap(&mut perf.action_processing);
        env.step(
            exchange.actions,
            Some(counting.next_seeds()),
            StepOut {
                obs: exchange.obs,
                final_obs: exchange.final_obs,
                rewards: &mut self.rewards[rows.clone()],
                terminated: &mut self.terminated[rows.clone()],
                truncated: &mut self.truncated[rows],
            },
        )?;
        laps.lap(&mut perf.env_wait);
        pilot.observe(storage, t + 1, true)?;
        match &mut storage.masks {
            Some(masks) => masks.read(env.as_ref(), t + 1),
            None => Ok(()),
        }
    }

    /// Counts the step in the episodes, and keeps what was behind those that ended.
    fn count(&mut self, t: usize, callbacks: &mut Option<&mut Box<dyn Callbacks>>) -> Result<()> {
        let n = self.counting.copies();
        for i in 0..n {
            let row = t * n + i;
            let (terminated, truncated) = (self.terminated[row], self.truncated[row]);
            let ended = terminated || truncated;
            if ended {
                self.ended_obs.push(self.pilot.final_obs(i)?);
                if let Some(masks) = &mut self.storage.masks {
                    if self.ended.last().is_none_or(|&last| last < t * n) {
                        masks.read_ended(self.env.as_ref());
                    }
                    self.ended_masks.extend_from_slice(masks.ended(i));
                }
                if let Some(memories) = &mut self.storage.memories {
                    memories.behind.extend_from_slice(self.pilot.memory(i));
                }
                self.ended.push(row);
                self.pilot.begin(i, None);
            }
            // Nobody else looks.
            let obs: &[f32] = match callbacks.is_some() {
                true => self.pilot.model_row(&mut self.storage, (!ended).then_some((t + 1, i))),
                false => &[],
            };
            let step = StepView { obs, reward: self.rewards[row], terminated, truncated };
            self.counting.step(i, f64::from(step.reward), step, callbacks)?;
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
    ) -> Result<()> {
        let policy = policies.get_mut(&self.policy)?.as_mut();
        if self.carry {
            self.storage.carry();
        }
        self.carry = false;
        self.ended.clear();
        self.ended_obs.clear();
        self.ended_masks.clear();
        if let Some(memories) = &mut self.storage.memories {
            memories.behind.clear();
        }
        let mut laps = Laps::start();
        for t in 0..self.steps {
            let now = timestep + t as u64 * self.total_envs;
            self.pilot.act(policy, &mut self.storage, t, explore, now)?;
            laps.lap(&mut self.perf.inference);
            self.step_env(t, &mut laps)?;
            self.count(t, &mut callbacks)?;
            laps.lap(&mut self.perf.raw_obs_processing);
        }
        if let Some(memories) = &mut self.storage.memories {
            memories.next.copy_from_slice(self.pilot.memories());
        }
        self.perf.steps += self.steps as u32;
        self.carry = true;
        // Integers are always finite.
        let is_float = self.pilot.encoding().kind() == Kind::Float;
        self.counting.check_and_count(Numbers {
            rewards: &self.rewards,
            obs: if is_float { host::read(self.storage.obs.tensor()) } else { &[] },
            ended: (&self.ended, if is_float { bytemuck::cast_slice(self.ended_obs.bytes()) } else { &[] }),
            width: self.pilot.encoding().shape().iter().product::<i64>() as usize,
        })?;
        if let Some(clip) = self.clip_rewards {
            clip.apply(&mut self.rewards);
        }
        Ok(())
    }

    fn lend(&mut self, f: &mut TakeRows<'_>) -> Result<()> {
        let Self { pilot, storage, policy, .. } = self;
        let ended = self.ended.len() as i64;
        let shape: Vec<i64> =
            std::iter::once(ended).chain(pilot.encoding().shape().iter().copied()).collect();
        let final_obs = Tensor::from_data_size(self.ended_obs.bytes(), &shape, pilot.encoding().kind());
        let behind = storage
            .masks
            .as_ref()
            .map(|masks| Tensor::from_slice(&self.ended_masks).view([ended, masks.options() as i64]));
        let masks = storage.masks.as_ref().zip(behind.as_ref());
        let fragment = Fragment {
            steps: self.steps,
            num_envs: self.counting.copies(),
            lengths: None,
            obs: storage.obs.tensor(),
            actions: storage.actions.tensor(),
            rewards: &self.rewards,
            terminated: &self.terminated,
            truncated: &self.truncated,
            columns: pilot
                .columns()
                .iter()
                .copied()
                .zip(storage.columns.iter().map(HostTensor::tensor))
                .collect(),
            ended: &self.ended,
            final_obs: &final_obs,
            masks: masks.map(|(masks, behind)| FragmentMasks { rows: masks.rows.tensor(), behind }),
            memory: storage.memories.as_ref().map(|memories| FragmentMemory {
                max_seq_len: memories.every,
                rows: memories.rows.tensor(),
                resets: &memories.resets,
                behind: &memories.behind,
                next: &memories.next,
            }),
        };
        f(policy, fragment)
    }

    fn take_episodes(&mut self) -> Vec<Episode> {
        self.counting.take_finished()
    }

    fn take_perf(&mut self) -> SamplerPerf {
        std::mem::take(&mut self.perf)
    }

    fn filter_mut(&mut self) -> Option<&mut MeanStdFilter> {
        self.pilot.filter.as_mut()
    }

    fn copies(&self) -> usize {
        self.counting.copies()
    }

    fn state(&self) -> Result<State> {
        let mut state = State::default();
        let row = if self.carry { self.steps } else { 0 };
        self.storage.save(row, &mut state);
        match self.env.save_state()? {
            Some(bytes) => state.set_tensor("envs", &Tensor::from_slice(&bytes)),
            None => state.set("envs", &Option::<u8>::None)?,
        }
        self.pilot.save(&mut state)?;
        self.counting.save(&mut state)?;
        Ok(state)
    }

    fn set_state(&mut self, state: &State, callbacks: Option<&mut Box<dyn Callbacks>>) -> Result<bool> {
        self.counting.set_state(state)?;
        self.pilot.set_state(state, self.counting.beginnings())?;
        self.carry = false;
        if state.has("envs") {
            tracing::warn!("these environments cannot save their state: every copy starts a new episode");
            self.counting.follow_all();
            self.start_episodes(callbacks)?;
            return Ok(false);
        }
        let envs = state.tensor("envs")?;
        self.env.load_state(host::read::<u8>(&envs))?;
        self.storage.restore(state)?;
        Ok(true)
    }
}
