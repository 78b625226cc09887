//! Shared code of the classic-control environments: the trait of their dynamics, and the environment of one copy.

use std::fmt::Debug;

use serde::{Deserialize, Serialize, de::DeserializeOwned};
use serde_json::Value;

use crate::{
    Element, Env, Error, Frame, NpRandom, ResetOptions, Result, Space, Step,
    contract::state::{self, array},
};

/// The dynamics of a classic-control environment with `S` state numbers and `O` observation numbers.
///
/// Implemented by the settings types, so that single copies and vectors use the same arithmetic.
pub trait ClassicControl<const S: usize, const O: usize>: Clone + Debug + Send + 'static {
    /// Scalar type of actions, one per step.
    type Act: Element;
    /// Name used in error messages.
    const NAME: &'static str;
    /// Tag that begins every saved state.
    const TAG: &'static str;
    /// Frames per second, Gymnasium's `render_fps`.
    const RENDER_FPS: f64;

    fn observation_space(&self) -> Space;

    fn action_space(&self) -> Space;

    /// Whether the action is valid.
    fn takes(action: Self::Act) -> bool;

    /// Type of Gymnasium's `options` of `reset`.
    type ResetOptions: StartOptions;
    /// Options of a reset without explicit options.
    const RESET_OPTIONS: Self::ResetOptions;

    /// Draws the first state of an episode.
    fn start(&self, options: Self::ResetOptions, random: &mut NpRandom) -> [f64; S];

    /// Advances the state by one step; returns the reward and whether the episode terminated.
    fn advance(&self, state: &mut [f64; S], action: Self::Act) -> (f64, bool);

    fn observe(&self, state: &[f64; S]) -> [f32; O];

    /// Observation of a first state, as returned by [`start`](Self::start); by default that of
    /// [`observe`](Self::observe).
    fn observe_start(&self, state: &[f64; S]) -> [f32; O] {
        self.observe(state)
    }

    /// Whether an episode can continue from a loaded state.
    fn goes_on(&self, state: &[f64; S]) -> bool {
        state.iter().all(|value| value.is_finite())
    }

    fn draw(&self, state: &[f64; S]) -> Option<Frame>;

    /// Advances all copies by one step and writes their observations, rewards and flags.
    fn advance_all(&self, actions: &[Self::Act], rows: ClassicRows<'_, S, O>) {
        let ClassicRows { mut state, obs, rewards, terminated } = rows;
        for (i, &action) in actions.iter().enumerate() {
            let mut copy = std::array::from_fn(|k| state[k][i]);
            let (reward, ended) = self.advance(&mut copy, action);
            for (column, value) in state.iter_mut().zip(copy) {
                column[i] = value;
            }
            obs[i] = self.observe(&copy);
            rewards[i] = reward as f32;
            terminated[i] = ended;
        }
    }
}

/// Output of [`ClassicControl::advance_all`]; each slice has one element per copy.
#[derive(Debug)]
pub struct ClassicRows<'a, const S: usize, const O: usize> {
    /// The states, one slice per state number.
    pub(super) state: [&'a mut [f64]; S],
    pub(super) obs: &'a mut [[f32; O]],
    pub(super) rewards: &'a mut [f32],
    pub(super) terminated: &'a mut [bool],
}

/// Options for the first state of an episode.
pub trait StartOptions: Copy + Debug + Send + Serialize + DeserializeOwned + 'static {
    /// Checks that the options are valid.
    ///
    /// # Errors
    /// Returns [`Error::Shape`] if a bound is out of range or not finite.
    fn check(&self) -> Result<()>;
}

/// Returns the default options of a reset, with the values that `options` has in place of the defaults.
pub(super) fn start_options<D: ClassicControl<S, O>, const S: usize, const O: usize>(
    options: &ResetOptions,
) -> Result<D::ResetOptions> {
    let what = "an option of `reset`";
    let mut all = match serde_json::to_value(D::RESET_OPTIONS) {
        Ok(Value::Object(all)) => all,
        _ => ResetOptions::new(),
    };
    for (key, value) in options {
        let Some(slot) = all.get_mut(key) else {
            let known: Vec<&str> = all.keys().map(String::as_str).collect();
            let expected = format_args!("one of {}: {}", D::NAME, known.join(", "));
            return Err(Error::shape(what, format_args!("{key:?}"), expected));
        };
        if !value.is_number() {
            return Err(Error::shape(what, format_args!("{value} for {key:?}"), "a number"));
        }
        *slot = value.clone();
    }
    let options: D::ResetOptions = serde_json::from_value(Value::Object(all)).map_err(Error::other)?;
    options.check()?;
    Ok(options)
}

/// Bounds of the first state of an episode: `low` and `high` of Gymnasium's `options` of `reset`.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct ResetBounds {
    /// Lower bound.
    pub low: f64,
    /// Upper bound.
    pub high: f64,
}

impl StartOptions for ResetBounds {
    fn check(&self) -> Result<()> {
        let Self { low, high } = *self;
        if low.is_finite() && high.is_finite() && low <= high {
            return Ok(());
        }
        let rule = "finite numbers, `low` not above `high`";
        Err(Error::shape("`low` and `high` of a reset", format!("{low} and {high}"), rule))
    }
}

/// A single copy of a classic-control environment.
#[derive(Clone, Debug)]
pub(super) struct Single<D: ClassicControl<S, O>, const S: usize, const O: usize> {
    pub(super) dynamics: D,
    random: NpRandom,
    /// The options of a reset that is given none.
    options: D::ResetOptions,
    pub(super) state: [f64; S],
    pub(super) running: bool,
}

impl<D: ClassicControl<S, O>, const S: usize, const O: usize> Single<D, S, O> {
    /// Creates a copy; call `reset` before the first step.
    pub(super) fn new(dynamics: D) -> Self {
        let random = NpRandom::from_entropy();
        Self { dynamics, random, options: D::RESET_OPTIONS, state: [0.0; S], running: false }
    }

    pub(super) fn reset_with(
        &mut self,
        seed: Option<u64>,
        options: D::ResetOptions,
        obs: &mut [f32],
    ) -> Result<()> {
        options.check()?;
        if let Some(seed) = seed {
            self.random = NpRandom::new(seed);
        }
        self.state = self.dynamics.start(options, &mut self.random);
        self.running = true;
        obs.copy_from_slice(&self.dynamics.observe_start(&self.state));
        Ok(())
    }
}

impl<D: ClassicControl<S, O>, const S: usize, const O: usize> Env for Single<D, S, O> {
    type Obs = f32;
    type Act = D::Act;

    fn observation_space(&self) -> Space {
        self.dynamics.observation_space()
    }

    fn action_space(&self) -> Space {
        self.dynamics.action_space()
    }

    fn reset(&mut self, seed: Option<u64>, obs: &mut [f32]) -> Result<()> {
        self.reset_with(seed, self.options, obs)
    }

    fn step(&mut self, action: &[D::Act], obs: &mut [f32]) -> Result<Step> {
        let &[taken] = action else {
            return Err(Error::invalid_action(D::NAME, action, &self.action_space()));
        };
        if !D::takes(taken) {
            return Err(Error::invalid_action(D::NAME, action, &self.action_space()));
        }
        if !self.running {
            return Err(Error::other(format!(
                "{} was stepped outside an episode; call `reset` first",
                D::NAME
            )));
        }
        let (reward, terminated) = self.dynamics.advance(&mut self.state, taken);
        self.running = !terminated;
        obs.copy_from_slice(&self.dynamics.observe(&self.state));
        Ok(Step { reward, terminated, truncated: false })
    }

    fn set_reset_options(&mut self, options: &ResetOptions) -> Result<()> {
        self.options = start_options::<D, S, O>(options)?;
        Ok(())
    }

    fn render(&mut self) -> Result<Option<Frame>> {
        Ok(self.dynamics.draw(&self.state))
    }

    fn render_fps(&self) -> Option<f64> {
        Some(D::RENDER_FPS)
    }

    fn save_state(&self) -> Option<Vec<u8>> {
        let copy = SavedCopy { state: self.state, random: self.random.clone() };
        Some(state::save(D::TAG, &(copy, self.running)))
    }

    fn load_state(&mut self, state: &[u8]) -> Result<()> {
        let (SavedCopy { state, random }, running) = state::load(D::TAG, state)?;
        if running && !self.dynamics.goes_on(&state) {
            return Err(Error::state(format!("no episode goes on from {state:?}; it is damaged")));
        }
        self.state = state;
        self.random = random;
        self.running = running;
        Ok(())
    }
}

/// What a saved state holds of each copy.
#[derive(Serialize, Deserialize)]
pub(super) struct SavedCopy<const S: usize> {
    #[serde(with = "array")]
    pub(super) state: [f64; S],
    pub(super) random: NpRandom,
}

/// A box of single-precision numbers between `-high` and `high`.
pub(super) fn symmetric_box<const O: usize>(high: [f32; O]) -> Space {
    let high = high.map(f64::from);
    Space::Box {
        low: high.map(|high| -high).to_vec(),
        high: high.to_vec(),
        shape: vec![O],
        dtype: crate::DType::F32,
    }
}

/// Defines a named environment type around [`Single`]: `classic_env!(/** docs */ Name(Config), state, observation)`.
macro_rules! classic_env {
    ($(#[$attribute:meta])* $name:ident($config:ty), $state:literal, $obs:literal) => {
        $(#[$attribute])*
        #[derive(Clone, Debug)]
        pub struct $name($crate::native::classic_control::classic::Single<$config, $state, $obs>);

        impl $name {
            /// Creates a copy; call `reset` before the first step.
            pub fn new(config: $config) -> Self {
                Self($crate::native::classic_control::classic::Single::new(config))
            }

            /// Current state in double precision.
            pub fn state(&self) -> [f64; $state] {
                self.0.state
            }

            /// Starts an episode like [`reset`]($crate::Env::reset), with Gymnasium's `options` of `reset` for
            /// this episode only.
            ///
            /// # Errors
            /// Returns [`Error::Shape`]($crate::Error::Shape) if a bound of `options` is out of range or not finite.
            pub fn reset_with(
                &mut self,
                seed: Option<u64>,
                options: <$config as $crate::native::classic_control::classic::ClassicControl<$state, $obs>>::ResetOptions,
                obs: &mut [f32],
            ) -> $crate::Result<()> {
                self.0.reset_with(seed, options, obs)
            }

            /// Continues an episode from the given state.
            pub fn set_state(&mut self, state: [f64; $state]) {
                self.0.state = state;
                self.0.running = true;
            }
        }

        impl $crate::Env for $name {
            type Obs = f32;
            type Act = <$config as $crate::native::classic_control::classic::ClassicControl<$state, $obs>>::Act;

            $crate::contract::forward::forward_to! {
                0:
                fn observation_space(&self) -> $crate::Space;
                fn action_space(&self) -> $crate::Space;
                fn reset(&mut self, seed: Option<u64>, obs: &mut [f32]) -> $crate::Result<()>;
                fn step(&mut self, action: &[Self::Act], obs: &mut [f32]) -> $crate::Result<$crate::Step>;
                fn set_reset_options(&mut self, options: &$crate::ResetOptions) -> $crate::Result<()>;
                fn render(&mut self) -> $crate::Result<Option<$crate::Frame>>;
                fn render_fps(&self) -> Option<f64>;
                fn save_state(&self) -> Option<Vec<u8>>;
                fn load_state(&mut self, state: &[u8]) -> $crate::Result<()>;
            }
        }
    };
}

pub(super) use classic_env;
