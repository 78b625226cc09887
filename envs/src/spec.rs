//! What is known about an environment by its id.

/// What is known about a registered environment.
#[derive(Clone, Debug, PartialEq)]
pub struct EnvSpec {
    /// The id, `Name-vN`; `N` changes when the numbers would.
    pub id: String,
    /// One line on the task.
    pub summary: String,
    /// Steps after which episodes are truncated, by the environment itself or else by [`register`](crate::register) and
    /// [`register_multi_agent`](crate::register_multi_agent). A [`VectorEnv`](crate::VectorEnv) of your own keeps its
    /// speed by [`limit_episodes`](crate::VectorEnv::limit_episodes).
    pub max_episode_steps: Option<usize>,
    /// Mean return at which the task counts as solved.
    pub reward_threshold: Option<f64>,
}
