//! The description of a registered environment.

/// Description of a registered environment.
#[derive(Clone, Debug, PartialEq)]
pub struct EnvSpec {
    /// Id of the form `Name-vN`; `N` is raised when results change.
    pub id: String,
    /// Description of the task in one line.
    pub summary: String,
    /// Number of steps after which episodes are truncated, by the environment itself or else by
    /// [`register`](crate::register) and [`register_multi_agent`](crate::register_multi_agent); `None` for no limit. A
    /// [`VectorEnv`](crate::VectorEnv) of your own should implement [`limit_episodes`](crate::VectorEnv::limit_episodes);
    /// otherwise a limit makes it slower.
    pub max_episode_steps: Option<usize>,
    /// Mean return at which the task counts as solved.
    pub reward_threshold: Option<f64>,
}
