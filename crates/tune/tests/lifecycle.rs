//! The driver around a trainable: order of calls, counters, filled-in fields, reset, stop, conformance.

use std::fs;
use std::time::Duration;

use pavlov_tune::{
    Config, Driver, Error, ExportFormat, LoggerChoice, Metrics, Resources, RunOptions, Trainable,
    validate_save_restore,
};
use serde_json::json;

use crate::child::in_child;
use crate::counter::{Counter, object, silent};

#[test]
fn hooks_are_called_in_the_order_of_the_lifecycle() {
    let home = tempfile::tempdir().unwrap();
    let counter = Counter::default();
    let calls = counter.calls.clone();
    let mut driver = silent(counter);
    driver.train().unwrap();
    let checkpoint = driver.save_to(home.path()).unwrap();
    driver.train().unwrap();
    driver.restore(&checkpoint).unwrap();
    driver.train().unwrap();
    assert!(driver.reset(Config::new(), None).unwrap());
    driver.train().unwrap();
    driver.export_model(&[ExportFormat::Model], Some(home.path())).unwrap();
    driver.stop().unwrap();
    driver.stop().unwrap();
    drop(driver);
    let expected = [
        "setup default",
        "step",
        "log_result 1",
        "save_checkpoint",
        "step",
        "log_result 2",
        "load_checkpoint",
        "step",
        "log_result 2",
        "reset_config",
        "step",
        "log_result 1",
        "export_model model",
        "cleanup",
    ];
    assert_eq!(*calls.lock().unwrap(), expected);
}

#[test]
fn a_step_of_the_driver_is_counted() {
    let mut driver = silent(Counter::default());
    assert_eq!(driver.step().unwrap()["training_iteration"], 1);
    driver.train().unwrap();
    assert_eq!((driver.iteration(), driver.total), (2, 2));
}

#[test]
fn dropping_a_driver_cleans_up() {
    let counter = Counter::default();
    let calls = counter.calls.clone();
    drop(silent(counter));
    assert_eq!(*calls.lock().unwrap(), ["setup default", "cleanup"]);
}

#[test]
fn a_failing_step_moves_no_counter() {
    let mut driver = silent(Counter::default());
    driver.train().unwrap();
    driver.fail_next = true;
    let error = driver.train().unwrap_err();
    assert_eq!(error.to_string(), "the simulator is gone");
    assert_eq!(driver.iteration(), 1);
    let result = driver.train().unwrap();
    assert_eq!(result["training_iteration"], 2);
    assert_eq!(result["timesteps_total"], 20);
    assert_eq!(result["episodes_total"], 4);
    assert_eq!(result["iterations_since_restore"], 2);
}

#[test]
fn a_reserved_key_of_the_wrong_kind_is_named_and_moves_no_counter() {
    let mut driver = silent(Counter::default());
    for (result, message) in [
        (
            json!({"timesteps_this_iter": 5, "episodes_this_iter": -1}),
            "the result of `step` has `episodes_this_iter` = -1, but it must be a whole number, 0 or more",
        ),
        (
            json!({"timesteps_this_iter": "many"}),
            "the result of `step` has `timesteps_this_iter` = \"many\", but it must be a whole number, 0 or more",
        ),
        (
            json!({"time_this_iter_s": -0.5}),
            "the result of `step` has `time_this_iter_s` = -0.5, but it must be a number of seconds, 0 or more",
        ),
    ] {
        driver.next_result = Some(object(result));
        assert_eq!(driver.train().unwrap_err().to_string(), message);
    }
    let result = driver.train().unwrap();
    assert_eq!((&result["training_iteration"], &result["timesteps_total"]), (&json!(1), &json!(10)));
}

#[test]
fn every_auto_filled_field_is_there() {
    let config: Config = object(json!({"by": 3}));
    let options = RunOptions {
        loggers: LoggerChoice::None,
        log_sys_usage: true,
        trial_id: Some("ab12".into()),
        ..RunOptions::default()
    };
    let mut driver = Driver::with(Counter::default(), config.clone(), options).unwrap();
    driver.next_result =
        Some(object(json!({"mean_loss": 0.25, "timesteps_this_iter": 10, "time_this_iter_s": 2.0})));
    let result = driver.train().unwrap();
    let exact = [
        ("training_iteration", json!(1)),
        ("done", json!(false)),
        ("time_this_iter_s", json!(2.0)),
        ("time_total_s", json!(2.0)),
        ("time_since_restore", json!(2.0)),
        ("iterations_since_restore", json!(1)),
        ("timesteps_since_restore", json!(10)),
        ("timesteps_total", json!(10)),
        ("episodes_total", json!(null)),
        ("neg_mean_loss", json!(-0.25)),
        ("trial_id", json!("ab12")),
        ("pid", json!(std::process::id())),
        ("config", json!(config)),
    ];
    for (key, value) in exact {
        assert_eq!(result[key], value, "{key}");
    }
    assert_eq!(result["experiment_id"].as_str().unwrap().len(), 32);
    assert!(result["timestamp"].as_i64().unwrap() > 1_600_000_000);
    let date = result["date"].as_str().unwrap();
    let shape: String = date.chars().map(|c| if c.is_ascii_digit() { 'd' } else { c }).collect();
    assert_eq!(shape, "dddd-dd-dd_dd-dd-dd");
    assert!(!result["hostname"].as_str().unwrap().is_empty());
    result["node_ip"].as_str().unwrap().parse::<std::net::IpAddr>().unwrap();
    assert!(result["warmup_time"].as_f64().unwrap() >= 0.0);
    let ram = result["perf"]["ram_util_percent"].as_f64().unwrap();
    assert!(0.0 < ram && ram < 100.0);
}

#[test]
fn the_user_decides_defaults_and_the_driver_the_rest() {
    let mut driver = silent(Counter::default());
    driver.next_result = Some(object(json!({
        "done": true, "training_iteration": 7, "timesteps_total": 70, "episodes_total": 17, "neg_mean_loss": 1,
        "mean_loss": 5, "trial_id": "mine", "iterations_since_restore": 99, "time_total_s": -1,
    })));
    let result = driver.train().unwrap();
    for (key, value) in [
        ("done", json!(true)),
        ("training_iteration", json!(7)),
        ("timesteps_total", json!(70)),
        ("episodes_total", json!(17)),
        ("neg_mean_loss", json!(1)),
        ("trial_id", json!("default")),
        ("iterations_since_restore", json!(1)),
    ] {
        assert_eq!(result[key], value, "{key}");
    }
    assert!(result["time_total_s"].as_f64().unwrap() >= 0.0);
}

#[test]
fn the_hook_sees_the_complete_result_and_what_it_adds_stays() {
    let mut driver = silent(Counter::default());
    let result = driver.train().unwrap();
    assert_eq!(result["seen_by_hook"], true);
    assert_eq!(driver.last_result(), Some(&result));
}

#[test]
fn a_duplicate_result_is_passed_on_and_counts_for_nothing() {
    let mut driver = silent(Counter::default());
    let duplicate: Metrics = object(json!({"__duplicate__": true, "total": 3}));
    driver.next_result = Some(duplicate.clone());
    assert_eq!(driver.train().unwrap(), duplicate);
    assert_eq!((driver.iteration(), driver.last_result()), (0, None));
}

#[test]
fn debug_metrics_are_the_eight_that_exist_before_training() {
    let driver = silent(Counter::default());
    let keys: Vec<String> = driver.get_auto_filled_metrics(None, None, true).keys().cloned().collect();
    let expected = ["trial_id", "experiment_id", "date", "timestamp", "pid", "hostname", "node_ip", "config"];
    assert_eq!(keys, expected);
}

#[test]
fn buffered_training_stops_at_the_length_at_done_and_when_time_is_up() {
    let hour = Duration::from_secs(3600);
    let mut driver = silent(Counter::default());
    assert_eq!(driver.train_buffered(hour, 3).unwrap().len(), 3);
    assert_eq!(driver.train_buffered(Duration::ZERO, 1000).unwrap().len(), 1);
    for key in ["done", "should_checkpoint", "__duplicate__"] {
        driver.next_result = Some(Metrics::from([(key, true)]));
        assert_eq!(driver.train_buffered(hour, 1000).unwrap().len(), 1, "{key}");
    }
}

#[test]
fn reset_starts_every_counter_again_with_the_new_settings() {
    let mut driver = silent(Counter::default());
    driver.train().unwrap();
    let options = RunOptions {
        loggers: LoggerChoice::None,
        trial_id: Some("next".into()),
        trial_name: Some("next_trial".into()),
        trial_resources: Some(Resources::cpus_gpus(2.0, 0.0).unwrap()),
        ..RunOptions::default()
    };
    assert!(driver.reset(object(json!({"by": 5})), Some(options)).unwrap());
    assert_eq!((driver.iteration(), driver.last_result(), driver.restored()), (0, None, false));
    assert_eq!((driver.trial_id(), driver.trial_name()), ("next", "next_trial"));
    assert_eq!(driver.trial_resources().unwrap().total("CPU"), 2.0);
    let result = driver.train().unwrap();
    for (key, value) in
        [("total", 5), ("training_iteration", 1), ("timesteps_total", 10), ("episodes_total", 2)]
    {
        assert_eq!(result[key], value, "{key}");
    }
    assert_eq!(result["config"], json!({"by": 5}));
}

#[test]
fn a_trainable_that_cannot_reset_leaves_the_driver_as_it_was() {
    let mut driver = silent(Counter { cannot_reset: true, ..Counter::default() });
    driver.train().unwrap();
    assert!(!driver.reset(object(json!({"by": 5})), None).unwrap());
    assert_eq!(driver.iteration(), 1);
    assert!(driver.get_config().is_empty());
}

#[test]
fn a_stopped_driver_says_so() {
    let mut driver = silent(Counter::default());
    driver.stop().unwrap();
    let message = driver.train().unwrap_err().to_string();
    assert_eq!(
        message,
        "cannot train: the driver was stopped; build a new one and restore a checkpoint into it"
    );
    assert!(matches!(driver.save_to_object(), Err(Error::Stopped { action: "save" })));
}

#[test]
fn export_leaves_out_formats_that_the_trainable_lacks() {
    let home = tempfile::tempdir().unwrap();
    let mut driver = silent(Counter::default());
    let formats = [ExportFormat::Onnx, " Model ".parse().unwrap()];
    let exported = driver.export_model(&formats, Some(home.path())).unwrap();
    assert_eq!(
        exported.into_iter().collect::<Vec<_>>(),
        [(ExportFormat::Model, home.path().join("model.bin"))]
    );
    assert_eq!(
        "pickle".parse::<ExportFormat>().unwrap_err().to_string(),
        "unknown export format `pickle`; valid formats: checkpoint, model, onnx, h5"
    );
}

#[test]
fn the_run_directory_appears_with_the_first_result_and_not_before() {
    let results = tempfile::tempdir().unwrap();
    let options = RunOptions {
        results_dir: Some(results.path().into()),
        name: Some("PPO_ALE/Pong-v5".into()),
        ..RunOptions::default()
    };
    let mut driver = Driver::with(Counter::default(), Config::new(), options).unwrap();
    let logdir = driver.logdir().to_path_buf();
    driver.save_to_object().unwrap();
    assert_eq!(fs::read_dir(results.path()).unwrap().count(), 0);
    driver.train().unwrap();
    let name = logdir.file_name().unwrap().to_str().unwrap();
    let stamp = name.strip_prefix("PPO_ALE_Pong-v5_").unwrap();
    let shape: String = stamp[..19].chars().map(|c| if c.is_ascii_digit() { 'd' } else { c }).collect();
    assert_eq!((shape.as_str(), stamp.len()), ("dddd-dd-dd_dd-dd-dd", 27));
    assert!(logdir.join("result.json").exists());
}

#[test]
#[ignore = "run by fresh_runs_go_to_the_results_directory_of_the_environment_or_of_the_home"]
fn child_says_its_run_directory() {
    let driver = Driver::new(Counter::default(), Config::new()).unwrap();
    println!("says: {}", driver.logdir().display());
}

#[test]
fn fresh_runs_go_to_the_results_directory_of_the_environment_or_of_the_home() {
    let home = tempfile::tempdir().unwrap();
    for (environment, start) in [
        ("export PAVLOV_RESULTS_DIR=/data/runs", "says: /data/runs/Counter_2"),
        ("unset PAVLOV_RESULTS_DIR; export HOME=/home/ada", "says: /home/ada/pavlov_results/Counter_2"),
    ] {
        let child = in_child("lifecycle::child_says_its_run_directory", home.path(), environment);
        let said = String::from_utf8_lossy(&child.stdout).into_owned();
        assert!(said.contains(start), "{said}");
    }
}

#[test]
fn machine_load_is_reported_only_when_asked_for() {
    let options = || RunOptions { loggers: LoggerChoice::None, ..RunOptions::default() };
    for (config, there) in [(json!({}), false), (json!({"log_sys_usage": true}), true)] {
        let mut driver = Driver::with(Counter::default(), object(config), options()).unwrap();
        assert_eq!(driver.train().unwrap().contains_key("perf"), there);
    }
}

#[test]
fn two_runs_of_one_name_get_two_directories() {
    let options = || RunOptions { name: Some("same".into()), ..RunOptions::default() };
    let first = Driver::with(Counter::default(), Config::new(), options()).unwrap();
    let second = Driver::with(Counter::default(), Config::new(), options()).unwrap();
    assert_ne!(first.logdir(), second.logdir());
}

#[test]
fn save_and_restore_pass_the_check_on_disk_and_in_memory_boxed_or_not() {
    for in_memory in [false, true] {
        validate_save_restore(|| Ok(silent(Counter::default())), in_memory).unwrap();
        let boxed = || {
            let counter: Box<dyn Trainable> = Box::new(Counter::default());
            let options = RunOptions { loggers: LoggerChoice::None, ..RunOptions::default() };
            Driver::with(counter, Config::new(), options)
        };
        validate_save_restore(boxed, in_memory).unwrap();
    }
}

#[test]
fn the_check_catches_a_trainable_that_forgets_its_state() {
    for in_memory in [false, true] {
        let forgetful = || Ok(silent(Counter { forgets: true, ..Counter::default() }));
        assert_eq!(
            validate_save_restore(forgetful, in_memory).unwrap_err().to_string(),
            "save and restore do not continue the run: in result 4, `total` is 4 in one and 1 in the other"
        );
    }
}

#[test]
fn a_driver_can_be_sent_to_another_thread() {
    let mut driver = silent(Counter::default());
    let result = std::thread::spawn(move || driver.train().unwrap()).join().unwrap();
    assert_eq!(result["training_iteration"], 1);
}

#[test]
fn the_score_and_retention_options_are_checked_at_the_start() {
    let options = RunOptions { keep_checkpoints_num: Some(0), ..RunOptions::default() };
    let error = Driver::with(Counter::default(), Config::new(), options).unwrap_err();
    assert_eq!(
        error.to_string(),
        "`keep_checkpoints_num` is 0, but it must be 1 or more, or absent to keep all"
    );
}

#[test]
fn a_plain_logger_list_sees_every_result() {
    use pavlov_tune::loggers::Logger;
    struct Sums(std::sync::Arc<std::sync::Mutex<Vec<u64>>>);
    impl Logger for Sums {
        fn on_result(&mut self, result: &Metrics) -> pavlov_tune::Result<()> {
            self.0.lock().unwrap().push(result["total"].as_u64().unwrap());
            Ok(())
        }
    }
    let home = tempfile::tempdir().unwrap();
    let seen = std::sync::Arc::default();
    let options = RunOptions {
        results_dir: Some(home.path().into()),
        loggers: LoggerChoice::Custom(vec![Box::new(Sums(std::sync::Arc::clone(&seen)))]),
        ..RunOptions::default()
    };
    let mut driver = Driver::with(Counter::default(), Config::new(), options).unwrap();
    driver.train().unwrap();
    driver.train().unwrap();
    assert_eq!(*seen.lock().unwrap(), [1, 2]);
    let files = fs::read_dir(driver.logdir()).unwrap().count();
    assert_eq!(files, 0, "the directory is there for the logger, and nothing else writes in it");
}
