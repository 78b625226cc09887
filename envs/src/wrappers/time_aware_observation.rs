//! The wrapper that adds the number of steps to observations.

use serde::{Deserialize, Serialize};

use super::{Wrapped, Wrapper, wrapper::convert};
use crate::{DType, Element, Env, Error, Result, Space, contract::state};

const TAG: &str = "time_aware";

/// Adds the number of steps made in the episode to observations, as Gymnasium's wrapper of this name does. `T` is the scalar
/// type of the new observations: `f32` if they are flattened, and otherwise that of [`TimeAwareConfig::dtype`].
///
/// In Gymnasium, flattened observations have the narrowest type that holds all parts, for instance `float64` for `float32`
/// observations beside an integer; the numbers are the same.
pub type TimeAwareObservation<E, T = f32> = Wrapped<E, TimeAware<T>>;

/// The settings of [`TimeAwareObservation`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct TimeAwareConfig {
    /// Whether an observation becomes one row of numbers, as by [`FlattenObservation`](crate::wrappers::FlattenObservation).
    pub flatten: bool,
    /// Whether the number of steps is divided by the limit on steps; otherwise it is an integer.
    pub normalize_time: bool,
    /// Name of the new part of a dict. Beside observations that are no dict, the part is named `time`.
    pub dict_time_key: String,
}

impl Default for TimeAwareConfig {
    fn default() -> Self {
        Self { flatten: true, normalize_time: false, dict_time_key: "time".into() }
    }
}

/// The [`Wrapper`] that implements [`TimeAwareObservation`].
#[derive(Clone, Debug)]
pub struct TimeAware<T> {
    config: TimeAwareConfig,
    /// Number of steps after which episodes are truncated.
    limit: usize,
    /// Number of steps made in the running episode.
    steps: u64,
    inner: Space,
    /// Index of the number of steps in a row.
    at: usize,
    /// The flattened inner observation; empty unless observations are flattened.
    flat: Vec<f32>,
    of: std::marker::PhantomData<fn() -> T>,
}

impl<E: Env, T: Element> Wrapped<E, TimeAware<T>> {
    /// Wraps `env`.
    ///
    /// # Errors
    /// Returns [`Error::Shape`] if `env` has no [`max_episode_steps`](Env::max_episode_steps), if its observation is a dict
    /// with a part of the name `dict_time_key`, or if `T` is another type than that of the new observations.
    pub fn new(env: E, config: TimeAwareConfig) -> Result<Self> {
        let wrapper = TimeAware::new(env.max_episode_steps(), config)?;
        Self::with(env, wrapper)
    }
}

impl<T> TimeAware<T> {
    pub(super) fn new(limit: Option<usize>, config: TimeAwareConfig) -> Result<Self> {
        let Some(limit) = limit else {
            let expected = "known; put a `TimeLimit` around the environment first";
            return Err(Error::shape("`max_episode_steps` of an environment with a clock", "None", expected));
        };
        let inner = Space::Tuple(vec![]);
        Ok(Self { config, limit, steps: 0, inner, at: 0, flat: vec![], of: std::marker::PhantomData })
    }
}

impl TimeAwareConfig {
    /// Returns the composite space of the observation and the time.
    fn composite(&self, inner: &Space, limit: usize) -> Result<Space> {
        let time = if self.normalize_time {
            Space::boxed(0.0, 1.0, &[1])
        } else {
            Space::boxed(0.0, limit as f64, &[1]).with_dtype(DType::I64)
        };
        match inner {
            Space::Dict(parts) => {
                let key = &self.dict_time_key;
                if parts.iter().any(|(name, _)| name == key) {
                    let expected = "another name than those of the parts of the observation";
                    return Err(Error::shape("`dict_time_key`", format_args!("{key:?}"), expected));
                }
                Ok(Space::dict(parts.iter().cloned().chain([(key.clone(), time)])))
            }
            Space::Tuple(parts) => Ok(Space::Tuple(parts.iter().cloned().chain([time]).collect())),
            other => Ok(Space::dict([("obs", other.clone()), ("time", time)])),
        }
    }

    /// Returns the scalar type of the observations of [`TimeAwareObservation`] around an environment with the observation
    /// space `inner` and the given limit on steps.
    ///
    /// # Errors
    /// Returns [`Error::Shape`] if `inner` is a dict with a part of the name `dict_time_key`.
    pub fn dtype(&self, inner: &Space, limit: usize) -> Result<DType> {
        let composite = self.composite(inner, limit)?;
        Ok(if self.flatten { DType::F32 } else { composite.dtype() })
    }
}

impl<O: Element, A: Element, T: Element> Wrapper<O, A> for TimeAware<T> {
    type Obs = T;
    type Act = A;

    fn observation_space(&mut self, inner: &Space) -> Result<Space> {
        let space = self.config.composite(inner, self.limit)?;
        let before: Vec<&Space> = match inner {
            Space::Dict(parts) => {
                let before = parts.iter().take_while(|(name, _)| *name < self.config.dict_time_key);
                before.map(|(_, part)| part).collect()
            }
            other => vec![other],
        };
        self.inner = inner.clone();
        if self.config.flatten {
            self.at = before.iter().map(|part| part.flat_width()).sum();
            self.flat = vec![0.0; inner.flat_width()];
            // The time is an integer or a number, and a box in both cases: it is never one-hot.
            return Ok(space.flattened());
        }
        self.at = before.iter().map(|part| part.width()).sum();
        Ok(space)
    }

    fn reset(&mut self, _seed: Option<u64>) {
        self.steps = 0;
    }

    fn action(&mut self, action: &[A], inner: &mut [A]) -> Result<()> {
        self.steps += 1;
        convert("the action", action, inner)
    }

    fn observation(&mut self, inner: &[O], obs: &mut [T]) -> Result<()> {
        let steps = self.steps as f64;
        // Gymnasium divides in 64 bits and rounds the quotient to 32.
        let time =
            if self.config.normalize_time { f64::from((steps / self.limit as f64) as f32) } else { steps };
        if self.config.flatten {
            self.inner.flatten_into(bytemuck::cast_slice(inner), &mut self.flat)?;
            return insert(&self.flat, self.at, time, obs);
        }
        insert(inner, self.at, time, obs)
    }

    fn save_state(&self) -> Vec<u8> {
        state::save(TAG, &self.steps)
    }

    fn load_state(&mut self, state: &[u8]) -> Result<()> {
        self.steps = state::load(TAG, state)?;
        Ok(())
    }
}

/// Writes `row` to `obs`, with `time` inserted at index `at`.
fn insert<S: Element, T: Element>(row: &[S], at: usize, time: f64, obs: &mut [T]) -> Result<()> {
    let (before, after) = row.split_at(at);
    let (to_before, rest) = obs.split_at_mut(at);
    let (here, to_after) = rest.split_at_mut(1);
    here[0] = T::from_f64(time);
    convert("the observation", before, to_before)?;
    convert("the observation", after, to_after)
}
