//! The rows of a fragment with their trajectories, for targets that are computed over whole trajectories.

use crate::base::{Array, ArrayRef};
use crate::experience::batch::SampleBatch;
use crate::experience::columns::Column;
use crate::experience::fragment::Fragment;
use crate::experience::trajectories::Trajectory;

impl Fragment<'_> {
    /// The fragment's rows and rewards with their trajectories, and the observation, mask and recurrent state after every
    /// trajectory that was cut by a time limit or by the fragment's end.
    pub fn rows_with_trajectories(&self) -> SampleBatch {
        let n = self.num_envs;
        let mut rewards = Vec::with_capacity(self.rewards.len());
        let mut pieces = Vec::new();
        let mut behind = Vec::new();
        for copy in 0..n {
            let mut start = rewards.len();
            for t in 0..self.length(copy) {
                let row = t * n + copy;
                rewards.push(self.rewards[row]);
                let terminated = self.terminated[row];
                let truncated = self.truncated[row];
                if !(terminated || truncated || t + 1 == self.length(copy)) {
                    continue;
                }
                // Observations after the last step of every copy come first, then those at which episodes ended.
                if truncated && !terminated {
                    let end =
                        self.ended.binary_search(&row).expect("an episode that ended has a last observation");
                    behind.push((n + end) as i64);
                } else if !terminated {
                    behind.push(copy as i64);
                }
                pieces.push(Trajectory { start, len: rewards.len() - start, terminated });
                start = rewards.len();
            }
        }
        let mut at_cuts = SampleBatch::default();
        if !behind.is_empty() {
            let of = |all: ArrayRef<'_>, at_ends: ArrayRef<'_>| {
                Array::concat([self.behind(all).lend(), at_ends]).gather(&behind)
            };
            at_cuts.set(Column::OBS, of(self.obs, self.final_obs));
            if let Some(masks) = &self.masks {
                at_cuts.set(Column::ACTION_MASK, of(masks.rows, masks.behind));
            }
            if let Some(memory) = self.memory {
                // Each row after a cut is a sequence of its own.
                let all = Array::from_slice(&[memory.next, memory.behind].concat());
                let all = all.reshape(&[(n + self.ended.len()) as i64, -1]);
                at_cuts = at_cuts.with_f32s(Column::RESETS, &vec![0.0; behind.len()]).with_sequences(
                    vec![1; behind.len()],
                    Column::STATE_IN,
                    all.gather(&behind),
                );
            }
        }
        self.rows().with_f32s(Column::REWARDS, &rewards).with_trajectories(pieces, at_cuts)
    }
}
