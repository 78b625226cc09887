//! The rules. A rule is a function from the records of a run to what it found; `None` if all is well.

mod episodes;
mod exploration;
mod network;
mod policy;
mod seeds;
mod settings;
mod values;

use super::{Finding, Records};

pub use seeds::seeds;

/// A rule.
pub(super) type Rule = fn(&Records) -> Option<Finding>;

/// All rules over one run.
pub(super) const ALL: &[Rule] = &[
    settings::workers,
    settings::step_size_ended,
    settings::updates,
    settings::learning_never_began,
    settings::observation_scales,
    policy::kl_far_from_target,
    policy::clip_share,
    policy::entropy_gone,
    policy::temperature_runs_away,
    values::explained_variance,
    values::value_loss_is_bounded,
    values::values_run_away,
    episodes::reward_never_changes,
    episodes::reward_scale,
    episodes::all_cut,
    episodes::none_ended,
    episodes::evaluation_far_from_training,
    exploration::never_ended,
    exploration::never_began,
    network::dead_units,
];

/// The rules that a run applies after each iteration.
pub(super) const EARLY: &[Rule] = &[values::explained_variance, policy::entropy_gone, episodes::reward_scale];
