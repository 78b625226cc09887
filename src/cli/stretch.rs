//! `--stretch-schedules`: schedules that are as long as the run, for a run that goes on after they ended.

use serde_json::Value;

use super::exit::usage;
use crate::trainer::Ending;
use crate::tune::Config;
use crate::tune::stoppers::StoppingCriteria;

/// Multiplies the steps of all schedules in `config`, so that the longest of them ends where the run stops. Returns a line
/// that says what they are now.
///
/// # Errors
/// Fails if there are no schedules, or if the run has no end in steps.
pub(super) fn stretch(config: &mut Config, stop: &StoppingCriteria) -> anyhow::Result<String> {
    let Some(end) = stop.limit("timesteps_total").filter(|end| *end >= 1.0) else {
        return Err(usage(
            "--stretch-schedules makes schedules end with the run: say where it ends with --stop timesteps_total=N",
        ));
    };
    let longest = schedules(config).filter_map(|(_, points)| last_step(points)).max();
    let Some(longest) = longest.filter(|step| *step > 0) else {
        return Err(usage("--stretch-schedules was given, but this run has no schedules; leave it out"));
    };
    let mut shown = Vec::new();
    let mut stretched = |key: &str, value: &mut Value| {
        let name = key.strip_suffix("_schedule");
        let (Some(_), Some(points)) = (name, value.as_array_mut()) else { return };
        for point in points.iter_mut().filter_map(Value::as_array_mut) {
            if let Some(step) = point.first().and_then(Value::as_u64) {
                point[0] = Value::from((step as f64 * end / longest as f64).round() as u64);
            }
        }
        shown.push(format!("{key} = {value}"));
    };
    for (key, value) in config.iter_mut() {
        match value {
            Value::Object(inner) => inner.iter_mut().for_each(|(key, value)| stretched(key, value)),
            value => stretched(key, value),
        }
    }
    Ok(format!("stretched: {}", shown.join(", ")))
}

/// The schedules among settings and their tables, by key.
fn schedules(config: &Config) -> impl Iterator<Item = (&String, &Value)> {
    let inner = config.values().filter_map(Value::as_object).flatten();
    config.iter().chain(inner).filter(|(key, value)| key.ends_with("_schedule") && value.is_array())
}

fn last_step(points: &Value) -> Option<u64> {
    points.as_array()?.last()?.get(0)?.as_u64()
}

/// Says which schedules of a run have ended after `steps` environment steps and left nothing to learn; `None` if it goes on
/// learning.
pub(super) fn ended(config: &Config, steps: u64) -> Option<String> {
    Ending::of(config).filter(|ending| ending.step <= steps).map(|ending| ending.text())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_longest_schedule_ends_with_the_run_and_a_second_stretch_changes_nothing() {
        let config = json!({
            "lr_schedule": [[0, 1e-3], [60_000, 3e-4], [100_000, 0.0]],
            "lr": 0.5,
            "exploration_config": {"epsilon_schedule": [[0, 1.0], [10_000, 0.1]], "type": "EpsilonGreedy"},
            "entropy_coeff_schedule": null,
        });
        let config = &mut Config::from(config.as_object().expect("settings").clone());
        let stop = StoppingCriteria::from_iter([("timesteps_total", 200_000.0)]);
        let said = stretch(config, &stop).expect("schedules");
        assert!(
            said.starts_with("stretched: lr_schedule = [[0,0.001],[120000,0.0003],[200000,0.0]]"),
            "{said}"
        );
        assert_eq!(config["exploration_config"]["epsilon_schedule"], json!([[0, 1.0], [20_000, 0.1]]));
        let before = config.clone();
        stretch(config, &stop).expect("schedules");
        assert_eq!(*config, before);
    }

    #[test]
    fn without_an_end_in_steps_or_without_schedules_it_is_refused() {
        let mut config = Config::new();
        let stop = StoppingCriteria::from_iter([("timesteps_total", 200_000.0)]);
        let refused =
            |config: &mut Config, stop: &StoppingCriteria| stretch(config, stop).unwrap_err().to_string();
        assert!(refused(&mut config, &stop).contains("this run has no schedules"));
        assert!(refused(&mut config, &StoppingCriteria::default()).contains("--stop timesteps_total=N"));
    }
}
