//! The rows of a policy that remembers: sequences, with what was remembered before each.

use crate::base::{Column, Result, SampleBatch, host};
use crate::learn::engines::{Observed, Remembered};
use crate::learn::nets::{Input, Net};
use crate::learn::{Learner, Value};
use crate::sample::fragment::Fragment;
use crate::sample::fragment::parts::{FragmentMemory, Values};
use tch::Tensor;

impl Fragment<'_> {
    /// Says which rows are a sequence, where the policy remembers.
    pub(super) fn with_sequences(&self, batch: SampleBatch) -> SampleBatch {
        let Some(memory) = self.memory else { return batch };
        let resets: Vec<f32> = self.env_major_resets(memory).map(f32::from).collect();
        let lengths = self.sequence_lengths(memory.max_seq_len);
        batch.with_f32s(Column::RESETS, &resets).with_sequences(
            lengths,
            Column::STATE_IN,
            self.first_memories(memory),
        )
    }

    /// What was remembered at the first row of each sequence, one copy after the other.
    fn first_memories(&self, memory: FragmentMemory<'_>) -> Tensor {
        let sequences = |length: usize| length.div_ceil(memory.max_seq_len);
        self.copies_of(memory.rows, sequences(self.steps), sequences)
    }

    /// Rows of each sequence, one copy after the other.
    fn sequence_lengths(&self, max_seq_len: usize) -> Vec<usize> {
        let of_copy =
            |length: usize| (0..length).step_by(max_seq_len).map(move |t| (length - t).min(max_seq_len));
        (0..self.num_envs).flat_map(|copy| of_copy(self.length(copy))).collect()
    }

    fn env_major_resets(&self, memory: FragmentMemory<'_>) -> impl Iterator<Item = bool> {
        self.places().map(move |row| memory.resets[row])
    }

    pub(super) fn values_of_sequences<H>(
        &self,
        memory: FragmentMemory<'_>,
        learner: &mut Learner,
        head: &H,
    ) -> Result<Values>
    where
        H: for<'t> Fn(Net<'t>, Input<'t>) -> Value<'t> + Sync,
    {
        let _guard = tch::no_grad_guard();
        let (steps, copies) = (self.steps, self.num_envs);
        let resets: Vec<bool> = self.env_major_resets(memory).collect();
        let lengths = self.sequence_lengths(memory.max_seq_len);
        let mut at = |obs: &Tensor, memory: &mut [f32], resets: &[bool], lengths| {
            let remembered = Some(Remembered { memory, resets, lengths });
            let seen = Observed { obs, mask: None, remembered };
            learner.look(seen, None, 1, head).map(<[f32]>::to_vec)
        };
        let obs = self.env_major(self.obs);
        let mut first = host::read::<f32>(&self.first_memories(memory)).to_vec();
        let acted_on = at(&obs, &mut first, &resets, Some(&lengths))?;
        // The observations behind the fragment and behind endings are one step further.
        let none = vec![false; copies.max(self.ended.len())];
        let next = at(&self.behind(self.obs), &mut memory.next.to_vec(), &none[..copies], None)?;
        let at_ends = at(self.final_obs, &mut memory.behind.to_vec(), &none[..self.ended.len()], None)?;
        let mut at_rows = vec![0.0; (steps + 1) * copies];
        let behind = (0..copies).map(|copy| self.length(copy) * copies + copy);
        for (row, value) in self.places().zip(acted_on).chain(behind.zip(next)) {
            at_rows[row] = value;
        }
        Ok(Values { copies, lengths: self.lengths.map(<[usize]>::to_vec), at_rows, at_ends })
    }
}
