//! Rules over episodes: their rewards and their ends.

use crate::doctor::{Finding, Records, Sure};

/// Number of episodes below which no rule here finds anything.
const LEAST: u64 = 20;

/// Finds a return that was the same in every episode.
pub(super) fn reward_never_changes(records: &Records) -> Option<Finding> {
    let last = records.last().filter(|row| row.episodes >= LEAST)?;
    let [first, ..] = last.returns?;
    let mut all = records.rows.iter().filter_map(|row| row.returns).flatten();
    all.all(|value| value == first).then(|| {
        Finding::new(
            "reward_never_changes",
            Sure::Certain,
            format!("all {} episodes had the return {first}", last.episodes),
            "no action is better than another, so there is nothing to learn from",
            "reward parts of the way (a wrapper such as `TransformReward`), allow longer episodes, or explore longer",
        )
    })
}

/// Finds rewards whose size alone upsets the losses.
pub(super) fn reward_scale(records: &Records) -> Option<Finding> {
    const LARGE: f64 = 1e6;
    let has_clip =
        records.setting("clip_rewards").is_some_and(|clip| *clip != serde_json::Value::Bool(false));
    let wraps = records.setting("wrappers").map(ToString::to_string).unwrap_or_default();
    if has_clip || wraps.contains("NormalizeReward") {
        return None;
    }
    let [low, _, high] = records.last()?.returns?;
    let size = low.abs().max(high.abs());
    (size >= LARGE).then(|| {
        Finding::new(
            "reward_scale",
            Sure::Likely,
            format!("returns reach {size:.1e}"),
            "losses and gradients grow with rewards, and step sizes are made for returns up to some thousands",
            "scale rewards down with the wrapper `NormalizeReward` or `TransformReward`, or set `clip_rewards`",
        )
    })
}

/// Finds episodes that all end at a limit of the user's own.
pub(super) fn all_cut(records: &Records) -> Option<Finding> {
    let wrappers = records.setting("wrappers").map(ToString::to_string).unwrap_or_default();
    let in_wrapper = wrappers.split("TimeLimit").nth(1).and_then(|rest| {
        let digits = rest.chars().skip_while(|c| !c.is_ascii_digit());
        digits.take_while(char::is_ascii_digit).collect::<String>().parse::<f64>().ok()
    });
    let (limit, key) = match (in_wrapper, records.number("env_config.max_episode_steps")) {
        (Some(limit), _) => (limit, "the wrapper `TimeLimit`"),
        (None, Some(limit)) => (limit, "`env_config.max_episode_steps`"),
        (None, None) => return None,
    };
    let last = records.last().filter(|row| row.episodes >= LEAST)?;
    let cut = records
        .rows
        .iter()
        .filter(|row| row.episodes >= LEAST)
        .all(|row| row.length.is_some_and(|length| length > 0.97 * limit));
    cut.then(|| {
        Finding::new(
            "all_cut",
            Sure::Possible,
            format!("{} episodes were cut after {limit} steps", last.episodes),
            "what follows after the cut is never seen, and a goal that is further away is never reached",
            format!("raise the limit of {key}"),
        )
    })
}

/// Finds a run without a finished episode.
pub(super) fn none_ended(records: &Records) -> Option<Finding> {
    let last = records.last().filter(|row| row.episodes == 0)?;
    let copies = records.number("num_envs_per_worker")? * records.number("num_workers")?.max(1.0);
    (last.steps as f64 > 10_000.0 * copies).then(|| {
        Finding::new(
            "none_ended",
            Sure::Certain,
            format!("no episode ended in {} steps", last.steps),
            "returns are unknown, and an evaluation would not end",
            "give the environment a time limit: `wrappers = [\"TimeLimit(1000)\"]`",
        )
    })
}

/// Finds evaluations that bring far less than training.
pub(super) fn evaluation_far_from_training(records: &Records) -> Option<Finding> {
    let evaluated: Vec<(f64, f64)> =
        records.rows.iter().filter_map(|row| Some((row.evaluated?, row.returns?[1]))).collect();
    // One evaluation alone may have had bad luck.
    let last = evaluated.last_chunk::<3>()?;
    let [evaluation, training] =
        [last.map(|pair| pair.0), last.map(|pair| pair.1)].map(|all| all.iter().sum::<f64>() / 3.0);
    let returns = records.returns();
    let spread = returns.iter().copied().reduce(f64::max)? - returns.iter().copied().reduce(f64::min)?;
    let missing = training - evaluation;
    let all_below = last.iter().all(|(evaluated, trained)| evaluated < trained);
    (all_below && missing > 0.5 * spread && missing > 0.3 * training.abs()).then(|| {
        Finding::new(
            "evaluation_far_from_training",
            Sure::Possible,
            format!("evaluations bring {evaluation:.1}, and training {training:.1}"),
            "the best action of the policy is worse than its draws, or the evaluation has another environment",
            "compare `evaluation_config.env_config` with `env_config`, or set `evaluation_config.explore` to true",
        )
    })
}
