//! The settings that all algorithms with a replay buffer share.

use crate::settings::common::{Common, ObservationFilter};
use crate::settings::goals::GoalColumns;
use pavlov_learn::base::{Result, Spaces, rules};
use pavlov_learn::experience::{Fragment, SampleBatch};
use serde::{Deserialize, Serialize};

/// How rows are drawn from a replay buffer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum ReplayKind {
    /// All rows are drawn with equal probability.
    #[serde(alias = "MultiAgentReplayBuffer", alias = "LocalReplayBuffer")]
    ReplayBuffer,
    /// Rows are drawn with probabilities by their error when they were last trained on (Schaul et al. 2016).
    #[default]
    #[serde(alias = "MultiAgentPrioritizedReplayBuffer")]
    PrioritizedReplayBuffer,
    /// Rows of episodes that have ended are drawn with equal probability, most of them with a goal that their episode
    /// achieved in place of the desired one (hindsight experience replay, Andrychowicz et al. 2017). The environment must
    /// have goals and compute rewards from them.
    HerReplayBuffer,
}

/// Which achieved goals of an episode replace the desired goal of a row; the names are those of Stable-Baselines3.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum GoalSelectionStrategy {
    /// A goal that was achieved in the row's own step or a later one.
    #[default]
    Future,
    /// The goal that the last step of the episode achieved.
    Final,
    /// A goal that was achieved in any step of the episode.
    Episode,
}

/// The `replay_buffer_config` setting.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ReplayBufferConfig {
    /// How rows are drawn: uniformly (`ReplayBuffer`), by priority (`PrioritizedReplayBuffer`), or with the goals that their
    /// episodes achieved (`HerReplayBuffer`).
    #[serde(rename = "type")]
    pub kind: ReplayKind,
    /// Number of rows that are kept; new rows replace the oldest.
    pub capacity: usize,
    /// Number of rows that must be stored before learning starts.
    pub learning_starts: usize,
    /// Exponent of the priorities, from 0 (all rows equally often) to 1 (in proportion to their error).
    pub prioritized_replay_alpha: f64,
    /// Exponent of the importance weights, from 0 (none) to 1 (they correct the whole bias of drawing by priority).
    pub prioritized_replay_beta: f64,
    /// Number above 0 that is added to every error, so that every row can be drawn.
    pub prioritized_replay_eps: f64,
    /// Number of drawn rows with another goal for each row with its own; only with the type `HerReplayBuffer`.
    pub n_sampled_goal: usize,
    /// Which goals of an episode replace the desired one: `future`, `final` or `episode`; only with the type
    /// `HerReplayBuffer`.
    pub goal_selection_strategy: GoalSelectionStrategy,
}

impl Default for ReplayBufferConfig {
    fn default() -> Self {
        Self {
            kind: ReplayKind::PrioritizedReplayBuffer,
            capacity: 50_000,
            learning_starts: 1000,
            prioritized_replay_alpha: 0.6,
            prioritized_replay_beta: 0.4,
            prioritized_replay_eps: 1e-6,
            n_sampled_goal: 4,
            goal_selection_strategy: GoalSelectionStrategy::Future,
        }
    }
}

impl ReplayBufferConfig {
    /// Checks these settings, also against the number of rows in a training batch.
    ///
    /// # Errors
    /// Returns [`Error::Config`](crate::Error::Config) for the setting that breaks a rule; fails as [`rules::all`] does
    /// if several do.
    pub fn validate(&self, train_batch_size: usize) -> Result<()> {
        let Self { capacity, learning_starts, .. } = *self;
        let late = format!(
            "it must be at most {capacity} (`replay_buffer_config.capacity`), or learning never starts"
        );
        let small = format!("it must be at least {train_batch_size} (`train_batch_size`)");
        let capacity_rule = match capacity {
            0 => rules::at_least_one([("replay_buffer_config.capacity", 0)]),
            _ => rules::all([
                rules::refuse_if(
                    learning_starts > capacity,
                    "replay_buffer_config.learning_starts",
                    learning_starts,
                    late,
                ),
                rules::refuse_if(
                    train_batch_size > capacity,
                    "replay_buffer_config.capacity",
                    capacity,
                    small,
                ),
            ]),
        };
        rules::all([
            capacity_rule,
            rules::share([
                ("replay_buffer_config.prioritized_replay_alpha", self.prioritized_replay_alpha),
                ("replay_buffer_config.prioritized_replay_beta", self.prioritized_replay_beta),
            ]),
            rules::above_zero([("replay_buffer_config.prioritized_replay_eps", self.prioritized_replay_eps)]),
            self.validate_hindsight(),
        ])
    }
}

impl ReplayBufferConfig {
    /// Returns an error for settings of one way of drawing rows that are given with another.
    fn validate_hindsight(&self) -> Result<()> {
        let default = Self::default();
        let is_her = self.kind == ReplayKind::HerReplayBuffer;
        let for_her =
            "it has no effect without `replay_buffer_config.type` = \"HerReplayBuffer\"; leave it out";
        let for_priorities = "it has no effect with `replay_buffer_config.type` = \"HerReplayBuffer\", which draws rows with \
                              equal probability; leave it out";
        let priorities = [
            ("alpha", self.prioritized_replay_alpha, default.prioritized_replay_alpha),
            ("beta", self.prioritized_replay_beta, default.prioritized_replay_beta),
            ("eps", self.prioritized_replay_eps, default.prioritized_replay_eps),
        ];
        let given = priorities.into_iter().filter(|(_, value, default)| is_her && value != default);
        rules::all(
            given
                .map(|(name, value, _)| {
                    let key = format!("replay_buffer_config.prioritized_replay_{name}");
                    rules::refuse_if(true, &key, value, for_priorities)
                })
                .chain([
                    rules::at_least_one([("replay_buffer_config.n_sampled_goal", self.n_sampled_goal)]),
                    rules::refuse_if(
                        !is_her && self.n_sampled_goal != default.n_sampled_goal && self.n_sampled_goal > 0,
                        "replay_buffer_config.n_sampled_goal",
                        self.n_sampled_goal,
                        for_her,
                    ),
                    rules::refuse_if(
                        !is_her && self.goal_selection_strategy != default.goal_selection_strategy,
                        "replay_buffer_config.goal_selection_strategy",
                        format_args!("{:?}", self.goal_selection_strategy),
                        for_her,
                    ),
                ]),
        )
    }
}

/// Settings of algorithms that learn from a replay buffer. Put them under `#[serde(flatten)]`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct OffPolicy {
    /// Settings of the replay buffer.
    pub replay_buffer_config: ReplayBufferConfig,
    /// Whether checkpoints store the replay buffer. Without it a continued run starts with an empty one.
    pub store_buffer_in_checkpoints: bool,
    /// Number of rows to train on per sampled row; null trains on one batch per fragment.
    pub training_intensity: Option<f64>,
    /// Number of environment steps to sample between two updates of the target network; with 0 every learning step
    /// updates it.
    pub target_network_update_freq: u64,
    /// Number of rewards that a target sums up before it adds the value of the observation after them.
    pub n_step: usize,
}

impl Default for OffPolicy {
    fn default() -> Self {
        Self {
            replay_buffer_config: ReplayBufferConfig::default(),
            store_buffer_in_checkpoints: true,
            training_intensity: None,
            target_network_update_freq: 0,
            n_step: 1,
        }
    }
}

impl OffPolicy {
    /// Returns an error for settings with which no learning is possible.
    ///
    /// # Errors
    /// Returns [`Error::Config`](crate::Error::Config) for the setting that breaks a rule; fails as [`rules::all`] does
    /// if several do.
    pub fn validate(&self, common: &Common, spaces: &Spaces) -> Result<()> {
        let recurrent = if common.model.use_gru { "model.use_gru" } else { "model.use_lstm" };
        let rule = "the replay buffer keeps rows, not sequences, so far; leave it out, or use PPO";
        let capacity = self.replay_buffer_config.capacity;
        rules::all([
            rules::refuse_if(common.model.is_recurrent(), recurrent, true, rule),
            self.replay_buffer_config.validate(common.train_batch_size),
            rules::at_least_one([("n_step", self.n_step)]),
            rules::refuse_if(
                self.n_step > capacity && capacity > 0,
                "n_step",
                self.n_step,
                format!("it must be at most {capacity} (`replay_buffer_config.capacity`)"),
            ),
            rules::above_zero_or_null([("training_intensity", self.training_intensity)]),
            self.validate_goals(common, spaces),
        ])
    }

    /// Returns an error for settings that do not go with hindsight experience replay, or an environment without goals.
    fn validate_goals(&self, common: &Common, spaces: &Spaces) -> Result<()> {
        if self.replay_buffer_config.kind != ReplayKind::HerReplayBuffer {
            return Ok(());
        }
        let multi = &common.multiagent;
        let several = !multi.policies.is_empty() || !multi.agent_groups.is_empty();
        rules::all([
            GoalColumns::of(common, spaces).map(drop),
            rules::refuse_if(
                self.n_step > 1,
                "n_step",
                self.n_step,
                "with \"HerReplayBuffer\" it must be 1: the sum of several rewards has no other goal",
            ),
            rules::refuse_if(
                common.observation_filter != ObservationFilter::NoFilter,
                "observation_filter",
                format_args!("{:?}", common.observation_filter),
                "\"HerReplayBuffer\" computes rewards from goals as the environment gives them; set it to \"NoFilter\"",
            ),
            rules::refuse_if(
                common.clip_rewards.is_some(),
                "clip_rewards",
                format_args!("{:?}", common.clip_rewards),
                "the rewards of other goals in a \"HerReplayBuffer\" are not clipped; leave it out",
            ),
            rules::refuse_if(
                several,
                "multiagent",
                "given",
                "\"HerReplayBuffer\" is for one agent; leave it out",
            ),
        ])
    }

    /// The rows of a fragment that the replay buffer takes: transitions of `n_step` steps, with what hindsight needs of their
    /// episodes if the settings ask for it.
    ///
    /// # Errors
    /// Returns [`Error::State`](crate::Error::State) for hindsight without whole episodes of one agent.
    pub fn rows(&self, fragment: &Fragment<'_>, gamma: f64) -> Result<SampleBatch> {
        let rows = fragment.transitions(self.n_step, gamma);
        match self.replay_buffer_config.kind {
            ReplayKind::HerReplayBuffer => fragment.with_episodes(rows),
            ReplayKind::ReplayBuffer | ReplayKind::PrioritizedReplayBuffer => Ok(rows),
        }
    }
}
