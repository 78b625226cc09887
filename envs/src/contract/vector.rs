//! The trait of vector environments, which step copies together.

use serde_json::Value;

use crate::{
    Element, Error, Frame, ResetOptions, Result, Space, contract::env::refuse_options,
    contract::type_name::short_type_name,
};

/// `n` copies of an environment, stepped together; they read and write the caller's rows and allocate nothing per step.
///
/// # Contract
///
/// * Copy `i` owns row `i` of every slice; its results depend on its own seeds and actions only.
/// * Autoreset happens in the same step: a copy that ended is reset, its first new observation goes
///   to `obs` and the last of the ended episode to `final_obs`. Rows of `final_obs` whose copy did
///   not end are left alone.
/// * The caller supplies the seed of the next episode of every copy with every step, so a vector
///   environment holds no seeds. No seeds means: each copy continues its own random stream.
/// * An invalid action is refused before any copy moves.
/// * After an error the copies are in an unspecified state until the next `reset`.
///
/// [`check_vector_env`](crate::check_vector_env) tests these rules and those of [`Env`](crate::Env).
pub trait VectorEnv: Send {
    /// Scalar type of observations.
    type Obs: Element;
    /// Scalar type of actions.
    type Act: Element;

    /// Number of copies.
    fn num_envs(&self) -> usize;

    /// Observation space of one copy.
    fn observation_space(&self) -> &Space;

    /// Action space of one copy.
    fn action_space(&self) -> &Space;

    /// Starts an episode in every copy; `obs` is `[num_envs, width]`. Without seeds each copy continues its own random
    /// stream; the stream of a new copy starts from the operating system's entropy, as in Gymnasium.
    ///
    /// # Errors
    /// Returns [`Error::Shape`] if a slice has a wrong length, [`Error::Env`] if a copy fails, and [`Error::Python`] if a
    /// copy in Python fails.
    fn reset(&mut self, seeds: Option<&[u64]>, obs: &mut [Self::Obs]) -> Result<()>;

    /// Steps every copy once; `actions` is `[num_envs, width]`, `reset_seeds` is `[num_envs]`.
    ///
    /// # Errors
    /// Returns [`Error::Shape`] if a slice has a wrong length, and [`Error::InvalidAction`] if a copy cannot take its
    /// action: no copy has moved then. Returns [`Error::Env`] if a copy fails, and [`Error::Python`] if a copy in
    /// Python fails.
    fn step(
        &mut self,
        actions: &[Self::Act],
        reset_seeds: Option<&[u64]>,
        out: StepOut<'_, Self::Obs>,
    ) -> Result<()>;

    /// Writes which discrete actions are legal now, `[num_envs, n]`, where `n` is the [`flat_width`](Space::flat_width) of
    /// the action space. Returns `false`, and writes nothing, if there are no masks or if `masks` has another length.
    fn action_masks(&self, masks: &mut [bool]) -> bool {
        let _ = masks;
        false
    }

    /// Writes which discrete actions were legal at the last observations of the episodes that ended in the last step, laid
    /// out as in [`action_masks`](Self::action_masks); rows of other copies have no meaning. Returns `false`, and writes
    /// nothing, if these masks are not known.
    fn final_action_masks(&self, masks: &mut [bool]) -> bool {
        let _ = masks;
        false
    }

    /// Computes the rewards of transitions from their goals, one row for each transition, whatever the number of copies; see
    /// [`Env::compute_rewards`](crate::Env::compute_rewards). Returns `false`, and writes nothing, if the rewards do not
    /// follow from goals.
    ///
    /// # Errors
    /// Whatever the environment reports.
    fn compute_rewards(
        &mut self,
        achieved_goals: &[f64],
        desired_goals: &[f64],
        rewards: &mut [f64],
    ) -> Result<bool> {
        let _ = (achieved_goals, desired_goals, rewards);
        Ok(false)
    }

    /// Values of Gymnasium's `info` for `key` after the last `reset` or `step`, `[num_envs]`, with NaN for copies without a
    /// value; `None` if no copy has one.
    fn info(&self, key: &str) -> Option<&[f64]> {
        let _ = key;
        None
    }

    /// Value of any kind stored under `key` in the `info` of one copy, as [`Env::info_value`](crate::Env::info_value) gives it.
    /// After a step that ended an episode, a number is that of the ended episode, as in [`info`](Self::info), and any other
    /// value that of the first state of the new one, which `obs` shows.
    ///
    /// # Errors
    /// Returns [`Error::Shape`] if there is no such copy, and whatever the environment reports.
    fn info_value(&mut self, copy: usize, key: &str) -> Result<Option<serde_json::Value>> {
        if copy >= self.num_envs() {
            return Err(Error::no_copy(copy, self.num_envs()));
        }
        Ok(number_of(self.info(key), copy))
    }

    /// What the environment gave in another form than its space says, as sentences: a list for an array, say. It was used all
    /// the same, and each sentence was said once. Only environments whose authors may err in this have any.
    ///
    /// # Errors
    /// Whatever the environment reports.
    fn remarks(&mut self) -> Result<Vec<String>> {
        Ok(Vec::new())
    }

    /// Number of steps after which episodes are truncated; `None` for no limit, or if it is not known.
    fn max_episode_steps(&self) -> Option<usize> {
        None
    }

    /// Truncates episodes after `steps` steps from now on, or earlier where a lower limit holds. Returns `false`, and
    /// changes nothing, if the environment cannot do so; [`register`](crate::register) with a limit then makes each copy
    /// separately and truncates it from outside, which is slower.
    fn limit_episodes(&mut self, steps: usize) -> bool {
        let _ = steps;
        false
    }

    /// Sets whether a copy that ends is reset in the same step (autoreset), which it is by default. Without autoreset the
    /// copy stays at its end: its last observation is in `obs` and in `final_obs`, and masks, info and pictures show the
    /// end. The caller must then call [`reset`](Self::reset) before the next step. Returns `false`, and changes nothing, if
    /// the environment cannot do so.
    fn set_autoreset(&mut self, autoreset: bool) -> bool {
        autoreset
    }

    /// Changes the task of every copy, beginning with its next episode; see [`Env::set_task`](crate::Env::set_task).
    ///
    /// # Errors
    /// Returns [`Error::Unsupported`] if the environment has only one task, and the errors of the environment.
    fn set_task(&mut self, task: &Value) -> Result<()> {
        let _ = task;
        Err(Error::one_task(&short_type_name::<Self>()))
    }

    /// Sets the `options` of all later resets of every copy, with autoreset too; see
    /// [`Env::set_reset_options`](crate::Env::set_reset_options). They are not part of a saved state.
    ///
    /// # Errors
    /// Returns [`Error::Unsupported`] for any option if the environment has none, and the errors of the environment.
    fn set_reset_options(&mut self, options: &ResetOptions) -> Result<()> {
        refuse_options(&short_type_name::<Self>(), options)
    }

    /// Saves all copies in the middle of their episodes; `None` if the environment cannot be saved. The state does not hold
    /// the current observations, which the caller keeps.
    ///
    /// # Errors
    /// Returns [`Error::State`] if the state can be saved in principle but not now, for instance because an episode that
    /// would be replayed was started without a seed.
    fn save_state(&self) -> Result<Option<Vec<u8>>> {
        Ok(None)
    }

    /// Whether [`load_state`](Self::load_state) can be called. If not, whoever restores the copies starts new episodes.
    fn can_load_state(&self) -> bool {
        true
    }

    /// Restores the copies from a state of [`save_state`](Self::save_state).
    ///
    /// # Errors
    /// Returns [`Error::State`] if `state` is damaged, or of another environment or number of copies, [`Error::Env`] if a copy
    /// cannot load its part of it, and [`Error::Replay`] if an episode that is played again does not come to the same point;
    /// see [`Error::is_replay`].
    fn load_state(&mut self, state: &[u8]) -> Result<()> {
        Err(Error::state(format!(
            "{} bytes given, but this environment implements no `load_state`",
            state.len()
        )))
    }

    /// Renders one copy; `None` if the environment has no pictures.
    ///
    /// # Errors
    /// Returns [`Error::Shape`] if there is no such copy, and whatever the environment reports.
    fn render(&mut self, copy: usize) -> Result<Option<Frame>> {
        let _ = copy;
        Ok(None)
    }

    /// Frames per second at which the pictures of [`render`](Self::render) should be shown, Gymnasium's `render_fps`; `None`
    /// if any rate will do.
    fn render_fps(&self) -> Option<f64> {
        None
    }

    /// Renders one copy as text for a terminal, Gymnasium's render mode `ansi`; `None` if the environment has none.
    ///
    /// # Errors
    /// Returns [`Error::Shape`] if there is no such copy, and whatever the environment reports.
    fn render_ansi(&mut self, copy: usize) -> Result<Option<String>> {
        let _ = copy;
        Ok(None)
    }

    /// Checks that the slices have a row for every copy. Implementations of [`reset`](Self::reset) call it first.
    ///
    /// # Errors
    /// Returns [`Error::Shape`] with the name of the slice that has a wrong length.
    fn check_reset(&self, seeds: Option<&[u64]>, obs: &[Self::Obs]) -> Result<()> {
        let num_envs = self.num_envs();
        check_len("`obs`", obs.len(), num_envs, self.observation_space().width())?;
        check_len("`seeds`", seeds.map_or(num_envs, <[u64]>::len), num_envs, 1)
    }

    /// Checks that the slices have a row for every copy, and that the actions are valid: members of a discrete space, or
    /// finite. Implementations of [`step`](Self::step) call it first.
    ///
    /// # Errors
    /// Returns [`Error::Shape`] with the name of the slice that has a wrong length, and [`Error::InvalidAction`] with the
    /// first invalid action.
    fn check_step(
        &self,
        actions: &[Self::Act],
        reset_seeds: Option<&[u64]>,
        out: &StepOut<'_, Self::Obs>,
    ) -> Result<()> {
        let num_envs = self.num_envs();
        let space = self.action_space();
        out.check(num_envs, self.observation_space().width())?;
        check_actions(space, num_envs, actions, reset_seeds, || short_type_name::<Self>())
    }
}

/// Slices that a step writes its results to; row `i` of each belongs to copy `i`.
#[derive(Debug)]
pub struct StepOut<'a, O> {
    /// Observations for the next actions, `[num_envs, width]`.
    pub obs: &'a mut [O],
    /// Last observations of the episodes that ended in this step, `[num_envs, width]`.
    pub final_obs: &'a mut [O],
    /// Rewards, `[num_envs]`.
    pub rewards: &'a mut [f32],
    /// Whether each episode reached an end of its task, `[num_envs]`.
    pub terminated: &'a mut [bool],
    /// Whether each episode was truncated, `[num_envs]`. If its task also ended in this step, both flags are set, as in
    /// Gymnasium.
    pub truncated: &'a mut [bool],
}

impl<'a, O: Element> StepOut<'a, O> {
    /// Converts the rows to bytes, for a type-erased environment.
    pub(crate) fn into_bytes(self) -> StepOut<'a, u8> {
        StepOut {
            obs: bytemuck::cast_slice_mut(self.obs),
            final_obs: bytemuck::cast_slice_mut(self.final_obs),
            rewards: self.rewards,
            terminated: self.terminated,
            truncated: self.truncated,
        }
    }
}

impl<'a, O> StepOut<'a, O> {
    /// Borrows the same slices again, for a shorter time.
    pub fn reborrow(&mut self) -> StepOut<'_, O> {
        StepOut {
            obs: self.obs,
            final_obs: self.final_obs,
            rewards: self.rewards,
            terminated: self.terminated,
            truncated: self.truncated,
        }
    }

    /// Splits the rows into the first `rows` and the others; `obs_width` is in elements of `O`.
    ///
    /// # Panics
    /// Panics if there are fewer rows.
    pub fn split_at(self, rows: usize, obs_width: usize) -> (StepOut<'a, O>, StepOut<'a, O>) {
        let (obs, obs_rest) = self.obs.split_at_mut(rows * obs_width);
        let (final_obs, final_obs_rest) = self.final_obs.split_at_mut(rows * obs_width);
        let (rewards, rewards_rest) = self.rewards.split_at_mut(rows);
        let (terminated, terminated_rest) = self.terminated.split_at_mut(rows);
        let (truncated, truncated_rest) = self.truncated.split_at_mut(rows);
        (
            StepOut { obs, final_obs, rewards, terminated, truncated },
            StepOut {
                obs: obs_rest,
                final_obs: final_obs_rest,
                rewards: rewards_rest,
                terminated: terminated_rest,
                truncated: truncated_rest,
            },
        )
    }

    /// Checks that each slice has `num_envs` rows; `obs_width` is in elements of `O`.
    ///
    /// # Errors
    /// Returns [`Error::Shape`] with the name of the slice that has another number of rows.
    pub fn check(&self, num_envs: usize, obs_width: usize) -> Result<()> {
        check_len("`obs`", self.obs.len(), num_envs, obs_width)?;
        check_len("`final_obs`", self.final_obs.len(), num_envs, obs_width)?;
        check_len("`rewards`", self.rewards.len(), num_envs, 1)?;
        check_len("`terminated`", self.terminated.len(), num_envs, 1)?;
        check_len("`truncated`", self.truncated.len(), num_envs, 1)
    }
}

/// Returns the number of one copy in a row of [`VectorEnv::info`]; `None` if it has none.
pub(crate) fn number_of(row: Option<&[f64]>, copy: usize) -> Option<serde_json::Value> {
    row?.get(copy).filter(|number| !number.is_nan()).map(|&number| number.into())
}

/// Checks that a slice of length `len` has `num_envs` rows of `width`; `what` names it in the error.
pub(crate) fn check_len(what: &'static str, len: usize, num_envs: usize, width: usize) -> Result<()> {
    if len == num_envs * width {
        return Ok(());
    }
    Err(Error::shape(what, format_args!("{len} long"), format_args!("{num_envs} x {width} (copies x width)")))
}

/// Checks that the slices have a row for every copy, and that every action is valid; `env` names the environment in errors.
pub(crate) fn check_actions<T: Element, N: AsRef<str>>(
    space: &Space,
    num_envs: usize,
    actions: &[T],
    reset_seeds: Option<&[u64]>,
    env: impl FnOnce() -> N,
) -> Result<()> {
    check_len("`actions`", actions.len(), num_envs, space.width())?;
    check_len("`reset_seeds`", reset_seeds.map_or(num_envs, <[u64]>::len), num_envs, 1)?;
    let invalid = invalid_action(space, actions);
    invalid.map_or(Ok(()), |row| Err(Error::invalid_action(env().as_ref(), row, space)))
}

/// Number of flags in one copy's action mask; `None` if `len` is not that of the masks of `num_envs` copies.
pub(crate) fn mask_width(space: &Space, num_envs: usize, len: usize) -> Option<usize> {
    let width = space.flat_width();
    (width.checked_mul(num_envs) == Some(len)).then_some(width)
}

/// Returns the first row of `actions` that is not a valid action.
pub(crate) fn invalid_action<'a, T: Element>(space: &Space, actions: &'a [T]) -> Option<&'a [T]> {
    actions.chunks_exact(space.width()).find(|row| match space {
        Space::Discrete { n, start } => {
            let action = row[0].to_f64() - *start as f64;
            !(action >= 0.0 && action < *n as f64)
        }
        other => !other.takes(row),
    })
}
