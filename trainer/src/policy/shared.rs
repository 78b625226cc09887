//! Policies that threads share: their weights stay, and acting takes `&self`.

use crate::base::{Error, Result, Stream};
use crate::learn::SharedNet;
use crate::learn::loss::{Observed, Remembered, Seen};
use crate::policy::act::Act;
use crate::policy::net_policy::NetPolicy;
use std::fmt::Debug;

/// A policy whose weights no longer change. Threads let it act at the same time.
///
/// # Contract
///
/// * A row's action depends on that row's observation, mask, memory and random stream, and on nothing else.
/// * The policy's actions have the bits of [`Policy::compute_actions`](crate::policy::Policy::compute_actions). The
///   columns of [`Policy::step_columns`](crate::policy::Policy::step_columns) are not stored.
pub trait SharedPolicy: Debug + Send + Sync {
    /// Number of scalars of recurrent state per row; 0 if the policy is not recurrent.
    fn memory_width(&self) -> usize {
        0
    }

    /// Chooses one action per row.
    ///
    /// # Errors
    /// An error refuses all rows of the call.
    fn compute_actions(&self, seen: Seen<'_>, act: Act<'_>) -> Result<()>;

    /// The network's outputs that actions are chosen by, `[rows, columns]`, as [`Policy::outputs`](crate::policy::Policy::outputs).
    ///
    /// # Errors
    /// Returns [`Error::State`] if the policy has no network, as by default.
    fn outputs(&self, _seen: Seen<'_>) -> Result<Vec<f32>> {
        Err(Error::state("the policy", "it has no network"))
    }
}

/// A [`NetPolicy`] whose weights stay.
#[derive(Debug)]
pub(super) struct SharedNetworked<P> {
    pub(super) policy: P,
    pub(super) net: SharedNet,
    /// Number of columns of [`NetPolicy::action_inputs`].
    pub(super) columns: usize,
    pub(super) seed: u64,
}

impl<P: NetPolicy> SharedPolicy for SharedNetworked<P> {
    fn memory_width(&self) -> usize {
        self.net.memory_width()
    }

    fn compute_actions(&self, seen: Seen<'_>, act: Act<'_>) -> Result<()> {
        let noise = (self.net.is_noisy() && seen.explore)
            .then(|| Stream::new(self.seed, "noisy acting", seen.timestep));
        self.inputs(seen, noise, |inputs| self.policy.act(inputs, act))
    }

    fn outputs(&self, seen: Seen<'_>) -> Result<Vec<f32>> {
        self.inputs(seen, None, |inputs| Ok(inputs.to_vec()))
    }
}

impl<P: NetPolicy> SharedNetworked<P> {
    /// Hands the [`NetPolicy::action_inputs`] of the observations to `then`.
    fn inputs<R>(
        &self,
        seen: Seen<'_>,
        noise: Option<Stream>,
        then: impl FnOnce(&[f32]) -> Result<R>,
    ) -> Result<R> {
        let Self { policy, net, columns, .. } = self;
        let Seen { obs, mask, memory, resets, .. } = seen;
        let remembered = (net.memory_width() > 0).then_some(Remembered { memory, resets, lengths: None });
        let observed = Observed { obs, mask, remembered };
        net.evaluate(observed, noise, *columns, |net, x| policy.action_inputs(net, x), then)
    }
}
