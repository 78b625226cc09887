//! Columns that tell to which episode each row of a fragment belongs, for hindsight experience replay.

use crate::base::{Error, Result};
use crate::experience::batch::SampleBatch;
use crate::experience::columns::Column;
use crate::experience::fragment::Fragment;

impl Fragment<'_> {
    /// Adds the columns [`ENV_ID`](Column::ENV_ID), [`T`](Column::T) and [`ENDED`](Column::ENDED) to `rows`, which are the
    /// rows of all steps, copy by copy, as [`transitions`](Self::transitions) makes them with an `n_step` of 1.
    ///
    /// # Errors
    /// Returns [`Error::State`] if it is not known to which episodes the steps belong, or if `rows` are others.
    pub fn with_episodes(&self, rows: SampleBatch) -> Result<SampleBatch> {
        let count: usize = (0..self.num_envs).map(|copy| self.length(copy)).sum();
        let Some(episodes) = self.episodes.filter(|_| rows.rows() == count) else {
            let reason = "hindsight experience replay needs whole episodes of an environment with one agent that this run \
                          steps itself, one row for each step; use another `replay_buffer_config.type`";
            return Err(Error::state("the rows of a fragment", reason));
        };
        let mut env_ids = Vec::with_capacity(count);
        let mut steps = Vec::with_capacity(count);
        let mut ended = Vec::with_capacity(count);
        for (copy, start) in episodes.iter().enumerate() {
            let mut step = start.steps as i64;
            for t in 0..self.length(copy) {
                let place = t * self.num_envs + copy;
                let ends = self.terminated[place] || self.truncated[place];
                env_ids.push(start.env_id as i64);
                steps.push(step);
                ended.push(f32::from(ends));
                step = if ends { 0 } else { step + 1 };
            }
        }
        let mut rows = rows.with_f32s(Column::ENDED, &ended);
        rows.set(Column::ENV_ID, env_ids);
        rows.set(Column::T, steps);
        Ok(rows)
    }
}
