//! Failed and killed trainings that go on.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use pavlov_data::Dataset;
use pavlov_train::{BaseTrainer, ScalingConfig, TrainContext, Training};
use pavlov_tune::session::{self, Checkpoint};
use pavlov_tune::{Error, ExecutorKind, Result, Resume, RunConfig, TrialStatus, child_main};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::linear::{Linear, data};
use super::run_config;
use crate::child::{child_home, in_child};

fn training(home: &Path, linear: Linear) -> Training<Linear> {
    linear.training().run_config(run_config(home)).datasets([("train", data())])
}

/// Losses as they stand in the log, bit for bit.
fn losses(history: &[pavlov_tune::Metrics]) -> Vec<u64> {
    history.iter().map(|result| result["loss"].as_f64().unwrap().to_bits()).collect()
}

#[test]
fn a_failed_training_says_how_to_go_on_and_restored_it_ends_as_if_undisturbed() {
    let home = tempfile::tempdir().unwrap();
    let whole = training(&home.path().join("whole"), Linear::new()).fit().unwrap();
    let failing = Linear { fails_at: Some(4), ..Linear::new() };
    let message = training(home.path(), failing).metadata(json!({"a": 1})).fit().unwrap_err().to_string();
    let dir = home.path().join("training");
    assert_eq!(
        message,
        format!(
            "training failed: out of luck; `Linear::restore({dir:?})` goes on from its newest checkpoint, and \
             `FailureConfig {{ max_failures, .. }}` in its `run_config` lets it try again by itself"
        )
    );
    let restored = Linear::restore(&dir).unwrap().datasets([("train", data())]);
    assert_eq!((restored.trainer.fails_at, restored.trainer.lr), (Some(4), 0.01));
    let result = restored.fit().unwrap();
    assert_eq!(losses(&result.history().unwrap()), losses(&whole.history().unwrap()));
    let metadata = Checkpoint::from_directory(result.checkpoint.unwrap()).get_metadata().unwrap();
    assert_eq!(json!(metadata), json!({"a": 1}));
}

#[test]
fn a_program_that_is_started_again_goes_on_if_its_run_config_says_so_and_is_refused_if_not() {
    let home = tempfile::tempdir().unwrap();
    let whole = training(&home.path().join("whole"), Linear::new()).fit().unwrap();
    let program = || {
        let run_config = RunConfig { resume: Resume::IfThere, ..run_config(home.path()) };
        training(home.path(), Linear { fails_at: Some(4), ..Linear::new() }).run_config(run_config).fit()
    };
    program().unwrap_err();
    let refused = training(home.path(), Linear::new()).fit().unwrap_err().to_string();
    assert!(refused.contains("there is a sweep already"), "{refused}");
    assert_eq!(losses(&program().unwrap().history().unwrap()), losses(&whole.history().unwrap()));
}

#[test]
fn a_failure_within_the_limit_goes_on_from_the_last_checkpoint_by_itself() {
    let home = tempfile::tempdir().unwrap();
    let whole = training(&home.path().join("whole"), Linear::new()).fit().unwrap();
    let mut config = run_config(home.path());
    config.failure_config.max_failures = Some(1);
    let failing = Linear { fails_at: Some(6), ..Linear::new() };
    let result = training(home.path(), failing).run_config(config).fit().unwrap();
    assert!(fs::read_to_string(result.path.join("error.txt")).unwrap().ends_with("out of luck\n"));
    assert_eq!(losses(&result.history().unwrap()), losses(&whole.history().unwrap()));
}

#[test]
fn settings_and_resources_may_be_changed_by_a_restore_and_stay_changed() {
    /// Reports its scaling, and fails as long as `lr` is 0.
    #[derive(Serialize, Deserialize)]
    struct Picky {
        lr: f64,
    }
    impl BaseTrainer for Picky {
        const SCALING_CONFIG_ALLOWED_KEYS: &'static [&'static str] = &["trainer_resources", "num_workers"];
        fn training_loop(&mut self, context: &TrainContext) -> Result<()> {
            if self.lr == 0.0 {
                return Err(Error::other("nothing is learnt"));
            }
            let resources = session::get_trial_resources().unwrap().total("CPU");
            session::report(json!({"workers": context.scaling_config.num_workers, "cpus": resources}), None)
        }
    }
    let home = tempfile::tempdir().unwrap();
    let cpus = [("CPU".to_string(), 4.0)].into();
    Picky { lr: 0.0 }.training().run_config(run_config(home.path())).total_resources(cpus).fit().unwrap_err();
    let mut restored = Picky::restore(home.path().join("training")).unwrap();
    restored.trainer.lr = 0.1;
    let result = restored.scaling_config(ScalingConfig::workers(2)).fit().unwrap();
    let metrics = result.metrics.unwrap();
    assert_eq!((&metrics["workers"], &metrics["cpus"]), (&json!(2), &json!(3.0)));
    assert_eq!(Picky::restore(home.path().join("training")).unwrap().trainer.lr, 0.1);
}

#[test]
fn why_a_directory_cannot_be_restored_is_one_line() {
    #[derive(Serialize, Deserialize)]
    struct Other;
    impl BaseTrainer for Other {
        fn training_loop(&mut self, _: &TrainContext) -> Result<()> {
            Ok(())
        }
    }
    let home = tempfile::tempdir().unwrap();
    let dir = home.path().join("training");
    let why = |expected: &str| {
        let message = Linear::can_restore(&dir).unwrap_err().to_string();
        assert_eq!(message, format!("experiment {}: {expected}", dir.display()));
        assert_eq!(Linear::restore(&dir).unwrap_err().to_string(), message);
    };
    why("there is no training in it: no trainer.json");
    training(home.path(), Linear::new()).fit().unwrap();
    assert!(Linear::can_restore(&dir).is_ok());
    assert_eq!(
        Other::can_restore(&dir).unwrap_err().to_string(),
        format!("experiment {}: it was begun by Linear, but is to be restored by Other", dir.display())
    );
    let file = dir.join("trainer.json");
    let text = fs::read_to_string(&file).unwrap();
    fs::remove_file(&file).unwrap();
    why("it is a sweep, but not one of a trainer: no trainer.json; use `Tuner::restore`");
    fs::write(&file, text.replace("\"format_version\": 1", "\"format_version\": 9")).unwrap();
    why("trainer.json: format version 9 cannot be read by this version of pavlov, which reads 1");
    fs::write(&file, "{").unwrap();
    why("trainer.json: EOF while parsing an object at line 1 column 1");
    fs::write(&file, &text).unwrap();
    fs::write(dir.join("journal.jsonl"), "{\"event\": \"exp").unwrap();
    why("the training was killed before it began: begin it anew");
    // Which is possible: nothing counts as there.
    let result = training(home.path(), Linear::new()).fit().unwrap();
    assert_eq!(result.status, TrialStatus::Terminated);
    let message = training(home.path(), Linear::new()).fit().unwrap_err().to_string();
    assert!(
        message.ends_with("there is a sweep already; restore it, or choose another name or storage path")
    );
}

#[test]
fn a_restored_training_wants_datasets_of_the_same_names() {
    let home = tempfile::tempdir().unwrap();
    let both = [("train", data()), ("valid", Dataset::range(3))];
    training(home.path(), Linear::new()).datasets(both.clone()).fit().unwrap();
    let restored = || Linear::restore(home.path().join("training")).unwrap();
    let rule = "but the training began with [\"train\", \"valid\"]: give it datasets of these names";
    for (training, given) in [
        (restored(), "[]"),
        (restored().datasets([("train", data())]), "[\"train\"]"),
        (restored().datasets([("train", data()), ("test", data())]), "[\"test\", \"train\"]"),
    ] {
        assert_eq!(training.fit().unwrap_err().to_string(), format!("`datasets` is {given}, {rule}"));
    }
    assert_eq!(restored().datasets(both).fit().unwrap().status, TrialStatus::Terminated);
}

#[test]
fn trainings_without_a_name_that_begin_within_a_second_have_directories_of_their_own() {
    let home = tempfile::tempdir().unwrap();
    let path = || {
        let mut config = run_config(home.path());
        config.name = None;
        let linear = Linear { epochs: 1, ..Linear::new() };
        linear.training().run_config(config).datasets([("train", data())]).fit().unwrap().path
    };
    let paths = [path(), path(), path()];
    assert!(paths[0] != paths[1] && paths[1] != paths[2] && paths[0] != paths[2], "{paths:?}");
}

const EPOCHS: u64 = 40;

/// Restored if there is anything to restore.
fn mortal(home: &Path, pause: u64) -> Training<Linear> {
    let dir = home.join("training");
    match Linear::can_restore(&dir) {
        Ok(()) => Linear::restore(&dir).unwrap().datasets([("train", data())]),
        Err(_) => training(home, Linear { epochs: EPOCHS, pause, ..Linear::new() }),
    }
}

/// Kills the process of `child` at five moments, lets it end, and compares the losses with those of `whole`.
fn killed_five_times_it_ends_as_if_undisturbed(child: &str) {
    let home = tempfile::tempdir().unwrap();
    let whole =
        training(&home.path().join("whole"), Linear { epochs: EPOCHS, ..Linear::new() }).fit().unwrap();
    let journal = home.path().join("training/journal.jsonl");
    let lines = || fs::read_to_string(&journal).unwrap_or_default().lines().count();
    let mut random: u64 = 0x9e37_79b9_7f4a_7c15;
    let mut below = |n: u64| {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (random >> 33) % n
    };
    for kill in 0..5 {
        let mut driver = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "--ignored", "--nocapture", child])
            .env("PAVLOV_TEST_HOME", home.path())
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        let more = lines() + 1 + below(12) as usize;
        let deadline = Instant::now() + Duration::from_secs(60);
        while lines() < more && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(1));
        }
        std::thread::sleep(Duration::from_micros(below(5000)));
        assert!(driver.try_wait().unwrap().is_none(), "it ended before kill {kill}");
        driver.kill().unwrap();
        driver.wait().unwrap();
    }
    let output = in_child(child, home.path(), "");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let journal = fs::read_to_string(&journal).unwrap();
    let is_restored = |line: &&str| serde_json::from_str::<Value>(line).unwrap()["event"] == "restored";
    assert!(journal.lines().filter(is_restored).count() >= 5);
    let result = mortal(home.path(), 0).executor(ExecutorKind::Threads).fit().unwrap();
    assert_eq!(losses(&result.history().unwrap()), losses(&whole.history().unwrap()));
}

#[test]
fn a_training_killed_five_times_has_the_losses_of_an_undisturbed_one() {
    killed_five_times_it_ends_as_if_undisturbed("base_trainer::restoring::child_fit_in_a_thread");
}

#[test]
#[ignore = "run by another test"]
fn child_fit_in_a_thread() {
    let result = mortal(&child_home(), 5).fit().unwrap();
    assert_eq!(result.metrics.unwrap()["epoch"], EPOCHS);
}

#[test]
fn a_training_in_a_process_killed_five_times_has_the_losses_of_an_undisturbed_one() {
    killed_five_times_it_ends_as_if_undisturbed("base_trainer::restoring::child_fit_in_a_process");
}

#[test]
#[ignore = "run by another test"]
fn child_fit_in_a_process() {
    let training = mortal(&child_home(), 5).executor(ExecutorKind::Processes);
    child_main(&[&training.as_trainable().unwrap()]);
    let result = training.fit().unwrap();
    assert_eq!(result.metrics.unwrap()["epoch"], EPOCHS);
}

#[test]
#[ignore = "run by the next test, in a process of its own"]
fn child_trains_at_a_url() {
    let training = |linear: Linear, place: &Path| {
        linear.training().run_config(run_config(place)).datasets([("train", data())])
    };
    let whole = training(Linear::new(), &child_home().join("local")).fit().unwrap();
    let url = format!("file://{}", child_home().join("bucket").display());
    let broken = Linear { fails_at: Some(3), ..Linear::new() };
    training(broken, Path::new(&url)).fit().unwrap_err();
    let url = format!("{url}/training");
    fs::remove_dir_all(pavlov_tune::storage::work_dir(&url).unwrap()).unwrap();
    let again = Linear::restore(Path::new(&url)).unwrap().datasets([("train", data())]);
    let result = again.fit().unwrap();
    let loss = |result: &pavlov_tune::TrialResult| result.metrics.as_ref().unwrap()["loss"].clone();
    assert_eq!(loss(&result), loss(&whole));
}

#[test]
fn a_training_at_a_url_continues_from_the_url_alone() {
    let home = tempfile::tempdir().unwrap();
    let root = format!("export PAVLOV_RESULTS_DIR='{}'", home.path().join("work").display());
    let child = in_child("base_trainer::restoring::child_trains_at_a_url", home.path(), &root);
    let text = String::from_utf8_lossy(&child.stdout) + String::from_utf8_lossy(&child.stderr);
    assert!(child.status.success() && text.contains("1 passed"), "{text}");
}
