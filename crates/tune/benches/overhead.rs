//! What the sweep itself costs: trials that do nothing, with ten reports each, and functions that return at once.
//!
//! ```text
//! cargo bench -p pavlov-tune --bench overhead [-- --trials 1000 --only NAME --python PYTHON]
//! ```
//!
//! `--only` runs the cases whose names contain the text. Each process should write into a file system in which nothing was
//! deleted in the last minutes: ext4 makes new files slowly there.
//!
//! With `--python`, a Python that has `ray[tune]==2.60.0`, the same sweep runs on Ray Tune beside it (`ray_peer.py`).

use std::path::Path;
use std::process::Command;
use std::time::Instant;

use pavlov_tune::stoppers::MaximumIterationStopper;
use pavlov_tune::{
    CheckpointConfig, Metrics, Result, RunConfig, Trainable, TrainableFactory, TuneConfig, Tuner,
};
use serde_json::json;

const REPORTS: u64 = 10;

#[derive(Default)]
struct Trivial {
    steps: u64,
}

impl Trainable for Trivial {
    fn step(&mut self) -> Result<Metrics> {
        self.steps += 1;
        Ok(Metrics::from([("score", self.steps)]))
    }
    fn save_checkpoint(&mut self, _: &Path) -> Result<()> {
        Ok(())
    }
    fn load_checkpoint(&mut self, _: &Path) -> Result<()> {
        Ok(())
    }
}

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().collect();
    let option = |name: &str| arguments.iter().skip_while(|a| *a != name).nth(1).cloned();
    let trials: u64 = option("--trials").and_then(|text| text.parse().ok()).unwrap_or(1000);
    let few = (trials / 10).max(1);
    println!(
        "| {trials} trials, {REPORTS} reports or 1 each | seconds | µs per result | of them CPU | growth of memory, KiB |"
    );
    println!("|---|---|---|---|---|");
    // Kept to the end: ext4 makes new files slowly where many were just deleted.
    let home = tempfile::tempdir().map_err(pavlov_tune::Error::io("write in", &std::env::temp_dir()))?;
    let at_once = || TrainableFactory::function("at_once", |config| Ok(config.get("lr").cloned()));
    let trivial = || TrainableFactory::new("trivial", |_| Ok(Trivial::default()));
    let cases: [(&str, &dyn Fn() -> TrainableFactory, u64, bool); 4] = [
        ("threads, results in the journal", &trivial, REPORTS, false),
        ("threads, all result files", &trivial, REPORTS, true),
        ("functions that return at once, results in the journal", &at_once, 1, false),
        ("functions that return at once, all result files", &at_once, 1, true),
    ];
    let only = option("--only").unwrap_or_default();
    let chosen = cases.into_iter().enumerate().filter(|(_, (name, ..))| name.contains(&only));
    for (number, (name, factory, reports, log_results)) in chosen {
        // What a process takes once is not growth.
        sweep(home.path(), &format!("{number}_few"), factory(), few, log_results)?;
        let before = resident_kib();
        let cpu = cpu_seconds();
        let seconds = sweep(home.path(), &number.to_string(), factory(), trials, log_results)?;
        let grown = resident_kib().saturating_sub(before);
        let cpu = (cpu_seconds() - cpu) * 1e6 / (trials * reports) as f64;
        print_row(name, trials * reports, seconds, &format!("{cpu:.1}"), &grown.to_string());
    }
    if let Some(python) = option("--python") {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("benches/ray_peer.py");
        let output = Command::new(&python).arg(script).arg(trials.to_string()).output();
        let output = output.map_err(pavlov_tune::Error::io("run", Path::new(&python)))?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        for line in text.lines().filter_map(|line| line.strip_prefix("RESULT ")) {
            if let Some((name, seconds)) = line.rsplit_once(' ') {
                print_row(name, trials * REPORTS, seconds.parse().unwrap_or(f64::NAN), "", "");
            }
        }
        if !output.status.success() {
            eprintln!("{}", String::from_utf8_lossy(&output.stderr));
        }
    }
    Ok(())
}

fn print_row(name: &str, results: u64, seconds: f64, cpu: &str, grown: &str) {
    let per_result = seconds * 1e6 / results as f64;
    println!("| {name} | {seconds:.3} | {per_result:.1} | {cpu} | {grown} |");
}

fn sweep(home: &Path, name: &str, factory: TrainableFactory, trials: u64, log_results: bool) -> Result<f64> {
    let mut tuner = Tuner::new(factory).space(json!({"lr": {"uniform": [0.0, 1.0]}}));
    tuner.tune_config = TuneConfig { num_samples: Some(trials), ..TuneConfig::default() };
    tuner.run_config = RunConfig {
        storage_path: Some(home.into()),
        name: Some(name.into()),
        stop: Some(Box::new(MaximumIterationStopper::new(REPORTS))),
        checkpoint_config: CheckpointConfig { checkpoint_at_end: Some(false), ..CheckpointConfig::default() },
        log_results,
        ..RunConfig::default()
    };
    let started = Instant::now();
    let grid = tuner.fit()?;
    let seconds = started.elapsed().as_secs_f64();
    assert_eq!(grid.num_terminated() as u64, trials);
    Ok(seconds)
}

/// What the process has in memory, from `/proc/self/statm`; 0 where there is none.
fn resident_kib() -> u64 {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    statm.split_whitespace().nth(1).and_then(|pages| pages.parse::<u64>().ok()).map_or(0, |pages| pages * 4)
}

/// What all threads of the process have computed so far, from `/proc/self/stat` in hundredths of a second; 0 where there
/// is none.
fn cpu_seconds() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    // After the name, which may hold blanks: state is field 3, utime and stime are 14 and 15.
    let fields = stat.rsplit(')').next().unwrap_or_default().split_whitespace();
    fields.skip(11).take(2).filter_map(|ticks| ticks.parse::<f64>().ok()).sum::<f64>() / 100.0
}
