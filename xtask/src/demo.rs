//! `cargo xtask demo`: from a fresh clone to a solved CartPole.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::SystemTime;

use serde_json::Value;

use crate::Result;
use crate::steps;

/// CartPole-v1 counts as solved from this mean return on; the largest return is 500.
const SOLVED: f64 = 475.0;

/// Builds, trains and evaluates; `short` trains for a moment only, to see that all of it works. PPO on CartPole needs no libtorch,
/// so none is downloaded and nothing is compiled for it.
pub(crate) fn demo(root: &Path, short: bool) -> Result<()> {
    let light = ["build", "--release", "--bin", "pavlov", "--no-default-features", "--features", "cli"];
    let mut build = steps::cargo_command(root, &light);
    // A path that does not exist: nothing may look for libtorch.
    steps::run(build.env("LIBTORCH", root.join(".no-libtorch")))?;
    run(&steps::built("release", "pavlov")?, short)
}

/// Trains and evaluates with the program `pavlov`, and writes the report.
pub(crate) fn run(pavlov: &Path, short: bool) -> Result<()> {
    let out = steps::fresh("demo", if short { "short" } else { "full" })?;

    let mut train = Command::new(pavlov);
    train.args(["train", "PPO", "--env", "CartPole-v1", "--preset", "ppo-cartpole", "--seed", "0"]);
    train.arg("--out").arg(&out);
    if short {
        train.args(["--stop", "timesteps_total=4000"]);
    } else {
        // 100 greedy episodes every 10,240 steps; nearly perfect there, so that other episodes pass as well.
        train.args(["--set", "evaluation_interval=40", "--set", "evaluation_duration=100"]);
        train.args(["--stop", "evaluation/episode_reward_mean=495"]);
    }
    steps::run(&mut train)?;

    let checkpoint = newest_checkpoint(&out)?;
    let episodes = if short { "5" } else { "100" };
    let mut evaluate = Command::new(pavlov);
    evaluate.arg("evaluate").arg(&checkpoint).args(["--episodes", episodes, "--seed", "1", "--json"]);
    let mean = mean_return(&steps::output_of(&mut evaluate)?)?;

    let page = out.join("report.html");
    let run = checkpoint.parent().unwrap_or(&out);
    steps::run(Command::new(pavlov).arg("report").arg(run).arg("--out").arg(&page))?;

    println!("mean return of {episodes} greedy episodes: {mean:.1}");
    println!("the run's files: {}", checkpoint.parent().unwrap_or(&out).display());
    if short || mean >= SOLVED {
        return Ok(());
    }
    Err(format!("CartPole-v1 counts as solved at a mean of {SOLVED} and more"))
}

/// `episode_reward_mean` of the object that `pavlov evaluate --json` printed.
pub(crate) fn mean_return(json: &str) -> Result<f64> {
    let object: Value = serde_json::from_str(json)
        .map_err(|error| format!("`pavlov evaluate --json` printed no JSON object: {error}"))?;
    object["episode_reward_mean"]
        .as_f64()
        .ok_or_else(|| format!("`pavlov evaluate --json` printed no episode_reward_mean, but {object}"))
}

/// The directory `checkpoint_*` anywhere under `directory` that was written last.
pub(crate) fn newest_checkpoint(directory: &Path) -> Result<PathBuf> {
    let mut newest: Option<(SystemTime, PathBuf)> = None;
    let mut waiting = vec![directory.to_owned()];
    while let Some(directory) = waiting.pop() {
        let entries =
            fs::read_dir(&directory).map_err(|error| format!("{}: {error}", directory.display()))?;
        for entry in entries.flatten().filter(|entry| entry.path().is_dir()) {
            let is_checkpoint = entry.file_name().to_string_lossy().starts_with("checkpoint_");
            let Some(written) =
                entry.metadata().and_then(|data| data.modified()).ok().filter(|_| is_checkpoint)
            else {
                waiting.push(entry.path());
                continue;
            };
            // Equal times happen on coarse clocks; checkpoint names grow.
            if newest.as_ref().is_none_or(|newest| (newest.0, &newest.1) < (written, &entry.path())) {
                newest = Some((written, entry.path()));
            }
        }
    }
    newest.map(|newest| newest.1).ok_or_else(|| format!("no checkpoint_* under {}", directory.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_checkpoint_is_found_below_a_run_directory() {
        let root = std::env::temp_dir().join(format!("pavlov-xtask-newest-{}", std::process::id()));
        for name in ["checkpoint_000001", "checkpoint_000002"] {
            fs::create_dir_all(root.join("PPO_run").join(name)).unwrap();
        }
        assert_eq!(newest_checkpoint(&root), Ok(root.join("PPO_run/checkpoint_000002")));
        assert!(newest_checkpoint(&root.join("PPO_run/checkpoint_000001")).is_err());
        fs::remove_dir_all(root).unwrap();
    }

    #[test]
    fn the_mean_return_is_read_or_missed_by_name() {
        assert_eq!(mean_return(r#"{"episode_reward_mean": 475.5, "episodes": 100}"#), Ok(475.5));
        assert!(mean_return("{}").unwrap_err().contains("episode_reward_mean"));
        assert!(mean_return("iteration 1").unwrap_err().contains("no JSON object"));
    }
}
