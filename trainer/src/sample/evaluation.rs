//! Whole episodes played for their returns: evaluation during training, and `pavlov evaluate`.
//!
//! Episode `k` is a function of the evaluation's seed and `k`, whichever copy or worker plays it, and every copy plays
//! a fixed share of the episodes: stopping at the first `n` that happen to end would favour short ones.

use crate::{
    base::{
        episode::Episode,
        error::{Error, Result},
        rng::{Stream, derive},
    },
    policy::{Policy, Spaces},
    run::common::{Common, DurationUnit, EvaluationDuration},
    sample::{filter::RunningStat, pilot::Pilot, worker::WorkerSpec},
};
use pavlov_envs::{Frame, StepOut};
use std::{ops::Range, sync::Weak};

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

/// Plays the episodes of `task`; returns them in the order of `task.episodes`, and the pictures.
pub(crate) fn play(
    spec: &WorkerSpec,
    worker: usize,
    task: &EvaluationTask,
    policy: &mut dyn Policy,
    filter: Option<&RunningStat>,
) -> Result<(Vec<Episode>, Vec<Frame>)> {
    let n = task.episodes.len().min(COPIES);
    if n == 0 {
        return Ok((Vec::new(), Vec::new()));
    }
    // Copy i plays the episodes at positions i, i + n, i + 2n, ...
    let seed_of = |position: usize| {
        task.episodes.get(position).map_or(0, |&k| derive(task.seed, "evaluation episode", k) >> 1)
    };
    let fresh = |position: usize| Episode {
        number: task.episodes.get(position).copied().unwrap_or_default(),
        seed: seed_of(position),
        ..Episode::default()
    };
    let stream = |episode: &Episode| Stream::new(episode.seed, "evaluation action", 0);
    let mut at: Vec<usize> = (0..n).collect();
    let mut running: Vec<Episode> = (0..n).map(fresh).collect();
    let mut done: Vec<Option<Episode>> = vec![None; task.episodes.len()];

    let mut env = spec.env.make_vec(&spec.common.env_config, n)?;
    let (spaces, dtype) = (Spaces::of(env.as_ref()), env.act_dtype());
    let rows = |spaces: &Spaces| {
        let space = &spaces.observation_space;
        (space.shape(), space.dtype(), space.flat_width())
    };
    if rows(&spaces) != rows(&spec.spaces) {
        let needs = format!("the space it was made for ({})", spec.spaces.observation_space);
        let space = spaces.observation_space.to_string();
        return Err(Error::Space { who: "the policy".into(), needs, space });
    }
    let rngs = running.iter().map(stream).collect();
    let mut pilot = Pilot::new(&spaces, dtype, &spec.common, policy, worker, rngs)?.filtered_by(filter)?;
    let mut storage = pilot.steps(1)?;
    let (mut rewards, mut terminated, mut truncated) = (vec![0.0; n], vec![false; n], vec![false; n]);
    let mut frames = Vec::new();

    let seeds: Vec<u64> = (0..n).map(seed_of).collect();
    env.reset(Some(&seeds), pilot.first(&mut storage))?;
    pilot.observe(&mut storage, 0, false)?;
    if let Some(masks) = &mut storage.masks {
        masks.read(env.as_ref(), 0)?;
    }
    let mut next_seeds: Vec<u64> = (n..2 * n).map(seed_of).collect();
    let mut left = task.episodes.len();
    while left > 0 {
        if at[0] == 0 && frames.len() < task.frames {
            frames.extend(env.render(0)?);
        }
        pilot.act(policy, &mut storage, 0, task.explore, task.timestep)?;
        let exchange = pilot.exchange(&mut storage, 0);
        env.step(
            exchange.actions,
            Some(&next_seeds),
            StepOut {
                obs: exchange.obs,
                final_obs: exchange.final_obs,
                rewards: &mut rewards,
                terminated: &mut terminated,
                truncated: &mut truncated,
            },
        )?;
        pilot.observe(&mut storage, 1, false)?;
        if let Some(masks) = &mut storage.masks {
            masks.read(env.as_ref(), 1)?;
        }
        storage.carry();
        for i in 0..n {
            running[i].total_reward += f64::from(rewards[i]);
            running[i].length += 1;
            if running[i].length > MOST_STEPS {
                let reason = format!(
                    "episode {} has not ended in {MOST_STEPS} steps; give the environment a time limit (`TimeLimit`)",
                    running[i].number
                );
                return Err(Error::Worker { worker, reason });
            }
            if terminated[i] || truncated[i] {
                let finished = std::mem::replace(&mut running[i], fresh(at[i] + n));
                pilot.begin(i, Some(stream(&running[i])));
                if let Some(slot) = done.get_mut(at[i]) {
                    *slot = Some(finished);
                    left -= 1;
                }
                at[i] += n;
                next_seeds[i] = seed_of(at[i] + n);
            }
        }
    }
    Ok((done.into_iter().flatten().collect(), frames))
}
