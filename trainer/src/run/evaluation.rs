//! Evaluations of a run: when one is due, what it plays, and its pictures.

use crate::base::{Episode, Result, derive};
use crate::run::episode_window::summarize;
use crate::run::training::Run;
use crate::sample::{EvaluationEnd, EvaluationTask, Pictures};
use crate::workers::WorkerSet;
use pavlov_envs::EnvCreator;
use pavlov_tune::Metrics;
use serde_json::{Value, json};
use std::sync::Weak;
use tch::Device;

/// Largest number of pictures of an evaluation's first episode.
const MOST_PICTURES: usize = 1000;

impl Run {
    /// Plays evaluation episodes now. Returns the block that results have under `evaluation`. No training runs in
    /// parallel: with `evaluation_duration` "auto" every evaluation worker plays one episode.
    ///
    /// # Errors
    /// Fails if an environment or a policy does, an episode does not end, or an evaluation worker fails and no
    /// setting lets the run go on without it.
    pub fn evaluate(&mut self) -> Result<Metrics> {
        let (task, workers) = self.prepare_evaluation(0)?;
        let (metrics, _) = Self::play(&workers, task, &EvaluationEnd::new(self.common(), Weak::new()))?;
        self.last_evaluation = Value::Object(metrics.clone());
        Ok(metrics)
    }

    pub(crate) fn pictures_of_evaluations(&self) -> usize {
        if self.common().render_env { MOST_PICTURES } else { 0 }
    }

    /// Takes the pictures of the last iteration's evaluation, with the iteration's number; `None` without pictures.
    pub(crate) fn take_pictures(&mut self) -> Option<(u64, Pictures)> {
        self.pictures.take().map(|pictures| (self.iteration, pictures))
    }

    /// Returns the evaluation workers, with the learner's weights and filters, and a task without episodes.
    pub(crate) fn prepare_evaluation(&mut self, frames: usize) -> Result<(EvaluationTask, WorkerSet)> {
        let common = &self.spec.names.common;
        let workers = match &self.evaluation {
            Some(workers) => workers.clone(),
            None => {
                let mut spec = self.spec.clone();
                spec.names.sampling = false;
                spec.names.common.num_workers = common.evaluation_num_workers;
                spec.names.common.env_config.extend(common.evaluation_config.env_config.clone());
                if let Some(id) = &common.evaluation_config.env {
                    spec.env = EnvCreator::from(id.as_str());
                    spec.names.env.clone_from(id);
                }
                let env = spec.env.name();
                if common.render_env && (env.starts_with("py:") || env.starts_with("pz:")) {
                    // A Python environment draws pictures only if it was made with a `render_mode`.
                    let kwargs = spec.names.common.env_config.entry("kwargs").or_insert_with(|| json!({}));
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

    /// Plays episodes by `task`, numbered from 0, until there are enough.
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
