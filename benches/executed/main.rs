//! Runs one iteration of an algorithm with its defaults, and counts for `cargo xtask executed` what it executes between
//! `plan.next()` and its return.
//!
//! `cargo xtask executed` builds it with coverage counters and `--cfg executed`, and reads the counters that it leaves. Built
//! without them it only trains.
#![allow(unsafe_code)] // The counters are memory of the compiler's run-time library.

use std::sync::{
    Mutex, MutexGuard, PoisonError,
    atomic::{AtomicBool, Ordering},
};

use pavlov::{prelude::*, trainer::prelude::*};
use serde::{Deserialize, Serialize};

/// Whether the iteration runs that counts.
static COUNTS: AtomicBool = AtomicBool::new(false);
/// The counters of all calls of `plan.next()` so far.
static COUNTED: Mutex<Vec<u8>> = Mutex::new(Vec::new());

fn main() -> std::result::Result<(), Box<dyn std::error::Error>> {
    let name = std::env::args().nth(1).unwrap_or_default();
    match name.as_str() {
        "PPO" => iteration(Ppo::get_default_config(), "CartPole-v1")?,
        "DQN" => iteration(Dqn::get_default_config(), "CartPole-v1")?,
        "SAC" => iteration(Sac::get_default_config(), "Pendulum-v1")?,
        _ => return Err(format!("{name:?} is none of PPO, DQN, SAC").into()),
    }
    println!("{}", std::env::current_exe()?.display());
    // The run-time library writes them when the program ends.
    counters::set(&counted());
    Ok(())
}

/// Trains until something was learned, and then one iteration that counts.
fn iteration<T: Trainer>(settings: T, env: &str) -> Result<()> {
    let mut driver = Marked(settings).builder(env).loggers(LoggerChoice::None).build()?;
    while driver.train()?["info"]["num_env_steps_trained"] == 0 {}
    *counted() = vec![0; counters::get().len()];
    COUNTS.store(true, Ordering::SeqCst);
    driver.train()?;
    COUNTS.store(false, Ordering::SeqCst);
    Ok(driver.stop()?)
}

fn counted() -> MutexGuard<'static, Vec<u8>> {
    COUNTED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// An algorithm whose plan marks where each of its rounds begins and ends.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(transparent)]
struct Marked<T>(T);

impl<T: Trainer> Trainer for Marked<T> {
    const NAME: &'static str = T::NAME;
    const REFUSED_KEYS: &'static [(&'static str, &'static str)] = T::REFUSED_KEYS;
    const PLAN_KEYS: &'static [&'static str] = T::PLAN_KEYS;

    fn get_default_config() -> Self {
        Self(T::get_default_config())
    }

    fn validate_config(&mut self, spaces: &Spaces) -> Result<()> {
        self.0.validate_config(spaces)
    }

    fn get_default_policy_class(&self, spaces: &Spaces) -> Result<PolicyClass> {
        self.0.get_default_policy_class(spaces)
    }

    fn execution_plan(&self, workers: &WorkerSet) -> Plan {
        let mut plan = self.0.execution_plan(workers);
        Box::new(std::iter::from_fn(move || {
            if COUNTS.load(Ordering::SeqCst) {
                counters::set(&counted());
            }
            let round = plan.next();
            if COUNTS.load(Ordering::SeqCst) {
                *counted() = counters::get();
            }
            round
        }))
    }

    fn common(&self) -> &Common {
        self.0.common()
    }

    fn common_mut(&mut self) -> &mut Common {
        self.0.common_mut()
    }
}

#[cfg(executed)]
mod counters {
    unsafe extern "C" {
        fn __llvm_profile_begin_counters() -> *mut u8;
        fn __llvm_profile_end_counters() -> *mut u8;
    }

    fn memory() -> (*mut u8, usize) {
        // SAFETY: both only return where the counters of this program begin and end.
        unsafe {
            let begin = __llvm_profile_begin_counters();
            (begin, __llvm_profile_end_counters().offset_from_unsigned(begin))
        }
    }

    pub(crate) fn get() -> Vec<u8> {
        let (begin, len) = memory();
        let mut copy = vec![0; len];
        // SAFETY: both are `len` bytes. Threads may count meanwhile, and a count that is lost does not matter.
        unsafe { std::ptr::copy_nonoverlapping(begin, copy.as_mut_ptr(), len) };
        copy
    }

    pub(crate) fn set(counters: &[u8]) {
        let (begin, len) = memory();
        assert_eq!(counters.len(), len);
        // SAFETY: as in `get`.
        unsafe { std::ptr::copy_nonoverlapping(counters.as_ptr(), begin, len) };
    }
}

#[cfg(not(executed))]
mod counters {
    pub(crate) fn get() -> Vec<u8> {
        Vec::new()
    }

    pub(crate) fn set(_counters: &[u8]) {}
}
