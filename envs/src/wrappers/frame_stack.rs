//! The last observations together.

use super::{load, save};
use crate::{DType, Element, Env, Error, Result, Space, Step};

const TAG: &str = "frame_stack";

/// Shows the last `stack_size` observations, the oldest first, stacked along a new first dimension.
#[derive(Clone, Debug)]
pub struct FrameStack<E: Env> {
    env: E,
    observation_space: Space,
    padding: Vec<E::Obs>,
    padding_type: Padding<E::Obs>,
    /// The rows shown, `[stack_size, width]`.
    stack: Vec<E::Obs>,
    width: usize,
}

/// What stands for the observations before the first (Gymnasium's `padding_type`).
#[derive(Clone, Debug, PartialEq)]
pub enum Padding<O> {
    /// The first observation itself.
    Reset,
    /// The member of the space nearest to zero.
    Zero,
    /// This observation.
    Custom(Vec<O>),
}

impl<E: Env> FrameStack<E> {
    /// Wraps `env`.
    ///
    /// # Errors
    /// Returns [`Error::Shape`] if `stack_size` is 0, if the observation space is a dict, a tuple or starts at another
    /// integer than 0, or if the padding is not in it.
    pub fn new(env: E, stack_size: usize, padding_type: Padding<E::Obs>) -> Result<Self> {
        if stack_size == 0 {
            return Err(Error::shape("`stack_size`", 0, "at least 1"));
        }
        let space = env.observation_space();
        let observation_space = stacked(&space, stack_size)?;
        let padding = match &padding_type {
            Padding::Custom(row) => match space.violation(row) {
                None => row.clone(),
                Some(violation) => {
                    let found = format_args!("{row:?} ({violation})");
                    return Err(Error::shape("the padding", found, format_args!("in {space}")));
                }
            },
            _ => zero(&space),
        };
        let width = space.width();
        let stack = vec![E::Obs::default(); stack_size * width];
        Ok(Self { env, observation_space, padding, padding_type, stack, width })
    }

    /// The environment with single observations.
    pub fn inner(&self) -> &E {
        &self.env
    }
}

/// The space of `n` members of `space`, as Gymnasium's `batch_space` makes it.
fn stacked(space: &Space, n: usize) -> Result<Space> {
    let boxed = |low: &[f64], high: &[f64], shape: &[usize], dtype| Space::Box {
        low: low.repeat(n),
        high: high.repeat(n),
        shape: std::iter::once(n).chain(shape.iter().copied()).collect(),
        dtype,
    };
    match space {
        Space::Box { low, high, shape, dtype } => Ok(boxed(low, high, shape, *dtype)),
        Space::Discrete { n: members, start: 0 } => Ok(Space::MultiDiscrete { nvec: vec![*members; n] }),
        Space::MultiDiscrete { nvec } => {
            let high: Vec<f64> = nvec.iter().map(|&n| (n - 1) as f64).collect();
            Ok(boxed(&vec![0.0; nvec.len()], &high, &[nvec.len()], DType::I64))
        }
        Space::MultiBinary { n: bits } => {
            Ok(boxed(&vec![0.0; *bits], &vec![1.0; *bits], &[*bits], DType::U8))
        }
        other => Err(Error::shape(
            "the observation space",
            other,
            "a box or of integers from 0; wrap the environment in `FlattenObservation` first",
        )),
    }
}

fn zero<T: Element>(space: &Space) -> Vec<T> {
    match space {
        Space::Box { low, high, .. } => {
            low.iter().zip(high).map(|(low, high)| T::from_f64(0.0_f64.max(*low).min(*high))).collect()
        }
        other => vec![T::default(); other.width()],
    }
}

#[deny(clippy::missing_trait_methods)]
impl<E: Env> Env for FrameStack<E> {
    forward!(Obs, Act, action_space, max_episode_steps, action_mask, set_task, info, render);

    fn observation_space(&self) -> Space {
        self.observation_space.clone()
    }

    fn reset(&mut self, seed: Option<u64>, obs: &mut [E::Obs]) -> Result<()> {
        let last = self.stack.len() - self.width;
        let (before, first) = self.stack.split_at_mut(last);
        self.env.reset(seed, first)?;
        let padding = if self.padding_type == Padding::Reset { first } else { &self.padding[..] };
        before.chunks_exact_mut(self.width).for_each(|row| row.copy_from_slice(padding));
        obs.copy_from_slice(&self.stack);
        Ok(())
    }

    fn step(&mut self, action: &[E::Act], obs: &mut [E::Obs]) -> Result<Step> {
        self.stack.copy_within(self.width.., 0);
        let last = self.stack.len() - self.width;
        let step = self.env.step(action, &mut self.stack[last..])?;
        obs.copy_from_slice(&self.stack);
        Ok(step)
    }

    fn save_state(&self) -> Option<Vec<u8>> {
        save(TAG, &self.env, |state| state.row(&self.stack))
    }

    fn load_state(&mut self, state: &[u8]) -> Result<()> {
        let len = self.stack.len();
        self.stack = load(TAG, &mut self.env, state, |state| match state.row::<E::Obs>()? {
            stack if stack.len() == len => Ok(stack),
            stack => Err(Error::state(format!(
                "it holds {} scalars of stacked observations, but there are {len} here",
                stack.len()
            ))),
        })?;
        Ok(())
    }
}
