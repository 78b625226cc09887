//! A check that a trainable continues exactly after saving and restoring.

use crate::base::{Error, Metrics, Result, flatten};
use crate::run::Driver;
use crate::trainable::Trainable;

/// Checks that a restored trainable continues exactly. Trains one object for three results, moves its state into a second
/// one, and trains both further. The second must count results 4 and 5, and give the same metrics except for those that
/// [`difference`] ignores, such as wall time.
///
/// `make` is called twice and must return objects that train identically, so fix the seed. The state is passed in memory if
/// `use_object_store` is true, otherwise through a temporary directory. Choose
/// [`LoggerChoice::None`](crate::LoggerChoice::None) to leave no files.
///
/// # Errors
/// Returns [`Error::SaveRestore`] with the first difference, or if a result has a wrong `training_iteration`. Returns the
/// errors of `make` and of the trainable unchanged, and [`Error::Io`] if a temporary directory cannot be used.
pub fn validate_save_restore<T: Trainable>(
    mut make: impl FnMut() -> Result<Driver<T>>,
    use_object_store: bool,
) -> Result<()> {
    let mut first = make()?;
    for iteration in 1..=3 {
        expect_iteration(&first.train()?, iteration)?;
    }
    let mut second = make()?;
    if use_object_store {
        let object = first.save_to_object()?;
        second.restore_from_object(&object)?;
    } else {
        let home = tempfile::tempdir().map_err(Error::io("write in", &std::env::temp_dir()))?;
        let checkpoint = first.save_to(home.path())?;
        second.restore(&checkpoint)?;
    }
    for iteration in 4..=5 {
        let saved = first.train()?;
        let restored = second.train()?;
        expect_iteration(&restored, iteration)?;
        if let Some(difference) = difference(&saved, &restored) {
            return Err(Error::SaveRestore { reason: format!("in result {iteration}, {difference}") });
        }
    }
    first.stop()?;
    second.stop()
}

fn expect_iteration(result: &Metrics, expected: u64) -> Result<()> {
    match result.get("training_iteration") {
        Some(found) if found.as_u64() == Some(expected) => Ok(()),
        found => {
            let found = found.map_or("absent".into(), ToString::to_string);
            Err(Error::SaveRestore {
                reason: format!("`training_iteration` is {found} instead of {expected}"),
            })
        }
    }
}

/// Describes the first metric in which two results differ; `None` if they agree.
///
/// Metrics that depend on the clock or the machine are ignored: `date`, `timestamp`, `pid`, `hostname`, `node_ip`,
/// `experiment_id`, and every metric with a part of its path that is `timers`, begins with `time_`, or ends in `_time`,
/// `_ms`, `_per_s`, `_since_restore`, `perf` or `throughput`.
pub fn difference(left: &Metrics, right: &Metrics) -> Option<String> {
    let left = flatten(left);
    let right = flatten(right);
    let compared = |key: &str| !key.split('/').any(depends_on_clock);
    let absent = "absent".to_string();
    let look_up = |flat: &[(String, &serde_json::Value)], key: &str| {
        flat.iter().find(|(name, _)| name == key).map_or(absent.clone(), |(_, value)| value.to_string())
    };
    let keys = left.iter().chain(&right).map(|(key, _)| key).filter(|key| compared(key));
    keys.map(|key| (key, look_up(&left, key), look_up(&right, key)))
        .find(|(_, left, right)| left != right)
        .map(|(key, left, right)| format!("`{key}` is {left} in one and {right} in the other"))
}

fn depends_on_clock(part: &str) -> bool {
    const NAMES: [&str; 7] = ["date", "timestamp", "pid", "hostname", "node_ip", "experiment_id", "timers"];
    NAMES.contains(&part)
        || part.starts_with("time_")
        || ["_time", "_ms", "_per_s", "_since_restore", "perf", "throughput"]
            .iter()
            .any(|end| part.ends_with(end))
}
