//! A vector environment made by id, with its scalar types restored, so that typed wrappers fit around it.

use std::marker::PhantomData;

use bytemuck::{cast_slice, cast_slice_mut};

use crate::{
    AnyVectorEnv, Element, Result, StepOut, VectorEnv,
    contract::any_vector::check_scalars,
    contract::forward::{forward_to, vector_methods},
};

/// A type-erased vector environment with its scalar types restored: `O` for observations, `A` for actions.
///
/// ```
/// use pavlov_envs::{EnvConfig, TypedVectorEnv, make_vec, wrappers::NormalizeReward};
///
/// # fn main() -> pavlov_envs::Result<()> {
/// let copies = make_vec("Pendulum-v1", &EnvConfig::new(), 8)?;
/// let env = NormalizeReward::new(TypedVectorEnv::<f32, f32>::new(copies)?, 0.99, 1e-8)?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct TypedVectorEnv<O, A> {
    env: Box<dyn AnyVectorEnv>,
    of: PhantomData<(O, A)>,
}

impl<O: Element, A: Element> TypedVectorEnv<O, A> {
    /// Checks the scalar types of `env` and wraps it.
    ///
    /// # Errors
    /// Returns [`Error::Shape`](crate::Error::Shape) if the observations of `env` are not `O`, or if its actions are not `A`.
    pub fn new(env: Box<dyn AnyVectorEnv>) -> Result<Self> {
        check_scalars::<O, A>(env.obs_dtype(), env.act_dtype())?;
        Ok(Self { env, of: PhantomData })
    }
}

impl<O: Element, A: Element> VectorEnv for TypedVectorEnv<O, A> {
    type Obs = O;
    type Act = A;

    vector_methods!(forward_to env:);

    fn reset(&mut self, seeds: Option<&[u64]>, obs: &mut [O]) -> Result<()> {
        self.env.reset(seeds, cast_slice_mut(obs))
    }

    fn step(&mut self, actions: &[A], reset_seeds: Option<&[u64]>, out: StepOut<'_, O>) -> Result<()> {
        self.env.step(cast_slice(actions), reset_seeds, out.into_bytes())
    }
}
