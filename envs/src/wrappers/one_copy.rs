//! An adapter from a vector environment of one copy to an [`Env`], so that wrappers of [`Env`] fit around any environment
//! with an id.

use std::{fmt, marker::PhantomData};

use crate::{
    AnyVectorEnv, Element, Env, Frame, Result, Space, Step, StepOut, contract::forward::forward_to,
    contract::state,
};

const TAG: &str = "one_copy";

/// A vector environment of one copy as an [`Env`]. A vector environment that cannot leave out autoreset begins the next
/// episode in the step that ends one; the first observation of that episode is then kept until a reset without a seed.
pub(super) struct OneCopy<O, A> {
    env: Box<dyn AnyVectorEnv>,
    /// Whether the copy stays at the end of an episode, where masks, info and pictures show the end.
    stays: bool,
    next: Vec<O>,
    /// Whether the next episode has begun; then `next` is its first observation.
    begun: bool,
    of: PhantomData<A>,
}

impl<O, A> fmt::Debug for OneCopy<O, A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OneCopy").field("env", &self.env).finish_non_exhaustive()
    }
}

impl<O: Element, A> OneCopy<O, A> {
    /// Wraps a vector environment of one copy, whose scalar types must be `O` and `A`.
    pub(super) fn new(mut env: Box<dyn AnyVectorEnv>) -> Self {
        let next = vec![O::default(); env.observation_space().width()];
        Self { stays: env.set_autoreset(false), env, next, begun: false, of: PhantomData }
    }
}

impl<O: Element, A: Element> Env for OneCopy<O, A> {
    type Obs = O;
    type Act = A;

    fn observation_space(&self) -> Space {
        self.env.observation_space().clone()
    }

    fn action_space(&self) -> Space {
        self.env.action_space().clone()
    }

    fn reset(&mut self, seed: Option<u64>, obs: &mut [O]) -> Result<()> {
        if std::mem::take(&mut self.begun) && seed.is_none() {
            obs.copy_from_slice(&self.next);
            return Ok(());
        }
        let seeds = seed.map(|seed| [seed]);
        self.env.reset(seeds.as_ref().map(<[u64; 1]>::as_slice), bytemuck::cast_slice_mut(obs))
    }

    fn step(&mut self, action: &[A], obs: &mut [O]) -> Result<Step> {
        let mut reward = [0.0];
        let mut terminated = [false];
        let mut truncated = [false];
        let out = StepOut {
            obs: bytemuck::cast_slice_mut(&mut self.next),
            final_obs: bytemuck::cast_slice_mut(obs),
            rewards: &mut reward,
            terminated: &mut terminated,
            truncated: &mut truncated,
        };
        self.env.step(bytemuck::cast_slice(action), None, out)?;
        self.begun = !self.stays && (terminated[0] || truncated[0]);
        if !self.begun {
            obs.copy_from_slice(&self.next);
        }
        Ok(Step { reward: f64::from(reward[0]), terminated: terminated[0], truncated: truncated[0] })
    }

    forward_to! {
        env:
        fn max_episode_steps(&self) -> Option<usize>;
        fn set_task(&mut self, task: &serde_json::Value) -> Result<()>;
        fn set_reset_options(&mut self, options: &crate::ResetOptions) -> Result<()>;
        fn compute_rewards(&mut self, achieved_goals: &[f64], desired_goals: &[f64], rewards: &mut [f64]) -> Result<bool>;
        fn render_fps(&self) -> Option<f64>;
    }

    fn action_mask(&self, mask: &mut [bool]) -> bool {
        if self.begun { self.env.final_action_masks(mask) } else { self.env.action_masks(mask) }
    }

    fn info(&self, key: &str) -> Option<f64> {
        self.env.info(key).map(|row| row[0]).filter(|value| !value.is_nan())
    }

    fn info_value(&mut self, key: &str) -> Result<Option<serde_json::Value>> {
        self.env.info_value(0, key)
    }

    fn render(&mut self) -> Result<Option<Frame>> {
        self.env.render(0)
    }

    fn render_ansi(&mut self) -> Result<Option<String>> {
        self.env.render_ansi(0)
    }

    fn save_state(&self) -> Option<Vec<u8>> {
        // An episode that cannot be saved now is replayed by the vector environment around the wrappers.
        let inner = self.env.save_state().ok()??;
        Some(state::save(TAG, &(self.begun, &self.next, inner)))
    }

    fn load_state(&mut self, state: &[u8]) -> Result<()> {
        let (begun, next, inner): (_, Vec<O>, &[u8]) = state::load(TAG, state)?;
        state::check_count("scalars of an observation", next.len(), self.next.len())?;
        self.env.load_state(inner)?;
        self.begun = begun;
        self.next = next;
        Ok(())
    }
}
