//! Vector environments with their scalar types erased.

use bytemuck::{try_cast_slice, try_cast_slice_mut};

use crate::{
    DType, Element, Error, Result, StepOut, VectorEnv,
    contract::forward::{call_trait, declare, vector_methods},
};

/// A [`VectorEnv`] with its scalar types erased: rows are bytes in native order, aligned for the scalar type. A step of all
/// copies is one virtual call.
///
/// Every [`VectorEnv`] implements this trait; do not implement it for other types. The methods have the contract of those
/// with the same names in [`VectorEnv`]; a buffer of a wrong length or alignment is an [`Error::Shape`]. Calls on a `dyn
/// AnyVectorEnv` need no import of this trait; do not import it together with [`VectorEnv`].
#[allow(missing_docs)]
pub trait AnyVectorEnv: Send {
    vector_methods!(declare);
    /// Scalar type of the rows in `obs` and `final_obs`.
    fn obs_dtype(&self) -> DType;
    /// Scalar type of the rows in `actions`.
    fn act_dtype(&self) -> DType;
    fn reset(&mut self, seeds: Option<&[u64]>, obs: &mut [u8]) -> Result<()>;
    fn step(&mut self, actions: &[u8], reset_seeds: Option<&[u64]>, out: StepOut<'_, u8>) -> Result<()>;
}

impl<V: VectorEnv> AnyVectorEnv for V {
    vector_methods!(call_trait VectorEnv:);

    fn obs_dtype(&self) -> DType {
        V::Obs::DTYPE
    }

    fn act_dtype(&self) -> DType {
        V::Act::DTYPE
    }

    fn reset(&mut self, seeds: Option<&[u64]>, obs: &mut [u8]) -> Result<()> {
        VectorEnv::reset(self, seeds, typed_mut("`obs`", obs)?)
    }

    fn step(&mut self, actions: &[u8], reset_seeds: Option<&[u64]>, out: StepOut<'_, u8>) -> Result<()> {
        VectorEnv::step(self, typed("`actions`", actions)?, reset_seeds, typed_out(out)?)
    }
}

impl std::fmt::Debug for dyn AnyVectorEnv {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AnyVectorEnv")
            .field("num_envs", &self.num_envs())
            .field("observation_space", self.observation_space())
            .field("action_space", self.action_space())
            .finish()
    }
}

/// Checks the scalar types of an environment whose types were erased against `O` and `A`.
///
/// # Errors
/// Returns [`Error::Shape`] if one of them differs.
pub(crate) fn check_scalars<O: Element, A: Element>(obs: DType, act: DType) -> Result<()> {
    for (what, found, expected) in
        [("the scalar type of observations", obs, O::DTYPE), ("the scalar type of actions", act, A::DTYPE)]
    {
        if found != expected {
            return Err(Error::shape(what, found, format_args!("{expected}, as the type parameter says")));
        }
    }
    Ok(())
}

pub(crate) fn typed<'a, T: Element>(what: &'static str, bytes: &'a [u8]) -> Result<&'a [T]> {
    try_cast_slice(bytes).map_err(|error| misfit::<T>(what, bytes.len(), error))
}

pub(crate) fn typed_mut<'a, T: Element>(what: &'static str, bytes: &'a mut [u8]) -> Result<&'a mut [T]> {
    let len = bytes.len();
    try_cast_slice_mut(bytes).map_err(|error| misfit::<T>(what, len, error))
}

fn typed_out<O: Element>(out: StepOut<'_, u8>) -> Result<StepOut<'_, O>> {
    Ok(StepOut {
        obs: typed_mut("`obs`", out.obs)?,
        final_obs: typed_mut("`final_obs`", out.final_obs)?,
        rewards: out.rewards,
        terminated: out.terminated,
        truncated: out.truncated,
    })
}

fn misfit<T: Element>(what: &'static str, len: usize, error: bytemuck::PodCastError) -> Error {
    Error::shape(
        what,
        format_args!("{len} bytes ({error})"),
        format_args!("whole {} scalars aligned to {} bytes", T::DTYPE, align_of::<T>()),
    )
}
