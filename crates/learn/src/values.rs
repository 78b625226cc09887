//! Values of a scalar head at every observation of a fragment.

use crate::base::{ArrayRef, Result};
use crate::experience::{Fragment, FragmentMemory, Values};
use crate::learner::Learner;
use crate::loss::{Input, Net, Observed, Remembered, Value};

impl Fragment<'_> {
    /// Computes `head`, which has one column, at every observation of the fragment and at the last observation of
    /// every episode that ended.
    ///
    /// # Errors
    /// Fails whenever [`Learner::evaluate`] does.
    pub fn values<H>(&self, learner: &mut Learner, head: H) -> Result<Values>
    where
        H: for<'t> Fn(Net<'t>, Input<'t>) -> Value<'t> + Sync,
    {
        if let Some(memory) = self.memory {
            return self.values_of_sequences(memory, learner, &head);
        }
        let at_rows = learner.evaluate(self.obs.merged(), None, 1, &head)?.to_vec();
        let at_ends = learner.evaluate(self.final_obs, None, 1, &head)?.to_vec();
        Ok(Values { copies: self.num_envs, lengths: self.lengths.map(<[usize]>::to_vec), at_rows, at_ends })
    }

    fn values_of_sequences<H>(
        &self,
        memory: FragmentMemory<'_>,
        learner: &mut Learner,
        head: &H,
    ) -> Result<Values>
    where
        H: for<'t> Fn(Net<'t>, Input<'t>) -> Value<'t> + Sync,
    {
        let steps = self.steps;
        let copies = self.num_envs;
        let resets: Vec<bool> = self.env_major_resets(memory).collect();
        let lengths = self.sequence_lengths(memory.max_seq_len);
        let mut at = |obs: ArrayRef<'_>, memory: &mut [f32], resets: &[bool], lengths| {
            let remembered = Some(Remembered { memory, resets, lengths });
            let seen = Observed { obs, mask: None, remembered };
            learner.evaluate(seen, None, 1, head).map(<[f32]>::to_vec)
        };
        let obs = self.env_major(self.obs);
        let mut first = self.first_memories(memory).read::<f32>().to_vec();
        let acted_on = at(obs.lend(), &mut first, &resets, Some(&lengths))?;
        // The states before these observations are stored apart: `next` after the fragment, `behind` after ended
        // episodes.
        let none = vec![false; copies.max(self.ended.len())];
        let next = at(self.behind(self.obs).lend(), &mut memory.next.to_vec(), &none[..copies], None)?;
        let at_ends = at(self.final_obs, &mut memory.behind.to_vec(), &none[..self.ended.len()], None)?;
        let mut at_rows = vec![0.0; (steps + 1) * copies];
        let behind = (0..copies).map(|copy| self.length(copy) * copies + copy);
        for (row, value) in self.places().zip(acted_on).chain(behind.zip(next)) {
            at_rows[row] = value;
        }
        Ok(Values { copies, lengths: self.lengths.map(<[usize]>::to_vec), at_rows, at_ends })
    }
}
