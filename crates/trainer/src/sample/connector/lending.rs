//! Lending the rows of a rollout buffer as a fragment.

use crate::sample::connector::Connector;
use crate::sample::rollout_buffer::RolloutBuffer;
use pavlov_learn::base::{ArrayRef, HostRows};
use pavlov_learn::experience::{Fragment, FragmentMasks, FragmentMemory};

impl Connector {
    /// Lends the first `steps` rows of `buffer` as a fragment. Copy `i` took `lengths[i]` steps; without `lengths`
    /// every copy took all `steps`.
    pub(crate) fn lend<'a>(
        &self,
        buffer: &'a RolloutBuffer,
        steps: usize,
        lengths: Option<&'a [usize]>,
    ) -> Fragment<'a> {
        let RolloutBuffer { endings, .. } = buffer;
        fn cut(rows: &HostRows, number: usize) -> ArrayRef<'_> {
            rows.lend().rows(0..number)
        }
        let rows = ..steps * self.copies;
        Fragment {
            steps,
            num_envs: self.copies,
            lengths,
            obs: cut(&buffer.obs, steps + 1),
            actions: cut(&buffer.actions, steps),
            columns: self.names.iter().copied().zip(buffer.columns.iter().map(|c| cut(c, steps))).collect(),
            rewards: &buffer.rewards[rows],
            terminated: &buffer.terminated[rows],
            truncated: &buffer.truncated[rows],
            ended: endings.rows(),
            final_obs: endings.obs(&self.encoding),
            masks: buffer.masks.as_ref().map(|masks| FragmentMasks {
                rows: cut(&masks.rows, steps + 1),
                behind: endings.masks(masks.options()),
            }),
            gamma: self.gamma,
            memory: buffer.memories.as_ref().map(|memories| FragmentMemory {
                max_seq_len: memories.every,
                rows: memories.rows.lend(),
                resets: &memories.resets[rows],
                behind: endings.memories(),
                next: &memories.next,
            }),
            abandoned: &[],
            episodes: None,
            waiting: None,
        }
    }
}
