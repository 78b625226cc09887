//! The rules of the settings that all algorithms share.

use crate::settings::common::{BatchMode, ClipRewards, Common};
use crate::settings::evaluation::EvaluationDuration;
use pavlov_learn::base::{Error, Result, rules};
use pavlov_processes::WorkerTransport;

/// Largest allowed number of rollout workers, more than any machine has cores.
const MAX_WORKERS: usize = 4096;

impl Common {
    /// Checks the rules of the settings that all algorithms share.
    ///
    /// # Errors
    /// Returns [`Error::Config`] for the setting that breaks a rule; fails as [`rules::all`] does if several do.
    pub fn validate(&self) -> Result<()> {
        let workers = |key: &str, workers: usize| {
            let each = match self.workers.transport {
                WorkerTransport::Threads => "a thread",
                WorkerTransport::Procs => "a process",
                WorkerTransport::Ray => "an actor on the cluster",
            };
            let rule = format!(
                "it must be at most {MAX_WORKERS}: each is {each}; for more copies of the environment raise \
                 `num_envs_per_worker`"
            );
            rules::refuse_if(workers > MAX_WORKERS, key, workers, rule)
        };
        let duration = match self.evaluation_duration {
            EvaluationDuration::Units(0) => {
                Err(Error::config("evaluation_duration", 0, "it must be at least 1"))
            }
            EvaluationDuration::Auto if !self.evaluation_parallel_to_training => {
                let rule = "that is as long as the training beside it takes: set `evaluation_parallel_to_training`, \
                            or give a number";
                Err(Error::config("evaluation_duration", "\"auto\"", rule))
            }
            _ => Ok(()),
        };
        let seconds = |key: &str, value: Option<f64>| {
            let broken = value.is_some_and(|s| !s.is_finite() || s <= 0.0);
            let rule = "it must be a number of seconds above 0, or null";
            rules::refuse_if(broken, key, value.unwrap_or_default(), rule)
        };
        let clip = matches!(self.clip_rewards, Some(ClipRewards::Within(bound)) if !(bound > 0.0 && bound.is_finite()));
        rules::all([
            rules::at_least_one([
                ("num_envs_per_worker", self.num_envs_per_worker),
                ("rollout_fragment_length", self.rollout_fragment_length),
                ("train_batch_size", self.train_batch_size),
                ("metrics_num_episodes_for_smoothing", self.metrics_num_episodes_for_smoothing),
            ]),
            workers("num_workers", self.num_workers),
            workers("evaluation_num_workers", self.evaluation_num_workers),
            rules::share([("gamma", self.gamma)]),
            rules::refuse_if(
                self.evaluation_interval == Some(0),
                "evaluation_interval",
                0,
                "it must be at least 1; null evaluates never",
            ),
            rules::refuse_if(
                self.render_env && self.evaluation_interval.is_none(),
                "render_env",
                true,
                "pictures are of evaluations: set `evaluation_interval` too",
            ),
            duration,
            rules::refuse_if(
                self.sample_async && self.num_workers == 0,
                "sample_async",
                true,
                "there are no workers to sample while the trainer learns: set `num_workers` to at least 1",
            ),
            rules::refuse_if(
                self.evaluation_parallel_to_training && self.evaluation_num_workers == 0,
                "evaluation_parallel_to_training",
                true,
                "it needs workers of its own: set `evaluation_num_workers` to at least 1",
            ),
            rules::refuse_if(
                self.num_gpus > 1,
                "num_gpus",
                self.num_gpus,
                "learning on more than one GPU is not there yet",
            ),
            seconds("min_time_s_per_reporting", self.min_time_s_per_reporting),
            seconds("worker_timeout_s", self.worker_timeout_s),
            seconds("worker_health_probe_timeout_s", self.worker_health_probe_timeout_s),
            rules::refuse_if(
                clip,
                "clip_rewards",
                serde_json::to_string(&self.clip_rewards).unwrap_or_default(),
                "it must be true, false, null or a number above 0",
            ),
            self.model.validate(),
            self.multiagent.validate(),
            rules::refuse_if(
                self.model.is_recurrent() && self.batch_mode == BatchMode::CompleteEpisodes,
                "batch_mode",
                "\"complete_episodes\"",
                "a policy that remembers samples fragments of episodes so far: leave it at \"truncate_episodes\"",
            ),
            self.exploration_config.validate(),
            self.validate_learners(),
            self.validate_cluster(),
        ])
    }
}
