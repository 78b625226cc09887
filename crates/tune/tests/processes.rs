//! Trials in processes: crashes, kills, and a driver that is killed.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use pavlov_tune::ray1::diagnose_serialization;
use pavlov_tune::{
    Config, Error, ExecutorKind, Metrics, Restore, Result, ResultGrid, Trainable, TrainableFactory,
    TrialContext, Tuner, child_main,
};
use serde_json::Value;

use crate::child::{child_home, in_child};
use crate::counter::Counter;
use crate::sweeps::{assert_equal, tuner};

/// A [`Counter`] that takes its time, prints, and in its fourth step does once what the file `how` in its directory's
/// parent says.
struct Mortal {
    inner: Counter,
    dir: PathBuf,
    pause: Duration,
}

impl Trainable for Mortal {
    fn setup(&mut self, config: &Config, trial: &TrialContext) -> Result<()> {
        self.dir = trial.logdir.clone();
        self.inner.setup(config, trial)
    }
    fn step(&mut self) -> Result<Metrics> {
        std::thread::sleep(self.pause);
        let result = self.inner.step()?;
        if self.inner.total == 4 * self.inner.by {
            println!(
                "printed by step 4, threads: {}",
                std::env::var("RAYON_NUM_THREADS").unwrap_or_default()
            );
            let how = fs::read_to_string(self.dir.with_file_name("how")).unwrap_or_default();
            if !how.is_empty() && fs::File::create_new(self.dir.join("died")).is_ok() {
                match &*how {
                    "abort" => std::process::abort(),
                    "exit" => std::process::exit(3),
                    "kill" => kill(std::process::id()),
                    other => panic!("{other}"),
                }
            }
        }
        Ok(result)
    }
    fn save_checkpoint(&mut self, dir: &Path) -> Result<()> {
        self.inner.save_checkpoint(dir)
    }
    fn load_checkpoint(&mut self, dir: &Path) -> Result<()> {
        self.inner.load_checkpoint(dir)
    }
    fn log_result(&mut self, result: &mut Metrics) -> Result<()> {
        self.inner.log_result(result)
    }
}

fn kill(pid: u32) {
    let status = std::process::Command::new("kill").args(["-9", &pid.to_string()]).status().unwrap();
    assert!(status.success());
    std::thread::sleep(Duration::from_secs(5));
}

fn sweep(home: &Path, samples: u64, executor: ExecutorKind, pause: Duration) -> Tuner {
    let mortal = TrainableFactory::new("mortal", move |_| {
        Ok(Mortal { inner: Counter::default(), dir: PathBuf::new(), pause })
    });
    if executor == ExecutorKind::Processes {
        child_main(&[&mortal]);
    }
    let mut tuner = tuner(mortal, home, samples);
    tuner.tune_config.executor = executor;
    tuner.run_config.checkpoint_config.checkpoint_frequency = Some(1);
    tuner.run_config.failure_config.max_failures = None;
    tuner
}

fn undisturbed(home: &Path, samples: u64) -> ResultGrid {
    let mut tuner = sweep(home, samples, ExecutorKind::Threads, Duration::ZERO);
    tuner.run_config.name = Some("undisturbed".into());
    tuner.fit().unwrap()
}

#[test]
fn a_trial_whose_process_dies_is_tried_again_from_its_checkpoint_alone() {
    for (how, message) in [
        ("abort", "its process died of signal 6, an abort; see `stderr` in its directory"),
        ("exit", "its process exited with code 3; see `stderr` in its directory"),
        ("kill", "its process was killed (signal 9), by hand or because the machine ran out of memory"),
    ] {
        let home = tempfile::tempdir().unwrap();
        fs::create_dir(home.path().join("sweep")).unwrap();
        fs::write(home.path().join("sweep/how"), how).unwrap();
        let output = in_child("processes::child_sweep_of_two", home.path(), "");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let dir = home.path().join("sweep");
        let journal = fs::read_to_string(dir.join("journal.jsonl")).unwrap();
        let failed: Vec<Value> = journal
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .filter(|line: &Value| line["event"] == "failed")
            .collect();
        assert_eq!(failed.len(), 2);
        assert_eq!(failed[0]["message"], message);
        let trials =
            fs::read_dir(&dir).unwrap().map(|entry| entry.unwrap().path()).filter(|path| path.is_dir());
        for trial in trials {
            let stdout = fs::read_to_string(trial.join("stdout")).unwrap();
            // A trial of one CPU gets one thread, unless the environment of the sweep says otherwise.
            let threads = std::env::var("RAYON_NUM_THREADS").unwrap_or("1".into());
            let printed = format!("printed by step 4, threads: {threads}\n");
            assert_eq!(stdout.matches(&printed).count(), 2, "{stdout}");
        }
    }
}

#[test]
#[ignore = "run by another test"]
fn child_sweep_of_two() {
    let home = child_home();
    let grid = sweep(&home, 1, ExecutorKind::Processes, Duration::ZERO).fit().unwrap();
    assert_equal(&grid, &undisturbed(&home, 1), "after crashes");
}

#[test]
fn sixteen_trials_whose_driver_and_children_are_killed_at_random_end_as_if_undisturbed() {
    let home = tempfile::tempdir().unwrap();
    let whole = undisturbed(home.path(), 8);
    let journal = home.path().join("sweep/journal.jsonl");
    let lines =
        || fs::read_to_string(&journal).unwrap_or_default().lines().map(String::from).collect::<Vec<_>>();
    let mut random: u64 = 0x9e37_79b9_7f4a_7c15;
    for kills in 0..5 {
        let before = lines().len();
        let mut driver = std::process::Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "--ignored", "--nocapture", "processes::child_sweep_of_sixteen"])
            .env("PAVLOV_TEST_HOME", home.path())
            .stdout(std::process::Stdio::null())
            .spawn()
            .unwrap();
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let more = 8 + (random >> 33) as usize % 24;
        let deadline = Instant::now() + Duration::from_secs(60);
        let mut child_killed = false;
        while lines().len() < before + more && Instant::now() < deadline {
            if !child_killed && lines().len() > before + more / 2 {
                child_killed = kill_a_child_of(driver.id());
            }
            if driver.try_wait().unwrap().is_some() {
                break;
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        assert!(lines().len() > before, "round {kills} did nothing");
        driver.kill().unwrap();
        driver.wait().unwrap();
    }
    let output = in_child("processes::child_sweep_of_sixteen", home.path(), "");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let events: Vec<Value> = lines().iter().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert!(events.iter().filter(|event| event["event"] == "restored").count() >= 5);
    let mut completed = Vec::new();
    for event in &events {
        let trial = &event["trial_id"];
        assert!(
            event["event"] != "started" || !completed.contains(&trial),
            "{trial} ran again after its end"
        );
        if event["event"] == "completed" {
            completed.push(trial);
        }
    }
    assert_eq!(completed.len(), 16);
    let sweep = sweep(home.path(), 8, ExecutorKind::Threads, Duration::ZERO);
    let read = sweep.restore(home.path().join("sweep"), Restore::default()).unwrap();
    assert_equal(&read, &whole, "after five kills");
}

/// Kills the newest child of a process; `false`: it has none.
fn kill_a_child_of(pid: u32) -> bool {
    let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
    let threads = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let all: Vec<String> = threads
        .filter_map(|thread| fs::read_to_string(thread.path().join("children")).ok())
        .chain([children])
        .flat_map(|text| text.split_whitespace().map(String::from).collect::<Vec<_>>())
        .collect();
    let Some(child) = all.last() else { return false };
    std::process::Command::new("kill").args(["-9", child]).status().is_ok_and(|status| status.success())
}

#[test]
#[ignore = "run by another test"]
fn child_sweep_of_sixteen() {
    let home = child_home();
    let sweep = sweep(&home, 8, ExecutorKind::Processes, Duration::from_millis(10));
    let dir = home.join("sweep");
    let grid = match Tuner::can_restore(&dir) {
        Ok(()) => sweep.restore(&dir, Restore::default()),
        Err(_) => sweep.fit(),
    };
    assert_eq!(grid.unwrap().num_terminated(), 16);
}

/// Hangs when its thread ends, as an exit handler of a native library may.
struct HangsAtExit;

impl Drop for HangsAtExit {
    fn drop(&mut self) {
        loop {
            std::thread::park();
        }
    }
}

thread_local! {
    static HANGS_AT_EXIT: HangsAtExit = const { HangsAtExit };
}

#[test]
fn a_trial_whose_process_hangs_at_exit_does_not_keep_the_sweep_from_ending() {
    let home = tempfile::tempdir().unwrap();
    let output = in_child("processes::child_sweep_that_hangs_at_exit", home.path(), "");
    let text = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && text.contains("1 passed"), "{text}");
}

#[test]
#[ignore = "run by another test"]
fn child_sweep_that_hangs_at_exit() {
    let hangs = TrainableFactory::new("hangs", |_| Ok(Counter::default()));
    if std::env::var_os("PAVLOV_TRIAL_OF").is_some() {
        // `child_main` exits in this thread, which then runs the destructor.
        HANGS_AT_EXIT.with(|_| ());
    }
    child_main(&[&hangs]);
    let sweep = tuner(hangs, &child_home(), 1).executor(ExecutorKind::Processes);
    assert_eq!(sweep.fit().unwrap().num_terminated(), 2);
}

#[test]
fn processes_without_child_main_are_refused() {
    let home = tempfile::tempdir().unwrap();
    let unknown = TrainableFactory::new("unknown", |_| Ok(Counter::default()));
    let mut tuner = tuner(unknown, home.path(), 1);
    tuner.tune_config.executor = ExecutorKind::Processes;
    let message = tuner.fit().unwrap_err().to_string();
    assert!(
        message.ends_with("if `main` first calls `child_main` with the trainable `unknown`"),
        "{message}"
    );
}

#[test]
fn what_cannot_travel_to_a_process_is_named() {
    let config = Config::from_iter([("by".to_string(), 2.into())]);
    let known = TrainableFactory::new("known", |_| Ok(Counter::default()));
    child_main(&[&known]);
    assert_eq!(diagnose_serialization(&known, &config), Vec::<String>::new());
    let unknown = TrainableFactory::new("nobody", |_| -> Result<Counter> { Err(Error::other("no data")) });
    assert_eq!(
        diagnose_serialization(&unknown, &config),
        [
            "trainable `nobody`: `main` does not give it to `child_main`",
            "trainable `nobody` cannot be made with these settings: no data",
        ]
    );
}
