//! Shared code of the classic-control environments: the trait of their arithmetic, and one copy.

use std::fmt::Debug;

use serde::{Deserialize, Serialize, de::DeserializeOwned};
use serde_json::Value;

use crate::{
    Element, Error, Frame, NpRandom, ResetOptions, Result, Space, Step,
    contract::state::array,
    native::dynamics::{Dynamics, NativeEnv},
};

/// The arithmetic of a classic-control environment with `S` state numbers and `O` observation numbers.
///
/// Implemented by the settings types, so that single copies and vectors use the same arithmetic.
pub trait ClassicControl<const S: usize, const O: usize>: Clone + Debug + Send + 'static {
    /// Scalar type of actions, one per step.
    type Act: Element;
    /// Name in error messages and at the beginning of saved states.
    const NAME: &'static str;
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

/// Rules and state of one copy of a classic-control environment.
#[derive(Clone, Debug)]
pub struct Classic<D: ClassicControl<S, O>, const S: usize, const O: usize> {
    rules: D,
    /// The options of a reset that is given none.
    options: D::ResetOptions,
    state: [f64; S],
}

impl<D: ClassicControl<S, O>, const S: usize, const O: usize> Classic<D, S, O> {
    fn begin(&mut self, options: D::ResetOptions, random: &mut NpRandom, obs: &mut [f32]) {
        self.state = self.rules.start(options, random);
        obs.copy_from_slice(&self.rules.observe_start(&self.state));
    }
}

impl<D: ClassicControl<S, O>, const S: usize, const O: usize> NativeEnv<Classic<D, S, O>> {
    /// Creates a copy; call `reset` before the first step.
    pub fn new(config: D) -> Self {
        Self::of(Classic { rules: config, options: D::RESET_OPTIONS, state: [0.0; S] })
    }

    /// Current state in double precision.
    pub fn state(&self) -> [f64; S] {
        self.dynamics.state
    }

    /// Starts an episode like [`reset`](crate::Env::reset), with Gymnasium's `options` of `reset` for this episode only.
    ///
    /// # Errors
    /// Returns [`Error::Shape`] if a bound of `options` is out of range or not finite.
    pub fn reset_with(&mut self, seed: Option<u64>, options: D::ResetOptions, obs: &mut [f32]) -> Result<()> {
        options.check()?;
        self.start_with(seed, |dynamics, random| {
            dynamics.begin(options, random, obs);
            Ok(())
        })
    }

    /// Continues an episode from the given state.
    pub fn set_state(&mut self, state: [f64; S]) {
        self.dynamics.state = state;
        self.running = true;
    }
}

impl<D: ClassicControl<S, O>, const S: usize, const O: usize> Dynamics for Classic<D, S, O> {
    type Obs = f32;
    type Act = D::Act;
    type Saved = SavedState<S>;

    fn name(&self) -> &str {
        D::NAME
    }

    fn observation_space(&self) -> Space {
        self.rules.observation_space()
    }

    fn action_space(&self) -> Space {
        self.rules.action_space()
    }

    fn takes(&self, action: &[D::Act]) -> bool {
        matches!(*action, [taken] if D::takes(taken))
    }

    fn start(&mut self, random: &mut NpRandom, obs: &mut [f32]) -> Result<()> {
        self.begin(self.options, random, obs);
        Ok(())
    }

    fn advance(&mut self, action: &[D::Act], _random: &mut NpRandom, obs: &mut [f32]) -> Step {
        let (reward, terminated) = self.rules.advance(&mut self.state, action[0]);
        obs.copy_from_slice(&self.rules.observe(&self.state));
        Step { reward, terminated, truncated: false }
    }

    fn set_reset_options(&mut self, options: &ResetOptions) -> Result<()> {
        self.options = start_options::<D, S, O>(options)?;
        Ok(())
    }

    fn draw(&mut self) -> Option<Frame> {
        self.rules.draw(&self.state)
    }

    fn fps(&self) -> f64 {
        D::RENDER_FPS
    }

    fn save(&self) -> impl Serialize {
        SavedState(self.state)
    }

    fn load(&mut self, SavedState(state): SavedState<S>, running: bool) -> Result<()> {
        if running && !self.rules.goes_on(&state) {
            return Err(Error::state(format!("no episode goes on from {state:?}; it is damaged")));
        }
        self.state = state;
        Ok(())
    }
}

/// State of a copy in a saved state.
#[derive(Debug, Serialize, Deserialize)]
pub struct SavedState<const S: usize>(#[serde(with = "array")] pub(super) [f64; S]);

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
