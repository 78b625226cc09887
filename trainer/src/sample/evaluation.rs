//! Whole episodes played for their returns: evaluation during training, and `pavlov evaluate`.
//!
//! Episode `k` is a function of the evaluation's seed and `k`, whichever copy or worker plays it, and every copy plays
//! a fixed share of the episodes: stopping at the first `n` that happen to end would favour short ones.

use crate::agents::PolicyAssignment;
use crate::base::{Episode, Error, Result, Spaces};
use crate::policy::PolicyMap;
use crate::sample::agent_copies::AgentCopies;
use crate::sample::agent_evaluation::{Acting, play_agents};
use crate::sample::connector::Connector;
use crate::sample::episode_schedule::EpisodeSchedule;
use crate::sample::filter::FilterStats;
use crate::sample::spec::WorkerSpec;
use crate::settings::{Common, DurationUnit, EvaluationDuration};
use pavlov_envs::{AnyVectorEnv, EnvCopies, Frame, StepOut};
use serde::{Deserialize, Serialize};
use std::ops::Range;
use std::sync::Weak;

/// Copies stepped together while evaluating, at most.
pub(crate) const COPIES: usize = 16;

/// Which episodes to play.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct EvaluationTask {
    /// The numbers of the episodes.
    pub episodes: Vec<u64>,
    /// Seed of the evaluation.
    pub seed: u64,
    /// Whether policies sample and explore; false is greedy.
    pub explore: bool,
    /// Steps sampled so far, for exploration schedules.
    pub timestep: u64,
    /// Keep pictures of the first episode, at most so many.
    pub frames: usize,
}

/// What evaluation episodes gave.
#[derive(Clone, Debug, Default)]
pub struct Evaluation {
    /// The episodes in the order of their numbers.
    pub episodes: Vec<Episode>,
    /// Pictures of the first one, if asked for.
    pub frames: Vec<Frame>,
    /// How many of them make a second, if the environment says.
    pub render_fps: Option<f64>,
}

/// Environments of an evaluation, for the next one: those in Python take a process each, which is slow to start.
#[derive(Debug)]
pub(crate) enum Stage {
    /// A vector environment.
    Vector(Box<dyn AnyVectorEnv>),
    /// Copies in which several agents act, and the pictures that make a second, if the environment says.
    Agents(Box<AgentCopies>, Option<f64>),
}

impl Stage {
    fn new(spec: &WorkerSpec, copies: usize) -> Result<Self> {
        Ok(match spec.common.changed(&spec.env).make(&spec.common.env_config, copies)? {
            EnvCopies::Vector(env) => Self::Vector(env),
            EnvCopies::MultiAgent(envs) => {
                let render_fps = envs.first().and_then(|env| env.render_fps());
                Self::Agents(Box::new(AgentCopies::new(envs)), render_fps)
            }
        })
    }

    fn copies(&self) -> usize {
        match self {
            Self::Vector(env) => env.num_envs(),
            Self::Agents(copies, _) => copies.len(),
        }
    }
}

/// Plays the episodes of `task` on the environments in `kept`, if these are as many as it needs, and leaves its own there. An
/// episode begins with a seed, so it is the same on new environments and on used ones. After an error none are kept.
pub(crate) fn play(
    spec: &WorkerSpec,
    worker: usize,
    task: &EvaluationTask,
    policies: &mut PolicyMap,
    filters: &FilterStats,
    kept: &mut Option<Stage>,
) -> Result<Evaluation> {
    let n = task.episodes.len().min(COPIES);
    if n == 0 {
        return Ok(Evaluation::default());
    }
    // Others are dropped first: there is never room for both.
    let mut stage = match kept.take().filter(|stage| stage.copies() == n) {
        Some(stage) => stage,
        None => Stage::new(spec, n)?,
    };
    let played = match &mut stage {
        Stage::Vector(env) => {
            let roster = EpisodeSchedule::new(&task.episodes, task.seed, n, None, worker);
            play_vector(env.as_mut(), spec, worker, task, policies, filters, roster)?
        }
        Stage::Agents(copies, render_fps) => {
            let seated = spec.policies.in_evaluation();
            let seating = PolicyAssignment::new(&spec.agents, &seated);
            let roster = EpisodeSchedule::new(&task.episodes, task.seed, n, Some(seating), worker);
            let who = (spec.agents.as_slice(), &seated);
            let EvaluationTask { explore, timestep, frames, .. } = *task;
            let how = Acting { explore, timestep, worker, frames };
            let (episodes, frames) = play_agents(copies, &spec.common, who, policies, filters, roster, how)?;
            Evaluation { episodes, frames, render_fps: *render_fps }
        }
    };
    *kept = Some(stage);
    Ok(played)
}

fn play_vector(
    env: &mut dyn AnyVectorEnv,
    spec: &WorkerSpec,
    worker: usize,
    task: &EvaluationTask,
    policies: &mut PolicyMap,
    filters: &FilterStats,
    mut roster: EpisodeSchedule<'_>,
) -> Result<Evaluation> {
    let n = env.num_envs();
    let (spaces, dtype) = (Spaces::of(env), env.act_dtype());
    let rows = |spaces: &Spaces| {
        let space = &spaces.observation_space;
        (space.shape(), space.dtype(), space.flat_width())
    };
    let made_for = &spec.agents[0].spaces;
    if rows(&spaces) != rows(made_for) {
        let needs = format!("the space it was made for ({})", made_for.observation_space);
        let space = spaces.observation_space.to_string();
        return Err(Error::Space { who: "the policy".into(), needs, space });
    }
    let rngs = (0..n).map(|copy| roster.stream(copy, 0)).collect();
    let id = spec.policies.in_evaluation().of(&spec.agents[0].name);
    let (common, policy) = (spec.common_of(&id), policies.get_mut(&id)?.as_mut());
    let mut pilot =
        Connector::new(&spaces, dtype, common, policy, worker, rngs)?.filtered_by(filters.get(&id))?;
    let mut storage = pilot.steps(1)?;
    let (mut rewards, mut terminated, mut truncated) = (vec![0.0; n], vec![false; n], vec![false; n]);
    let mut frames = Vec::new();

    env.reset(Some(&roster.seeds()), pilot.first(&mut storage))?;
    pilot.observe(&mut storage, 0, false)?;
    if let Some(masks) = &mut storage.masks {
        masks.read(env, 0)?;
    }
    while roster.goes_on() {
        if roster.at_first() && frames.len() < task.frames {
            frames.extend(env.render(0)?);
        }
        pilot.act(policy, &mut storage, 0, task.explore, task.timestep)?;
        let exchange = pilot.exchange(&mut storage, 0);
        env.step(
            exchange.actions,
            Some(roster.next_seeds()),
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
            masks.read(env, 1)?;
        }
        storage.carry();
        for i in 0..n {
            roster.count(i, f64::from(rewards[i]), &[])?;
            if terminated[i] || truncated[i] {
                roster.follow(i);
                pilot.begin(i, Some(roster.stream(i, 0)));
            }
        }
    }
    Ok(Evaluation { episodes: roster.into_episodes(), frames, render_fps: env.render_fps() })
}

/// When an evaluation has played enough.
#[derive(Clone, Debug)]
pub(crate) enum EvaluationEnd {
    /// So many episodes.
    Episodes(u64),
    /// At least so many steps.
    Timesteps(u64),
    /// What this points to is gone, at the earliest after one episode per worker.
    TrainingEnds(Weak<()>),
}

impl EvaluationEnd {
    /// As the settings say; `training` lives as long as the training beside it.
    pub(crate) fn new(common: &Common, training: Weak<()>) -> Self {
        match (common.evaluation_duration, common.evaluation_duration_unit) {
            (EvaluationDuration::Auto, _) => Self::TrainingEnds(training),
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
            Self::TrainingEnds(it) if episodes > 0 && it.strong_count() == 0 => 0,
            Self::TrainingEnds(_) => workers.max(1) as u64,
        };
        episodes..episodes + more
    }
}

/// Pictures of an evaluation's first episode, and how many of them make a second, if the environment says.
pub(crate) type Pictures = (Vec<Frame>, Option<f64>);
