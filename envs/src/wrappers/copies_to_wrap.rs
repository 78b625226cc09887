//! The copies of an environment that are handed to a wrapper named in settings.

use super::{AnyWrapper, WrappedVector, Wrapper};
use crate::{
    AnyVectorEnv, DType, Element, Error, Result, Space, TypedVectorEnv, contract::forward::forward_to,
};

/// Copies of an environment, as the closure given to [`register_wrapper`](crate::register_wrapper) gets them to put a
/// wrapper around them.
#[derive(Debug)]
pub struct CopiesToWrap {
    name: String,
    copies: Box<dyn AnyVectorEnv>,
}

/// Evaluates `$with` where `$O` and `$A` are the scalar types of `$copies`.
macro_rules! with_scalars {
    ($copies:expr, $O:ident, $A:ident => $with:expr) => {
        match ($copies.obs_dtype(), $copies.act_dtype()) {
            (DType::U8, DType::I64) => with_scalars!(@ u8, i64, $O, $A, $with),
            (DType::I64, DType::I64) => with_scalars!(@ i64, i64, $O, $A, $with),
            (DType::F32, DType::I64) => with_scalars!(@ f32, i64, $O, $A, $with),
            (DType::F64, DType::I64) => with_scalars!(@ f64, i64, $O, $A, $with),
            (DType::U8, DType::F32) => with_scalars!(@ u8, f32, $O, $A, $with),
            (DType::I64, DType::F32) => with_scalars!(@ i64, f32, $O, $A, $with),
            (DType::F32, DType::F32) => with_scalars!(@ f32, f32, $O, $A, $with),
            (DType::F64, DType::F32) => with_scalars!(@ f64, f32, $O, $A, $with),
            (_, actions) => {
                let found = format!("an environment with {actions} actions");
                Err(Error::shape("what wrappers stand around", found, "one with i64 or f32 actions"))
            }
        }
    };
    (@ $o:ty, $a:ty, $O:ident, $A:ident, $with:expr) => {{
        type $O = $o;
        type $A = $a;
        $with
    }};
}
pub(super) use with_scalars;

impl CopiesToWrap {
    pub(super) fn new(name: &str, copies: Box<dyn AnyVectorEnv>) -> Self {
        Self { name: name.into(), copies }
    }

    /// Returns the name of the environment, for error messages.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Observation space of one copy.
    pub fn observation_space(&self) -> &Space {
        self.copies.observation_space()
    }

    /// Action space of one copy.
    pub fn action_space(&self) -> &Space {
        self.copies.action_space()
    }

    /// Scalar type of the observations.
    pub fn obs_dtype(&self) -> DType {
        self.copies.obs_dtype()
    }

    /// Scalar type of the actions.
    pub fn act_dtype(&self) -> DType {
        self.copies.act_dtype()
    }

    /// Number of steps after which episodes are truncated; `None` for no limit, or if it is not known.
    pub fn max_episode_steps(&self) -> Option<usize> {
        self.copies.max_episode_steps()
    }

    /// Returns the copies without a wrapper, for a wrapper that is itself a [`VectorEnv`](crate::VectorEnv).
    pub fn into_inner(self) -> Box<dyn AnyVectorEnv> {
        self.copies
    }

    /// Puts a wrapper made by `make` around each copy. The wrapper must be implemented for all scalar types.
    ///
    /// # Errors
    /// Returns the error of `make`, and [`Error::Shape`] if the wrapper does not fit the environment.
    pub fn wrapped<W: AnyWrapper>(self, make: impl FnMut() -> Result<W>) -> Result<Box<dyn AnyVectorEnv>> {
        with_scalars!(self.copies, O, A => self.wrapped_typed::<O, A, W>(make))
    }

    /// Puts a wrapper made by `make` around each copy, for observations of type `O` and actions of type `A`.
    ///
    /// # Errors
    /// Returns the error of `make`, and [`Error::Shape`] if the wrapper does not fit the environment, or if the environment
    /// has other scalar types.
    pub fn wrapped_typed<O: Element, A: Element, W: Wrapper<O, A>>(
        self,
        mut make: impl FnMut() -> Result<W>,
    ) -> Result<Box<dyn AnyVectorEnv>> {
        self.wrapped_boxed::<O, A, W::Obs, W::Act>(&mut || Ok(Boxed(Box::new(make()?))))
    }

    /// The vector environment is compiled for each choice of scalar types and not for each wrapper, which would take as long
    /// to compile as a quarter of this crate.
    fn wrapped_boxed<O: Element, A: Element, P: Element, B: Element>(
        self,
        make: &mut dyn FnMut() -> Result<Boxed<O, A, P, B>>,
    ) -> Result<Box<dyn AnyVectorEnv>> {
        let copies = TypedVectorEnv::<O, A>::new(self.copies)?;
        Ok(Box::new(WrappedVector::new(copies, make)?.named(&self.name)))
    }
}

/// A wrapper whose type is known by its scalar types alone.
struct Boxed<O, A, P, B>(Box<dyn Wrapper<O, A, Obs = P, Act = B>>);

impl<O: Element, A: Element, P: Element, B: Element> Wrapper<O, A> for Boxed<O, A, P, B> {
    type Obs = P;
    type Act = B;

    forward_to! {
        0:
        fn observation_space(&mut self, inner: &Space) -> Result<Space>;
        fn action_space(&mut self, inner: &Space) -> Result<Space>;
        fn reset(&mut self, seed: Option<u64>);
        fn observation(&mut self, inner: &[O], obs: &mut [P]) -> Result<()>;
        fn action(&mut self, action: &[B], inner: &mut [A]) -> Result<()>;
        fn reward(&mut self, reward: f64) -> f64;
        fn save_state(&self) -> Vec<u8>;
        fn load_state(&mut self, state: &[u8]) -> Result<()>;
    }
}
