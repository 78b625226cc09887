//! Sweeps from TOML.

use pavlov_tune::{SweepFile, TrainableFactory};
use serde_json::json;

use crate::counter::Counter;

const FILE: &str = r#"
algorithm = "counter"
metric = "total"
mode = "max"
num_samples = 2
seed = 5
[stop]
training_iteration = 9
[space]
by = { grid_search = [1, 2] }
lr = { loguniform = [1e-4, 1e-2] }
[scheduler]
type = "ASHA"
grace_period = 2
max_t = 9
reduction_factor = 3
[checkpoint]
checkpoint_frequency = 1
num_to_keep = 2
"#;

#[test]
fn a_sweep_file_is_a_sweep_and_each_of_its_trials_can_be_had_alone() {
    let home = tempfile::tempdir().unwrap();
    let file = SweepFile::parse(FILE, "sweep.toml").unwrap();
    let counters = TrainableFactory::new("counter", |_| Ok(Counter::default()));
    let mut tuner = file.tuner(counters, Some(home.path().into())).unwrap();
    tuner.run_config.verbose = 0;
    let grid = tuner.fit().unwrap();
    assert_eq!((grid.len(), grid.num_terminated()), (4, 4));
    for (number, result) in grid.iter().enumerate() {
        assert_eq!(file.trial(number as u64).unwrap(), result.config);
        assert!(result.checkpoints.len() <= 3);
    }
    assert_eq!(grid.get_best_result(None, None, Default::default()).unwrap().config["by"], json!(2));
    let message = file.trial(4).unwrap_err().to_string();
    assert_eq!(message, "`trial` is 4, but it must be below 4, the trials of the sweep");
}

#[test]
fn numbers_that_cannot_be_are_refused_with_their_key() {
    for (changed, expected) in [
        (
            "loguniform = [1e-4, inf]",
            "`space.lr.loguniform` is inf, but it must be a finite number (sweep.toml)",
        ),
        (
            "loguniform = [nan, 1e-2]",
            "`space.lr.loguniform` is NaN, but it must be a finite number (sweep.toml)",
        ),
    ] {
        let text = FILE.replace("loguniform = [1e-4, 1e-2]", changed);
        assert_eq!(SweepFile::parse(&text, "sweep.toml").unwrap_err().to_string(), expected);
    }
    let home = tempfile::tempdir().unwrap();
    let file = SweepFile::parse(&format!("{FILE}\n[total_resources]\nGPU = 1e18\n"), "sweep.toml").unwrap();
    let counters = TrainableFactory::new("counter", |_| Ok(Counter::default()));
    let message = file.tuner(counters, Some(home.path().into())).unwrap().fit().unwrap_err().to_string();
    let expected =
        "`total_resources.GPU` is 1000000000000000000, but it must be at most 1024, the GPUs of one machine";
    assert_eq!(message, expected);
}

#[test]
fn what_a_sweep_file_cannot_say_is_told_with_the_nearest_name() {
    let message = |from: &str, to: &str| {
        let file = SweepFile::parse(&FILE.replace(from, to), "sweep.toml");
        let counters = TrainableFactory::new("counter", |_| Ok(Counter::default()));
        match file.and_then(|file| file.tuner(counters, None)) {
            Ok(_) => "fine".to_string(),
            Err(error) => error.to_string(),
        }
    };
    assert_eq!(
        message("num_samples", "num_sample"),
        "unknown setting `num_sample` (from sweep.toml); nearest: `num_samples`"
    );
    assert!(
        message("num_to_keep", "keep").starts_with("unknown setting `checkpoint.keep` (from sweep.toml)")
    );
    assert_eq!(message("\"max\"", "\"best\""), "`mode` is \"best\", but it must be `min` or `max`");
    assert!(message("ASHA", "ASAH").contains("ASHA"));
    assert_eq!(
        message("algorithm = \"counter\"", ""),
        "`algorithm` is missing, but it must say what to train"
    );
}
