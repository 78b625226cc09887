//! Evaluations of a run: when one is due, what it plays, and its pictures.

use crate::base::Episode;
use crate::run::episode_window::summarize;
use crate::sample::{EvaluationEnd, EvaluationTask, Pictures, WorkerSpec};
use crate::settings::Common;
use crate::workers::WorkerSet;
use pavlov_envs::{EnvCreator, python::is_python_id};
use pavlov_learn::base::{Device, Result, State, derive};
use pavlov_tune::Metrics;
use serde_json::{Value, json};
use std::sync::Weak;

/// Largest number of pictures of an evaluation's first episode.
const MAX_PICTURES: usize = 1000;

/// The evaluation workers of a run, and the results of its last evaluation.
#[derive(Debug, Default)]
pub(crate) struct Evaluations {
    workers: Option<WorkerSet>,
    /// The metrics of the last evaluation; null before the first evaluation.
    pub(super) last: Value,
    /// Pictures of the last iteration's evaluation, until they are taken.
    pub(super) pictures: Option<Pictures>,
}

/// An evaluation that can be played on any thread.
#[derive(Debug)]
pub(crate) struct PreparedEvaluation {
    workers: WorkerSet,
    task: EvaluationTask,
    end: EvaluationEnd,
}

impl Evaluations {
    /// Whether an evaluation is due after this iteration, counted from 1.
    pub(crate) fn are_due(common: &Common, iteration: u64) -> bool {
        common.evaluation_interval.is_some_and(|every| iteration.is_multiple_of(every))
    }

    /// Prepares an evaluation of the weights and filters of `trained`. The owner of `training` is dropped when the
    /// training in parallel ends.
    pub(crate) fn prepare(
        &mut self,
        spec: &WorkerSpec,
        trained: &WorkerSet,
        iteration: u64,
        training: Weak<()>,
    ) -> Result<PreparedEvaluation> {
        let common = &spec.names.common;
        let workers = match &self.workers {
            Some(workers) => workers.clone(),
            None => {
                let workers = WorkerSet::new(&spec_of_evaluation(spec), Device::Cpu)?;
                self.workers = Some(workers.clone());
                workers
            }
        };
        workers.set_weights(&trained.get_weights())?;
        workers.set_filters(&trained.filters())?;
        let task = EvaluationTask {
            episodes: Vec::new(),
            seed: derive(trained.seed(), "evaluation", iteration),
            explore: common.evaluation_config.explore,
            timestep: trained.counters().num_env_steps_sampled,
            frames: 0,
        };
        Ok(PreparedEvaluation { workers, task, end: EvaluationEnd::new(common, training) })
    }

    /// Keeps the metrics of an evaluation as those of the last one, and its pictures, if any.
    pub(crate) fn keep(&mut self, metrics: Metrics, pictures: Option<Pictures>) {
        self.last = metrics.into();
        self.pictures = pictures;
    }

    /// Saves the metrics of the last evaluation.
    pub(crate) fn save(&self, state: &mut State) -> Result<()> {
        state.set("last_evaluation", &self.last)
    }

    /// Restores the metrics that [`save`](Self::save) saved.
    pub(crate) fn restore(&mut self, state: &State) -> Result<()> {
        self.last = state.get("last_evaluation")?;
        Ok(())
    }
}

/// The specification of evaluation workers; their number and environment may differ from those of rollout workers.
fn spec_of_evaluation(spec: &WorkerSpec) -> WorkerSpec {
    let mut spec = spec.clone();
    let evaluation = spec.names.common.evaluation_config.clone();
    if let Some(id) = evaluation.env {
        spec.env = EnvCreator::from(id.as_str());
        spec.names.env = id;
    }
    spec.names.sampling = false;
    let common = &mut spec.names.common;
    common.num_workers = common.evaluation_num_workers;
    common.env_config.extend(evaluation.env_config);
    if common.render_env && is_python_id(&spec.names.env) {
        // A Python environment draws pictures only if it was made with a `render_mode`.
        let kwargs = common.env_config.entry("kwargs").or_insert_with(|| json!({}));
        if let Value::Object(kwargs) = kwargs {
            kwargs.entry("render_mode").or_insert_with(|| "rgb_array".into());
        }
    }
    spec
}

impl PreparedEvaluation {
    /// Makes the evaluation take pictures of its first episode, if `render_env` is set.
    pub(crate) fn with_pictures(mut self) -> Self {
        self.task.frames = if self.workers.common().render_env { MAX_PICTURES } else { 0 };
        self
    }

    /// Plays episodes, numbered from 0, until there are as many as the settings ask for. Returns their metrics, and
    /// the pictures if some were to be taken.
    pub(crate) fn play(self) -> Result<(Metrics, Option<Pictures>)> {
        let Self { workers, mut task, end } = self;
        let mut episodes = Vec::<Episode>::new();
        let mut steps = 0;
        let mut pictures = None;
        loop {
            let next = end.next(episodes.len() as u64, steps, workers.num_healthy_workers());
            if next.is_empty() {
                break;
            }
            task.episodes = next.collect();
            let played = workers.evaluate(&task)?;
            if task.frames > 0 {
                pictures = Some((played.frames, played.render_fps));
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
