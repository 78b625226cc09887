//! The sampler as a source of fragments, and saving it in the middle of episodes.

use crate::base::{Episode, Result, SamplerPerf, State, host, notice_once};
use crate::policy::PolicyMap;
use crate::sample::callbacks::Callbacks;
use crate::sample::filter::MeanStdFilter;
use crate::sample::sampler::Sampler;
use crate::sample::source::{FragmentSource, TakeRows};
use serde_json::Value;
use std::collections::BTreeMap;
use tch::Tensor;

impl FragmentSource for Sampler {
    fn fill(
        &mut self,
        policies: &mut PolicyMap,
        explore: bool,
        timestep: u64,
        callbacks: Option<&mut Box<dyn Callbacks>>,
    ) -> Result<()> {
        Self::fill(self, policies, explore, timestep, callbacks)
    }

    fn lend(&mut self, f: &mut TakeRows<'_>) -> Result<()> {
        f(&self.policy, self.pilot.lend(&self.storage, self.steps, None).fragment())
    }

    fn take_episodes(&mut self) -> Vec<Episode> {
        self.counting.take_finished()
    }

    fn set_task(&mut self, task: &Value) -> Result<()> {
        Ok(self.env.set_task(task)?)
    }

    fn take_perf(&mut self) -> SamplerPerf {
        std::mem::take(&mut self.perf)
    }

    fn filters(&mut self) -> BTreeMap<&str, &mut MeanStdFilter> {
        self.pilot.filter.as_mut().map(|filter| (self.policy.as_str(), filter)).into_iter().collect()
    }

    fn copies(&self) -> usize {
        self.counting.copies()
    }

    fn state(&self) -> Result<State> {
        let mut state = State::default();
        let row = if self.carry { self.steps } else { 0 };
        self.storage.save(row, &mut state);
        match self.env.save_state()? {
            Some(bytes) => state.set_tensor("envs", &Tensor::from_slice(&bytes)),
            None => state.set("envs", &Option::<u8>::None)?,
        }
        self.pilot.save(&mut state)?;
        self.counting.save(&mut state)?;
        Ok(state)
    }

    fn set_state(&mut self, state: &State, callbacks: Option<&mut Box<dyn Callbacks>>) -> Result<bool> {
        self.counting.set_state(state)?;
        self.pilot.set_state(state, self.counting.beginnings())?;
        self.carry = false;
        if state.has("envs") {
            notice_once("these environments cannot save their state: every copy starts a new episode");
            self.counting.follow_all();
            self.start_episodes(callbacks)?;
            return Ok(false);
        }
        let envs = state.tensor("envs")?;
        self.env.load_state(host::read::<u8>(&envs))?;
        self.storage.restore(state)?;
        Ok(true)
    }
}
