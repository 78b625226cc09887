//! Sweeps whose storage path is on S3.

use std::fs;
use std::path::Path;
use std::process::Stdio;
use std::thread;
use std::time::{Duration, Instant};

use pavlov_tune::search::grid_search;
use pavlov_tune::stoppers::MaximumIterationStopper;
use pavlov_tune::storage::Storage;
use pavlov_tune::{
    Config, Metrics, Objective, Restore, Result, ResultGrid, Trainable, TrainableFactory, TrialContext,
    Tuner, checkpoint, difference, storage,
};
use serde_json::{Value, json};

use crate::runs::Walk;
use crate::server::{Key, Server};

const ABOVE: &str = "s3://pavlov/sweeps";
const URL: &str = "s3://pavlov/sweeps/first";
const CHILD: &str = "sweeps::child_runs_the_sweep_to_its_end";

/// A [`Walk`] that takes its time.
struct Slow(Walk, Duration);

impl Trainable for Slow {
    fn setup(&mut self, config: &Config, trial: &TrialContext) -> Result<()> {
        self.0.setup(config, trial)
    }
    fn step(&mut self) -> Result<Metrics> {
        thread::sleep(self.1);
        self.0.step()
    }
    fn save_checkpoint(&mut self, dir: &Path) -> Result<()> {
        self.0.save_checkpoint(dir)
    }
    fn load_checkpoint(&mut self, dir: &Path) -> Result<()> {
        self.0.load_checkpoint(dir)
    }
}

/// Sixteen trials of four iterations, a checkpoint after each, two of them kept.
fn sweep(above: &Path, pause: Duration) -> Tuner {
    let factory = TrainableFactory::new("walk", move |_| Ok(Slow(Walk::default(), pause)));
    let seeds: Vec<u64> = (0..16).collect();
    let mut tuner = Tuner::new(factory).space(json!({"seed": grid_search(seeds)}));
    tuner.tune_config.objective = Some(Objective::maximize("score"));
    tuner.tune_config.total_resources = Some([("CPU".to_string(), 4.0)].into());
    tuner.run_config.name = Some("first".into());
    tuner.run_config.storage_path = Some(above.into());
    tuner.run_config.stop = Some(Box::new(MaximumIterationStopper::new(4)));
    tuner.run_config.checkpoint_config.checkpoint_frequency = Some(1);
    tuner.run_config.checkpoint_config.num_to_keep = Some(2);
    tuner.run_config.sync_config.sync_timeout = Duration::from_secs(300);
    tuner
}

/// Settings and all results, wall time apart.
fn assert_equal(disturbed: &ResultGrid, undisturbed: &ResultGrid) {
    assert_eq!((disturbed.len(), disturbed.num_terminated()), (16, 16));
    for (left, right) in disturbed.iter().zip(undisturbed) {
        assert_eq!(left.config, right.config);
        let left = left.history().unwrap();
        let right = right.history().unwrap();
        assert_eq!((left.len(), right.len()), (4, 4));
        for (left, right) in left.iter().zip(&right) {
            let strip = |metrics: &Metrics| {
                let mut metrics = metrics.clone();
                metrics.shift_remove("trial_id");
                metrics
            };
            assert_eq!(difference(&strip(left), &strip(right)), None);
        }
    }
}

/// Takes the sweep up, wherever it is, and compares its end with that of an undisturbed one.
#[test]
#[ignore = "run by the next tests"]
fn child_runs_the_sweep_to_its_end() {
    pavlov_storage::register();
    let make = || sweep(Path::new(ABOVE), Duration::from_millis(10));
    let grid = match Tuner::can_restore(URL) {
        Ok(()) => make().restore(URL, Restore::default()),
        Err(_) => make().fit(),
    };
    let local = tempfile::tempdir().unwrap();
    let grid = grid.unwrap();
    for trial in &grid {
        let iterations: Vec<u64> = trial.checkpoints.iter().map(|(iteration, _)| *iteration).collect();
        assert_eq!(iterations, [3, 4]);
        for (_, place) in &trial.checkpoints {
            checkpoint::verify(&storage::fetch_checkpoint(place).unwrap(), None).unwrap();
        }
    }
    assert_equal(&grid, &sweep(local.path(), Duration::ZERO).fit().unwrap());
}

/// The journal as it is on the server.
fn journal(storage: &dyn Storage) -> Vec<Value> {
    let pieces = storage.list("journal").unwrap();
    let text: Vec<u8> =
        pieces.iter().flat_map(|piece| storage.get(&piece.path).unwrap().unwrap_or_default()).collect();
    String::from_utf8(text).unwrap().lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn wait_for_lines(storage: &dyn Storage, lines: usize) {
    let deadline = Instant::now() + Duration::from_secs(120);
    while journal(storage).len() < lines {
        assert!(Instant::now() < deadline, "{} lines instead of {lines}", journal(storage).len());
        thread::sleep(Duration::from_millis(50));
    }
}

/// Each trial has its two newest checkpoints there; that they are whole its driver has seen.
fn check_checkpoints(storage: &dyn Storage) {
    let objects = storage.list("").unwrap();
    let manifests = objects.iter().filter_map(|object| object.path.strip_suffix("/manifest.json"));
    let mut found: Vec<&str> = manifests.filter_map(|path| Some(path.rsplit_once('/')?.1)).collect();
    found.sort_unstable();
    assert_eq!(found, [["checkpoint_000003"; 16], ["checkpoint_000004"; 16]].concat());
}

#[test]
fn sixteen_trials_whose_driver_is_killed_and_its_directory_deleted_end_as_if_undisturbed() {
    let Some(server) = Server::start() else { return };
    let storage = server.open(URL);
    let mut random: u64 = 0x9e37_79b9_7f4a_7c15;
    for _ in 0..2 {
        let before = journal(&*storage).len();
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let mut driver = server.command(CHILD).stdout(Stdio::null()).spawn().unwrap();
        wait_for_lines(&*storage, before + 10 + (random >> 33) as usize % 20);
        driver.kill().unwrap();
        driver.wait().unwrap();
        fs::remove_dir_all(server.results()).unwrap();
    }
    server.run(CHILD);
    let restored = journal(&*storage).iter().filter(|event| event["event"] == "restored").count();
    assert_eq!(restored, 2);
    check_checkpoints(&*storage);
}

#[test]
fn a_server_that_is_killed_and_comes_back_costs_nothing() {
    let Some(mut server) = Server::start() else { return };
    let storage = server.open(URL);
    let driver = server.command(CHILD).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    wait_for_lines(&*storage, 20);
    server.kill();
    thread::sleep(Duration::from_secs(1));
    server.restart();
    let output = driver.wait_with_output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && text.contains("1 passed"), "{text}");
    assert_eq!(journal(&*storage).iter().filter(|event| event["event"] == "restored").count(), 0);
    check_checkpoints(&*storage);
}

/// Tries to run a sweep, and prints why it cannot.
#[test]
#[ignore = "run by the next test"]
fn child_says_why_it_cannot_run() {
    let above = std::env::var_os("PAVLOV_TEST_ABOVE").expect("run by another test");
    pavlov_storage::register();
    println!("<{}>", sweep(Path::new(&above), Duration::ZERO).fit().unwrap_err());
}

#[test]
fn wrong_keys_and_missing_buckets_are_errors_before_anything_is_trained() {
    let Some(server) = Server::start() else { return };
    let says = |above: &str, key: Key| {
        let mut child = server.command("sweeps::child_says_why_it_cannot_run");
        let output =
            child.env("PAVLOV_TEST_ABOVE", above).envs(server.environment_of(&key)).output().unwrap();
        assert!(!server.results().exists());
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        text.split_once('<').and_then(|(_, rest)| rest.split_once(">\n")).unwrap().0.to_string()
    };
    let message = says(ABOVE, Key { secret: "wrong".into(), ..server.writer() });
    assert!(message.contains(&format!("{URL}/driver.json: SignatureDoesNotMatch")), "{message}");
    let message = says(ABOVE, server.reader());
    assert!(message.starts_with(&format!("cannot write {URL}/driver.json: AccessDenied")), "{message}");
    let message = says("s3://elsewhere/sweeps", server.writer());
    assert!(message.contains("the bucket does not exist: make it first"), "{message}");
}
