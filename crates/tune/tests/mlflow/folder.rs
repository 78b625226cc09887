//! The folders of MLflow's file store, read back as text, and by MLflow itself where it is installed.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Barrier;

use pavlov_tune::TrialContext;
use pavlov_tune::loggers::{Logger, MlflowFolderLogger};
use serde_json::{Value, json};

use super::{log, ready, trial};
use crate::counter::object;

/// What MLflow's client says of the only run of the experiment: state, parameters, history of two metrics.
const READER: &str = r#"
import json, sys
from mlflow.tracking import MlflowClient
client = MlflowClient(tracking_uri="file://" + sys.argv[1])
experiment = client.get_experiment_by_name("pole")
(run,) = client.search_runs([experiment.experiment_id])
history = lambda key: [[m.step, m.value] for m in client.get_metric_history(run.info.run_id, key)]
print(json.dumps({"id": run.info.run_id, "name": run.info.run_name, "status": run.info.status, "params": run.data.params,
    "reward": history("rollout/episode_reward_mean"), "kl": history("train/kl"), "source": run.data.tags["mlflow.source.name"]}))
"#;

/// A logger that is ready, as a process creates it that begins or continues the run.
fn logger(home: &Path) -> MlflowFolderLogger {
    ready(MlflowFolderLogger::beside_run("pole"), home)
}

/// The folder of the only run.
fn run_dir(home: &Path) -> PathBuf {
    let inner = |dir: PathBuf| -> Vec<PathBuf> {
        let all = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
        // MLflow adds `.trash`.
        all.filter(|path| path.is_dir() && !path.ends_with(".trash")).collect()
    };
    let experiments = inner(home.join("mlruns"));
    assert_eq!(experiments.len(), 1, "{experiments:?}");
    let runs = inner(experiments[0].clone());
    assert_eq!(runs.len(), 1, "{runs:?}");
    runs[0].clone()
}

/// Steps and values of a metric.
fn metric(home: &Path, name: &str) -> Vec<(u64, f64)> {
    let text = fs::read_to_string(run_dir(home).join("metrics").join(name)).unwrap();
    let line = |line: &str| {
        let words: Vec<&str> = line.split(' ').collect();
        assert_eq!(words.len(), 3, "{line}");
        assert!(words[0].parse::<u64>().unwrap() > 1_600_000_000_000, "milliseconds");
        (words[2].parse().unwrap(), words[1].parse().unwrap())
    };
    text.lines().map(line).collect()
}

fn meta(home: &Path) -> BTreeMap<String, Value> {
    let text = fs::read_to_string(run_dir(home).join("meta.yaml")).unwrap();
    let pair = |line: &str| {
        let (key, value) = line.split_once(": ").unwrap();
        (key.to_owned(), serde_json::from_str(value).unwrap())
    };
    text.lines().map(pair).collect()
}

#[test]
fn runs_that_begin_at_the_same_moment_share_an_experiment() {
    for _ in 0..20 {
        let home = tempfile::tempdir().unwrap();
        let ready = Barrier::new(8);
        let begin = &|i: usize| {
            let logdir = home.path().join(format!("run {i}"));
            fs::create_dir_all(&logdir).unwrap();
            let trial = TrialContext { logdir, ..trial(home.path()) };
            ready.wait();
            MlflowFolderLogger::beside_run("pole").setup(&object(json!({"lr": 0.001})), &trial)
        };
        std::thread::scope(|scope| {
            let runs: Vec<_> = (0..8).map(|i| scope.spawn(move || begin(i))).collect();
            runs.into_iter().for_each(|run| run.join().unwrap().unwrap());
        });
        let experiments: Vec<PathBuf> =
            fs::read_dir(home.path().join("mlruns")).unwrap().map(|entry| entry.unwrap().path()).collect();
        assert_eq!(experiments.len(), 1, "{experiments:?}");
        let files = fs::read_dir(&experiments[0]).unwrap().map(|entry| entry.unwrap().path());
        let files: Vec<PathBuf> = files.filter(|path| path.is_file()).collect();
        assert_eq!(files, [experiments[0].join("meta.yaml")]);
    }
}

#[test]
fn a_run_has_its_settings_its_metrics_under_the_names_of_the_tags_and_its_state() {
    let home = tempfile::tempdir().unwrap();
    let mut logger = logger(home.path());
    assert_eq!(meta(home.path())["status"], 1);
    log(&mut logger, 1);
    log(&mut logger, 2);
    logger.close().unwrap();
    let metrics = metric(home.path(), "rollout/episode_reward_mean");
    assert_eq!(metrics, [(100, 1.5), (200, 3.0)]);
    assert_eq!(metric(home.path(), "train/kl"), [(100, 0.25), (200, 0.25)]);
    // A number of a callback.
    assert_eq!(metric(home.path(), "rollout/custom_metrics/leaning_mean").len(), 2);
    assert_eq!(metric(home.path(), "odd name_").len(), 2);
    let dir = run_dir(home.path());
    let read = |name: &str| fs::read_to_string(dir.join(name)).unwrap();
    assert_eq!(read("params/lr"), "0.001");
    assert_eq!(read("params/model.fcnet_hiddens"), "[8,8]");
    assert_eq!(read("tags/mlflow.runName"), "first run");
    assert!(!dir.join("metrics/config").exists() && !dir.join("metrics/b").exists());
    let meta = meta(home.path());
    assert_eq!((&meta["status"], &meta["run_name"]), (&json!(3), &json!("first run")));
    assert!(meta["end_time"].is_u64());
}

#[test]
fn a_run_that_goes_on_keeps_its_id_and_what_came_after_its_checkpoint_is_removed() {
    let home = tempfile::tempdir().unwrap();
    let mut first = logger(home.path());
    (1..=3).for_each(|iteration| log(&mut first, iteration));
    // Killed in the middle of a line.
    drop(first);
    let before = run_dir(home.path());
    let kl = before.join("metrics/train/kl");
    fs::write(&kl, fs::read_to_string(&kl).unwrap() + "17000").unwrap();
    // A process goes on from the checkpoint of iteration 2.
    let mut second = logger(home.path());
    second.rewind(2).unwrap();
    assert_eq!(metric(home.path(), "train/kl").last(), Some(&(200, 0.25)));
    (3..=4).for_each(|iteration| log(&mut second, iteration));
    second.sync().unwrap();
    second.close().unwrap();
    assert_eq!(run_dir(home.path()), before);
    for name in ["training_iteration", "train/kl", "a"] {
        let steps: Vec<u64> = metric(home.path(), name).into_iter().map(|(step, _)| step).collect();
        assert_eq!(steps, [100, 200, 300, 400], "{name}");
    }
    // A run that begins again has its own results only.
    let mut third = logger(home.path());
    log(&mut third, 1);
    assert_eq!(metric(home.path(), "train/kl"), [(100, 0.25)]);
}

#[test]
fn a_number_and_a_group_of_the_same_name_are_both_kept() {
    let home = tempfile::tempdir().unwrap();
    let mut logger = logger(home.path());
    for i in 1..=2 {
        let result = json!({"training_iteration": i, "own": 1.0, "own/inner": 2.0, "group/one": 3.0, "group": 4.0,
            "../../../../escaped": 5.0});
        logger.on_result(&object(result)).unwrap();
    }
    let metrics = run_dir(home.path()).join("metrics");
    for name in ["own", "own.inner.", "group/one", "group.", "escaped"] {
        assert_eq!(fs::read_to_string(metrics.join(name)).expect(name).lines().count(), 2, "{name}");
    }
}

#[test]
fn an_id_that_a_stranger_wrote_names_no_other_folder() {
    let home = tempfile::tempdir().unwrap();
    fs::write(
        trial(home.path()).logdir.join("mlflow.json"),
        r#"{"run_id": "../../elsewhere/aaaaaaaaaaaaaaa"}"#,
    )
    .unwrap();
    let mut logger = logger(home.path());
    log(&mut logger, 1);
    assert_eq!(run_dir(home.path()).file_name().unwrap().len(), 32);
}

#[test]
#[ignore = "needs an old MLflow: PAVLOV_TEST_OLD_MLFLOW names a Python with mlflow-skinny 3.12 or earlier"]
fn mlflow_before_3_13_reads_the_run() {
    let python = std::env::var_os("PAVLOV_TEST_OLD_MLFLOW").expect("a Python with mlflow-skinny");
    let home = tempfile::tempdir().unwrap();
    let mut logger = logger(home.path());
    (1..=2).for_each(|iteration| log(&mut logger, iteration));
    logger.close().unwrap();
    let mut command = Command::new(python);
    command.args(["-c", READER]).arg(home.path().join("mlruns"));
    let output = command.output().expect("Python");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let read: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(read["id"], run_dir(home.path()).file_name().unwrap().to_str().unwrap());
    assert_eq!(
        (&read["name"], &read["status"], &read["source"]),
        (&json!("first run"), &json!("FINISHED"), &json!("pavlov"))
    );
    assert_eq!(read["params"], json!({"lr": "0.001", "model.fcnet_hiddens": "[8,8]", "env": "CartPole-v1"}));
    assert_eq!(
        (&read["reward"], &read["kl"]),
        (&json!([[100, 1.5], [200, 3.0]]), &json!([[100, 0.25], [200, 0.25]]))
    );
}
