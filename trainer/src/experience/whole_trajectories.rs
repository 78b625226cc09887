//! Rows that know which of them follow each other, for targets over whole trajectories.

use crate::experience::batch::SampleBatch;
use crate::experience::columns::Column;
use crate::experience::fragment::Fragment;
use crate::experience::trajectories::Trajectory;
use tch::Tensor;

impl Fragment<'_> {
    /// The rows and their rewards, with what learning from whole trajectories needs: which rows follow each other, and
    /// observation, mask and memory behind every piece of an episode that was cut, by time or by the fragment's end.
    pub fn rows_with_trajectories(&self) -> SampleBatch {
        let n = self.num_envs;
        let mut rewards = Vec::with_capacity(self.rewards.len());
        let (mut pieces, mut behind) = (Vec::new(), Vec::new());
        for copy in 0..n {
            let mut start = rewards.len();
            for t in 0..self.length(copy) {
                let row = t * n + copy;
                rewards.push(self.rewards[row]);
                let (terminated, truncated) = (self.terminated[row], self.truncated[row]);
                if !(terminated || truncated || t + 1 == self.length(copy)) {
                    continue;
                }
                // Of what follows the last step of every copy, then of what episodes ended at.
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
            let index = Tensor::from_slice(&behind);
            let of = |all: &Tensor, at_ends: &Tensor| {
                Tensor::cat(&[&self.behind(all), at_ends], 0).index_select(0, &index)
            };
            at_cuts.set(Column::OBS, of(self.obs, self.final_obs));
            if let Some(masks) = self.masks {
                at_cuts.set(Column::ACTION_MASK, of(masks.rows, masks.behind));
            }
            if let Some(memory) = self.memory {
                // Sequences of a single row.
                let all = Tensor::from_slice(&[memory.next, memory.behind].concat());
                let all = all.view([(n + self.ended.len()) as i64, -1]);
                at_cuts = at_cuts.with_f32s(Column::RESETS, &vec![0.0; behind.len()]).with_sequences(
                    vec![1; behind.len()],
                    Column::STATE_IN,
                    all.index_select(0, &index),
                );
            }
        }
        self.rows().with_f32s(Column::REWARDS, &rewards).with_trajectories(pieces, at_cuts)
    }
}
