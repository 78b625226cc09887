//! Rules over settings, and over what the run did with them.

use pavlov_trainer::Ending;

use crate::doctor::{Finding, Records, Sure};

/// Finds many more rollout workers than cores.
pub(super) fn workers(records: &Records) -> Option<Finding> {
    let workers = records.number("num_workers")?;
    let cores = records.cores as f64;
    let is_here = records.text("workers").is_none_or(|kind| !kind.starts_with("ray"));
    (is_here && workers > 4.0 && workers > 2.0 * cores).then(|| {
        Finding::new(
            "workers",
            Sure::Likely,
            format!("`num_workers` is {workers}"),
            format!("this machine has {cores} core(s), so workers wait for each other"),
            format!("set `num_workers` to {cores}, and raise `num_envs_per_worker`"),
        )
    })
}

/// Finds a step size that has become 0 before the run ended.
pub(super) fn step_size_ended(records: &Records) -> Option<Finding> {
    let ending = Ending::of(&records.config)?;
    let steps = records.last()?.steps;
    // The iteration in which the schedule ends is the last one that learns.
    let before = records.rows.len().checked_sub(2).and_then(|at| records.rows.get(at))?;
    (before.steps >= ending.step).then(|| {
        Finding::new(
            "step_size_ended",
            Sure::Certain,
            ending.text(),
            format!("the run went on to {steps} steps and learned nothing from there on"),
            "resume with `--stop timesteps_total=N --stretch-schedules`, or set `lr_schedule` to a longer one",
        )
    })
}

/// Finds too few or too many gradient steps per sampled step of an algorithm with a replay buffer.
pub(super) fn updates(records: &Records) -> Option<Finding> {
    let batch = records.number("train_batch_size").filter(|size| *size >= 1.0)?;
    let starts = records.number("replay_buffer_config.learning_starts")?;
    let last = records.last().filter(|row| row.trained > 0)?;
    let sampled = last.steps as f64 - starts;
    let per_step = last.trained as f64 / batch / sampled;
    let number = format!("{per_step:.4} gradient steps per environment step");
    if sampled < 1000.0 {
        return None;
    }
    if per_step < 1.0 / 64.0 {
        return Some(Finding::new(
            "updates",
            Sure::Likely,
            number,
            "most of what is sampled is hardly learned from",
            "raise `training_intensity` (rows learned per step), or lower `rollout_fragment_length` and `num_envs_per_worker`",
        ));
    }
    (per_step > 8.0).then(|| {
        Finding::new(
            "updates",
            Sure::Possible,
            number,
            "the networks fit a few rows too closely and their values run away",
            "lower `training_intensity`",
        )
    })
}

/// Finds a run that ended before its replay buffer had enough rows to learn from.
pub(super) fn learning_never_began(records: &Records) -> Option<Finding> {
    let starts = records.number("replay_buffer_config.learning_starts")?;
    let last = records.last().filter(|row| row.trained == 0 && row.steps > 0)?;
    Some(Finding::new(
        "learning_never_began",
        Sure::Certain,
        format!("`replay_buffer_config.learning_starts` is {starts}"),
        format!("the run has {} steps, and learning begins after {starts}", last.steps),
        "lower it, or train longer",
    ))
}

/// Finds components of observations whose bounds differ by orders of magnitude, without a filter.
pub(super) fn observation_scales(records: &Records) -> Option<Finding> {
    const MOST: f64 = 1000.0;
    if records.text("observation_filter") != Some("NoFilter") {
        return None;
    }
    let wraps = records.setting("wrappers").map(ToString::to_string).unwrap_or_default();
    if wraps.contains("NormalizeObservation") || wraps.contains("RescaleObservation") {
        return None;
    }
    let space = &records.saved.as_ref()?.observation_space;
    let spaces: pavlov_envs::Space = serde_json::from_value(space.clone()).ok()?;
    let pavlov_envs::Space::Box { low, high, .. } = spaces else { return None };
    let sizes = low.iter().zip(&high).map(|(low, high)| low.abs().max(high.abs()));
    // Bounds beyond a million stand for no bound.
    let sizes: Vec<f64> = sizes.filter(|size| *size > 0.0 && *size < 1e6).collect();
    let most = sizes.iter().copied().reduce(f64::max)?;
    let least = sizes.iter().copied().reduce(f64::min)?;
    (most > MOST * least).then(|| {
        Finding::new(
            "observation_scales",
            Sure::Likely,
            format!("components of observations reach {least} and {most}"),
            "the network sees the large ones and hardly the small ones",
            "set `observation_filter` to \"MeanStdFilter\"",
        )
    })
}
