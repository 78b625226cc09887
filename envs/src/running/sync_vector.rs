//! The vector environment that steps copies of an [`Env`] one after the other on the calling thread.

use std::{cell::Cell, sync::Arc};

use serde_json::Value;

use crate::{
    Element, Env, Error, Frame, ResetOptions, Result, Space, Step, StepOut, VectorEnv,
    contract::state,
    contract::type_name::short_type_name,
    contract::vector::{check_actions, check_len, mask_width, number_of},
    running::each_copy::for_each_copy,
    running::info_rows::InfoRows,
};

mod slot;

use slot::{SavedSlot, Slot};

const TAG: &str = "sync_vector";

/// A vector environment that steps copies of an [`Env`] in order, and truncates them at [`Env::max_episode_steps`].
///
/// The middle of an episode can be saved and restored for every environment: by its own [`Env::save_state`], or by replaying
/// the seed and the actions of the running episode, which are kept for that purpose. An error or a panic in a copy becomes
/// [`Error::Env`].
///
/// A row of `action_masks` whose copy has no mask is all `true`.
#[derive(Debug)]
pub struct SyncVectorEnv<E: Env> {
    name: String,
    copies: Vec<Slot<E>>,
    observation_space: Space,
    action_space: Space,
    obs_width: usize,
    act_width: usize,
    max_episode_steps: usize,
    autoreset: bool,
    /// Options of later resets; `None` if there are none.
    options: Option<Arc<ResetOptions>>,
    info: InfoRows,
    /// Whether a caller has read masks; from then on the masks of ended episodes are kept.
    masks_read: Cell<bool>,
    /// Masks at the last ends of episodes, `[num_envs, flags]`; empty until masks were read.
    final_masks: Vec<bool>,
}

/// Largest number of steps for whose actions memory is reserved at the start; longer episodes reallocate.
const MAX_RESERVED_STEPS: usize = 1 << 12;

impl<E: Env> SyncVectorEnv<E> {
    /// Makes `num_envs` copies with `make`.
    ///
    /// # Errors
    /// Returns the error of `make`, or [`Error::Shape`] if `num_envs` is 0, if the spaces are not valid, if they differ
    /// between copies, or if they do not have the scalar types of `E`.
    pub fn new(num_envs: usize, mut make: impl FnMut() -> Result<E>) -> Result<Self> {
        let envs = (0..num_envs).map(|_| make()).collect::<Result<Vec<E>>>()?;
        let Some(first) = envs.first() else {
            return Err(Error::shape("`num_envs`", 0, "at least 1"));
        };
        let observation_space = first.observation_space();
        let action_space = first.action_space();
        check_space::<E::Obs>("the observation space", &observation_space)?;
        check_space::<E::Act>("the action space", &action_space)?;
        for env in &envs {
            if env.observation_space() != observation_space || env.action_space() != action_space {
                let found = format!("{} to {}", env.observation_space(), env.action_space());
                let expected = format!("{observation_space} to {action_space}, as in the first copy");
                return Err(Error::shape("the spaces of a copy", found, expected));
            }
        }
        let limit = first.max_episode_steps();
        let act_width = action_space.width();
        let room = limit.unwrap_or(MAX_RESERVED_STEPS).min(MAX_RESERVED_STEPS) * act_width;
        let copy = |env: E| {
            let keeps_actions = env.save_state().is_none();
            let actions = Vec::with_capacity(if keeps_actions { room } else { 0 });
            Slot { env, seed: None, step: 0, actions, keeps_actions, options: None }
        };
        Ok(Self {
            name: short_type_name::<E>(),
            obs_width: observation_space.width(),
            act_width,
            max_episode_steps: limit.unwrap_or(usize::MAX),
            autoreset: true,
            options: None,
            info: InfoRows::default(),
            masks_read: Cell::new(false),
            final_masks: Vec::new(),
            copies: envs.into_iter().map(copy).collect(),
            observation_space,
            action_space,
        })
    }

    /// Sets another name for error messages.
    pub(crate) fn named(mut self, name: &str) -> Self {
        self.name = name.into();
        self
    }

    /// Iterates over the copies, for tests and tools that look inside.
    pub fn envs(&self) -> impl Iterator<Item = &E> {
        self.copies.iter().map(|copy| &copy.env)
    }

    fn check_actions(&self, actions: &[E::Act], reset_seeds: Option<&[u64]>) -> Result<()> {
        check_actions(&self.action_space, self.copies.len(), actions, reset_seeds, || &self.name)
    }

    fn step_copies(
        &mut self,
        actions: &[E::Act],
        reset_seeds: Option<&[u64]>,
        out: StepOut<'_, E::Obs>,
    ) -> Result<()> {
        let obs_width = self.obs_width;
        let act_width = self.act_width;
        let limit = self.max_episode_steps;
        let autoreset = self.autoreset;
        let options = self.options.take();
        let mask_width = if self.masks_read.get() { self.action_space.flat_width() } else { 0 };
        let mut final_masks = std::mem::take(&mut self.final_masks);
        final_masks.resize(self.copies.len() * mask_width, true);
        let stepped = for_each_copy(&mut self.copies, |i, copy| {
            let action = &actions[i * act_width..][..act_width];
            let obs = &mut out.obs[i * obs_width..][..obs_width];
            copy.step += 1;
            if copy.keeps_actions {
                copy.actions.extend_from_slice(action);
            }
            let Step { reward, terminated, truncated } = copy.env.step(action, obs)?;
            let truncated = truncated || copy.step >= limit;
            out.rewards[i] = reward as f32;
            out.terminated[i] = terminated;
            out.truncated[i] = truncated;
            if terminated || truncated {
                out.final_obs[i * obs_width..][..obs_width].copy_from_slice(obs);
                let mask = &mut final_masks[i * mask_width..][..mask_width];
                if mask_width > 0 && !copy.env.action_mask(mask) {
                    mask.fill(true);
                }
                if autoreset {
                    copy.reset(reset_seeds.map(|seeds| seeds[i]), &options, obs)?;
                }
            }
            Ok(())
        });
        self.final_masks = final_masks;
        self.options = options;
        stepped?;
        self.refresh_info();
        Ok(())
    }

    fn copy(&mut self, copy: usize) -> Result<&mut E> {
        let num_envs = self.copies.len();
        match self.copies.get_mut(copy) {
            None => Err(Error::no_copy(copy, num_envs)),
            Some(copy) => Ok(&mut copy.env),
        }
    }

    fn refresh_info(&mut self) {
        let copies = &self.copies;
        self.info.refresh(|key, row| fill_info(copies, key, row));
    }
}

fn fill_info<E: Env>(copies: &[Slot<E>], key: &str, row: &mut [f64]) -> bool {
    let mut any = false;
    for (value, copy) in row.iter_mut().zip(copies) {
        let found = copy.env.info(key);
        any |= found.is_some();
        *value = found.unwrap_or(f64::NAN);
    }
    any
}

impl<E: Env> VectorEnv for SyncVectorEnv<E> {
    type Obs = E::Obs;
    type Act = E::Act;

    fn num_envs(&self) -> usize {
        self.copies.len()
    }

    fn observation_space(&self) -> &Space {
        &self.observation_space
    }

    fn action_space(&self) -> &Space {
        &self.action_space
    }

    fn reset(&mut self, seeds: Option<&[u64]>, obs: &mut [E::Obs]) -> Result<()> {
        let num_envs = self.copies.len();
        let width = self.obs_width;
        check_len("`obs`", obs.len(), num_envs, width)?;
        check_len("`seeds`", seeds.map_or(num_envs, <[u64]>::len), num_envs, 1)?;
        let options = self.options.clone();
        for_each_copy(&mut self.copies, |i, copy| {
            copy.reset(seeds.map(|seeds| seeds[i]), &options, &mut obs[i * width..][..width])
        })?;
        self.refresh_info();
        Ok(())
    }

    fn step(
        &mut self,
        actions: &[E::Act],
        reset_seeds: Option<&[u64]>,
        out: StepOut<'_, E::Obs>,
    ) -> Result<()> {
        out.check(self.copies.len(), self.obs_width)?;
        self.check_actions(actions, reset_seeds)?;
        self.step_copies(actions, reset_seeds, out)
    }

    fn action_masks(&self, masks: &mut [bool]) -> bool {
        let Some(width) = mask_width(&self.action_space, self.copies.len(), masks.len()) else {
            return false;
        };
        for (i, (mask, copy)) in masks.chunks_exact_mut(width).zip(&self.copies).enumerate() {
            match copy.env.action_mask(mask) {
                true => {}
                false if i == 0 => return false,
                false => mask.fill(true),
            }
        }
        self.masks_read.set(true);
        true
    }

    /// Writes the masks of ended episodes, and returns `true`, only from the first step after a call of
    /// [`action_masks`](VectorEnv::action_masks) on.
    fn final_action_masks(&self, masks: &mut [bool]) -> bool {
        if self.final_masks.is_empty() || self.final_masks.len() != masks.len() {
            return false;
        }
        masks.copy_from_slice(&self.final_masks);
        true
    }

    fn compute_rewards(
        &mut self,
        achieved_goals: &[f64],
        desired_goals: &[f64],
        rewards: &mut [f64],
    ) -> Result<bool> {
        self.copy(0)?.compute_rewards(achieved_goals, desired_goals, rewards)
    }

    fn info(&self, key: &str) -> Option<&[f64]> {
        self.info.get(key, self.copies.len(), |key, row| fill_info(&self.copies, key, row))
    }

    fn info_value(&mut self, copy: usize, key: &str) -> Result<Option<serde_json::Value>> {
        match self.copy(copy)?.info_value(key)? {
            // A row of numbers is made for all copies, so a text is asked for first.
            Some(value) if !value.is_number() => Ok(Some(value)),
            value => Ok(number_of(self.info(key), copy).or(value)),
        }
    }

    fn max_episode_steps(&self) -> Option<usize> {
        (self.max_episode_steps < usize::MAX).then_some(self.max_episode_steps)
    }

    fn limit_episodes(&mut self, steps: usize) -> bool {
        self.max_episode_steps = self.max_episode_steps.min(steps);
        true
    }

    fn set_autoreset(&mut self, autoreset: bool) -> bool {
        self.autoreset = autoreset;
        true
    }

    fn set_task(&mut self, task: &Value) -> Result<()> {
        self.copies.iter_mut().try_for_each(|copy| copy.env.set_task(task))
    }

    fn set_reset_options(&mut self, options: &ResetOptions) -> Result<()> {
        self.copies.iter_mut().try_for_each(|copy| copy.env.set_reset_options(options))?;
        self.options = (!options.is_empty()).then(|| Arc::new(options.clone()));
        Ok(())
    }

    fn save_state(&self) -> Result<Option<Vec<u8>>> {
        let copies = self.copies.iter().map(Slot::save).collect::<Result<Vec<_>>>()?;
        Ok(Some(state::save(TAG, &copies)))
    }

    fn load_state(&mut self, state: &[u8]) -> Result<()> {
        let saved: Vec<SavedSlot<E::Act>> = state::load(TAG, state)?;
        state::check_count("copies", saved.len(), self.copies.len())?;
        let mut obs = vec![E::Obs::default(); self.obs_width];
        let act_width = self.act_width;
        let limit = self.max_episode_steps;
        let options = self.options.clone();
        let mut saved = saved.into_iter();
        for_each_copy(&mut self.copies, |_, copy| {
            saved.next().map_or(Ok(()), |saved| copy.load(saved, &mut obs, act_width, limit, &options))
        })?;
        self.refresh_info();
        Ok(())
    }

    fn render(&mut self, copy: usize) -> Result<Option<Frame>> {
        self.copy(copy)?.render()
    }

    fn render_fps(&self) -> Option<f64> {
        self.copies.first()?.env.render_fps()
    }

    fn render_ansi(&mut self, copy: usize) -> Result<Option<String>> {
        self.copy(copy)?.render_ansi()
    }
}

pub(crate) fn check_space<T: Element>(what: &'static str, space: &Space) -> Result<()> {
    space.validate()?;
    if space.width() == 0 {
        return Err(Error::shape(
            what,
            format_args!("{space}, which has no scalars"),
            "at least one scalar wide",
        ));
    }
    if space.dtype() != T::DTYPE {
        let found = format_args!("{space}, whose rows are {}", space.dtype());
        return Err(Error::shape(
            what,
            found,
            format_args!("one of {}, as the environment's type says", T::DTYPE),
        ));
    }
    Ok(())
}
