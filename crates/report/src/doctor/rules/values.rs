//! Rules over what critics say.

use crate::doctor::records::{late_mean, of_policy};
use crate::doctor::{Finding, Records, Sure};

/// Finds an explained variance below 0 for twenty iterations in a row.
pub(super) fn explained_variance(records: &Records) -> Option<Finding> {
    const IN_A_ROW: usize = 20;
    records.statistic("vf_explained_var").into_iter().find_map(|(id, values)| {
        let last = values.last_chunk::<IN_A_ROW>()?;
        // A critic that knows nothing is near 0 and slightly below it by chance.
        let mean = last.iter().map(|(_, value)| value).sum::<f64>() / IN_A_ROW as f64;
        let below = last.iter().all(|(_, value)| *value < 0.0) && mean < -0.05;
        let coeff = records.number("vf_loss_coeff").unwrap_or(1.0);
        below.then(|| {
            Finding::new(
                "explained_variance",
                Sure::Likely,
                format!("{}`vf_explained_var` was below 0 for {IN_A_ROW} iterations, {mean:.2} on average", of_policy(id)),
                "the critic predicts returns worse than a constant would, so advantages are noise",
                format!(
                    "lower `lr`, set `vf_clip` to \"none\", raise `vf_loss_coeff` (it is {coeff}), or scale rewards down"
                ),
            )
        })
    })
}

/// Finds a value loss that its bound cuts off.
pub(super) fn value_loss_is_bounded(records: &Records) -> Option<Finding> {
    let bound = records.number("vf_clip_param")?;
    let counts = records.number("vf_loss_coeff").is_some_and(|coeff| coeff > 0.1);
    if records.text("vf_clip") != Some("squared_error") || !counts {
        return None;
    }
    records.statistic("vf_loss").into_iter().find_map(|(id, values)| {
        let loss = late_mean(&values, 5).filter(|loss| *loss > 0.9 * bound)?;
        Some(Finding::new(
            "value_loss_is_bounded",
            Sure::Certain,
            format!("{}`vf_loss` is {loss:.2}, and `vf_clip_param` bounds it at {bound}", of_policy(id)),
            "rows beyond the bound give the critic no gradient, and most are beyond it",
            "set `vf_clip` to \"none\", or scale rewards down",
        ))
    })
}

/// Finds Q-values far beyond any return that was seen, and still growing.
pub(super) fn values_run_away(records: &Records) -> Option<Finding> {
    let seen = records.rows.iter().filter_map(|row| row.returns);
    let largest = seen.flat_map(|[low, _, high]| [low.abs(), high.abs()]).reduce(f64::max)?.max(1.0);
    let [low, high] = ["min_q", "max_q"].map(|key| records.statistic(key));
    high.into_iter().find_map(|(id, high)| {
        let size = |at: usize| {
            let low = low.get(id).and_then(|low| low.get(at)).map_or(0.0, |(_, value)| value.abs());
            high.get(at).map_or(0.0, |(_, value)| value.abs()).max(low)
        };
        let last = size(high.len().checked_sub(1)?);
        let half = size(high.len() / 2);
        (high.len() >= 4 && last > 20.0 * largest && last > 1.5 * half).then(|| {
            Finding::new(
                "values_run_away",
                Sure::Likely,
                format!("{}Q-values reach {last:.0}, and no return is beyond {largest:.0}", of_policy(id)),
                "the critic learns from its own guesses, which grow without end",
                "lower the step size or `training_intensity`, or move the target slower (`tau`, `target_network_update_freq`)",
            )
        })
    })
}
