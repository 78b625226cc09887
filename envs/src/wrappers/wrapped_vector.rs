//! The adapter that puts a [`Wrapper`] around every copy of a vector environment.

use super::Wrapper;
use crate::{
    Error, Result, Space, StepOut, VectorEnv,
    contract::state,
    contract::type_name::short_type_name,
    contract::vector::{check_actions, check_len},
    running::{
        each_copy::{InEpisode, for_each_copy},
        sync_vector::check_space,
    },
};

const TAG: &str = "wrapped_vector";

/// A [`VectorEnv`] with a [`Wrapper`] around each of its copies. The inner vector environment steps all copies at once, as
/// it does without wrappers.
#[derive(Debug)]
pub struct WrappedVector<V: VectorEnv, W> {
    name: String,
    env: V,
    copies: Vec<Slot<W>>,
    observation_space: Space,
    action_space: Space,
    autoreset: bool,
    /// Observations of the inner vector environment, `[num_envs, width]`; `final_obs` and `actions` belong to it too.
    obs: Vec<V::Obs>,
    final_obs: Vec<V::Obs>,
    actions: Vec<V::Act>,
}

/// What a saved state holds of each copy: seed and step of the episode, and the state of the wrapper.
type SavedSlot<'a> = (Option<u64>, usize, &'a [u8]);

#[derive(Debug)]
struct Slot<W> {
    wrapper: W,
    /// Seed of the running episode.
    seed: Option<u64>,
    /// Number of steps made in the running episode.
    step: usize,
}

impl<V: VectorEnv, W: Wrapper<V::Obs, V::Act>> WrappedVector<V, W> {
    /// Puts a wrapper made by `make` around every copy of `env`.
    ///
    /// # Errors
    /// Returns the error of `make`, and [`Error::Shape`] if the wrapper does not fit `env`, or if a space of the wrapper is
    /// not valid, has no scalars, or does not match its scalar type.
    pub fn new(env: V, mut make: impl FnMut() -> Result<W>) -> Result<Self> {
        let num_envs = env.num_envs();
        let mut spaces = None;
        let copies = (0..num_envs).map(|_| {
            let mut wrapper = make()?;
            let shown = wrapper.observation_space(env.observation_space())?;
            spaces = Some((shown, wrapper.action_space(env.action_space())?));
            Ok(Slot { wrapper, seed: None, step: 0 })
        });
        let copies = copies.collect::<Result<Vec<_>>>()?;
        let Some((observation_space, action_space)) = spaces else {
            return Err(Error::shape("`num_envs`", 0, "at least 1"));
        };
        check_space::<W::Obs>("the observation space of the wrapper", &observation_space)?;
        check_space::<W::Act>("the action space of the wrapper", &action_space)?;
        let rows = vec![V::Obs::default(); num_envs * env.observation_space().width()];
        Ok(Self {
            name: short_type_name::<V>(),
            actions: vec![V::Act::default(); num_envs * env.action_space().width()],
            final_obs: rows.clone(),
            obs: rows,
            env,
            copies,
            observation_space,
            action_space,
            autoreset: true,
        })
    }

    /// Sets another name for error messages.
    pub(super) fn named(mut self, name: &str) -> Self {
        self.name = name.into();
        self
    }

    /// Returns the inner vector environment, without the wrappers.
    pub fn inner(&self) -> &V {
        &self.env
    }
}

impl<W> InEpisode for Slot<W> {
    fn place(&self) -> (Option<u64>, usize) {
        (self.seed, self.step)
    }
}

impl<W> Slot<W> {
    /// Begins an episode and writes its first observation to `obs`.
    fn begin<O, A>(&mut self, seed: Option<u64>, inner: &[O], obs: &mut [W::Obs]) -> Result<()>
    where
        O: crate::Element,
        A: crate::Element,
        W: Wrapper<O, A>,
    {
        self.seed = seed;
        self.step = 0;
        self.wrapper.reset(seed);
        self.wrapper.observation(inner, obs)
    }
}

impl<V: VectorEnv, W: Wrapper<V::Obs, V::Act>> VectorEnv for WrappedVector<V, W> {
    type Obs = W::Obs;
    type Act = W::Act;

    forward_vector!(num_envs, limit_episodes, set_task, action_masks, info, render);

    fn observation_space(&self) -> &Space {
        &self.observation_space
    }

    fn action_space(&self) -> &Space {
        &self.action_space
    }

    fn reset(&mut self, seeds: Option<&[u64]>, obs: &mut [W::Obs]) -> Result<()> {
        let num_envs = self.copies.len();
        let width = self.observation_space.width();
        check_len("`obs`", obs.len(), num_envs, width)?;
        check_len("`seeds`", seeds.map_or(num_envs, <[u64]>::len), num_envs, 1)?;
        self.env.reset(seeds, &mut self.obs)?;
        let inner_width = self.env.observation_space().width();
        let rows = &self.obs;
        for_each_copy(&mut self.copies, |i, copy| {
            let inner = &rows[i * inner_width..][..inner_width];
            copy.begin::<V::Obs, V::Act>(seeds.map(|seeds| seeds[i]), inner, &mut obs[i * width..][..width])
        })
    }

    fn step(
        &mut self,
        actions: &[W::Act],
        reset_seeds: Option<&[u64]>,
        out: StepOut<'_, W::Obs>,
    ) -> Result<()> {
        let num_envs = self.copies.len();
        let width = self.observation_space.width();
        out.check(num_envs, width)?;
        check_actions(&self.action_space, num_envs, actions, reset_seeds, || &self.name)?;
        let act_width = self.action_space.width();
        let inner_act_width = self.env.action_space().width();
        let inner_actions = &mut self.actions;
        for_each_copy(&mut self.copies, |i, copy| {
            copy.step += 1;
            let inner = &mut inner_actions[i * inner_act_width..][..inner_act_width];
            copy.wrapper.action(&actions[i * act_width..][..act_width], inner)
        })?;
        let inner_out = StepOut {
            obs: &mut self.obs,
            final_obs: &mut self.final_obs,
            rewards: &mut *out.rewards,
            terminated: &mut *out.terminated,
            truncated: &mut *out.truncated,
        };
        self.env.step(&self.actions, reset_seeds, inner_out)?;
        let inner_width = self.env.observation_space().width();
        let rows = &self.obs;
        let final_rows = &self.final_obs;
        let autoreset = self.autoreset;
        for_each_copy(&mut self.copies, |i, copy| {
            let inner = &rows[i * inner_width..][..inner_width];
            let obs = &mut out.obs[i * width..][..width];
            if !(out.terminated[i] || out.truncated[i]) {
                copy.wrapper.observation(inner, obs)?;
                out.rewards[i] = copy.wrapper.reward(f64::from(out.rewards[i])) as f32;
                return Ok(());
            }
            let last = &mut out.final_obs[i * width..][..width];
            copy.wrapper.observation(&final_rows[i * inner_width..][..inner_width], last)?;
            out.rewards[i] = copy.wrapper.reward(f64::from(out.rewards[i])) as f32;
            if autoreset {
                return copy.begin::<V::Obs, V::Act>(reset_seeds.map(|seeds| seeds[i]), inner, obs);
            }
            obs.copy_from_slice(last);
            Ok(())
        })
    }

    fn set_autoreset(&mut self, autoreset: bool) -> bool {
        let can = self.env.set_autoreset(autoreset);
        if can {
            self.autoreset = autoreset;
        }
        can
    }

    fn save_state(&self) -> Result<Option<Vec<u8>>> {
        let Some(inner) = self.env.save_state()? else { return Ok(None) };
        let copies = self.copies.iter().map(|copy| (copy.seed, copy.step, copy.wrapper.save_state()));
        Ok(Some(state::save(TAG, &(copies.collect::<Vec<_>>(), inner))))
    }

    fn can_load_state(&self) -> bool {
        self.env.can_load_state()
    }

    fn load_state(&mut self, state: &[u8]) -> Result<()> {
        let (saved, inner): (Vec<SavedSlot<'_>>, &[u8]) = state::load(TAG, state)?;
        state::check_count("copies", saved.len(), self.copies.len())?;
        for_each_copy(&mut self.copies, |i, copy| {
            let (seed, step, own) = saved[i];
            copy.seed = seed;
            copy.step = step;
            copy.wrapper.load_state(own)
        })?;
        self.env.load_state(inner)
    }
}
