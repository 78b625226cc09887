//! V-trace (Espeholt et al. 2018, equation 1 and section 4.2): values and advantages of experience that an older policy
//! made. After a trajectory that was cut comes the value of its next observation; after one that terminated, 0.

use crate::base::Result;
use crate::experience::batch::SampleBatch;
use crate::experience::columns::Column;

/// Settings of V-trace.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct VTrace {
    /// The discount factor: the closer to 1, the more later rewards count.
    pub gamma: f32,
    /// Upper bound of the probability ratio in value targets, the paper's rho bar: the learned value is that of a policy
    /// between the acting and the learning one.
    pub clip_rho: f32,
    /// Upper bound of the probability ratio in advantages, the paper's rho bar in the policy gradient.
    pub clip_pg_rho: f32,
}

/// One number for every observation of a batch whose trajectories are known.
#[derive(Clone, Debug, PartialEq)]
pub struct BatchValues {
    /// One number for the observation of each row.
    pub rows: Vec<f32>,
    /// One number for the observation after each trajectory that was cut, in order.
    pub behind: Vec<f32>,
}

/// Targets of V-trace, one of each kind per row.
#[derive(Clone, Debug, PartialEq)]
pub struct Targets {
    /// Value targets: the critic learns to predict them.
    pub values: Vec<f32>,
    /// Advantages of the actions, multiplied by their bounded probability ratio.
    pub advantages: Vec<f32>,
}

/// Computes targets by V-trace. `log_rhos` are the logarithms of the ratios: the action's probability under the
/// learning policy over that under the acting one.
///
/// With `rho = min(ratio, clip_rho)` and `c = min(ratio, 1)`, within a trajectory:
/// `delta_t = rho_t (r_t + gamma V(s_{t+1}) - V(s_t))`,
/// `vs_t = V(s_t) + delta_t + gamma c_t (vs_{t+1} - V(s_{t+1}))`,
/// `A_t = min(ratio_t, clip_pg_rho) (r_t + gamma vs_{t+1} - V(s_t))`.
/// After the last row of a trajectory, `vs` and `V` are the value of the observation after the cut, or 0 if the
/// episode terminated.
///
/// # Errors
/// Returns [`Error::MissingColumn`](crate::base::Error::MissingColumn) if the batch has no rewards, and
/// [`Error::State`](crate::base::Error::State) if it does not know its trajectories.
///
/// # Panics
/// Panics unless `values` has one number per row and one per trajectory that was cut, and `log_rhos` one per row.
pub fn vtrace(
    batch: &SampleBatch,
    values: &BatchValues,
    log_rhos: &[f32],
    settings: VTrace,
) -> Result<Targets> {
    let VTrace { gamma, clip_rho, clip_pg_rho } = settings;
    let rewards = batch.get(Column::REWARDS)?.to_f32();
    let rows = batch.rows();
    assert_eq!((values.rows.len(), log_rhos.len()), (rows, rows), "a value and a ratio for every row");
    let mut behind = values.behind.iter();
    let mut targets = Targets { values: vec![0.0; rows], advantages: vec![0.0; rows] };
    for trajectory in batch.trajectories()? {
        let mut next_value = if trajectory.terminated {
            0.0
        } else {
            *behind.next().expect("a value behind every trajectory that was cut")
        };
        let mut next_vs = next_value;
        for t in trajectory.rows().rev() {
            let reward = rewards[t];
            let value = values.rows[t];
            let ratio = libm::expf(log_rhos[t]);
            let delta = ratio.min(clip_rho) * (reward + gamma * next_value - value);
            let vs = value + delta + gamma * ratio.min(1.0) * (next_vs - next_value);
            targets.advantages[t] = ratio.min(clip_pg_rho) * (reward + gamma * next_vs - value);
            targets.values[t] = vs;
            next_value = value;
            next_vs = vs;
        }
    }
    assert!(behind.next().is_none(), "no value behind a trajectory that ended");
    Ok(targets)
}
