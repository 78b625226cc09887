//! The settings that every algorithm has (Ray's COMMON_CONFIG).

use crate::settings::evaluation::{DurationUnit, EvaluationConfig, EvaluationDuration};
use crate::settings::exploration::ExplorationConfig;
use crate::settings::multi_agent::{CountStepsBy, MultiAgentConfig, ObservationFn};
use pavlov_envs::{EnvCreator, Space, WrapperSpec};
use pavlov_learn::base::{Result, Spaces, rules};
use pavlov_learn::layers::ModelConfig;
use pavlov_processes::{PlacementStrategy, WorkerTransport, Workers};
use pavlov_tune::Config;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// How observations are filtered before the policy sees them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum ObservationFilter {
    /// No filter: observations stay as they are.
    #[default]
    NoFilter,
    /// The mean of each component is subtracted, and the result divided by the standard deviation of the component;
    /// both are of all observations so far.
    MeanStdFilter,
}

/// When a fragment ends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BatchMode {
    /// A fragment ends after `rollout_fragment_length` steps of every copy; episodes go on in the next one.
    #[default]
    TruncateEpisodes,
    /// A fragment consists of whole episodes, with at least `rollout_fragment_length * num_envs_per_worker` steps
    /// together.
    CompleteEpisodes,
}

/// How rewards are clipped before an algorithm sees them.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum ClipRewards {
    /// With `true` rewards are replaced by their sign, with `false` they stay as they are.
    Sign(bool),
    /// Rewards are clamped to the range between minus this number and this number.
    Within(f32),
}

impl ClipRewards {
    /// Clips rewards in place.
    pub(crate) fn apply(self, rewards: &mut [f32]) {
        match self {
            Self::Sign(false) => {}
            Self::Sign(true) => {
                rewards.iter_mut().for_each(|r| *r = if *r == 0.0 { 0.0 } else { r.signum() });
            }
            Self::Within(bound) => rewards.iter_mut().for_each(|r| *r = r.clamp(-bound, bound)),
        }
    }
}

/// Settings common to all algorithms.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Common {
    /// Number of rollout workers that sample; with 0 the trainer's own thread samples.
    pub num_workers: usize,
    /// Where rollout workers run: `"threads"`, `"procs"` or `"ray"`; a number, as in `"procs:4"`, overrides
    /// `num_workers`.
    pub workers: Workers,
    /// Number of learners that share the work of each gradient, the trainer included; 0 counts as 1.
    pub num_learners: usize,
    /// Where the additional learners run: `"procs"` or `"ray"`; a number, as in `"ray:4"`, overrides `num_learners`
    /// and includes the trainer.
    pub learners: Workers,
    /// Number of environment copies that each worker steps together.
    pub num_envs_per_worker: usize,
    /// Whether the trainer has environments of its own to sample even when there are rollout workers.
    pub create_env_on_driver: bool,
    /// Number of steps of every environment copy in a fragment.
    pub rollout_fragment_length: usize,
    /// Whether a fragment ends after a number of steps, or with an episode.
    pub batch_mode: BatchMode,
    /// Whether rollout workers sample the next fragment while the trainer learns from the last one. Then neither waits
    /// for the other, and experience is one update old. Runs stay repeatable.
    pub sample_async: bool,
    /// Number of rows in a training batch; with several agents in the unit of `multiagent.count_steps_by`.
    pub train_batch_size: usize,
    /// Discount factor, from 0 to 1: the closer to 1, the more later rewards count.
    pub gamma: f64,
    /// The network of the policy.
    pub model: ModelConfig,
    /// The policies of several agents, and which agent acts by which policy.
    pub multiagent: MultiAgentConfig,
    /// Arguments of the environment.
    pub env_config: Config,
    /// Wrappers around every copy of the environment, the first of them innermost: `["TimeLimit(200)", "FrameStack(4)"]`.
    /// Training, evaluation and saved policies see the environment through them. A wrapper of your own has the name that
    /// [`register_wrapper`](pavlov_envs::register_wrapper) gave it.
    pub wrappers: Vec<WrapperSpec>,
    /// How rewards are clipped before the algorithm sees them; results report unclipped rewards.
    pub clip_rewards: Option<ClipRewards>,
    /// Whether policies act in [-1, 1], and actions are scaled to the environment's bounds. In a space
    /// with an infinite bound they are not scaled, and clipped to its finite bounds.
    pub normalize_actions: bool,
    /// Whether actions are clipped to the environment's bounds; without effect if `normalize_actions` is true.
    pub clip_actions: bool,
    /// Whether policies choose only actions that the environment's `Env::action_mask` allows; batches store the masks
    /// with the observations.
    pub mask_actions: bool,
    /// Whether policies may choose actions that the environment's masks forbid. Without it a run of several agents that
    /// has masks and no `mask_actions` is refused, and one of a single agent gets a notice.
    pub allow_illegal_actions: bool,
    /// Whether to skip the check, at the start of a run, that the environment keeps its contract.
    pub disable_env_checking: bool,
    /// Whether everything that an environment may not do is an error, also what is otherwise said once and trained:
    /// values beyond the bounds of a space, observations in another form, episodes that a seed does not repeat. For
    /// authors of environments.
    pub strict_env_checking: bool,
    /// The filter that normalises observations; every policy has its own.
    pub observation_filter: ObservationFilter,
    /// Whether workers continue with the filter statistics that the trainer merged from all workers, not with their
    /// own.
    pub synchronize_filters: bool,
    /// Whether policies explore while sampling for training.
    pub explore: bool,
    /// How policies explore.
    pub exploration_config: ExplorationConfig,
    /// Number of training iterations from one evaluation to the next; null never evaluates.
    pub evaluation_interval: Option<u64>,
    /// Whether to draw the first episode of each evaluation during training, at most 1000 steps of it, as an animation:
    /// in `videos/` of the run directory, and in TensorBoard as `eval/video`.
    pub render_env: bool,
    /// Length of an evaluation: a number, or `"auto"`: until the training iteration beside it ends, whenever that is.
    pub evaluation_duration: EvaluationDuration,
    /// Unit of `evaluation_duration`.
    pub evaluation_duration_unit: DurationUnit,
    /// Number of workers that only evaluate; with 0 the trainer's own thread evaluates.
    pub evaluation_num_workers: usize,
    /// Whether to evaluate during the training iteration, with the weights from before it; needs
    /// `evaluation_num_workers`.
    pub evaluation_parallel_to_training: bool,
    /// The settings that are different in evaluations.
    pub evaluation_config: EvaluationConfig,
    /// Whether results of iterations without an evaluation repeat the last one.
    pub always_attach_evaluation_results: bool,
    /// Number of the most recent episodes over which the means in results are taken.
    pub metrics_num_episodes_for_smoothing: usize,
    /// Whether to report custom metrics of every episode instead of their mean, minimum and maximum.
    pub keep_per_episode_custom_metrics: bool,
    /// Least number of seconds that an iteration takes. The steps of an iteration then differ between runs, which the
    /// two settings `min_*_timesteps_per_reporting` avoid.
    pub min_time_s_per_reporting: Option<f64>,
    /// Least number of environment steps that an iteration samples.
    pub min_sample_timesteps_per_reporting: Option<u64>,
    /// Least number of rows that an iteration trains on.
    pub min_train_timesteps_per_reporting: Option<u64>,
    /// Whether the run goes on without workers that failed.
    pub ignore_worker_failures: bool,
    /// Whether workers that failed are replaced; this takes precedence over `ignore_worker_failures`.
    pub recreate_failed_workers: bool,
    /// Number of seconds after which a worker that has not answered counts as failed; null waits for ever.
    pub worker_timeout_s: Option<f64>,
    /// Number of seconds in which a started worker must be ready, and in which a worker process must answer a probe;
    /// null waits for ever.
    pub worker_health_probe_timeout_s: Option<f64>,
    /// Number of failures in a row per worker that `recreate_failed_workers` and `ignore_worker_failures` tolerate.
    pub num_consecutive_worker_failures_tolerance: usize,
    /// Whether the run waits at its start until every worker is ready; otherwise a worker that cannot start fails at
    /// its first request.
    pub validate_workers_after_construction: bool,
    /// Whether every result reports the use of processor and memory.
    pub log_sys_usage: bool,
    /// Number of learning steps, the first of the run, whose training batches are written as Parquet files into the
    /// folder `batches` of the run, with the weights and the optimizer before and after each step. 0 writes none. It is
    /// for finding out why a loss looks wrong, and slows down the steps that it writes.
    pub log_batches: u64,
    /// Seed of all random numbers. With null a seed is drawn at the start; results and checkpoints store it, and a
    /// restored run continues with the stored one.
    pub seed: Option<u64>,
    /// Number of GPUs to learn on: 0 learns on the CPU, 1 on the first GPU.
    pub num_gpus: usize,
    /// Number of cores per rollout worker, requested from a sweep and from a Ray cluster.
    pub num_cpus_per_worker: usize,
    /// Number of GPUs per rollout worker, which may be a fraction, requested from a Ray cluster for environments that
    /// use a GPU. Policies of workers act on the CPU.
    pub num_gpus_per_worker: f64,
    /// Further resources per rollout worker, requested from a Ray cluster by the names that its machines give them.
    pub custom_resources_per_worker: BTreeMap<String, f64>,
    /// Labels that a Ray cluster's machine must have to run rollout workers, as in Ray's `label_selector`.
    pub label_selector_per_worker: BTreeMap<String, String>,
    /// Number of cores per additional learner, requested from a sweep and a Ray cluster; also its number of threads.
    pub num_cpus_per_learner: usize,
    /// How a Ray cluster places rollout workers, and learners, on its machines.
    pub placement_strategy: PlacementStrategy,
    /// Number of cores for the trainer itself, requested from a sweep.
    pub num_cpus_for_driver: usize,
}

impl Default for Common {
    fn default() -> Self {
        Self {
            num_workers: 2,
            workers: Workers::default(),
            num_learners: 0,
            learners: Workers { transport: WorkerTransport::Procs, number: None },
            num_envs_per_worker: 1,
            create_env_on_driver: false,
            rollout_fragment_length: 200,
            batch_mode: BatchMode::TruncateEpisodes,
            sample_async: false,
            train_batch_size: 200,
            gamma: 0.99,
            model: ModelConfig::default(),
            multiagent: MultiAgentConfig::default(),
            env_config: Config::new(),
            wrappers: Vec::new(),
            clip_rewards: None,
            normalize_actions: true,
            clip_actions: false,
            mask_actions: false,
            allow_illegal_actions: false,
            disable_env_checking: false,
            strict_env_checking: false,
            observation_filter: ObservationFilter::NoFilter,
            synchronize_filters: true,
            explore: true,
            exploration_config: ExplorationConfig::StochasticSampling { random_timesteps: 0 },
            evaluation_interval: None,
            render_env: false,
            evaluation_duration: EvaluationDuration::Units(10),
            evaluation_duration_unit: DurationUnit::Episodes,
            evaluation_num_workers: 0,
            evaluation_parallel_to_training: false,
            evaluation_config: EvaluationConfig::default(),
            always_attach_evaluation_results: false,
            metrics_num_episodes_for_smoothing: 100,
            keep_per_episode_custom_metrics: false,
            min_time_s_per_reporting: None,
            min_sample_timesteps_per_reporting: None,
            min_train_timesteps_per_reporting: None,
            ignore_worker_failures: false,
            recreate_failed_workers: false,
            worker_timeout_s: None,
            worker_health_probe_timeout_s: Some(60.0),
            num_consecutive_worker_failures_tolerance: 3,
            validate_workers_after_construction: true,
            log_sys_usage: false,
            log_batches: 0,
            seed: None,
            num_gpus: 0,
            num_cpus_per_worker: 1,
            num_gpus_per_worker: 0.0,
            custom_resources_per_worker: BTreeMap::new(),
            label_selector_per_worker: BTreeMap::new(),
            num_cpus_per_learner: 1,
            placement_strategy: PlacementStrategy::default(),
            num_cpus_for_driver: 1,
        }
    }
}

/// Settings whose value is a table with keys of the user's own, which are not checked against known names.
pub const OPEN_KEYS: &[&str] = &[
    "env_config",
    "evaluation_config.env_config",
    "evaluation_config.policy_mapping_fn",
    "custom_resources_per_worker",
    "label_selector_per_worker",
    "multiagent.policies",
    "multiagent.policy_mapping_fn",
    "multiagent.agent_groups",
];

/// Settings that mean the same to every `type` of their object, so that they stay where another type is chosen.
pub const KEPT_KEYS: &[&str] = &["replay_buffer_config.capacity", "replay_buffer_config.learning_starts"];

impl Common {
    /// The spaces of policies: converted to the form in which rows are stored, and flattened if there is an observation
    /// filter.
    pub fn policy_spaces(&self, spaces: &Spaces) -> Spaces {
        spaces.stored(self.observation_filter != ObservationFilter::NoFilter)
    }

    /// Returns an error if `normalize_actions` is false, for an algorithm named `who` that acts in [-1, 1].
    ///
    /// # Errors
    /// Returns [`Error::Config`](crate::Error::Config) when `normalize_actions` is false.
    pub fn refuse_raw_actions(&self, who: &str) -> Result<()> {
        let rule =
            format!("{who} acts in [-1, 1]; leave it true, so that actions are stretched to the bounds");
        rules::refuse_if(!self.normalize_actions, "normalize_actions", false, rule)
    }

    /// Returns an error for settings of `model` that an algorithm named `who` does not read, whose networks have settings of their
    /// own, `networks`; and for `share_features_extractor` where observations pass through no convolutions.
    ///
    /// # Errors
    /// Returns [`Error::Config`](crate::Error::Config) for a setting that has no effect.
    pub fn refuse_unread_model(
        &self,
        who: &str,
        networks: &str,
        shares: bool,
        spaces: &Spaces,
    ) -> Result<()> {
        let seen = self.policy_spaces(spaces).observation_space;
        let rule = "observations pass through no convolutions, so there are none to share; leave it out";
        let has_none = self.model.convolutions(&seen).is_none();
        rules::all([
            self.model.refuse_all_but_convolutions(who, networks, &seen),
            rules::refuse_if(shares && has_none, "share_features_extractor", true, rule),
        ])
    }

    /// Wraps the environment in the wrappers, the `observation_fn` and the agent groups of these settings.
    pub fn wrap_env(&self, env: &EnvCreator) -> EnvCreator {
        let env = env.wrapped(&self.wrappers);
        let env = match self.multiagent.observation_fn {
            None => env,
            Some(ObservationFn::GlobalState) => env.with_global_state(),
        };
        if self.multiagent.agent_groups.is_empty() {
            return env;
        }
        let groups = self.multiagent.clone();
        env.with_agent_groups(move |agent| groups.group_of(agent).map(str::to_owned))
    }

    /// Number of leading components of a flattened observation that the actor sees: the agent's own ones, if
    /// `observation_fn` adds a global state; `None` if the actor sees all.
    pub(crate) fn own_obs_width(&self, spaces: &Spaces) -> Option<usize> {
        let (Some(ObservationFn::GlobalState), Space::Dict(parts)) =
            (self.multiagent.observation_fn, &spaces.observation_space)
        else {
            return None;
        };
        parts.iter().find(|(name, _)| *name == "obs").map(|(_, own)| own.flat_width())
    }

    /// Moves the numbers in `workers` and `learners`, if given, to `num_workers` and `num_learners`.
    pub(crate) fn settle_workers(&mut self) {
        self.num_learners = self.learners.number.take().unwrap_or(self.num_learners);
        self.num_workers = self.workers.number.take().unwrap_or(self.num_workers);
    }

    /// Whether these workers are actors of a Ray cluster; false if their `number` is 0.
    pub(crate) fn are_actors(workers: Workers, number: usize) -> bool {
        workers.transport == WorkerTransport::Ray && number > 0
    }

    /// Whether workers or learners of the run are actors of a Ray cluster.
    pub(crate) fn has_actors(&self) -> bool {
        Self::are_actors(self.workers, self.num_workers + self.evaluation_num_workers)
            || Self::are_actors(self.learners, self.num_learners.saturating_sub(1))
    }

    /// Whether the run counts agent steps instead of environment steps.
    pub(crate) fn counts_agent_steps(&self) -> bool {
        self.multiagent.count_steps_by == CountStepsBy::AgentSteps
    }
}
