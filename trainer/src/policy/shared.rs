//! Policies that threads share: their weights stay, and acting takes `&self`.

use crate::base::{Result, Stream};
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
        let Self { policy, net, columns, seed } = self;
        let Seen { obs, mask, memory, resets, explore, timestep } = seen;
        let noise = (net.is_noisy() && explore).then(|| Stream::new(*seed, "noisy acting", timestep));
        let remembered = (net.memory_width() > 0).then_some(Remembered { memory, resets, lengths: None });
        net.evaluate(
            Observed { obs, mask, remembered },
            noise,
            *columns,
            |net, x| policy.action_inputs(net, x),
            |inputs| policy.act(inputs, act),
        )
    }
}
