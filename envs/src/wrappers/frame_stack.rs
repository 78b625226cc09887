//! The wrapper that stacks the last observations.

use super::{Wrapped, Wrapper};
use crate::{DType, Element, Env, Error, Result, Space, contract::space::start_at, contract::state};

const TAG: &str = "frame_stack";

/// Observes the last `stack_size` observations, oldest first, stacked along a new first dimension.
pub type FrameStack<E> = Wrapped<E, StackFrames<<E as Env>::Obs>>;

/// The [`Wrapper`] that implements [`FrameStack`].
#[derive(Clone, Debug)]
pub struct StackFrames<O> {
    stack_size: usize,
    padding: Vec<O>,
    padding_type: Padding<O>,
    /// Rows of the current observation, `[stack_size, width]`.
    stack: Vec<O>,
    /// Whether the next observation is the first one of an episode.
    begins: bool,
}

/// The observation that fills the stack before the first one of an episode (Gymnasium's `padding_type`).
#[derive(Clone, Debug, PartialEq)]
pub enum Padding<O> {
    /// The first observation of the episode.
    Reset,
    /// The member of the space that is nearest to zero.
    Zero,
    /// The given observation.
    Custom(Vec<O>),
}

impl<E: Env> Wrapped<E, StackFrames<E::Obs>> {
    /// Wraps `env`.
    ///
    /// # Errors
    /// Returns [`Error::Shape`] if `stack_size` is 0, if the observation space is a dict, a tuple or a discrete space that
    /// does not start at 0, or if the padding is not in the space.
    pub fn new(env: E, stack_size: usize, padding_type: Padding<E::Obs>) -> Result<Self> {
        Self::with(env, StackFrames::new(stack_size, padding_type)?)
    }
}

impl<O: Element> StackFrames<O> {
    pub(super) fn new(stack_size: usize, padding_type: Padding<O>) -> Result<Self> {
        if stack_size == 0 {
            return Err(Error::shape("`stack_size`", 0, "at least 1"));
        }
        Ok(Self { stack_size, padding: Vec::new(), padding_type, stack: Vec::new(), begins: true })
    }
}

/// Makes the space of `n` stacked members of `space`, as Gymnasium's `batch_space` does.
fn stacked(space: &Space, n: usize) -> Result<Space> {
    let boxed = |low: &[f64], high: &[f64], shape: &[usize], dtype| Space::Box {
        low: low.repeat(n),
        high: high.repeat(n),
        shape: std::iter::once(n).chain(shape.iter().copied()).collect(),
        dtype,
    };
    match space {
        Space::Box { low, high, shape, dtype } => Ok(boxed(low, high, shape, *dtype)),
        Space::Discrete { n: members, start } => {
            let start = if *start == 0 { vec![] } else { vec![*start; n] };
            Ok(Space::MultiDiscrete { nvec: vec![*members; n], start })
        }
        Space::MultiDiscrete { nvec, start } => {
            let low: Vec<f64> = (0..nvec.len()).map(|i| start_at(start, i) as f64).collect();
            let high: Vec<f64> = nvec.iter().zip(&low).map(|(&n, low)| low + (n - 1) as f64).collect();
            Ok(boxed(&low, &high, &[nvec.len()], DType::I64))
        }
        Space::MultiBinary { shape } => {
            let bits = space.width();
            Ok(boxed(&vec![0.0; bits], &vec![1.0; bits], shape, DType::U8))
        }
        other => Err(Error::shape(
            "the observation space",
            other,
            "a box or of integers; wrap the environment in `FlattenObservation` first",
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

impl<O: Element, A: Element> Wrapper<O, A> for StackFrames<O> {
    type Obs = O;
    type Act = A;

    fn observation_space(&mut self, inner: &Space) -> Result<Space> {
        let observation_space = stacked(inner, self.stack_size)?;
        self.padding = match &self.padding_type {
            Padding::Custom(row) => match inner.violation(row) {
                None => row.clone(),
                Some(violation) => {
                    let found = format_args!("{row:?} ({violation})");
                    return Err(Error::shape("the padding", found, format_args!("in {inner}")));
                }
            },
            _ => zero(inner),
        };
        self.stack = vec![O::default(); self.stack_size * inner.width()];
        Ok(observation_space)
    }

    fn reset(&mut self, _seed: Option<u64>) {
        self.begins = true;
    }

    fn observation(&mut self, inner: &[O], obs: &mut [O]) -> Result<()> {
        let width = inner.len();
        let last = self.stack.len() - width;
        if std::mem::take(&mut self.begins) {
            let padding = if self.padding_type == Padding::Reset { inner } else { &self.padding[..] };
            self.stack[..last].chunks_exact_mut(width).for_each(|row| row.copy_from_slice(padding));
        } else {
            self.stack.copy_within(width.., 0);
        }
        self.stack[last..].copy_from_slice(inner);
        obs.copy_from_slice(&self.stack);
        Ok(())
    }

    fn save_state(&self) -> Vec<u8> {
        state::save(TAG, &self.stack)
    }

    fn load_state(&mut self, state: &[u8]) -> Result<()> {
        let stack: Vec<O> = state::load(TAG, state)?;
        state::check_count("scalars of stacked observations", stack.len(), self.stack.len())?;
        self.stack = stack;
        self.begins = false;
        Ok(())
    }
}
