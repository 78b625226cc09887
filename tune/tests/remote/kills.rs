//! Drivers that are killed, and their machines with them.

use std::process::{Command, Stdio};
use std::time::Instant;

use pavlov_tune::{Config, Trainable, TrainableFactory, TrialContext};

use super::*;
use crate::child::in_child;
use crate::counter::Counter;

/// A [`Counter`] that takes its time.
struct Slow(Counter, Duration);

impl Trainable for Slow {
    fn setup(&mut self, config: &Config, trial: &TrialContext) -> Result<()> {
        self.0.setup(config, trial)
    }
    fn step(&mut self) -> Result<Metrics> {
        std::thread::sleep(self.1);
        self.0.step()
    }
    fn save_checkpoint(&mut self, dir: &Path) -> Result<()> {
        self.0.save_checkpoint(dir)
    }
    fn load_checkpoint(&mut self, dir: &Path) -> Result<()> {
        self.0.load_checkpoint(dir)
    }
    fn log_result(&mut self, result: &mut Metrics) -> Result<()> {
        self.0.log_result(result)
    }
}

fn sixteen(place: impl Into<PathBuf>, pause: Duration) -> Tuner {
    let mut tuner = at(place);
    tuner.trainable = TrainableFactory::new("slow", move |_| Ok(Slow(Counter::default(), pause)));
    tuner.tune_config.num_samples = Some(8);
    tuner.run_config.checkpoint_config.num_to_keep = Some(1);
    tuner
}

/// Runs the sweep at the URL to its end, from wherever it is.
#[test]
#[ignore = "run by the test below, which kills it"]
fn child_sweep_on_storage() {
    let url = format!("file://{}", child_home().join("bucket").display());
    let tuner = sixteen(&url, Duration::from_millis(10));
    let sweep = format!("{url}/sweep");
    let grid = match Tuner::can_restore(&sweep) {
        Ok(()) => tuner.restore(&sweep, Restore::default()),
        Err(_) => tuner.fit(),
    };
    assert_eq!(grid.unwrap().num_terminated(), 16);
}

#[test]
fn sixteen_trials_whose_driver_is_killed_and_its_directory_deleted_end_as_if_undisturbed() {
    let home = tempfile::tempdir().unwrap();
    let whole = sixteen(home.path().join("local"), Duration::ZERO).fit().unwrap();
    let work = home.path().join("work");
    let there = home.path().join("bucket/sweep");
    let mut random: u64 = 0x9e37_79b9_7f4a_7c15;
    for round in 0..5 {
        let before = journal(&there).len();
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let more = 8 + (random >> 33) as usize % 24;
        let mut driver = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "--ignored", "--nocapture", "remote::kills::child_sweep_on_storage"])
            .env("PAVLOV_TEST_HOME", home.path())
            .env("PAVLOV_RESULTS_DIR", &work)
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        let deadline = Instant::now() + Duration::from_secs(60);
        while journal(&there).len() < before + more && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(2));
        }
        driver.kill().unwrap();
        driver.wait().unwrap();
        assert!(journal(&there).len() > before, "round {round} did nothing");
        fs::remove_dir_all(&work).unwrap();
    }
    let root = format!("export PAVLOV_RESULTS_DIR='{}'", work.display());
    let output = in_child("remote::kills::child_sweep_on_storage", home.path(), &root);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    // What the storage has, as a local sweep.
    let copy = home.path().join("copy");
    copy_dir(&there, &copy);
    fs::write(copy.join("journal.jsonl"), journal_text(&there)).unwrap();
    let read = sixteen(home.path(), Duration::ZERO).restore(&copy, Restore::default()).unwrap();
    assert_equal(&read, &whole, "after five kills");
    let restored = journal(&there).iter().filter(|event| event["event"] == "restored").count();
    assert!(restored >= 5, "{restored}");
}
