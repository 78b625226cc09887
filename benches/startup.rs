//! Time and memory from the start of the process to its first result: `cargo xtask bench startup`.
//!
//! `pavlov train` is started with the PPO of `ppo.rs` at 8 copies; the clock stops at the first line of JSON, after
//! 1,024 steps and 16 updates, with the run directory and its loggers in place.

mod support;

use std::{
    io::{BufRead, BufReader},
    path::Path,
    process::{Child, Command, Stdio},
    time::Instant,
};

use pavlov::trainer::to_config;
use serde_json::json;
use support::{Args, Outcome, matched_ppo, median, peak_mb};

/// Starts per measurement; the median counts.
const STARTS: usize = 9;

fn main() -> Outcome<()> {
    let args = Args::parse()?;
    let dir = std::env::temp_dir().join(format!("pavlov-bench-startup-{}", std::process::id()));
    std::fs::create_dir_all(&dir)?;
    let measured = measure(&dir);
    std::fs::remove_dir_all(&dir)?;
    let (mut seconds, mut peaks) = measured?;
    let seconds = median(&mut seconds);
    let peak = median(&mut peaks);
    if args.json {
        println!(
            "{}",
            json!({"lib": "pavlov", "workload": "startup", "seconds": seconds, "peak_rss_mb": peak})
        );
    } else {
        println!("pavlov train PPO --env CartPole-v1, from the start of the process to the first result");
        println!("{:>10}{:>10}\n{seconds:>10.3}{peak:>10.0}", "seconds", "peak MB");
    }
    Ok(())
}

fn measure(dir: &Path) -> Outcome<(Vec<f64>, Vec<f64>)> {
    let config = dir.join("config.json");
    std::fs::write(&config, serde_json::to_vec(&to_config(&matched_ppo(8, 0))?)?)?;
    let mut seconds = Vec::new();
    let mut peaks = Vec::new();
    for start in 0..STARTS {
        let before = Instant::now();
        let mut child = Command::new(env!("CARGO_BIN_EXE_pavlov"))
            .args(["train", "PPO", "--env", "CartPole-v1", "--json", "--quiet", "--config"])
            .arg(&config)
            .arg("--out")
            .arg(dir.join(start.to_string()))
            .stdout(Stdio::piped())
            .spawn()?;
        let peak = first_result(&mut child);
        seconds.push(before.elapsed().as_secs_f64());
        child.kill()?;
        child.wait()?;
        peaks.push(peak?);
    }
    Ok((seconds, peaks))
}

/// Waits for the first line and returns the peak memory until then.
fn first_result(child: &mut Child) -> Outcome<f64> {
    let stdout = child.stdout.take().ok_or("the output of pavlov is not piped")?;
    let mut line = String::new();
    BufReader::new(stdout).read_line(&mut line)?;
    if line.is_empty() {
        return Err("pavlov ended without a result".into());
    }
    peak_mb(&child.id().to_string())
}
