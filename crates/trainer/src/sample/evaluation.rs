//! Whole episodes played for their returns: evaluation during training, and `pavlov evaluate`.
//!
//! The result of episode `k` depends only on the evaluation's seed and `k`, not on the copy or worker that plays it.
//! The share of episodes of each copy is fixed in advance: taking the first `n` episodes that end would favour short
//! ones.

use crate::agents::PolicyAssignment;
use crate::base::Episode;
use crate::policy::PolicyMap;
use crate::sample::agent_evaluation::{Acting, play_agents};
use crate::sample::connector::Connector;
use crate::sample::episode_schedule::EpisodeSchedule;
use crate::sample::filter::FilterStats;
use crate::sample::spec::WorkerSpec;
use crate::settings::{Common, DurationUnit, EvaluationDuration};
use pavlov_envs::{AnyVectorEnv, EnvCopies, Frame, MultiAgentVector};
use pavlov_learn::base::{Error, Result, Spaces};
use serde::{Deserialize, Serialize};
use std::ops::Range;
use std::sync::Weak;

/// Largest number of environment copies that an evaluation runs on one worker.
pub(crate) const COPIES: usize = 16;

/// A request to play episodes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct EvaluationTask {
    /// Numbers of the episodes to play.
    pub episodes: Vec<u64>,
    /// Seed of the evaluation.
    pub seed: u64,
    /// Whether policies explore, or sample their actions; otherwise they take the best known action.
    pub explore: bool,
    /// Number of environment steps of the run so far, for exploration schedules.
    pub timestep: u64,
    /// Largest number of pictures of the first episode to keep; 0 draws none.
    pub frames: usize,
}

/// Results of an evaluation.
#[derive(Clone, Debug, Default)]
pub struct Evaluation {
    /// The finished episodes, in the order of their numbers.
    pub episodes: Vec<Episode>,
    /// Pictures of the first episode; empty if the task asks for none.
    pub frames: Vec<Frame>,
    /// Number of pictures per second; `None` if the environment names no rate.
    pub render_fps: Option<f64>,
}

/// Environments kept from one evaluation to the next: starting the process of a Python environment is slow.
#[derive(Debug)]
pub(crate) enum Stage {
    /// A vector of single-agent environments.
    Vector(Box<dyn AnyVectorEnv>),
    /// Copies of a multi-agent environment.
    Agents(MultiAgentVector),
}

impl Stage {
    fn new(spec: &WorkerSpec, copies: usize) -> Result<Self> {
        Ok(match spec.names.common.wrap_env(&spec.env).make(&spec.names.common.env_config, copies)? {
            EnvCopies::Vector(env) => Self::Vector(env),
            EnvCopies::MultiAgent(copies) => Self::Agents(copies),
            EnvCopies::External(_) => {
                let rule = "its episodes are played by other programs, so none can be played here; evaluate where it is";
                return Err(Error::config("env", spec.env.name(), rule));
            }
        })
    }

    fn copies(&self) -> usize {
        match self {
            Self::Vector(env) => env.num_envs(),
            Self::Agents(copies) => copies.num_envs(),
        }
    }
}

/// Plays the episodes of `task`, on the environments in `kept` if there are as many copies as needed, otherwise on new
/// ones. Keeps the environments in `kept`; after an error it keeps none. Every episode begins with a seed, so new and
/// used environments give the same results.
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
    // Environments that do not fit are dropped before new ones are made: memory may not suffice for both.
    let mut stage = match kept.take().filter(|stage| stage.copies() == n) {
        Some(stage) => stage,
        None => Stage::new(spec, n)?,
    };
    let played = match &mut stage {
        Stage::Vector(env) => {
            let roster = EpisodeSchedule::new(&task.episodes, task.seed, n, None, worker);
            let is_unlimited = env.max_episode_steps().is_none();
            let roster = roster.without_limit(is_unlimited.then(|| spec.env.name()));
            play_vector(env.as_mut(), spec, worker, task, policies, filters, roster)?
        }
        Stage::Agents(copies) => {
            let seated = spec.policies.in_evaluation();
            let seating = PolicyAssignment::new(spec.agents(), &seated);
            let roster = EpisodeSchedule::new(&task.episodes, task.seed, n, Some(seating), worker);
            let roster = roster.without_limit(Some(spec.env.name()));
            let who = (spec.agents(), &seated);
            let EvaluationTask { explore, timestep, frames, .. } = *task;
            let how = Acting { explore, timestep, worker, frames };
            let (episodes, frames) =
                play_agents(copies, &spec.names.common, who, policies, filters, roster, how)?;
            Evaluation { episodes, frames, render_fps: copies.render_fps() }
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
    let spaces = Spaces::of(env);
    let dtype = env.act_dtype();
    let rows = |spaces: &Spaces| {
        let space = &spaces.observation_space;
        (space.shape(), space.dtype(), space.flat_width())
    };
    let made_for = &spec.agents()[0].spaces;
    if rows(&spaces) != rows(made_for) {
        let needs = format!("the space it was made for ({})", made_for.observation_space);
        let space = spaces.observation_space.to_string();
        return Err(Error::Space { who: "the policy".into(), needs, space });
    }
    let rngs = (0..n).map(|copy| roster.stream(copy, 0)).collect();
    let id = spec.policies.in_evaluation().of(&spec.agents()[0].name);
    let common = spec.common_of(&id);
    let policy = policies.get_mut(&id)?.as_mut();
    let mut connector =
        Connector::new(&spaces, dtype, common, policy, worker, rngs)?.filtered_by(filters.get(&id))?;
    let mut storage = connector.steps(1)?;
    let mut frames = Vec::new();

    env.reset(Some(&roster.seeds()), connector.first(&mut storage))?;
    connector.observe(&mut storage, 0, false)?;
    if let Some(masks) = &mut storage.masks {
        masks.read(env, 0)?;
    }
    while roster.goes_on() {
        if roster.at_first() && frames.len() < task.frames {
            frames.extend(env.render(0)?);
        }
        connector.act(policy, &mut storage, 0, task.explore, task.timestep)?;
        let (actions, out) = connector.exchange(&mut storage, 0);
        env.step(actions, Some(roster.next_seeds()), out)?;
        connector.observe(&mut storage, 1, false)?;
        if let Some(masks) = &mut storage.masks {
            masks.read(env, 1)?;
        }
        storage.carry();
        for i in 0..n {
            roster.count(i, f64::from(storage.rewards[i]), &[])?;
            if storage.terminated[i] || storage.truncated[i] {
                roster.follow(i);
                connector.begin(i, Some(roster.stream(i, 0)));
            }
        }
    }
    Ok(Evaluation { episodes: roster.into_episodes(), frames, render_fps: env.render_fps() })
}

/// The condition that ends an evaluation.
#[derive(Clone, Debug)]
pub(crate) enum EvaluationEnd {
    /// The evaluation ends after this number of episodes.
    Episodes(u64),
    /// The evaluation ends when its finished episodes have this number of environment steps or more, all together.
    Timesteps(u64),
    /// The evaluation ends when the training beside it ends, but not before one episode per worker.
    TrainingEnds(Weak<()>),
}

impl EvaluationEnd {
    /// Reads the condition from the settings; `training` is dropped when the training beside the evaluation ends.
    pub(crate) fn new(common: &Common, training: Weak<()>) -> Self {
        match (common.evaluation_duration, common.evaluation_duration_unit) {
            (EvaluationDuration::Auto, _) => Self::TrainingEnds(training),
            (EvaluationDuration::Units(n), DurationUnit::Episodes) => Self::Episodes(n),
            (EvaluationDuration::Units(n), DurationUnit::Timesteps) => Self::Timesteps(n),
        }
    }

    /// Numbers of the episodes to play next, after the evaluation has played `episodes` episodes with `steps` steps;
    /// empty when it is over.
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

/// Pictures of an evaluation's first episode, and the number of pictures per second, if the environment names one.
pub(crate) type Pictures = (Vec<Frame>, Option<f64>);
