//! Vectors of a classic-control environment, stored as a struct of arrays.

use super::classic::{ClassicControl, ClassicRows, SavedState, start_options};
use crate::{
    Error, Frame, NpRandom, ResetOptions, Result, Space, StepOut, VectorEnv, contract::state,
    contract::vector::check_len,
};

/// A vector of copies of a classic-control environment with a time limit, bit for bit equal to single copies.
///
/// Each state number has its own array. A step advances all copies in one loop and resets the few ended ones in
/// another.
#[derive(Clone, Debug)]
pub struct ClassicVector<D: ClassicControl<S, O>, const S: usize, const O: usize> {
    dynamics: D,
    limit: u32,
    observation_space: Space,
    action_space: Space,
    state: [Vec<f64>; S],
    /// Number of steps of each running episode.
    steps: Vec<u32>,
    random: Vec<NpRandom>,
    autoreset: bool,
    options: D::ResetOptions,
    /// Whether `reset` has been called.
    running: bool,
}

impl<D: ClassicControl<S, O>, const S: usize, const O: usize> ClassicVector<D, S, O> {
    /// Creates `num_envs` copies whose episodes are truncated after `limit` steps.
    pub fn new(num_envs: usize, limit: usize, config: D) -> Self {
        Self {
            limit: limit.try_into().unwrap_or(u32::MAX),
            observation_space: config.observation_space(),
            action_space: config.action_space(),
            dynamics: config,
            state: std::array::from_fn(|_| vec![0.0; num_envs]),
            steps: vec![0; num_envs],
            random: (0..num_envs).map(|_| NpRandom::from_entropy()).collect(),
            autoreset: true,
            options: D::RESET_OPTIONS,
            running: false,
        }
    }

    fn state(&self, i: usize) -> [f64; S] {
        std::array::from_fn(|k| self.state[k][i])
    }

    fn set_state(&mut self, i: usize, state: [f64; S]) {
        for (column, value) in self.state.iter_mut().zip(state) {
            column[i] = value;
        }
    }

    fn reset_copy(&mut self, i: usize, seed: Option<u64>, obs: &mut [f32; O]) {
        if let Some(seed) = seed {
            self.random[i] = NpRandom::new(seed);
        }
        let state = self.dynamics.start(self.options, &mut self.random[i]);
        self.set_state(i, state);
        self.steps[i] = 0;
        *obs = self.dynamics.observe_start(&state);
    }

    /// Counts the step and sets `truncated`; returns the number of episodes that ended.
    fn count_step(&mut self, terminated: &[bool], truncated: &mut [bool]) -> usize {
        let mut ended = 0;
        for ((steps, &terminated), truncated) in self.steps.iter_mut().zip(terminated).zip(truncated) {
            *steps += 1;
            *truncated = *steps >= self.limit;
            ended += usize::from(terminated | *truncated);
        }
        ended
    }
}

impl<D: ClassicControl<S, O>, const S: usize, const O: usize> VectorEnv for ClassicVector<D, S, O> {
    type Obs = f32;
    type Act = D::Act;

    fn num_envs(&self) -> usize {
        self.steps.len()
    }

    fn observation_space(&self) -> &Space {
        &self.observation_space
    }

    fn action_space(&self) -> &Space {
        &self.action_space
    }

    fn reset(&mut self, seeds: Option<&[u64]>, obs: &mut [f32]) -> Result<()> {
        self.check_reset(seeds, obs)?;
        for (i, row) in obs.as_chunks_mut().0.iter_mut().enumerate() {
            self.reset_copy(i, seeds.map(|seeds| seeds[i]), row);
        }
        self.running = true;
        Ok(())
    }

    fn step(&mut self, actions: &[D::Act], reset_seeds: Option<&[u64]>, out: StepOut<'_, f32>) -> Result<()> {
        let num_envs = self.steps.len();
        check_len("`actions`", actions.len(), num_envs, 1)?;
        check_len("`reset_seeds`", reset_seeds.map_or(num_envs, <[u64]>::len), num_envs, 1)?;
        out.check(num_envs, O)?;
        if !self.running {
            return Err(Error::other(format!(
                "{} was stepped before an episode; call `reset` first",
                D::NAME
            )));
        }
        // A branch-free check of all actions comes first; the invalid one is searched only if there is one.
        if !actions.iter().fold(true, |valid, &action| valid & D::takes(action)) {
            let action = actions.iter().find(|&&action| !D::takes(action)).unwrap_or(&actions[0]);
            return Err(Error::invalid_action(D::NAME, &[*action], &self.action_space));
        }
        let obs = out.obs.as_chunks_mut::<O>().0;
        let final_obs = out.final_obs.as_chunks_mut::<O>().0;
        let state = self.state.each_mut().map(Vec::as_mut_slice);
        let rows =
            ClassicRows { state, obs: &mut *obs, rewards: out.rewards, terminated: &mut *out.terminated };
        self.dynamics.advance_all(actions, rows);
        if self.count_step(out.terminated, out.truncated) == 0 {
            return Ok(());
        }
        for i in 0..num_envs {
            if out.terminated[i] | out.truncated[i] {
                final_obs[i] = obs[i];
                if self.autoreset {
                    self.reset_copy(i, reset_seeds.map(|seeds| seeds[i]), &mut obs[i]);
                }
            }
        }
        Ok(())
    }

    fn max_episode_steps(&self) -> Option<usize> {
        (self.limit < u32::MAX).then_some(self.limit as usize)
    }

    fn limit_episodes(&mut self, steps: usize) -> bool {
        self.limit = self.limit.min(u32::try_from(steps).unwrap_or(u32::MAX));
        true
    }

    fn set_autoreset(&mut self, autoreset: bool) -> bool {
        self.autoreset = autoreset;
        true
    }

    fn set_reset_options(&mut self, options: &ResetOptions) -> Result<()> {
        self.options = start_options::<D, S, O>(options)?;
        Ok(())
    }

    fn save_state(&self) -> Result<Option<Vec<u8>>> {
        let copy = |i: usize| (SavedState(self.state(i)), self.random[i].clone(), self.steps[i]);
        let copies: Vec<_> = (0..self.steps.len()).map(copy).collect();
        Ok(Some(state::save(&vector_tag(D::NAME), &(copies, self.running))))
    }

    fn load_state(&mut self, state: &[u8]) -> Result<()> {
        let (copies, running): (Vec<(SavedState<S>, NpRandom, u32)>, bool) =
            state::load(&vector_tag(D::NAME), state)?;
        state::check_count("copies", copies.len(), self.steps.len())?;
        for (i, (SavedState(state), _, steps)) in copies.iter().enumerate() {
            if !self.dynamics.goes_on(state) {
                return Err(Error::state(format!(
                    "copy {i} is at {state:?}, from where no episode goes on; it is damaged"
                )));
            }
            state::check_step(&format!("copy {i}"), *steps as usize, self.limit as usize)?;
        }
        for (i, (SavedState(state), random, steps)) in copies.into_iter().enumerate() {
            self.set_state(i, state);
            self.random[i] = random;
            self.steps[i] = steps;
        }
        self.running = running;
        Ok(())
    }

    fn render(&mut self, copy: usize) -> Result<Option<Frame>> {
        if copy >= self.steps.len() {
            return Err(Error::no_copy(copy, self.steps.len()));
        }
        Ok(self.dynamics.draw(&self.state(copy)))
    }

    fn render_fps(&self) -> Option<f64> {
        Some(D::RENDER_FPS)
    }
}

fn vector_tag(name: &str) -> String {
    format!("{name} vector")
}
