//! Sizes of batches: how many fragments make one training batch.

use crate::settings::common::{BatchMode, Common};
use pavlov_learn::base::{Error, Result};

impl Common {
    /// Number of environment copies in the whole run.
    pub fn total_envs(&self) -> usize {
        self.num_workers.max(1).saturating_mul(self.num_envs_per_worker)
    }

    /// Number of environment steps in one round, in which every worker samples one fragment.
    pub fn steps_per_round(&self) -> usize {
        self.total_envs() * self.rollout_fragment_length
    }

    /// Adjusts `rollout_fragment_length` so that whole rounds of fragments make a batch of exactly `train_batch_size`
    /// steps.
    ///
    /// A fragment length is kept if it divides the number of steps that each copy adds to a batch; otherwise it becomes
    /// that number, and one round makes the batch. Ray rounds down and then samples a second round, so that a batch of
    /// 4,000 on three workers becomes 7,998. With whole episodes or agent steps nothing is adjusted.
    ///
    /// # Errors
    /// Returns [`Error::Config`] if `train_batch_size` is not a multiple of the number of environment copies.
    pub fn fit_fragments(&mut self) -> Result<()> {
        if self.batch_mode == BatchMode::CompleteEpisodes || self.counts_agent_steps() {
            return Ok(());
        }
        let envs = self.total_envs();
        if envs == 0 || self.rollout_fragment_length == 0 {
            return Ok(()); // `validate` refuses these.
        }
        if !self.train_batch_size.is_multiple_of(envs) {
            let below = self.train_batch_size / envs * envs;
            let nearest = match below {
                0 => format!("{envs}"),
                _ => format!("{below} or {}", below + envs),
            };
            let rule = format!(
                "it must be a multiple of the {envs} environment copies (`num_workers` {} x `num_envs_per_worker` {}); nearest: {nearest}",
                self.num_workers.max(1),
                self.num_envs_per_worker
            );
            return Err(Error::config("train_batch_size", self.train_batch_size, rule));
        }
        let share = self.train_batch_size / envs;
        if !share.is_multiple_of(self.rollout_fragment_length) {
            self.rollout_fragment_length = share;
        }
        Ok(())
    }

    /// Describes in words how fragments that arrive one by one make a batch.
    pub fn fragment_arithmetic(&self) -> String {
        let envs = self.num_envs_per_worker;
        let fragment = self.rollout_fragment_length;
        match self.batch_mode {
            _ if self.counts_agent_steps() => self.batch_arithmetic(),
            BatchMode::TruncateEpisodes => {
                let steps = envs * fragment;
                let fragments = self.train_batch_size.div_ceil(steps);
                let batch = fragments * steps;
                format!(
                    "{envs} env(s) x {fragment} steps = {steps} steps per fragment; {fragments} fragment(s) = a batch of {batch}"
                )
            }
            BatchMode::CompleteEpisodes => self.batch_arithmetic(),
        }
    }

    /// Describes in words how whole rounds of fragments make one on-policy batch.
    pub fn batch_arithmetic(&self) -> String {
        let workers = self.num_workers.max(1);
        let envs = self.num_envs_per_worker;
        let fragment = self.rollout_fragment_length;
        let round = self.steps_per_round();
        match self.batch_mode {
            _ if self.counts_agent_steps() => format!(
                "fragments until the agents that learn have taken at least {} steps; a batch may be longer",
                self.train_batch_size
            ),
            BatchMode::TruncateEpisodes => format!(
                "{workers} worker(s) x {envs} env(s) x {fragment} steps = {round} steps per round; {} round(s) = a batch of {}",
                self.train_batch_size.div_ceil(round),
                self.train_batch_size.div_ceil(round) * round
            ),
            BatchMode::CompleteEpisodes => {
                format!(
                    "whole episodes until at least {} steps; a batch may be longer",
                    self.train_batch_size
                )
            }
        }
    }
}
