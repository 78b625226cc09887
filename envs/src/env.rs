//! What the author of an environment writes: one copy of it.

use crate::{Element, Error, Result, Space, type_name::short_type_name};

/// One environment.
///
/// # Contract
///
/// * An episode is a function of its seed and its actions: equal seeds and actions give equal rows.
/// * `reset` and `step` write every element of `obs`; what was in it before must not matter.
/// * Observations lie in [`observation_space`](Self::observation_space).
/// * Spaces do not change.
///
/// [`check_env`](crate::check_env) tests all of these.
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
pub trait Env: Send + 'static {
    /// Scalar type of observations.
    type Obs: Element;
    /// Scalar type of actions: `i64` when discrete, `f32` when continuous.
    type Act: Element;

    /// The set of observations; its [`width`](Space::width) is the length of `obs`.
    fn observation_space(&self) -> Space;

    /// The set of actions; its [`width`](Space::width) is the length of `action`.
    fn action_space(&self) -> Space;

    /// Starts an episode and writes its first observation. `None` continues the environment's own
    /// random stream; that of a new environment begins with the operating system's entropy, as
    /// Gymnasium's ([`NpRandom::from_entropy`](crate::NpRandom::from_entropy)).
    ///
    /// # Errors
    /// Returns whatever the environment reports; see [`Error::other`].
    fn reset(&mut self, seed: Option<u64>, obs: &mut [Self::Obs]) -> Result<()>;

    /// Takes one action and writes the observation after it, the last one of the episode included.
    /// Vector environments refuse discrete actions outside the space and actions that are not
    /// finite, in parts of a dict or tuple too; finite continuous actions may lie outside the bounds.
    ///
    /// # Errors
    /// Returns whatever the environment reports; see [`Error::other`].
    fn step(&mut self, action: &[Self::Act], obs: &mut [Self::Obs]) -> Result<Step>;

    /// The number of steps after which vector environments truncate an episode; `None`: they never do.
    fn max_episode_steps(&self) -> Option<usize> {
        None
    }

    /// Writes which discrete actions are legal now, one flag per action; `false` when it has no mask or `mask` has
    /// another length: nothing was written.
    fn action_mask(&self, mask: &mut [bool]) -> bool {
        let _ = mask;
        false
    }

    /// Changes the task from the next `reset` on, for curricula (RLlib's `TaskSettableEnv`); the running episode goes on as
    /// it began. What a task is, the environment says. The task belongs to [`save_state`](Self::save_state): an episode
    /// that is replayed instead has the newest task.
    ///
    /// # Errors
    /// [`Error::Unsupported`] where the environment has one task only; whatever it reports of a task that it does not have.
    fn set_task(&mut self, task: &serde_json::Value) -> Result<()> {
        let _ = task;
        Err(Error::one_task(&short_type_name::<Self>()))
    }

    /// A number about the last `reset` or `step` by its name in Gymnasium's `info`; `None` when there is none.
    fn info(&self, key: &str) -> Option<f64> {
        let _ = key;
        None
    }

    /// A picture of the current state; `None` when there is nothing to draw.
    ///
    /// # Errors
    /// Returns whatever the environment reports.
    fn render(&mut self) -> Result<Option<Frame>> {
        Ok(None)
    }

    /// Pictures per second of the animation that [`render`](Self::render) draws, Gymnasium's `render_fps`; `None` when it
    /// does not matter.
    fn render_fps(&self) -> Option<f64> {
        None
    }

    /// The current state as text for a terminal, Gymnasium's render mode `ansi`; `None` when it has none.
    ///
    /// # Errors
    /// Returns whatever the environment reports.
    fn render_ansi(&mut self) -> Result<Option<String>> {
        Ok(None)
    }

    /// Everything that later steps depend on, random stream included. `None` lets vector
    /// environments replay the seed and the actions of the episode instead, which is slower.
    fn save_state(&self) -> Option<Vec<u8>> {
        None
    }

    /// Continues from what [`save_state`](Self::save_state) gave.
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

/// What a step gave besides the observation.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Step {
    /// Reward of the step.
    pub reward: f64,
    /// The episode reached an end of the task: the state has no future, its value is 0.
    pub terminated: bool,
    /// The episode was cut, for example by a time limit. As in Gymnasium, `terminated` is set besides where the task ended
    /// in that very step; the state then has no future.
    pub truncated: bool,
}

/// A picture: rows from the top, three bytes (red, green, blue) per pixel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    /// Pixels per row.
    pub width: usize,
    /// Rows.
    pub height: usize,
    /// The pixels, `width * height * 3` bytes.
    pub rgb: Vec<u8>,
}
