//! `--logger`: files of other programs beside those of the run.

use std::fs;
use std::path::{Path, PathBuf};

use super::{command, pavlov, run, scratch, text, train};

/// The folders in a folder.
fn folders(dir: &Path) -> Vec<PathBuf> {
    let all = fs::read_dir(dir).expect("a folder").map(|entry| entry.expect("an entry").path());
    all.filter(|path| path.is_dir()).collect()
}

#[test]
fn a_resumed_run_goes_on_under_the_same_id_with_the_loggers_that_it_had() {
    let (home, out) = scratch();
    let mut first = train(&out, &["--stop", "training_iteration=2", "--logger", "mlflow,wandb", "--quiet"]);
    first.env_remove("MLFLOW_TRACKING_URI").env("WANDB_PROJECT", "poles");
    run(&mut first).ok();
    let mut second = command(["resume", text(&out), "--stop", "training_iteration=4", "--quiet"]);
    second.env_remove("MLFLOW_TRACKING_URI");
    run(&mut second).ok();

    let experiments = folders(&home.path().join("mlruns"));
    assert_eq!(experiments.len(), 1, "{experiments:?}");
    assert!(
        fs::read_to_string(experiments[0].join("meta.yaml")).unwrap().contains("name: \"PPO_CartPole-v1\"")
    );
    let runs = folders(&experiments[0]);
    assert_eq!(runs.len(), 1, "{runs:?}");
    let kl = fs::read_to_string(runs[0].join("metrics/train/kl")).unwrap();
    let steps: Vec<&str> = kl.lines().filter_map(|line| line.split(' ').nth(2)).collect();
    assert_eq!(steps, ["64", "128", "192", "256"]);

    let offline = folders(&out.join("wandb"));
    assert_eq!(offline.len(), 1, "{offline:?}");
    let file = fs::read_dir(&offline[0]).unwrap().flatten().find(|entry| entry.path().is_file()).unwrap();
    let content = fs::read(file.path()).unwrap();
    let holds = |text: &str| content.windows(text.len()).filter(|part| *part == text.as_bytes()).count();
    assert!(content.starts_with(b":W&B") && holds("poles") == 1);
    // In the history and in the summary of each of four results.
    assert_eq!(holds("train/kl"), 8);
}

#[test]
fn an_unknown_logger_and_a_store_that_is_no_directory_are_refused_before_a_run_begins() {
    let (_home, out) = scratch();
    pavlov(&["train", "PPO", "--env", "CartPole-v1", "--out", text(&out), "--logger", "comet"])
        .refused("possible values: mlflow, wandb");
    let mut served = train(&out, &["--logger", "mlflow"]);
    run(served.env("MLFLOW_TRACKING_URI", "http://localhost:5000")).refused("`--logger mlflow` writes files");
    assert!(!out.exists());
}
