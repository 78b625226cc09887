//! The goals in stored observations, and what computes rewards from them.

use crate::settings::{Common, GoalColumns};
use pavlov_envs::{AnyVectorEnv, EnvCreator};
use pavlov_learn::base::{Error, Kind, Result};

/// Computes the reward of each row from the goals that were achieved and those that were desired.
pub type RewardOfGoals = dyn FnMut(&[f64], &[f64], &mut [f64]) -> Result<()> + Send;

/// The setting that asks for goals, in errors.
const SETTING: &str = "replay_buffer_config.type";

/// The goals of a run: where they are, and how rewards follow from them.
pub struct Goals {
    pub(super) columns: GoalColumns,
    pub(super) reward: Box<RewardOfGoals>,
}

impl std::fmt::Debug for Goals {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Goals").field("columns", &self.columns).finish_non_exhaustive()
    }
}

impl Goals {
    /// Goals whose rewards `reward` computes: it gets the achieved and the desired goals of a batch, row by row, and writes
    /// a reward for each.
    pub fn new(
        columns: GoalColumns,
        reward: impl FnMut(&[f64], &[f64], &mut [f64]) -> Result<()> + Send + 'static,
    ) -> Self {
        Self { columns, reward: Box::new(reward) }
    }

    /// Goals of the environment `env`, of which one copy is made for rewards when the first are computed.
    pub(crate) fn of_env(columns: GoalColumns, env: &EnvCreator, common: &Common) -> Self {
        let creator = common.wrap_env(env);
        let config = common.env_config.clone();
        let mut copy: Option<Box<dyn AnyVectorEnv>> = None;
        Self::new(columns, move |achieved, desired, rewards| {
            let env = match &mut copy {
                Some(env) => env,
                None => copy.insert(creator.make_vec(&config, 1)?),
            };
            if env.compute_rewards(achieved, desired, rewards)? {
                return Ok(());
            }
            let rule = format!(
                "{} has goals but does not compute rewards from them (`compute_reward`, `Env::compute_rewards`), or a \
                 wrapper around it changes observations or rewards; use \"ReplayBuffer\"",
                creator.name()
            );
            Err(Error::config(SETTING, "\"HerReplayBuffer\"", rule))
        })
    }
}

/// Appends the scalars of one row as f64, which holds each of them.
pub(super) fn append_numbers(kind: Kind, bytes: &[u8], to: &mut Vec<f64>) {
    fn each<T: bytemuck::AnyBitPattern>(bytes: &[u8]) -> impl Iterator<Item = T> {
        bytes.chunks_exact(size_of::<T>()).map(bytemuck::pod_read_unaligned)
    }
    match kind {
        Kind::Bool | Kind::U8 => to.extend(bytes.iter().map(|&byte| f64::from(byte))),
        Kind::I64 => to.extend(each::<i64>(bytes).map(|number| number as f64)),
        Kind::F32 => to.extend(each::<f32>(bytes).map(f64::from)),
        Kind::F64 => to.extend(each::<f64>(bytes)),
    }
}
