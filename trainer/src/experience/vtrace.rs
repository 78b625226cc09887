//! V-trace (Espeholt et al. 2018, equation 1 and section 4.2): values and advantages of experience that an older policy
//! made, with terminated and cut apart.

use crate::base::Result;
use crate::experience::batch::SampleBatch;
use crate::experience::columns::Column;
use tch::{Device, Kind, Tensor};

/// Settings of V-trace.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct VTrace {
    /// The discount: closer to 1 looks further ahead.
    pub gamma: f32,
    /// Bound of the ratio in value targets, the paper's rho bar: the value that is learned is that of a policy between the
    /// one that acted and the one that learns.
    pub clip_rho: f32,
    /// Bound of the ratio in advantages.
    pub clip_pg_rho: f32,
}

/// One number for every observation of a batch whose trajectories are known.
#[derive(Clone, Debug, PartialEq)]
pub struct BatchValues {
    /// The numbers at the rows.
    pub rows: Vec<f32>,
    /// The numbers behind the trajectories that were cut, in their order.
    pub behind: Vec<f32>,
}

/// What is learned from, row by row.
#[derive(Clone, Debug, PartialEq)]
pub struct Targets {
    /// What the critic should say of each row.
    pub values: Vec<f32>,
    /// Advantages of the actions, each with its bounded ratio.
    pub advantages: Vec<f32>,
}

/// Targets by V-trace. `log_rhos` are the logarithms of the ratios: how likely the policy that learns takes the action,
/// against the one that took it.
///
/// With `rho = min(ratio, clip_rho)` and `c = min(ratio, 1)`, within a trajectory:
/// `delta_t = rho_t (r_t + gamma V(s_{t+1}) - V(s_t))`,
/// `vs_t = V(s_t) + delta_t + gamma c_t (vs_{t+1} - V(s_{t+1}))`,
/// `A_t = min(ratio_t, clip_pg_rho) (r_t + gamma vs_{t+1} - V(s_t))`.
/// Behind the last row `vs` is `V`: that of the observation there, or 0 where the task ended.
///
/// # Errors
/// Returns [`Error::MissingColumn`](crate::Error::MissingColumn) if the batch has no rewards, and
/// [`Error::State`](crate::Error::State) if it does not know its trajectories.
///
/// # Panics
/// Panics unless there is a value and a ratio for every row, and a value behind every cut.
pub fn vtrace(
    batch: &SampleBatch,
    values: &BatchValues,
    log_rhos: &[f32],
    settings: VTrace,
) -> Result<Targets> {
    let VTrace { gamma, clip_rho, clip_pg_rho } = settings;
    let rewards = numbers(batch.get(Column::REWARDS)?)?;
    let rows = batch.rows();
    assert_eq!((values.rows.len(), log_rhos.len()), (rows, rows), "a value and a ratio for every row");
    let mut behind = values.behind.iter();
    let mut targets = Targets { values: vec![0.0; rows], advantages: vec![0.0; rows] };
    for trajectory in batch.trajectories()? {
        let mut next_value = match trajectory.terminated {
            true => 0.0,
            false => *behind.next().expect("a value behind every trajectory that was cut"),
        };
        let mut next_vs = next_value;
        for t in trajectory.rows().rev() {
            let (reward, value, ratio) = (rewards[t], values.rows[t], log_rhos[t].exp());
            let delta = ratio.min(clip_rho) * (reward + gamma * next_value - value);
            let vs = value + delta + gamma * ratio.min(1.0) * (next_vs - next_value);
            targets.advantages[t] = ratio.min(clip_pg_rho) * (reward + gamma * next_vs - value);
            targets.values[t] = vs;
            (next_value, next_vs) = (value, vs);
        }
    }
    assert!(behind.next().is_none(), "no value behind a trajectory that ended");
    Ok(targets)
}

fn numbers(column: &Tensor) -> Result<Vec<f32>> {
    Ok(Vec::try_from(column.to_device(Device::Cpu).to_kind(Kind::Float).reshape([-1]))?)
}
