//! Rules over how a policy changes.

use crate::doctor::records::{late_mean, of_policy};
use crate::doctor::{Finding, Records, Sure};

/// Number of iterations below which no rule here finds anything.
const LEAST: usize = 5;

/// Finds a measured KL far above the one that the settings aim at, or above any that keeps a policy together.
pub(super) fn kl_far_from_target(records: &Records) -> Option<Finding> {
    let aimed = records.number("target_kl").or_else(|| {
        records.number("kl_coeff").filter(|coeff| *coeff > 0.0).and_then(|_| records.number("kl_target"))
    });
    let most = aimed.map_or(0.3, |target| (5.0 * target).max(0.03));
    records.statistic("kl").into_iter().find_map(|(id, values)| {
        let kl = late_mean(&values, LEAST).filter(|kl| *kl > most)?;
        let target = aimed.map_or("no target".to_owned(), |target| format!("its target is {target}"));
        Some(Finding::new(
            "kl",
            Sure::Likely,
            format!("{}`kl` is {kl:.3}, and {target}", of_policy(id)),
            "each batch changes the policy so much that the batch no longer says what it is worth",
            "lower `lr` or `num_sgd_iter`, or set `target_kl` to 0.02",
        ))
    })
}

/// Finds a large share of rows beyond the clip range.
pub(super) fn clip_share(records: &Records) -> Option<Finding> {
    records.statistic("clip_fraction").into_iter().find_map(|(id, values)| {
        // A clip range of 0 clips all rows, and learning has ended then.
        let ranges = records.statistic("clip_param").remove(id).unwrap_or_default();
        let open = |at: &u64| ranges.iter().all(|(step, range)| step != at || *range > 0.01);
        let values: Vec<(u64, f64)> = values.into_iter().filter(|(step, _)| open(step)).collect();
        let share = late_mean(&values, LEAST).filter(|share| *share > 0.5)?;
        Some(Finding::new(
            "clip_share",
            Sure::Likely,
            format!("{}`clip_fraction` is {share:.2}", of_policy(id)),
            "most rows leave the clip range within one batch and give no gradient",
            "lower `lr` or `num_sgd_iter`",
        ))
    })
}

/// Finds an entropy of discrete actions that is gone in the first tenth of the run.
pub(super) fn entropy_gone(records: &Records) -> Option<Finding> {
    let last = records.last()?.steps as f64;
    let whole = records.target.unwrap_or(last).max(last);
    let entropy_coeff = records.number("entropy_coeff")?;
    records.statistic("entropy").into_iter().find_map(|(id, values)| {
        let first = values.first()?.1;
        // The entropy of continuous actions may be negative and means something else.
        if values.iter().any(|(_, value)| *value < 0.0) || values.len() < LEAST {
            return None;
        }
        let mut early = values.iter().filter(|(step, _)| *step as f64 <= whole / 10.0);
        let (step, entropy) = early.next_back().filter(|(_, entropy)| *entropy < 0.02 * first)?;
        Some(Finding::new(
            "entropy_gone",
            Sure::Likely,
            format!("{}`entropy` fell from {first:.2} to {entropy:.4} by step {step}", of_policy(id)),
            "the policy stopped trying other actions in the first tenth of the run",
            format!("raise `entropy_coeff` (it is {entropy_coeff}), or lower `lr`"),
        ))
    })
}

/// Finds a temperature of SAC far above its initial value.
pub(super) fn temperature_runs_away(records: &Records) -> Option<Finding> {
    let initial = records.number("initial_alpha")?;
    records.statistic("alpha_value").into_iter().find_map(|(id, values)| {
        let (_, alpha) = values.last().filter(|(_, alpha)| *alpha > 100.0 * initial.max(1.0))?;
        Some(Finding::new(
            "temperature",
            Sure::Likely,
            format!("{}`alpha_value` is {alpha:.0}, from {initial} (`initial_alpha`)", of_policy(id)),
            "the entropy of actions stays below its target, and what is learned is to act at random",
            "lower `target_entropy`, or set `optimization.entropy_learning_rate` to 0",
        ))
    })
}
