//! Many CartPoles as a struct of arrays.

use super::cartpole::{
    CartPoleConfig, State, advance, draw_cartpole, has_fallen, observation_space, observe, read_state, start,
    write_state,
};
#[cfg(target_arch = "x86_64")]
use super::{cartpole::MOST_THETA, sincos};
use crate::{
    Error, Frame, NpRandom, Result, Space, StepOut, VectorEnv,
    state::{StateReader, StateWriter},
    vector::check_len,
};

const TAG: &str = "cartpole_vector";
/// Copies moved together: their rows fit the first-level cache.
const BLOCK: usize = 128;

/// `n` copies of [`CartPole`](crate::CartPole) with a time limit, equal to it bit for bit.
///
/// A step is a few loops without branches or calls over the arrays, compiled for AVX2 and FMA where
/// the machine has them, and one over the few copies that ended.
#[derive(Clone, Debug)]
pub struct CartPoleVector {
    config: CartPoleConfig,
    limit: u32,
    observation_space: Space,
    action_space: Space,
    x: Vec<f64>,
    x_dot: Vec<f64>,
    theta: Vec<f64>,
    theta_dot: Vec<f64>,
    /// Steps of the running episodes.
    steps: Vec<u32>,
    random: Vec<NpRandom>,
}

impl CartPoleVector {
    /// Makes `num_envs` copies whose episodes are truncated after `limit` steps.
    pub fn new(num_envs: usize, limit: usize, config: CartPoleConfig) -> Self {
        Self {
            config,
            limit: limit.try_into().unwrap_or(u32::MAX),
            observation_space: observation_space(),
            action_space: Space::discrete(2),
            x: vec![0.0; num_envs],
            x_dot: vec![0.0; num_envs],
            theta: vec![0.0; num_envs],
            theta_dot: vec![0.0; num_envs],
            steps: vec![0; num_envs],
            random: vec![NpRandom::new(0); num_envs],
        }
    }

    fn state(&self, i: usize) -> State {
        [self.x[i], self.x_dot[i], self.theta[i], self.theta_dot[i]]
    }

    fn set_state(&mut self, i: usize, state: State) {
        [self.x[i], self.x_dot[i], self.theta[i], self.theta_dot[i]] = state;
    }

    fn reset_copy(&mut self, i: usize, seed: Option<u64>, obs: &mut [f32]) {
        if let Some(seed) = seed {
            self.random[i] = NpRandom::new(seed);
        }
        let state = start(&mut self.random[i]);
        self.set_state(i, state);
        self.steps[i] = 0;
        observe(&state, obs);
    }

    /// Moves all copies and writes what they show; gives the number of episodes that ended.
    #[inline(always)]
    fn advance_all(
        &mut self,
        actions: &[i64],
        out: &mut StepOut<'_, f32>,
        sin_cos: impl Fn(f64) -> (f64, f64),
    ) -> usize {
        // Several short loops over a block that stays in the first-level cache: each of them
        // vectorises, one long loop would not.
        let (mut sin, mut cos) = ([0.0; BLOCK], [0.0; BLOCK]);
        let mut ended = 0;
        for first in (0..actions.len()).step_by(BLOCK) {
            let n = BLOCK.min(actions.len() - first);
            let block = first..first + n;
            let (x, x_dot) = (&mut self.x[block.clone()], &mut self.x_dot[block.clone()]);
            let (theta, theta_dot) = (&mut self.theta[block.clone()], &mut self.theta_dot[block.clone()]);
            let (sin, cos) = (&mut sin[..n], &mut cos[..n]);
            for i in 0..n {
                (sin[i], cos[i]) = sin_cos(theta[i]);
            }
            let actions = &actions[block.clone()];
            for i in 0..n {
                let state = [x[i], x_dot[i], theta[i], theta_dot[i]];
                [x[i], x_dot[i], theta[i], theta_dot[i]] = advance(state, actions[i], sin[i], cos[i]);
            }
            let obs = &mut out.obs.as_chunks_mut::<4>().0[block.clone()];
            for i in 0..n {
                obs[i] = [x[i] as f32, x_dot[i] as f32, theta[i] as f32, theta_dot[i] as f32];
            }
            let steps = &mut self.steps[block.clone()];
            let (terminated, truncated) =
                (&mut out.terminated[block.clone()], &mut out.truncated[block.clone()]);
            for i in 0..n {
                let fallen = has_fallen(&[x[i], x_dot[i], theta[i], theta_dot[i]]);
                steps[i] += 1;
                terminated[i] = fallen;
                truncated[i] = !fallen & (steps[i] >= self.limit);
            }
            let rewards = &mut out.rewards[block];
            for i in 0..n {
                rewards[i] = self.config.reward(terminated[i]) as f32;
                ended += usize::from(terminated[i] | truncated[i]);
            }
        }
        ended
    }

    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx2,fma")]
    fn advance_all_fma(&mut self, actions: &[i64], out: &mut StepOut<'_, f32>) -> usize {
        self.advance_all(actions, out, sincos::sin_cos)
    }

    /// The fastest loop this machine has.
    fn advance_all_fast(&mut self, actions: &[i64], out: &mut StepOut<'_, f32>) -> usize {
        #[cfg(target_arch = "x86_64")]
        if sincos::fits_platform() {
            // SAFETY: that is true only where the machine has AVX2 and FMA.
            return unsafe { self.advance_all_fma(actions, out) };
        }
        self.advance_all(actions, out, f64::sin_cos)
    }
}

impl VectorEnv for CartPoleVector {
    type Obs = f32;
    type Act = i64;

    fn num_envs(&self) -> usize {
        self.x.len()
    }

    fn observation_space(&self) -> &Space {
        &self.observation_space
    }

    fn action_space(&self) -> &Space {
        &self.action_space
    }

    fn reset(&mut self, seeds: Option<&[u64]>, obs: &mut [f32]) -> Result<()> {
        let num_envs = self.x.len();
        check_len("`obs`", obs.len(), num_envs, 4)?;
        check_len("`seeds`", seeds.map_or(num_envs, <[u64]>::len), num_envs, 1)?;
        for (i, row) in obs.chunks_exact_mut(4).enumerate() {
            self.reset_copy(i, seeds.map(|seeds| seeds[i]), row);
        }
        Ok(())
    }

    fn step(
        &mut self,
        actions: &[i64],
        reset_seeds: Option<&[u64]>,
        mut out: StepOut<'_, f32>,
    ) -> Result<()> {
        let num_envs = self.x.len();
        check_len("`actions`", actions.len(), num_envs, 1)?;
        check_len("`reset_seeds`", reset_seeds.map_or(num_envs, <[u64]>::len), num_envs, 1)?;
        out.check(num_envs, 4)?;
        // One reduction first: a search for the culprit is for the bad case only.
        if actions.iter().fold(0, |bits, action| bits | action) & !1 != 0 {
            let action = actions.iter().find(|action| !matches!(action, 0 | 1)).unwrap_or(&actions[0]);
            return Err(Error::invalid_action("CartPole", &[*action], &self.action_space));
        }
        if self.advance_all_fast(actions, &mut out) == 0 {
            return Ok(());
        }
        for i in 0..num_envs {
            if out.terminated[i] | out.truncated[i] {
                let obs = &mut out.obs[4 * i..][..4];
                out.final_obs[4 * i..][..4].copy_from_slice(obs);
                self.reset_copy(i, reset_seeds.map(|seeds| seeds[i]), obs);
            }
        }
        Ok(())
    }

    fn save_state(&self) -> Result<Option<Vec<u8>>> {
        let mut out = StateWriter::new(TAG);
        out.u64(self.x.len() as u64);
        for i in 0..self.x.len() {
            write_state(&mut out, &self.state(i), &self.random[i]);
            out.u64(u64::from(self.steps[i]));
        }
        Ok(Some(out.finish()))
    }

    fn load_state(&mut self, state: &[u8]) -> Result<()> {
        let mut input = StateReader::new(TAG, state)?;
        input.count("copies", self.x.len())?;
        for i in 0..self.x.len() {
            let (state, random) = read_state(&mut input)?;
            if has_fallen(&state) || !state[2].is_finite() {
                return Err(Error::state(format!(
                    "copy {i} is at {state:?}, where its episode is over; it is damaged"
                )));
            }
            self.set_state(i, state);
            self.random[i] = random;
            self.steps[i] = input.u64()? as u32;
        }
        input.finish()
    }

    fn render(&mut self, copy: usize) -> Result<Option<Frame>> {
        if copy >= self.x.len() {
            return Err(Error::no_copy(copy, self.x.len()));
        }
        Ok(draw_cartpole(&self.state(copy)))
    }
}

// The fast sine covers every angle from which an episode goes on.
#[cfg(target_arch = "x86_64")]
const _: () = assert!(MOST_THETA < sincos::LIMIT);

#[cfg(test)]
mod tests {
    use super::*;

    /// The loop with the platform's functions is the one that runs without AVX2 and FMA.
    #[test]
    fn the_fast_loop_and_the_plain_one_give_equal_bits() {
        const N: usize = 300;
        let mut fast = CartPoleVector::new(N, 500, CartPoleConfig::default());
        let (mut obs, mut final_obs) = (vec![0.0; 4 * N], vec![0.0; 4 * N]);
        let (mut rewards, mut terminated, mut truncated) = ([0.0; N], [false; N], [false; N]);
        fast.reset(None, &mut obs).unwrap();
        let mut random = NpRandom::new(1);
        for _ in 0..500 {
            let actions: Vec<i64> = (0..N).map(|_| random.integers(0, 2)).collect();
            let mut plain = fast.clone();
            let mut out = StepOut {
                obs: &mut obs,
                final_obs: &mut final_obs,
                rewards: &mut rewards,
                terminated: &mut terminated,
                truncated: &mut truncated,
            };
            plain.advance_all(&actions, &mut out, f64::sin_cos);
            let mut advanced = fast.clone();
            advanced.advance_all_fast(&actions, &mut out);
            let bits = |env: &CartPoleVector, i| env.state(i).map(f64::to_bits);
            assert!((0..N).all(|i| bits(&plain, i) == bits(&advanced, i)));
            fast.step(&actions, None, out).unwrap();
        }
    }
}
