//! Rows of recurrent policies as sequences, with the recurrent state before the first row of each sequence.

use crate::base::Array;
use crate::experience::batch::SampleBatch;
use crate::experience::columns::Column;
use crate::experience::fragment::Fragment;
use crate::experience::fragment::parts::FragmentMemory;

impl Fragment<'_> {
    /// Adds sequences, recurrent states and beginnings of episodes to `batch` if the policy is recurrent.
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

    /// Recurrent state before the first row of each sequence, one copy after the other.
    pub(crate) fn first_memories(&self, memory: FragmentMemory<'_>) -> Array {
        let sequences = |length: usize| length.div_ceil(memory.max_seq_len);
        self.copies_of(memory.rows, sequences(self.steps), sequences)
    }

    /// Number of rows of each sequence, one copy after the other.
    pub(crate) fn sequence_lengths(&self, max_seq_len: usize) -> Vec<usize> {
        let of_copy =
            |length: usize| (0..length).step_by(max_seq_len).map(move |t| (length - t).min(max_seq_len));
        (0..self.num_envs).flat_map(|copy| of_copy(self.length(copy))).collect()
    }

    pub(crate) fn env_major_resets(&self, memory: FragmentMemory<'_>) -> impl Iterator<Item = bool> {
        self.places().map(move |row| memory.resets[row])
    }
}
