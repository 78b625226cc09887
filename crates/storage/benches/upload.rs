//! What keeping a sweep on storage costs its training: a trial whose iterations take a second and whose checkpoints have
//! 1 MB, in a directory and at a URL.
//!
//! An iteration computes for a tenth of a second and sleeps for the rest, so that neighbours on the machine disturb the
//! clock little; what the process computes besides is told apart: if the training needed every core, it would lose as
//! much.
//!
//! ```sh
//! cargo bench -p pavlov-storage --bench upload -- [s3://bucket/prefix] [iterations]
//! ```

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use pavlov_tune::stoppers::MaximumIterationStopper;
use pavlov_tune::{Error, Metrics, Result, Trainable, TrainableFactory, Tuner};

const ITERATION: Duration = Duration::from_secs(1);
const CHECKPOINT: usize = 1_000_000;

/// When each step began, and what its thread had computed.
type Steps = Arc<Mutex<Vec<(Instant, f64)>>>;

struct Work {
    steps: Steps,
    state: u64,
}

impl Trainable for Work {
    fn step(&mut self) -> Result<Metrics> {
        let begun = Instant::now();
        self.steps.lock().unwrap().push((begun, thread_seconds()));
        for _ in 0..30_000_000 {
            self.state =
                std::hint::black_box(self.state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1));
        }
        std::thread::sleep(ITERATION.saturating_sub(begun.elapsed()));
        Ok(Metrics::new())
    }

    fn save_checkpoint(&mut self, dir: &Path) -> Result<()> {
        let path = dir.join("state");
        let mut bytes = vec![0; CHECKPOINT];
        for part in bytes.chunks_mut(8) {
            self.state = self.state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            part.copy_from_slice(&self.state.to_le_bytes()[..part.len()]);
        }
        std::fs::write(&path, bytes).map_err(Error::io("write", &path))
    }

    fn load_checkpoint(&mut self, _: &Path) -> Result<()> {
        Ok(())
    }
}

struct Cost {
    seconds: f64,
    training: f64,
    process: f64,
}

/// Seconds per iteration: by the clock, of the training's thread, of the process.
fn run(storage_path: PathBuf, iterations: u64) -> Cost {
    let steps = Steps::default();
    let shared = steps.clone();
    let factory = TrainableFactory::new("work", move |_| Ok(Work { steps: shared.clone(), state: 1 }));
    let mut tuner = Tuner::new(factory);
    tuner.run_config.storage_path = Some(storage_path);
    tuner.run_config.stop = Some(Box::new(MaximumIterationStopper::new(iterations)));
    tuner.run_config.checkpoint_config.checkpoint_frequency = Some(1);
    tuner.run_config.checkpoint_config.num_to_keep = Some(2);
    let before = process_seconds();
    tuner.fit().unwrap();
    let process = process_seconds() - before;
    let steps = steps.lock().unwrap();
    let first = steps[0];
    let last = steps[steps.len() - 1];
    let between = (steps.len() - 1) as f64;
    Cost {
        seconds: (last.0 - first.0).as_secs_f64() / between,
        training: (last.1 - first.1) / between,
        process: process / iterations as f64,
    }
}

/// What this thread has computed, from its `schedstat` in nanoseconds.
fn thread_seconds() -> f64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    text.split(' ').next().and_then(|first| first.parse::<f64>().ok()).unwrap() * 1e-9
}

/// What all threads of the process have computed, those that have ended too, from `/proc/self/stat` in hundredths of a
/// second.
fn process_seconds() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap();
    // After the name, which may hold blanks: state is field 3, utime and stime are 14 and 15.
    let fields = stat.rsplit(')').next().unwrap_or_default().split_whitespace();
    fields.skip(11).take(2).filter_map(|ticks| ticks.parse::<f64>().ok()).sum::<f64>() / 100.0
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).filter(|argument| argument != "--bench").collect();
    let home = tempfile::tempdir().unwrap();
    let url = arguments.first().filter(|argument| argument.contains("://"));
    let url = url.cloned().unwrap_or_else(|| format!("file://{}/bucket", home.path().display()));
    let iterations = arguments.last().and_then(|argument| argument.parse().ok()).unwrap_or(30);
    pavlov_storage::register();
    println!(
        "| {iterations} iterations, 1 MB each | seconds per iteration | CPU of its thread | CPU of the process |"
    );
    println!("|---|---|---|---|");
    let costs = [home.path().join("local"), PathBuf::from(&url)].map(|place| {
        let cost = run(place.clone(), iterations);
        let shown =
            if place == Path::new(&url) { url.split("://").next().unwrap_or("") } else { "directory" };
        println!("| {shown} | {:.5} | {:.5} | {:.5} |", cost.seconds, cost.training, cost.process);
        cost
    });
    let [directory, storage] = costs;
    let share = |more: f64| 100.0 * more / directory.seconds;
    println!("\nby the clock: {:+.2} %", share(storage.seconds - directory.seconds));
    println!("CPU of the training's thread: {:+.2} %", share(storage.training - directory.training));
    println!("CPU of the process: {:+.2} % of an iteration", share(storage.process - directory.process));
}
