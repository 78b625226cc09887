//! The wrapper that normalises observations to mean 0 and variance 1.

use super::running_mean_std::RunningMeanStd;
use crate::{
    Element, Error, Result, Space, StepOut, VectorEnv, contract::state, contract::vector::check_len,
};

const TAG: &str = "normalize_observation";

/// Subtracts the running mean of every component and divides by its running standard deviation. All copies share the
/// statistics, which are part of the saved state.
///
/// While the statistics are updated, copies are not independent, and an episode depends on the statistics in addition to its
/// seed and actions. So [`check_vector_env`](crate::check_vector_env) accepts this wrapper only with
/// [`set_update_running_mean(false)`](Self::set_update_running_mean), as for evaluation.
///
/// A step adds its observations to the statistics as one batch, with the last observations of ended episodes, and then the
/// first observations of the next episodes. So one copy equals Gymnasium's wrapper of an environment. Several copies equal
/// its vector wrapper until the first end, where Gymnasium defers the reset to the next step. Results are equal bit for bit;
/// only the last bits may differ for rows of a single number with eight copies or more, which numpy adds up in pairs.
#[derive(Clone, Debug)]
pub struct NormalizeObservation<V: VectorEnv> {
    env: V,
    observation_space: Space,
    statistics: RunningMeanStd,
    epsilon: f64,
    update_running_mean: bool,
    width: usize,
    obs: Vec<V::Obs>,
    final_obs: Vec<V::Obs>,
}

impl<V: VectorEnv> NormalizeObservation<V> {
    /// Wraps `env`. `epsilon` is added to the variance (Gymnasium's default is 1e-8).
    ///
    /// # Errors
    /// Returns [`Error::Shape`] if `epsilon` is not above 0, or if the observation space is a dict or tuple.
    pub fn new(env: V, epsilon: f64) -> Result<Self> {
        check_epsilon(epsilon)?;
        let space = env.observation_space();
        if matches!(space, Space::Dict(_) | Space::Tuple(_)) {
            let expected = "a space of one part; wrap the environment in `FlattenObservation` first";
            return Err(Error::shape("the observation space", space, expected));
        }
        let width = space.width();
        let row = vec![V::Obs::default(); env.num_envs() * width];
        Ok(Self {
            observation_space: Space::real(&space.shape()),
            statistics: RunningMeanStd::new(width, V::Obs::DTYPE),
            epsilon,
            update_running_mean: true,
            width,
            final_obs: row.clone(),
            obs: row,
            env,
        })
    }

    /// Returns the inner environment, whose observations are not normalised.
    pub fn inner(&self) -> &V {
        &self.env
    }

    /// Sets whether observations update the statistics, which they do by default.
    pub fn set_update_running_mean(&mut self, update: bool) {
        self.update_running_mean = update;
    }

    fn normalize(statistics: &RunningMeanStd, epsilon: f64, row: &[V::Obs], out: &mut [f32]) {
        let epsilon = statistics.round(epsilon);
        for (i, (x, out)) in row.iter().zip(out).enumerate() {
            let deviation = statistics.round(statistics.round(statistics.var[i] + epsilon).sqrt());
            *out = (statistics.round(x.to_f64() - statistics.mean[i]) / deviation) as f32;
        }
    }

    /// Makes a step by calling `take` with buffers for the inner rows, and writes normalised rows to `out`.
    fn through(
        &mut self,
        mut out: StepOut<'_, f32>,
        take: impl FnOnce(&mut V, StepOut<'_, V::Obs>) -> Result<()>,
    ) -> Result<()> {
        out.check(self.env.num_envs(), self.width)?;
        let StepOut { rewards, terminated, truncated, .. } = out.reborrow();
        let obs = &mut self.obs[..];
        let final_obs = &mut self.final_obs[..];
        take(&mut self.env, StepOut { obs, final_obs, rewards, terminated, truncated })?;
        self.write(out);
        Ok(())
    }

    /// Updates the statistics with the inner step's observations, and writes these normalised to the caller's rows.
    fn write(&mut self, out: StepOut<'_, f32>) {
        let Self { statistics, epsilon, width, obs, final_obs, .. } = self;
        let ended = |i: usize| out.terminated[i] || out.truncated[i];
        let place = |i: usize| i * *width..(i + 1) * *width;
        let copies = 0..out.rewards.len();
        if self.update_running_mean {
            let given = |i| if ended(i) { &final_obs[place(i)] } else { &obs[place(i)] };
            statistics.update(copies.clone().map(given));
        }
        for i in copies.clone() {
            if ended(i) {
                Self::normalize(statistics, *epsilon, &final_obs[place(i)], &mut out.final_obs[place(i)])
            } else {
                Self::normalize(statistics, *epsilon, &obs[place(i)], &mut out.obs[place(i)])
            }
        }
        if self.update_running_mean {
            statistics.update(copies.clone().filter(|&i| ended(i)).map(|i| &obs[place(i)]));
        }
        for i in copies.filter(|&i| ended(i)) {
            Self::normalize(statistics, *epsilon, &obs[place(i)], &mut out.obs[place(i)]);
        }
    }
}

pub(super) fn check_epsilon(epsilon: f64) -> Result<()> {
    if epsilon > 0.0 { Ok(()) } else { Err(Error::shape("`epsilon`", epsilon, "above 0")) }
}

impl<V: VectorEnv> VectorEnv for NormalizeObservation<V> {
    type Obs = f32;

    forward_vector!(Act, num_envs, limit_episodes, set_task, action_space, action_masks, info, render);

    fn observation_space(&self) -> &Space {
        &self.observation_space
    }

    fn reset(&mut self, seeds: Option<&[u64]>, obs: &mut [f32]) -> Result<()> {
        check_len("`obs`", obs.len(), self.env.num_envs(), self.width)?;
        self.env.reset(seeds, &mut self.obs)?;
        let Self { statistics, epsilon, width, .. } = self;
        if self.update_running_mean {
            statistics.update(self.obs.chunks_exact(*width));
        }
        for (row, out) in self.obs.chunks_exact(*width).zip(obs.chunks_exact_mut(*width)) {
            Self::normalize(statistics, *epsilon, row, out);
        }
        Ok(())
    }

    fn step(&mut self, actions: &[V::Act], reset_seeds: Option<&[u64]>, out: StepOut<'_, f32>) -> Result<()> {
        self.through(out, |env, inner| env.step(actions, reset_seeds, inner))
    }

    fn save_state(&self) -> Result<Option<Vec<u8>>> {
        let Some(inner) = self.env.save_state()? else { return Ok(None) };
        Ok(Some(state::save(TAG, &(self.statistics.save(), inner))))
    }

    fn can_load_state(&self) -> bool {
        self.env.can_load_state()
    }

    fn load_state(&mut self, state: &[u8]) -> Result<()> {
        let (statistics, inner): (_, &[u8]) = state::load(TAG, state)?;
        let statistics = self.statistics.load(statistics)?;
        self.env.load_state(inner)?;
        self.statistics = statistics;
        Ok(())
    }
}
