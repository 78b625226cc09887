//! N-step transitions (Ray's `adjust_nstep`), with terminated and truncated apart and no tail that looks too far.

use crate::{
    batch::{Column, SampleBatch, env_major},
    policy::Fragment,
};
use tch::Tensor;

/// Rows of `(obs, action, sum of rewards, observation n steps later, terminated, gamma^n)`, env-major.
///
/// The sum stops at the end of an episode and at the end of the fragment; such a row looks ahead fewer steps and its
/// `discounts` say how many, so no row is biased. A truncated episode keeps `terminated` at 0 and its last observation.
pub fn transitions(f: &Fragment<'_>, n_step: usize, gamma: f64) -> SampleBatch {
    let (steps, copies) = (f.steps, f.num_envs);
    let rows = steps * copies;
    let mut rewards = vec![0.0_f32; rows];
    let mut terminated = vec![0.0_f32; rows];
    let mut discounts = vec![0.0_f32; rows];
    // Where each row's next observation stands: a row of `obs` (flattened time-major), or of `final_obs` behind them.
    let mut next = vec![0_i64; rows];
    let mut ending = vec![usize::MAX; rows];
    for (k, &row) in f.ended.iter().enumerate() {
        ending[row] = k;
    }
    for copy in 0..copies {
        for t in 0..steps {
            let (mut sum, mut discount, mut last) = (0.0, 1.0, t);
            for ahead in t..(t + n_step).min(steps) {
                sum += discount * f64::from(f.rewards[ahead * copies + copy]);
                discount *= gamma;
                last = ahead;
                if ending[ahead * copies + copy] != usize::MAX {
                    break;
                }
            }
            let (at, out) = (last * copies + copy, copy * steps + t);
            rewards[out] = sum as f32;
            discounts[out] = discount as f32;
            terminated[out] = f32::from(f.terminated[at]);
            next[out] = match ending[at] {
                usize::MAX => (at + copies) as i64,
                k => (rows + copies + k) as i64,
            };
        }
    }
    let width = f.obs.size()[2];
    let obs = f.obs.view([-1, width]);
    let next = Tensor::from_slice(&next);
    let new_obs = if f.ended.is_empty() {
        obs.index_select(0, &next)
    } else {
        Tensor::cat(&[&obs, f.final_obs], 0).index_select(0, &next)
    };
    SampleBatch::default()
        .with(Column::OBS, env_major(&f.obs.narrow(0, 0, steps as i64)))
        .with(Column::ACTIONS, env_major(f.actions))
        .with(Column::REWARDS, Tensor::from_slice(&rewards))
        .with(Column::NEW_OBS, new_obs)
        .with(Column::TERMINATED, Tensor::from_slice(&terminated))
        .with(Column::DISCOUNTS, Tensor::from_slice(&discounts))
}
