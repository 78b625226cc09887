//! An environment that tells of every call, for tests of what is around it.

use pavlov_envs::{DType, Element, Env, Frame, Result, Space, Step};

/// Tells everything an environment can: its step shows in the observation, the mask, the info and the picture.
#[derive(Clone, Debug)]
pub(crate) struct Teller<O, A> {
    seed: u8,
    step: u8,
    of: std::marker::PhantomData<(O, A)>,
}

impl<O: Element, A: Element> Teller<O, A> {
    pub(crate) fn new() -> Self {
        Self { seed: 0, step: 0, of: std::marker::PhantomData }
    }

    fn show(&self, obs: &mut [O]) {
        obs.fill(O::from_f64(f64::from(self.step)));
        obs[0] = O::from_f64(f64::from(self.seed));
    }
}

impl<O: Element, A: Element> Env for Teller<O, A> {
    type Obs = O;
    type Act = A;

    fn observation_space(&self) -> Space {
        match O::DTYPE {
            DType::U8 => Space::image(&[4, 6, 3]),
            _ => Space::boxed(0.0, 255.0, &[2]),
        }
    }

    fn action_space(&self) -> Space {
        if A::DTYPE == DType::F32 { Space::boxed(-1.0, 1.0, &[3]) } else { Space::discrete(3) }
    }

    fn reset(&mut self, seed: Option<u64>, obs: &mut [O]) -> Result<()> {
        self.seed = seed.map_or(7, |seed| (seed % 50) as u8);
        self.step = 0;
        self.show(obs);
        Ok(())
    }

    fn step(&mut self, _: &[A], obs: &mut [O]) -> Result<Step> {
        self.step += 1;
        self.show(obs);
        let terminated = self.step == 40;
        Ok(Step { reward: -2.5, terminated, truncated: !terminated && self.seed == 9 })
    }

    fn max_episode_steps(&self) -> Option<usize> {
        Some(77)
    }

    fn action_mask(&self, mask: &mut [bool]) -> bool {
        mask.fill(true);
        mask[usize::from(self.step) % mask.len()] = false;
        true
    }

    fn info(&self, key: &str) -> Option<f64> {
        (key == "told").then_some(f64::from(self.step))
    }

    fn render(&mut self) -> Result<Option<Frame>> {
        Ok(Some(Frame { width: 1, height: 1, rgb: vec![self.seed, self.step, 3] }))
    }

    fn render_fps(&self) -> Option<f64> {
        Some(31.0)
    }

    fn render_ansi(&mut self) -> Result<Option<String>> {
        Ok(Some(format!("seed {}, step {}", self.seed, self.step)))
    }

    fn save_state(&self) -> Option<Vec<u8>> {
        Some(vec![self.seed, self.step])
    }

    fn load_state(&mut self, state: &[u8]) -> Result<()> {
        self.seed = state[0];
        self.step = state[1];
        Ok(())
    }
}
