//! `--logger`: files of other programs beside those of the run.

use std::fs;
use std::path::{Path, PathBuf};

use rusqlite::{Connection, OpenFlags};

use super::{command, pavlov, run, scratch, text, train};

/// Two trials, each in a process.
const SWEEP: &str = "algorithm = \"PPO\"\nenv = \"CartPole-v1\"\nexecutor = \"processes\"\nnum_samples = 2\n\
                     [stop]\ntraining_iteration = 2\n[space]\nnum_workers = 0\ntrain_batch_size = 64\n\
                     sgd_minibatch_size = 32\nnum_sgd_iter = 1\nlr = { loguniform = [1e-4, 1e-2] }\n";

/// The folders in a folder.
fn folders(dir: &Path) -> Vec<PathBuf> {
    let all = fs::read_dir(dir).expect("a folder").map(|entry| entry.expect("an entry").path());
    all.filter(|path| path.is_dir()).collect()
}

/// Names of runs, their states, and steps of a metric in MLflow's SQLite file, in the experiment of this name.
fn of_database(path: &Path, experiment: &str) -> Vec<(String, String, Vec<i64>)> {
    let tables = Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_ONLY).expect("MLflow's file");
    let runs = "SELECT run_uuid, runs.name, status FROM runs JOIN experiments USING (experiment_id) \
                WHERE experiments.name = ?1 ORDER BY runs.name";
    let steps = "SELECT step FROM metrics WHERE run_uuid = ?1 AND key = 'train/kl' ORDER BY step";
    let mut runs = tables.prepare(runs).expect("runs");
    let mut steps = tables.prepare(steps).expect("metrics");
    let rows = runs.query_map([experiment], |row| Ok((row.get::<_, String>(0)?, row.get(1)?, row.get(2)?)));
    rows.expect("runs")
        .map(|row| {
            let (id, name, status) = row.expect("a run");
            let steps = steps.query_map([id], |row| row.get(0)).expect("steps");
            (name, status, steps.map(|step| step.expect("a step")).collect())
        })
        .collect()
}

#[test]
fn a_resumed_run_goes_on_under_the_same_id_with_the_loggers_that_it_had() {
    let (home, out) = scratch();
    let mut first =
        train(&out, &["--stop", "training_iteration=2", "--logger", "mlflow,mlflow-folder,wandb", "--quiet"]);
    first.env_remove("MLFLOW_TRACKING_URI").env("WANDB_PROJECT", "poles");
    run(&mut first).ok();
    let mut second = command(["resume", text(&out), "--stop", "training_iteration=4", "--quiet"]);
    second.env_remove("MLFLOW_TRACKING_URI");
    run(&mut second).ok();

    let name = out.file_name().unwrap().to_string_lossy().into_owned();
    assert_eq!(
        of_database(&home.path().join("mlflow.db"), "PPO_CartPole-v1"),
        [(name, "FINISHED".into(), vec![64, 128, 192, 256])]
    );

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
fn the_trials_of_a_sweep_are_an_experiment_of_mlflow_and_a_group_of_wandb_also_after_a_resume() {
    let (home, out) = scratch();
    let file = home.path().join("sweep.toml");
    fs::write(&file, SWEEP).expect("a file");
    let mut first =
        command(["tune", text(&file), "--out", text(&out), "--logger", "mlflow,wandb", "--quiet"]);
    run(first.env_remove("MLFLOW_TRACKING_URI").env_remove("WANDB_PROJECT")).ok();
    let kept = fs::read_to_string(out.join("sweep.toml")).expect("the sweep's file");
    assert!(kept.contains("loggers = [\"mlflow\", \"wandb\"]"), "{kept}");
    let mut more = command(["tune", text(&file), "--resume", text(&out), "--num-samples", "3", "--quiet"]);
    more.args(["--logger", "mlflow,wandb"]);
    run(more.env_remove("MLFLOW_TRACKING_URI").env_remove("WANDB_PROJECT")).ok();

    let name = out.file_name().and_then(|name| name.to_str()).expect("a name");
    let runs = of_database(&out.join("mlflow.db"), name);
    assert_eq!(runs.len(), 3, "{runs:?}");
    for (_, status, steps) in &runs {
        assert_eq!((status.as_str(), &steps[..]), ("FINISHED", &[64, 128][..]), "{runs:?}");
    }
    let trials = folders(&out).into_iter().filter(|dir| dir.join("wandb").is_dir());
    let offline: Vec<PathBuf> = trials.flat_map(|dir| folders(&dir.join("wandb"))).collect();
    assert_eq!(offline.len(), 3, "{offline:?}");
    for run in offline {
        let file = fs::read_dir(&run).unwrap().flatten().find(|entry| entry.path().is_file()).unwrap();
        let content = fs::read(file.path()).unwrap();
        // Field 6 of the record of the run: its group.
        let group = [&[6 << 3 | 2, name.len() as u8], name.as_bytes()].concat();
        assert!(content.windows(group.len()).any(|part| part == group), "{}", run.display());
    }
}

#[test]
fn what_began_in_the_folders_of_mlflow_continues_there() {
    // Before there was `mlflow-folder`, `mlflow` wrote folders.
    let rename = |path: &Path| {
        let text = fs::read_to_string(path).expect("a file of the run");
        assert!(text.contains("\"mlflow-folder\""), "{text}");
        fs::write(path, text.replace("\"mlflow-folder\"", "\"mlflow\"")).expect("a file");
    };
    let steps_in = |store: &Path| {
        let runs = folders(&folders(store)[0]);
        let kl = |run: &PathBuf| {
            fs::read_to_string(run.join("metrics/train/kl")).expect("a number of each result")
        };
        runs.iter().map(|run| kl(run).lines().count()).collect::<Vec<usize>>()
    };
    let (home, out) = scratch();
    let mut first = train(&out, &["--stop", "training_iteration=2", "--logger", "mlflow-folder", "--quiet"]);
    run(first.env_remove("MLFLOW_TRACKING_URI")).ok();
    rename(&out.join("run.json"));
    let mut second = command(["resume", text(&out), "--stop", "training_iteration=4", "--logger", "mlflow"]);
    run(second.env_remove("MLFLOW_TRACKING_URI")).ok();
    assert_eq!(steps_in(&home.path().join("mlruns")), [4]);
    assert!(!home.path().join("mlflow.db").exists());

    let (home, out) = scratch();
    let file = home.path().join("sweep.toml");
    fs::write(&file, format!("loggers = [\"mlflow-folder\"]\n{SWEEP}")).expect("a file");
    let mut first = command(["tune", text(&file), "--out", text(&out), "--quiet"]);
    run(first.env_remove("MLFLOW_TRACKING_URI")).ok();
    rename(&out.join("sweep.toml"));
    let mut more =
        command(["tune", "--resume", text(&out), "--num-samples", "3", "--logger", "mlflow", "--quiet"]);
    run(more.env_remove("MLFLOW_TRACKING_URI")).ok();
    assert_eq!(steps_in(&out.join("mlruns")), [2, 2, 2]);
    assert!(!out.join("mlflow.db").exists());
    let kept = fs::read_to_string(out.join("sweep.toml")).expect("the sweep's file");
    assert!(kept.contains("loggers = [\"mlflow-folder\"]"), "{kept}");
}

#[test]
fn a_sweep_file_with_an_unknown_logger_is_refused() {
    let (home, out) = scratch();
    let file = home.path().join("sweep.toml");
    fs::write(&file, "algorithm = \"PPO\"\nenv = \"CartPole-v1\"\nloggers = [\"comet\"]\n").expect("a file");
    pavlov(&["tune", text(&file), "--out", text(&out)])
        .refused("`loggers` has \"comet\", but it takes mlflow, mlflow-folder, wandb");
    assert!(!out.exists());
}

#[test]
fn an_unknown_logger_and_a_store_that_is_no_file_are_refused_before_a_run_begins() {
    let (_home, out) = scratch();
    pavlov(&["train", "PPO", "--env", "CartPole-v1", "--out", text(&out), "--logger", "comet"])
        .refused("possible values: mlflow, mlflow-folder, wandb");
    for (name, writes) in
        [("mlflow", "`--logger mlflow` writes an SQLite file"), ("mlflow-folder", "writes a folder")]
    {
        let mut served = train(&out, &["--logger", name]);
        run(served.env("MLFLOW_TRACKING_URI", "http://localhost:5000")).refused(writes);
    }
    assert!(!out.exists());
}
