//! Policies that threads share: their weights stay, and acting takes `&self`.

use crate::policy::act::Act;
use pavlov_learn::base::{Error, Result};
use pavlov_learn::loss::Seen;
use std::fmt::Debug;

/// A policy whose weights no longer change. Threads let it act at the same time.
///
/// # Contract
///
/// * A row's action depends on that row's observation, mask, memory and random stream, and on nothing else.
/// * The policy's actions have the bits of [`Policy::compute_actions`](crate::policy::Policy::compute_actions). The
///   columns of [`Policy::step_columns`](crate::policy::Policy::step_columns) are not stored.
/// * Nothing is kept between calls, so noise that depends on the state (gSDE) is drawn anew for every row.
pub trait SharedPolicy: Debug + Send + Sync {
    /// Number of scalars of recurrent state per row; 0 if the policy is not recurrent.
    fn memory_width(&self) -> usize {
        0
    }

    /// Number of equal parts of that state: 2 if it is that of one long short-term memory, whose output comes before its
    /// cell; else 1.
    fn memory_parts(&self) -> usize {
        1
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
