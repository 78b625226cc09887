//! The names of a batch's columns.

use crate::base::interned;

/// The name of a column, as Ray spells it. An algorithm may declare columns of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Column(pub(super) &'static str);

impl Column {
    /// Observations, `[rows, ...]` in the shape and type of the space; after a filter `[rows, width]` f32.
    pub const OBS: Self = Self("obs");
    /// The observation after the action; at the end of an episode the last of that episode, not the first of the next.
    pub const NEW_OBS: Self = Self("new_obs");
    /// The actions as the policy chose them, before unsquashing or clipping: i64 or f32.
    pub const ACTIONS: Self = Self("actions");
    /// Rewards, f32.
    pub const REWARDS: Self = Self("rewards");
    /// Whether the episode terminated with the step, f32 0 or 1; for a truncated episode it is 0.
    pub const TERMINATED: Self = Self("terminated");
    /// The parameters of the action distribution at the time of acting.
    pub const ACTION_DIST_INPUTS: Self = Self("action_dist_inputs");
    /// The log-probability of the action at the time of acting.
    pub const ACTION_LOGP: Self = Self("action_logp");
    /// The critic's value of the observation, from the weights that the worker acted with.
    pub const VF_PREDS: Self = Self("vf_preds");
    /// Advantages of the actions, f32.
    pub const ADVANTAGES: Self = Self("advantages");
    /// Value targets: the critic learns to predict them. f32.
    pub const VALUE_TARGETS: Self = Self("value_targets");
    /// Importance weights of replayed rows.
    pub const WEIGHTS: Self = Self("weights");
    /// Initial priorities of rows, f32: a prioritised replay buffer removes this column when it stores the rows.
    pub const PRIORITIES: Self = Self("priorities");
    /// Index of each replayed row in the buffer.
    pub const BATCH_INDEXES: Self = Self("batch_indexes");
    /// Number of the environment copy among all copies of the run, i64; only rows for hindsight experience replay have it.
    pub const ENV_ID: Self = Self("env_id");
    /// Number of steps that the episode had before the row, i64; only rows for hindsight experience replay have it.
    pub const T: Self = Self("t");
    /// Whether the episode terminated or was truncated with the step, f32 0 or 1; only rows for hindsight experience replay
    /// have it.
    pub const ENDED: Self = Self("ended");
    /// The discount of the value of [`NEW_OBS`](Self::NEW_OBS): gamma to the power of the number of steps until then.
    pub const DISCOUNTS: Self = Self("discounts");

    /// Flags of the discrete actions that were legal, bool `[rows, options]`; present only with `mask_actions`.
    pub const ACTION_MASK: Self = Self("action_mask");
    /// Flags of the discrete actions that were legal at [`NEW_OBS`](Self::NEW_OBS), bool `[rows, options]`; present only
    /// with `mask_actions`.
    pub const NEW_ACTION_MASK: Self = Self("new_action_mask");

    /// Recurrent state before the first row of each sequence, `[sequences, width]`.
    pub const STATE_IN: Self = Self("state_in");
    /// Whether an episode begins with the row, f32 0 or 1; present only with a recurrent policy.
    pub const RESETS: Self = Self("resets");

    /// Makes the name of a column of your own.
    #[inline]
    pub const fn new(name: &'static str) -> Self {
        Self(name)
    }

    /// The column of a name that was read from a file.
    pub fn named(name: &str) -> Self {
        Self(interned(name))
    }

    /// The name of the column.
    #[inline]
    pub const fn name(self) -> &'static str {
        self.0
    }
}
