//! The policy that is served, and its exchange for a newer one.

use super::numbers::Numbers;
use pavlov_envs::{DType, Element, NpRandom};
use pavlov_trainer::{Loaded, Result};
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

/// Number of random observations that a policy must give finite actions for.
const PROBES: usize = 64;
/// Largest size of a random observation's numbers: what is drawn between unbounded bounds may be beyond any use.
const SIZE: f64 = 1e3;

/// A policy with its version: 1 at the start, one more after each exchange.
#[derive(Debug)]
pub(super) struct Model {
    pub(super) policy: Loaded,
    pub(super) version: u64,
}

/// Loads a policy, again whenever a newer one is asked for.
pub(super) type Load = dyn Fn() -> Result<Loaded> + Send + Sync;

/// The policy that is served.
pub(super) struct Models {
    load: Box<Load>,
    current: Mutex<Arc<Model>>,
    /// Held while a newer policy is loaded, so that exchanges come one after the other.
    exchange: Mutex<()>,
}

impl fmt::Debug for Models {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Models").field("version", &self.current().version).finish_non_exhaustive()
    }
}

impl Models {
    /// Loads the first policy.
    pub(super) fn open(load: Box<Load>) -> std::result::Result<Self, String> {
        let policy = load().map_err(|error| error.to_string())?;
        probe(&policy)?;
        let current = Mutex::new(Arc::new(Model { policy, version: 1 }));
        Ok(Self { load, current, exchange: Mutex::default() })
    }

    pub(super) fn current(&self) -> Arc<Model> {
        Arc::clone(&self.current.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Loads the policy again and exchanges it for the old one, which stays if the new one does not fit.
    ///
    /// # Errors
    /// Returns the reason why the old policy stays.
    pub(super) fn reload(&self) -> std::result::Result<Arc<Model>, String> {
        let _one = self.exchange.lock().unwrap_or_else(PoisonError::into_inner);
        let old = self.current();
        let policy = (self.load)().map_err(|error| error.to_string())?;
        fits(&old.policy, &policy)?;
        probe(&policy)?;
        let new = Arc::new(Model { policy, version: old.version + 1 });
        *self.current.lock().unwrap_or_else(PoisonError::into_inner) = Arc::clone(&new);
        Ok(new)
    }
}

/// Refuses a policy that clients of the old one could not ask in the same way.
fn fits(old: &Loaded, new: &Loaded) -> std::result::Result<(), String> {
    let differs = |what: &str, old: String, new: String| {
        Err(format!(
            "its {what} is {new}, but that of the policy that is served is {old}; start a server of its own for it"
        ))
    };
    if (old.observation_space(), old.observation_dtype())
        != (new.observation_space(), new.observation_dtype())
    {
        return differs(
            "observation space",
            old.observation_space().to_string(),
            new.observation_space().to_string(),
        );
    }
    if old.action_space() != new.action_space() {
        return differs("action space", old.action_space().to_string(), new.action_space().to_string());
    }
    if old.mask_width() != new.mask_width() {
        return differs(
            "number of flags of a mask",
            format!("{:?}", old.mask_width()),
            format!("{:?}", new.mask_width()),
        );
    }
    if old.memory_width() != new.memory_width() {
        return differs("memory", old.memory_width().to_string(), new.memory_width().to_string());
    }
    Ok(())
}

/// Refuses a policy that gives NaN for random observations.
fn probe(policy: &Loaded) -> std::result::Result<(), String> {
    fn drawn<T: Element>(policy: &Loaded) -> Vec<T> {
        let mut random = NpRandom::new(0);
        let mut rows = vec![T::default(); PROBES * policy.observation_width()];
        rows.chunks_exact_mut(policy.observation_width())
            .for_each(|row| policy.observation_space().sample(&mut random, row));
        rows
    }
    let mut rows = match policy.observation_dtype() {
        DType::U8 => Numbers::U8(drawn(policy)),
        DType::I64 => Numbers::I64(drawn(policy)),
        DType::F32 => Numbers::F32(drawn(policy)),
        DType::F64 => Numbers::F64(drawn(policy)),
    };
    match &mut rows {
        Numbers::F32(all) => all.iter_mut().for_each(|x| *x = x.clamp(-SIZE as f32, SIZE as f32)),
        Numbers::F64(all) => all.iter_mut().for_each(|x| *x = x.clamp(-SIZE, SIZE)),
        Numbers::U8(_) | Numbers::I64(_) => {}
    }
    let mut memory = vec![0.0; PROBES * policy.memory_width()];
    // A policy without a network has no outputs. A choice among NaNs is a choice, so actions alone do not tell.
    let outputs = rows.outputs(policy, &mut memory.clone()).unwrap_or_default();
    let actions = rows.act(policy, None, &mut memory, None).map_err(|error| error.to_string())?;
    if actions.is_finite() && memory.iter().chain(&outputs).all(|x| x.is_finite()) {
        return Ok(());
    }
    Err("its numbers are not finite for random observations: its weights are damaged, or it has diverged"
        .into())
}
