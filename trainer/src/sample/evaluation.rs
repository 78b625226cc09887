//! Whole episodes played for their returns: evaluation during training, and `pavlov evaluate`.
//!
//! Episode `k` is a function of the evaluation's seed and `k`, whichever copy or worker plays it, and every copy plays
//! a fixed share of the episodes: stopping at the first `n` that happen to end would favour short ones.

use crate::{
    base::{
        episode::Episode,
        error::{Error, Result},
        host::HostTensor,
        rng::{Stream, derive},
    },
    learn::dist::ActionRows,
    policy::{ActInput, ActOutput, Policy, StepColumns},
    run::common::{Common, DurationUnit, EvaluationDuration},
    sample::{
        filter::{MeanStdFilter, RunningStat},
        transforms::{Preprocess, ToEnv},
        worker::WorkerSpec,
    },
};
use pavlov_envs::{Frame, StepOut};
use std::{ops::Range, sync::Weak};
use tch::Kind;

/// Copies stepped together while evaluating, at most.
const COPIES: usize = 16;

/// Steps of one episode, at most: a greedy policy may stand still for ever where there is no time limit.
const MOST_STEPS: u64 = 1_000_000;

/// Which episodes to play.
#[derive(Clone, Debug, PartialEq)]
pub struct EvaluationTask {
    /// Their numbers.
    pub episodes: Vec<u64>,
    /// Seed of the evaluation.
    pub seed: u64,
    /// Sample and explore; false is greedy.
    pub explore: bool,
    /// Steps sampled so far, for exploration schedules.
    pub timestep: u64,
    /// Keep pictures of the first episode, at most so many.
    pub frames: usize,
}

/// When an evaluation has played enough.
#[derive(Clone, Debug)]
pub(crate) enum Until {
    /// So many episodes.
    Episodes(u64),
    /// At least so many steps.
    Timesteps(u64),
    /// What this points to is gone, at the earliest after one episode per worker.
    Gone(Weak<()>),
}

impl Until {
    /// As the settings say; `training` lives as long as the training beside it.
    pub(crate) fn new(common: &Common, training: Weak<()>) -> Self {
        match (common.evaluation_duration, common.evaluation_duration_unit) {
            (EvaluationDuration::Auto, _) => Self::Gone(training),
            (EvaluationDuration::Units(n), DurationUnit::Episodes) => Self::Episodes(n),
            (EvaluationDuration::Units(n), DurationUnit::Timesteps) => Self::Timesteps(n),
        }
    }

    /// The episodes to play next, after `episodes` with `steps` in all; none when that is enough.
    pub(crate) fn next(&self, episodes: u64, steps: u64, workers: usize) -> Range<u64> {
        let more = match self {
            Self::Episodes(n) => n.saturating_sub(episodes),
            Self::Timesteps(n) if steps >= *n => 0,
            Self::Timesteps(n) if episodes == 0 => (*n).min(COPIES as u64),
            Self::Timesteps(n) => (n - steps).div_ceil(steps.div_ceil(episodes).max(1)),
            Self::Gone(it) if episodes > 0 && it.strong_count() == 0 => 0,
            Self::Gone(_) => workers.max(1) as u64,
        };
        episodes..episodes + more
    }
}

/// Plays the episodes of `task`, in the order of `task.episodes`.
pub(crate) fn run_episodes(
    spec: &WorkerSpec,
    task: &EvaluationTask,
    policy: &mut dyn Policy,
    filter: Option<RunningStat>,
) -> Result<Vec<Episode>> {
    Ok(play(spec, task, policy, filter)?.0)
}

/// As [`run_episodes`]; also returns the pictures.
pub(crate) fn play(
    spec: &WorkerSpec,
    task: &EvaluationTask,
    policy: &mut dyn Policy,
    filter: Option<RunningStat>,
) -> Result<(Vec<Episode>, Vec<Frame>)> {
    let n = task.episodes.len().min(COPIES);
    if n == 0 {
        return Ok((Vec::new(), Vec::new()));
    }
    let common = &spec.common;
    let mut env = spec.env.make_vec(&common.env_config, n)?;
    let preprocess = Preprocess::new(env.observation_space(), env.obs_dtype());
    let mut to_env = ToEnv::new(env.action_space(), env.act_dtype(), n, common)?;
    let (width, raw_width) =
        (spec.spaces.obs_width(), env.observation_space().width() * env.obs_dtype().size());
    let action_width = env.action_space().width() as i64;
    let kind = if matches!(to_env, ToEnv::Int { .. }) { Kind::Int64 } else { Kind::Float };
    let mut obs = HostTensor::zeros(1, &[n as i64, width as i64], Kind::Float);
    let mut actions = HostTensor::zeros(1, &[n as i64 * action_width], kind);
    let mut columns: Vec<HostTensor> = policy
        .step_columns()
        .into_iter()
        .map(|(_, w)| HostTensor::zeros(1, &[(n * w) as i64], Kind::Float))
        .collect();
    let mut raw = vec![0_u64; (n * raw_width).div_ceil(8)];
    let mut raw_final = raw.clone();
    let (mut rewards, mut terminated, mut truncated) = (vec![0.0; n], vec![false; n], vec![false; n]);
    let mut filter = match filter {
        None => None,
        Some(running) => {
            let mut filter = MeanStdFilter::new(width);
            filter.set_running(&running)?;
            Some(filter)
        }
    };

    // Copy i plays the episodes at positions i, i + n, i + 2n, ...
    let seed_of = |position: usize| {
        task.episodes.get(position).map_or(0, |&k| derive(task.seed, "evaluation episode", k) >> 1)
    };
    let mut at: Vec<usize> = (0..n).collect();
    let mut seeds: Vec<u64> = (0..n).map(seed_of).collect();
    let mut done: Vec<Option<Episode>> = vec![None; task.episodes.len()];
    let fresh = |position: usize| Episode {
        number: task.episodes.get(position).copied().unwrap_or_default(),
        seed: seed_of(position),
        ..Episode::default()
    };
    let mut running: Vec<Episode> = (0..n).map(fresh).collect();
    let mut rngs: Vec<Stream> = running.iter().map(|e| Stream::new(e.seed, "evaluation action", 0)).collect();
    let mut frames = Vec::new();
    let raw_bytes = n * raw_width;

    env.reset(Some(&seeds), &mut bytemuck::cast_slice_mut(&mut raw)[..raw_bytes])?;
    for (i, seed) in seeds.iter_mut().enumerate() {
        *seed = seed_of(i + n);
    }
    let mut left = task.episodes.len();
    while left > 0 {
        if at[0] == 0 && frames.len() < task.frames {
            frames.extend(env.render(0)?);
        }
        preprocess.apply(&bytemuck::cast_slice(&raw)[..raw_bytes], obs.slice_mut(0))?;
        if let Some(filter) = &mut filter {
            filter.apply(obs.slice_mut(0), false);
        }
        let rows = match kind {
            Kind::Int64 => ActionRows::Int(actions.slice_mut(0)),
            _ => ActionRows::Float(actions.slice_mut(0)),
        };
        let input =
            ActInput { obs: obs.row(0), rngs: &mut rngs, explore: task.explore, timestep: task.timestep };
        let step_columns = StepColumns { tensors: &mut columns, step: 0 };
        policy.compute_actions(input, ActOutput { actions: rows, columns: step_columns })?;
        env.step(
            to_env.apply(actions.bytes_mut(0)),
            Some(&seeds),
            StepOut {
                obs: &mut bytemuck::cast_slice_mut(&mut raw)[..raw_bytes],
                final_obs: &mut bytemuck::cast_slice_mut(&mut raw_final)[..raw_bytes],
                rewards: &mut rewards,
                terminated: &mut terminated,
                truncated: &mut truncated,
            },
        )?;
        for i in 0..n {
            running[i].total_reward += f64::from(rewards[i]);
            running[i].length += 1;
            if running[i].length > MOST_STEPS {
                let reason = format!(
                    "episode {} has not ended in {MOST_STEPS} steps; give the environment a time limit (`TimeLimit`)",
                    running[i].number
                );
                return Err(Error::Worker { worker: 0, reason });
            }
            if terminated[i] || truncated[i] {
                let finished = std::mem::replace(&mut running[i], fresh(at[i] + n));
                rngs[i] = Stream::new(running[i].seed, "evaluation action", 0);
                if let Some(slot) = done.get_mut(at[i]) {
                    *slot = Some(finished);
                    left -= 1;
                }
                at[i] += n;
                seeds[i] = seed_of(at[i] + n);
            }
        }
    }
    Ok((done.into_iter().flatten().collect(), frames))
}
