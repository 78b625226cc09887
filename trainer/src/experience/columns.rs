//! The names of a batch's columns.

use crate::base::interned;

/// The name of a column, as Ray spells it. An algorithm that needs another declares its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Column(pub(super) &'static str);

impl Column {
    /// What the policy saw, `[rows, ...]` in the shape and the scalars of the space; behind a filter `[rows, width]` f32.
    pub const OBS: Self = Self("obs");
    /// The observation that followed; at the end of an episode its last one, never the next episode's first.
    pub const NEW_OBS: Self = Self("new_obs");
    /// What the policy chose (before unsquashing or clipping): i64 or f32.
    pub const ACTIONS: Self = Self("actions");
    /// Rewards, f32.
    pub const REWARDS: Self = Self("rewards");
    /// The task itself ended, f32 0 or 1.
    pub const TERMINATED: Self = Self("terminated");
    /// The parameters of the action distribution at the time of acting.
    pub const ACTION_DIST_INPUTS: Self = Self("action_dist_inputs");
    /// The log-probability of the action at the time of acting.
    pub const ACTION_LOGP: Self = Self("action_logp");
    /// The critic's value of the observation, from the weights that the worker acted with.
    pub const VF_PREDS: Self = Self("vf_preds");
    /// Advantages of the actions, f32.
    pub const ADVANTAGES: Self = Self("advantages");
    /// What the critic should have said of the observation, f32.
    pub const VALUE_TARGETS: Self = Self("value_targets");
    /// Importance weights of replayed rows.
    pub const WEIGHTS: Self = Self("weights");
    /// Where replayed rows stand in the buffer.
    pub const BATCH_INDEXES: Self = Self("batch_indexes");
    /// The discount of the bootstrap value: gamma to the number of steps it looks ahead.
    pub const DISCOUNTS: Self = Self("discounts");

    /// Which discrete actions were legal, bool `[rows, options]`; only where `mask_actions` asks for it.
    pub const ACTION_MASK: Self = Self("action_mask");
    /// Which discrete actions were legal at [`NEW_OBS`](Self::NEW_OBS), as in [`ACTION_MASK`](Self::ACTION_MASK).
    pub const NEW_ACTION_MASK: Self = Self("new_action_mask");

    /// What recurrent layers remembered at the first row of each sequence, `[sequences, width]`.
    pub const STATE_IN: Self = Self("state_in");
    /// An episode begins with the row, f32 0 or 1; only where a policy remembers.
    pub const RESETS: Self = Self("resets");

    /// Names a column of your own.
    pub const fn new(name: &'static str) -> Self {
        Self(name)
    }

    /// The column of that name, for names read from a file.
    pub fn named(name: &str) -> Self {
        Self(interned(name))
    }

    /// The name of the column.
    pub const fn name(self) -> &'static str {
        self.0
    }
}
