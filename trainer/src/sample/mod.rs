//! Sampling: acting in environments, the rows of experience it yields, observation filters, evaluations, and the worker
//! that does all of this on request.

mod acting_rows;
mod agent_copies;
mod agent_evaluation;
mod callbacks;
mod complete_episodes;
mod connector;
mod endings;
mod env_runner;
mod episode_schedule;
mod evaluation;
mod filter;
mod follower;
mod loaded;
mod masks;
mod memory;
mod messages;
mod multi_agent;
mod rollout_buffer;
mod running_episodes;
mod sampler;
mod seats;
mod seats_state;
mod session;
mod source;
mod spec;
mod transforms;
mod worker;

pub(crate) use callbacks::CallbacksMaker;
pub(crate) use callbacks::Changes;
pub use callbacks::{Callbacks, RunHandle, StepView};
pub(crate) use env_runner::{EnvRunner, Hooks};
pub use evaluation::{Evaluation, EvaluationTask};
pub(crate) use evaluation::{EvaluationEnd, Pictures, play};
pub(crate) use filter::saved_filters;
pub use filter::{FilterStats, MeanStdFilter, RunningStat};
pub use follower::Follow;
pub use loaded::{Loaded, Observations};
pub use messages::{Reply, Request, Sampled};
pub use session::{Action, Session};
pub(crate) use session::{Inference, rows};
pub use spec::{Code, WorkerNames, WorkerSpec};
pub(crate) use transforms::{FloatActions, PolicyToEnv};
pub use transforms::{normalize, unsquash};
pub use worker::RolloutWorker;
