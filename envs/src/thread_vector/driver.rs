//! The thread that steps the blocks between `send` and `recv`.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{Arc, Condvar, Mutex},
    thread::JoinHandle,
};

use super::{lock, step_blocks};
use crate::{Error, Result, StepOut, VectorEnv, sent::Sent};

/// A sleeping thread with room for one step; dropped, it ends after the step in progress.
pub(super) struct Driver<V: VectorEnv> {
    shared: Arc<Shared<V>>,
    thread: Option<JoinHandle<()>>,
    in_flight: bool,
}

/// Where the caller and the thread meet.
struct Shared<V: VectorEnv> {
    work: Mutex<Work<V>>,
    turned: Condvar,
}

struct Work<V: VectorEnv> {
    turn: Turn,
    sent: Sent<V::Act>,
    rows: StepRows<V::Obs>,
    done: Result<()>,
}

#[derive(Clone, Copy, PartialEq)]
enum Turn {
    Caller,
    Driver,
    Over,
}

struct StepRows<O> {
    obs: Vec<O>,
    final_obs: Vec<O>,
    rewards: Vec<f32>,
    terminated: Vec<bool>,
    truncated: Vec<bool>,
}

impl<V: VectorEnv + 'static> Driver<V> {
    pub(super) fn start(
        blocks: Arc<Mutex<Vec<V>>>,
        num_envs: usize,
        obs_width: usize,
        act_width: usize,
    ) -> Result<Self> {
        let row = vec![V::Obs::default(); num_envs * obs_width];
        let work = Work {
            turn: Turn::Caller,
            sent: Sent::new(num_envs, num_envs * act_width),
            rows: StepRows {
                final_obs: row.clone(),
                obs: row,
                rewards: vec![0.0; num_envs],
                terminated: vec![false; num_envs],
                truncated: vec![false; num_envs],
            },
            done: Ok(()),
        };
        let shared = Arc::new(Shared { work: Mutex::new(work), turned: Condvar::new() });
        let own = Arc::clone(&shared);
        let thread =
            std::thread::Builder::new().name("pavlov-env".into()).spawn(move || own.drive(&blocks)).map_err(
                |error| Error::other(format!("cannot start a thread for `send`: {error}; call `step`")),
            )?;
        Ok(Self { shared, thread: Some(thread), in_flight: false })
    }

    pub(super) fn send(&mut self, actions: &[V::Act], reset_seeds: Option<&[u64]>) {
        let mut work = lock(&self.shared.work);
        work.sent.keep(actions, reset_seeds);
        work.turn = Turn::Driver;
        self.shared.turned.notify_all();
        self.in_flight = true;
    }

    /// Waits for the step in flight.
    pub(super) fn recv(&mut self, out: StepOut<'_, V::Obs>, obs_width: usize) -> Result<()> {
        self.in_flight = false;
        let mut work = self.shared.caller_turn();
        std::mem::replace(&mut work.done, Ok(()))?;
        let StepRows { obs, final_obs, rewards, terminated, truncated } = &work.rows;
        out.obs.copy_from_slice(obs);
        out.rewards.copy_from_slice(rewards);
        out.terminated.copy_from_slice(terminated);
        out.truncated.copy_from_slice(truncated);
        for i in (0..rewards.len()).filter(|&i| terminated[i] || truncated[i]) {
            let row = i * obs_width..(i + 1) * obs_width;
            out.final_obs[row.clone()].copy_from_slice(&final_obs[row]);
        }
        Ok(())
    }
}

impl<V: VectorEnv> Driver<V> {
    /// Whether a step was sent and not received.
    pub(super) fn in_flight(&self) -> bool {
        self.in_flight
    }

    /// Waits for the step in progress and drops its result.
    pub(super) fn forget(&mut self) {
        if std::mem::take(&mut self.in_flight) {
            self.shared.caller_turn().done = Ok(());
        }
    }
}

impl<V: VectorEnv> Shared<V> {
    fn caller_turn(&self) -> std::sync::MutexGuard<'_, Work<V>> {
        let mut work = lock(&self.work);
        while work.turn == Turn::Driver {
            work = self.turned.wait(work).unwrap_or_else(std::sync::PoisonError::into_inner);
        }
        work
    }

    fn drive(&self, blocks: &Mutex<Vec<V>>) {
        let mut work = lock(&self.work);
        loop {
            match work.turn {
                Turn::Caller => {
                    work = self.turned.wait(work).unwrap_or_else(std::sync::PoisonError::into_inner);
                }
                Turn::Driver => {
                    let Work { sent, rows, .. } = &mut *work;
                    let step =
                        || step_blocks(&mut lock(blocks), 0, sent.actions(), sent.reset_seeds(), rows.out());
                    work.done = catch_unwind(AssertUnwindSafe(step))
                        .unwrap_or_else(|payload| Err(Error::panic(&*payload)));
                    work.turn = Turn::Caller;
                    self.turned.notify_all();
                }
                Turn::Over => return,
            }
        }
    }
}

impl<O> StepRows<O> {
    fn out(&mut self) -> StepOut<'_, O> {
        StepOut {
            obs: &mut self.obs,
            final_obs: &mut self.final_obs,
            rewards: &mut self.rewards,
            terminated: &mut self.terminated,
            truncated: &mut self.truncated,
        }
    }
}

impl<V: VectorEnv> Drop for Driver<V> {
    fn drop(&mut self) {
        self.shared.caller_turn().turn = Turn::Over;
        self.shared.turned.notify_all();
        if let Some(thread) = self.thread.take() {
            // It catches panics, so there is none to pass on.
            let _ = thread.join();
        }
    }
}
