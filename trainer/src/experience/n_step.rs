//! N-step transitions, as Ray's `adjust_nstep` makes them. But truncated episodes are bootstrapped, and rows near an
//! end, which look ahead fewer steps, have the discount of these steps.

use crate::base::Array;
use crate::experience::batch::SampleBatch;
use crate::experience::columns::Column;
use crate::experience::fragment::Fragment;

impl Fragment<'_> {
    /// Makes rows of `(obs, action, sum of rewards, observation n steps later, terminated, gamma^n)`, copy by copy.
    ///
    /// The sum stops at the end of an episode and at the end of the fragment. Such a row looks ahead fewer than `n` steps,
    /// and the exponent of its discount is that number. In a truncated episode `terminated` is 0, and the observation
    /// after the last step is the last of that episode.
    pub fn transitions(&self, n_step: usize, gamma: f64) -> SampleBatch {
        let f = self;
        let copies = f.num_envs;
        let stored = f.steps * f.num_envs;
        let rows = (0..copies).map(|copy| f.length(copy)).sum();
        let mut rewards = vec![0.0_f32; rows];
        let mut terminated = vec![0.0_f32; rows];
        let mut discounts = vec![0.0_f32; rows];
        // Time-major index of each row.
        let mut from = vec![0; rows];
        // Index of each row's next observation: in `obs` (flattened time-major), followed by `final_obs`.
        let mut next = vec![0; rows];
        let mut ending = vec![usize::MAX; stored];
        for (k, &row) in f.ended.iter().enumerate() {
            ending[row] = k;
        }
        let mut out = 0;
        for copy in 0..copies {
            let steps = f.length(copy);
            for t in 0..steps {
                let mut sum = 0.0;
                let mut discount = 1.0;
                let mut last = t;
                for ahead in t..(t + n_step).min(steps) {
                    sum += discount * f64::from(f.rewards[ahead * copies + copy]);
                    discount *= gamma;
                    last = ahead;
                    if ending[ahead * copies + copy] != usize::MAX {
                        break;
                    }
                }
                let at = last * copies + copy;
                from[out] = t * copies + copy;
                rewards[out] = sum as f32;
                discounts[out] = discount as f32;
                terminated[out] = f32::from(f.terminated[at]);
                next[out] = match ending[at] {
                    usize::MAX => at + copies,
                    k => stored + copies + k,
                };
                out += 1;
            }
        }
        let obs = f.obs.bytes();
        let last = f.final_obs.bytes();
        let width = obs.len() / (stored + copies);
        let row = |i: usize| match i.checked_sub(stored + copies) {
            None => &obs[i * width..][..width],
            Some(k) => &last[k * width..][..width],
        };
        let shape = [&[rows as i64], &f.obs.shape()[2..]].concat();
        let gather = |index: &mut dyn Iterator<Item = usize>| {
            let mut data = Vec::with_capacity(rows * width);
            index.for_each(|i| data.extend_from_slice(row(i)));
            Array::from_bytes(f.obs.kind(), &shape, &data)
        };
        let new_obs = gather(&mut next.iter().copied());
        let obs = gather(&mut from.iter().copied());
        let mut batch = SampleBatch::default()
            .with(Column::OBS, obs)
            .with(Column::ACTIONS, f.env_major(f.actions))
            .with_f32s(Column::REWARDS, &rewards)
            .with(Column::NEW_OBS, new_obs)
            .with_f32s(Column::TERMINATED, &terminated)
            .with_f32s(Column::DISCOUNTS, &discounts);
        if let Some(masks) = &f.masks {
            // Masks are indexed as observations are.
            let all = Array::concat([masks.rows.merged(), masks.behind]);
            let next: Vec<i64> = next.iter().map(|&i| i as i64).collect();
            batch.set(Column::ACTION_MASK, f.env_major(masks.rows));
            batch.set(Column::NEW_ACTION_MASK, all.gather(&next));
        }
        batch
    }
}
