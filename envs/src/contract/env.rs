//! The [`Env`] trait, which the author of an environment implements.

use crate::{Element, Error, Result, Space, contract::type_name::short_type_name};

/// A single-agent environment, like Gymnasium's `Env`.
///
/// # Contract
///
/// * An episode is a function of its seed and its actions: equal seeds and actions give equal rows.
/// * `reset` and `step` write every element of `obs`; its earlier contents must not matter.
/// * Observations lie in [`observation_space`](Self::observation_space).
/// * Spaces do not change.
///
/// [`check_env`](crate::check_env) tests these rules.
///
/// ```
/// use pavlov_envs::{Env, Result, Space, Step, check_env};
///
/// /// Walk right along five fields.
/// struct Corridor(i64);
///
/// impl Env for Corridor {
///     type Obs = f32;
///     type Act = i64;
///
///     fn observation_space(&self) -> Space {
///         Space::boxed(0.0, 5.0, &[1])
///     }
///
///     fn action_space(&self) -> Space {
///         Space::discrete(2)
///     }
///
///     fn reset(&mut self, _seed: Option<u64>, obs: &mut [f32]) -> Result<()> {
///         self.0 = 0;
///         obs[0] = 0.0;
///         Ok(())
///     }
///
///     fn step(&mut self, action: &[i64], obs: &mut [f32]) -> Result<Step> {
///         self.0 = (self.0 + 2 * action[0] - 1).max(0);
///         obs[0] = self.0 as f32;
///         Ok(Step { reward: -1.0, terminated: self.0 == 5, truncated: false })
///     }
///
///     fn max_episode_steps(&self) -> Option<usize> {
///         Some(50)
///     }
/// }
///
/// # fn main() -> Result<()> {
/// check_env(&mut Corridor(0))
/// # }
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no environment with one agent: it does not implement `Env`",
    note = "an environment of several agents implements `MultiAgentEnv`: give it as `EnvCreator::multi_agent(|| MyEnv::new())`",
    note = "a vector that steps all copies itself implements `VectorEnv`: give it as `EnvCreator::vector(MyVectorEnv::new)`"
)]
pub trait Env: Send + 'static {
    /// Scalar type of observations.
    type Obs: Element;
    /// Scalar type of actions: `i64` when discrete, `f32` when continuous.
    type Act: Element;

    /// Space of the observations; its [`width`](Space::width) is the length of `obs`.
    fn observation_space(&self) -> Space;

    /// Space of the actions; its [`width`](Space::width) is the length of `action`.
    fn action_space(&self) -> Space;

    /// Starts an episode and writes its first observation. With a `seed` of `None` the environment's random generator
    /// continues; in a new environment it is seeded by the operating system, as in Gymnasium
    /// ([`NpRandom::from_entropy`](crate::NpRandom::from_entropy)).
    ///
    /// # Errors
    /// Returns any error of the environment; see [`Error::other`].
    fn reset(&mut self, seed: Option<u64>, obs: &mut [Self::Obs]) -> Result<()>;

    /// Applies one action and writes the next observation, also at the end of an episode. Vector environments reject
    /// discrete actions outside the space and actions that are not finite, also inside a dict or tuple. Finite
    /// continuous actions may lie outside the bounds.
    ///
    /// # Errors
    /// Returns any error of the environment; see [`Error::other`].
    fn step(&mut self, action: &[Self::Act], obs: &mut [Self::Obs]) -> Result<Step>;

    /// Number of steps after which vector environments truncate an episode; `None` for no limit.
    fn max_episode_steps(&self) -> Option<usize> {
        None
    }

    /// Writes for each discrete action whether it is legal now. Returns `false` and writes nothing if the environment
    /// has no mask or `mask` has the wrong length.
    fn action_mask(&self, mask: &mut [bool]) -> bool {
        let _ = mask;
        false
    }

    /// Changes the task from the next `reset` on, for curriculum learning (RLlib's `TaskSettableEnv`). The running episode
    /// is not affected. The environment defines what a task is. The task is part of [`save_state`](Self::save_state). An
    /// environment without it is restored by replaying the running episode, with the task that was set last.
    ///
    /// # Errors
    /// Returns [`Error::Unsupported`] if the environment has only one task, and any error about an unknown task.
    fn set_task(&mut self, task: &serde_json::Value) -> Result<()> {
        let _ = task;
        Err(Error::one_task(&short_type_name::<Self>()))
    }

    /// Sets the `options` of all later resets, as those of Gymnasium's `reset`; without entries, resets are as before.
    /// The environment defines which options there are.
    ///
    /// # Errors
    /// Returns [`Error::Unsupported`] for any option if the environment has none, and any error about an unknown option or
    /// value.
    fn set_reset_options(&mut self, options: &ResetOptions) -> Result<()> {
        refuse_options(&short_type_name::<Self>(), options)
    }

    /// Computes the rewards of transitions from their goals, Gymnasium-Robotics' `compute_reward` for a whole batch: row `i` of
    /// `achieved_goals` is the goal that was achieved after transition `i`, row `i` of `desired_goals` the goal that was
    /// wanted, and its reward goes to `rewards[i]`. Hindsight experience replay computes the rewards of other goals by it.
    /// Returns `false`, and writes nothing, if the rewards do not follow from goals, as by default. The observations of an
    /// environment with goals are a Dict with the parts `achieved_goal` and `desired_goal`.
    ///
    /// # Errors
    /// Returns any error of the environment.
    fn compute_rewards(
        &mut self,
        achieved_goals: &[f64],
        desired_goals: &[f64],
        rewards: &mut [f64],
    ) -> Result<bool> {
        let _ = (achieved_goals, desired_goals, rewards);
        Ok(false)
    }

    /// Number stored under `key` in Gymnasium's `info` after the last `reset` or `step`; `None` if there is none.
    fn info(&self, key: &str) -> Option<f64> {
        let _ = key;
        None
    }

    /// Value of any kind stored under `key` in Gymnasium's `info` after the last `reset` or `step`: a number, a text, a list
    /// or an object. `None` if there is none. By default the number of [`info`](Self::info).
    ///
    /// # Errors
    /// Returns any error of the environment.
    fn info_value(&mut self, key: &str) -> Result<Option<serde_json::Value>> {
        Ok(self.info(key).map(Into::into))
    }

    /// Draws the current state as a picture; `None` if the environment has no picture.
    ///
    /// # Errors
    /// Returns any error of the environment.
    fn render(&mut self) -> Result<Option<Frame>> {
        Ok(None)
    }

    /// Frames per second of the pictures of [`render`](Self::render), Gymnasium's `render_fps`; `None` if unspecified.
    fn render_fps(&self) -> Option<f64> {
        None
    }

    /// The current state as text for a terminal, Gymnasium's render mode `ansi`; `None` if there is no text form.
    ///
    /// # Errors
    /// Returns any error of the environment.
    fn render_ansi(&mut self) -> Result<Option<String>> {
        Ok(None)
    }

    /// Saves everything that later steps depend on, including the random generator. If it returns `None`, vector
    /// environments replay the episode's seed and actions instead, which is slower.
    fn save_state(&self) -> Option<Vec<u8>> {
        None
    }

    /// Restores a state made by [`save_state`](Self::save_state).
    ///
    /// # Errors
    /// Returns [`Error::State`] if `state` is damaged or another environment's, or if this one saves no states.
    fn load_state(&mut self, state: &[u8]) -> Result<()> {
        Err(Error::state(format!(
            "{} bytes given, but this environment implements no `load_state`",
            state.len()
        )))
    }
}

/// Options of `reset` by name, the `options` of Gymnasium's `reset`. Settings give them as `reset_options` in `env_config`.
///
/// ```
/// use pavlov_envs::{EnvConfig, make_vec};
///
/// # fn main() -> pavlov_envs::Result<()> {
/// let config: EnvConfig = serde_json::from_str(r#"{ "reset_options": { "low": 0.25, "high": 0.25 } }"#).unwrap();
/// let mut env = make_vec("CartPole-v1", &config, 1)?;
/// let mut obs = [0.0_f32; 4];
/// env.reset(Some(&[0]), bytemuck::cast_slice_mut(&mut obs))?;
/// assert_eq!(obs, [0.25; 4]);
/// # Ok(())
/// # }
/// ```
pub type ResetOptions = serde_json::Map<String, serde_json::Value>;

/// Refuses options for an environment that has none.
pub(crate) fn refuse_options(env: &str, options: &ResetOptions) -> Result<()> {
    if options.is_empty() {
        return Ok(());
    }
    Err(Error::unsupported(
        env,
        "options of `reset`",
        "leave them out, or implement `set_reset_options` for it",
    ))
}

/// Reward and end-of-episode flags of one step.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Step {
    /// Reward of the step.
    pub reward: f64,
    /// Whether the task ended: the state has no future, its value is 0.
    pub terminated: bool,
    /// Whether the episode was cut off, for example by a time limit. If the task ended in the same step, `terminated` is
    /// set as well, as in Gymnasium; the state then has no future.
    pub truncated: bool,
}

/// An RGB picture: rows from the top, three bytes (red, green, blue) per pixel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    /// Width in pixels.
    pub width: usize,
    /// Height in pixels.
    pub height: usize,
    /// Pixel bytes, `[height, width, 3]`.
    pub rgb: Vec<u8>,
}
