//! The wrapper that scales rewards so that their discounted sum has variance 1.

use super::{normalize_observation::check_epsilon, running_mean_std::RunningMeanStd};
use crate::{DType, Error, Result, StepOut, VectorEnv, contract::state};

const TAG: &str = "normalize_reward";

/// Divides rewards by the running standard deviation of the discounted sum of rewards. All copies share the statistics,
/// which are part of the saved state.
///
/// This is Gymnasium's vector wrapper in the mode `SAME_STEP`, up to rounding: Gymnasium has rewards in double precision and
/// sums in single, pavlov the other way round. Results differ by about one millionth of their size. While the statistics are
/// updated, copies are not independent, as with [`NormalizeObservation`](crate::wrappers::NormalizeObservation).
#[derive(Clone, Debug)]
pub struct NormalizeReward<V> {
    env: V,
    statistics: RunningMeanStd,
    /// Discounted sums of rewards in the running episodes.
    sums: Vec<f64>,
    gamma: f64,
    epsilon: f64,
    update_running_mean: bool,
}

impl<V: VectorEnv> NormalizeReward<V> {
    /// Wraps `env`. `epsilon` is added to the variance. Gymnasium's defaults are 0.99 for `gamma` and 1e-8 for `epsilon`.
    ///
    /// # Errors
    /// Returns [`Error::Shape`] if `gamma` is outside `0..=1`, or if `epsilon` is not above 0.
    pub fn new(env: V, gamma: f64, epsilon: f64) -> Result<Self> {
        if !(0.0..=1.0).contains(&gamma) {
            return Err(Error::shape("`gamma`", gamma, "in 0..=1"));
        }
        check_epsilon(epsilon)?;
        Ok(Self {
            statistics: RunningMeanStd::new(1, DType::F64),
            sums: vec![0.0; env.num_envs()],
            gamma,
            epsilon,
            update_running_mean: true,
            env,
        })
    }

    /// Returns the inner environment, whose rewards are not normalised.
    pub fn inner(&self) -> &V {
        &self.env
    }

    /// Sets whether rewards update the statistics, which they do by default.
    pub fn set_update_running_mean(&mut self, update: bool) {
        self.update_running_mean = update;
    }

    fn normalize(&mut self, out: StepOut<'_, V::Obs>) {
        for (i, sum) in self.sums.iter_mut().enumerate() {
            // A reward that terminates an episode is counted without the sum before it, as in Gymnasium.
            let before = if out.terminated[i] { 0.0 } else { *sum * self.gamma };
            *sum = before + f64::from(out.rewards[i]);
        }
        if self.update_running_mean {
            self.statistics.update(self.sums.chunks_exact(1));
        }
        let deviation = (self.statistics.var[0] + self.epsilon).sqrt();
        for (i, reward) in out.rewards.iter_mut().enumerate() {
            *reward = (f64::from(*reward) / deviation) as f32;
            if out.terminated[i] || out.truncated[i] {
                self.sums[i] = 0.0;
            }
        }
    }
}

impl<V: VectorEnv> VectorEnv for NormalizeReward<V> {
    forward_vector!(
        Obs,
        Act,
        num_envs,
        limit_episodes,
        set_task,
        observation_space,
        action_space,
        action_masks,
        info,
        render
    );

    fn reset(&mut self, seeds: Option<&[u64]>, obs: &mut [V::Obs]) -> Result<()> {
        self.sums.fill(0.0);
        self.env.reset(seeds, obs)
    }

    fn step(
        &mut self,
        actions: &[V::Act],
        reset_seeds: Option<&[u64]>,
        mut out: StepOut<'_, V::Obs>,
    ) -> Result<()> {
        self.env.step(actions, reset_seeds, out.reborrow())?;
        self.normalize(out);
        Ok(())
    }

    fn save_state(&self) -> Result<Option<Vec<u8>>> {
        let Some(inner) = self.env.save_state()? else { return Ok(None) };
        Ok(Some(state::save(TAG, &(self.statistics.save(), &self.sums, inner))))
    }

    fn can_load_state(&self) -> bool {
        self.env.can_load_state()
    }

    fn load_state(&mut self, state: &[u8]) -> Result<()> {
        let (statistics, sums, inner): (_, Vec<f64>, &[u8]) = state::load(TAG, state)?;
        let statistics = self.statistics.load(statistics)?;
        state::check_count("copies", sums.len(), self.sums.len())?;
        self.env.load_state(inner)?;
        self.statistics = statistics;
        self.sums = sums;
        Ok(())
    }
}
