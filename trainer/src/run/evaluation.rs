//! Evaluations of a run: when one is due, what it plays, and its pictures.

use crate::base::{Episode, Result, derive};
use crate::run::results::summarize;
use crate::run::training::Run;
use crate::sample::{COPIES, EvaluationTask};
use crate::settings::{Common, DurationUnit, EvaluationDuration};
use crate::workers::WorkerSet;
use pavlov_envs::{EnvCreator, Frame};
use pavlov_tune::Metrics;
use serde_json::{Value, json};
use std::ops::Range;
use std::sync::Weak;
use tch::Device;

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

/// Pictures of an evaluation's first episode, at most.
const MOST_PICTURES: usize = 1000;

/// Pictures of an evaluation's first episode, and how many of them make a second, if the environment says.
pub(crate) type Pictures = (Vec<Frame>, Option<f64>);

impl Run {
    /// Plays evaluation episodes now; returns the block that results carry under `evaluation`. There is no training
    /// beside it: with `evaluation_duration` "auto" every evaluation worker plays one episode.
    ///
    /// # Errors
    /// Fails if an environment or a policy does, an episode does not end, or an evaluation worker fails and no setting
    /// lets the run go on without it.
    pub fn evaluate(&mut self) -> Result<Metrics> {
        let (task, workers) = self.prepare_evaluation(0)?;
        let (metrics, _) = Self::play(&workers, task, &EvaluationEnd::new(self.common(), Weak::new()))?;
        self.last_evaluation = Value::Object(metrics.clone());
        Ok(metrics)
    }

    pub(crate) fn pictures_of_evaluations(&self) -> usize {
        if self.common().render_env { MOST_PICTURES } else { 0 }
    }

    /// The number of the iteration that has just ended and the pictures of its evaluation, if it had one that is drawn.
    pub(crate) fn take_pictures(&mut self) -> Option<(u64, Pictures)> {
        self.pictures.take().map(|pictures| (self.iteration, pictures))
    }

    /// Workers with the learner's weights and filter, and what they are to play, without episodes yet.
    pub(crate) fn prepare_evaluation(&mut self, frames: usize) -> Result<(EvaluationTask, WorkerSet)> {
        let common = &self.spec.common;
        let workers = match &self.evaluation {
            Some(workers) => workers.clone(),
            None => {
                let mut spec = self.spec.clone();
                spec.sampling = false;
                spec.common.num_workers = common.evaluation_num_workers;
                spec.common.env_config.extend(common.evaluation_config.env_config.clone());
                if let Some(id) = &common.evaluation_config.env {
                    spec.env = EnvCreator::from(id.as_str());
                }
                let env = spec.env.name();
                if common.render_env && (env.starts_with("py:") || env.starts_with("pz:")) {
                    // Python environments draw only when they were made for it.
                    let kwargs = spec.common.env_config.entry("kwargs").or_insert_with(|| json!({}));
                    if let Value::Object(kwargs) = kwargs {
                        kwargs.entry("render_mode").or_insert_with(|| "rgb_array".into());
                    }
                }
                let workers = WorkerSet::new(&spec, Device::Cpu)?;
                self.evaluation = Some(workers.clone());
                workers
            }
        };
        workers.set_weights(&self.workers.get_weights())?;
        workers.set_filters(&self.workers.filters())?;
        let task = EvaluationTask {
            episodes: Vec::new(),
            seed: derive(self.workers.seed(), "evaluation", self.iteration),
            explore: common.evaluation_config.explore,
            timestep: self.workers.counters().num_env_steps_sampled,
            frames,
        };
        Ok((task, workers))
    }

    /// Plays episodes from number 0 on as `task` says, until there are enough.
    pub(crate) fn play(
        workers: &WorkerSet,
        mut task: EvaluationTask,
        until: &EvaluationEnd,
    ) -> Result<(Metrics, Pictures)> {
        let (mut episodes, mut steps, mut pictures) = (Vec::<Episode>::new(), 0, Pictures::default());
        loop {
            let next = until.next(episodes.len() as u64, steps, workers.num_healthy_workers());
            if next.is_empty() {
                break;
            }
            task.episodes = next.collect();
            let played = workers.evaluate(&task)?;
            if task.frames > 0 {
                pictures = (played.frames, played.render_fps);
                task.frames = 0;
            }
            steps += played.episodes.iter().map(|e| e.length).sum::<u64>();
            episodes.extend(played.episodes);
        }
        let mut metrics = summarize(episodes.iter(), false);
        metrics.insert("episodes_this_iter".into(), json!(episodes.len()));
        metrics.insert("timesteps_this_iter".into(), json!(steps));
        Ok((metrics, pictures))
    }
}
