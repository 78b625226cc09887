//! What native environments with one agent have in common: [`NativeEnv`] makes an environment of [`Dynamics`].

use std::fmt::Debug;

use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;

use crate::{
    Element, Env, Error, Frame, NpRandom, ResetOptions, Result, Space, Step,
    contract::{env::refuse_options, state},
};

/// How the episodes of a native environment begin and go on, and how they are drawn and saved.
pub trait Dynamics: Clone + Debug + Send + 'static {
    /// Scalar type of observations.
    type Obs: Element;
    /// Scalar type of actions.
    type Act: Element;
    /// Fields of a saved state, as [`save`](Self::save) writes them.
    type Saved: DeserializeOwned;

    /// Name of the environment in error messages and at the beginning of saved states.
    fn name(&self) -> &str;

    fn observation_space(&self) -> Space;

    fn action_space(&self) -> Space;

    /// Whether the action has the right length and a value that the environment understands.
    fn takes(&self, action: &[Self::Act]) -> bool;

    /// Forgets what an episode can inherit from earlier ones. Called before an episode with a seed.
    fn forget(&mut self) {}

    /// Starts an episode and writes its first observation.
    ///
    /// # Errors
    /// Returns an error if the settings allow no episode.
    fn start(&mut self, random: &mut NpRandom, obs: &mut [Self::Obs]) -> Result<()>;

    /// Applies a valid action in a running episode, and writes the next observation.
    fn advance(&mut self, action: &[Self::Act], random: &mut NpRandom, obs: &mut [Self::Obs]) -> Step;

    /// Number of steps after which the environment itself truncates an episode; `None` if it does not.
    fn max_episode_steps(&self) -> Option<usize> {
        None
    }

    /// As [`Env::action_mask`].
    fn action_mask(&self, mask: &mut [bool]) -> bool {
        let _ = mask;
        false
    }

    /// As [`Env::set_reset_options`].
    ///
    /// # Errors
    /// Returns an error about an unknown option or an invalid value.
    fn set_reset_options(&mut self, options: &ResetOptions) -> Result<()> {
        refuse_options(self.name(), options)
    }

    /// As [`Env::compute_rewards`].
    fn compute_rewards(&self, achieved_goals: &[f64], desired_goals: &[f64], rewards: &mut [f64]) -> bool {
        let _ = (achieved_goals, desired_goals, rewards);
        false
    }

    /// As [`Env::info`].
    fn info(&self, key: &str) -> Option<f64> {
        let _ = key;
        None
    }

    /// As [`Env::info_value`].
    fn info_value(&self, key: &str) -> Option<Value> {
        self.info(key).map(Value::from)
    }

    /// Draws the current state; `None` if there is no picture of it.
    fn draw(&mut self) -> Option<Frame>;

    /// Number of pictures per second, Gymnasium's `render_fps`.
    fn fps(&self) -> f64;

    /// The current state as text for a terminal; `None` if there is none.
    fn text(&self) -> Option<String> {
        None
    }

    /// Everything that later steps depend on, but for the random stream.
    fn save(&self) -> impl Serialize;

    /// Restores what [`save`](Self::save) gave; `running` says whether an episode goes on from there. Changes nothing if it
    /// fails.
    ///
    /// # Errors
    /// Returns [`Error::State`] if the fields are those of other settings or damaged.
    fn load(&mut self, saved: Self::Saved, running: bool) -> Result<()>;
}

/// A native environment with one agent: its dynamics, its random stream, and whether an episode is running.
///
/// [`LunarLander`](super::LunarLander), [`Taxi`](super::Taxi) and the others are names of it. A clone of an environment that
/// was never reset has a random stream of its own.
#[derive(Clone, Debug)]
pub struct NativeEnv<D> {
    pub(super) dynamics: D,
    random: NpRandom,
    /// Whether `reset` has been called.
    started: bool,
    pub(super) running: bool,
}

impl<D: Dynamics> NativeEnv<D> {
    pub(super) fn of(dynamics: D) -> Self {
        Self { dynamics, random: NpRandom::new(0), started: false, running: false }
    }

    /// Starts an episode by `start`, after a seed has replaced the random stream.
    // Kept out of the loops over copies, which are a twentieth slower with it inside.
    #[inline(never)]
    pub(super) fn start_with(
        &mut self,
        seed: Option<u64>,
        start: impl FnOnce(&mut D, &mut NpRandom) -> Result<()>,
    ) -> Result<()> {
        match seed {
            Some(seed) => {
                self.random = NpRandom::new(seed);
                self.dynamics.forget();
            }
            // Seeded here and not in `of`, because clones must not share the stream.
            None if !self.started => self.random = NpRandom::from_entropy(),
            None => {}
        }
        self.started = true;
        self.running = false;
        start(&mut self.dynamics, &mut self.random)?;
        self.running = true;
        Ok(())
    }

    /// Says why a step with this action is refused.
    #[cold]
    fn refusal(&self, action: &[D::Act]) -> Error {
        let name = self.dynamics.name();
        if self.dynamics.takes(action) {
            return Error::other(format!("{name} was stepped outside an episode; call `reset` first"));
        }
        Error::invalid_action(name, action, &self.dynamics.action_space())
    }
}

impl<D: Dynamics> Env for NativeEnv<D> {
    type Obs = D::Obs;
    type Act = D::Act;

    fn observation_space(&self) -> Space {
        self.dynamics.observation_space()
    }

    fn action_space(&self) -> Space {
        self.dynamics.action_space()
    }

    fn reset(&mut self, seed: Option<u64>, obs: &mut [D::Obs]) -> Result<()> {
        self.start_with(seed, |dynamics, random| dynamics.start(random, obs))
    }

    fn step(&mut self, action: &[D::Act], obs: &mut [D::Obs]) -> Result<Step> {
        if !self.running || !self.dynamics.takes(action) {
            return Err(self.refusal(action));
        }
        let step = self.dynamics.advance(action, &mut self.random, obs);
        self.running = !step.terminated;
        Ok(step)
    }

    fn max_episode_steps(&self) -> Option<usize> {
        self.dynamics.max_episode_steps()
    }

    fn action_mask(&self, mask: &mut [bool]) -> bool {
        self.dynamics.action_mask(mask)
    }

    fn set_task(&mut self, _task: &Value) -> Result<()> {
        Err(Error::one_task(self.dynamics.name()))
    }

    fn set_reset_options(&mut self, options: &ResetOptions) -> Result<()> {
        self.dynamics.set_reset_options(options)
    }

    fn compute_rewards(
        &mut self,
        achieved_goals: &[f64],
        desired_goals: &[f64],
        rewards: &mut [f64],
    ) -> Result<bool> {
        Ok(self.dynamics.compute_rewards(achieved_goals, desired_goals, rewards))
    }

    fn info(&self, key: &str) -> Option<f64> {
        self.dynamics.info(key)
    }

    fn info_value(&mut self, key: &str) -> Result<Option<Value>> {
        Ok(self.dynamics.info_value(key))
    }

    fn render(&mut self) -> Result<Option<Frame>> {
        Ok(self.dynamics.draw())
    }

    fn render_fps(&self) -> Option<f64> {
        Some(self.dynamics.fps())
    }

    fn render_ansi(&mut self) -> Result<Option<String>> {
        Ok(self.dynamics.text())
    }

    fn save_state(&self) -> Option<Vec<u8>> {
        let Self { dynamics, random, started, running } = self;
        Some(state::save(dynamics.name(), &(random, started, running, dynamics.save())))
    }

    fn load_state(&mut self, state: &[u8]) -> Result<()> {
        let (random, started, running, saved) = state::load(self.dynamics.name(), state)?;
        self.dynamics.load(saved, running)?;
        (self.random, self.started, self.running) = (random, started, running);
        Ok(())
    }
}
