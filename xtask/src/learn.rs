//! `cargo xtask learn`: trains the presets of `examples/tuned` and compares each with its own pass mark.

use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::Value;
use toml::Table;

use crate::Result;
use crate::bench::stems;
use crate::demo::{mean_return, newest_checkpoint};
use crate::steps;

/// What `[pass]` of a preset asks for.
#[derive(Debug, PartialEq)]
struct Pass {
    mark: Mark,
    /// Seeds 0, 1, ... that are trained.
    seeds: u64,
    /// How many of them have to reach the mark.
    min_seeds: u64,
}

#[derive(Debug, PartialEq)]
enum Mark {
    /// Mean return of so many greedy episodes after training.
    Evaluation { episodes: u64, mean: f64 },
    /// Ray's own criterion: `episode_reward_mean` of some result of the run.
    Training { mean: f64 },
}

#[derive(Debug)]
struct Preset {
    name: String,
    algorithm: String,
    env: String,
    pass: Pass,
}

/// One seed of one preset.
#[derive(Debug)]
struct Outcome {
    score: f64,
    steps: u64,
}

/// Trains the presets `names`, or all of them, with one setting changed if asked for, and prints a table; an error if one
/// misses its mark.
pub(crate) fn learn(root: &Path, names: &[&str], change: Option<&str>) -> Result<()> {
    let tuned = root.join("examples/tuned");
    let names = if names.is_empty() {
        stems(&tuned, "toml")?
    } else {
        names.iter().map(|&name| name.into()).collect()
    };
    let presets = names.iter().map(|name| Preset::read(&tuned, name)).collect::<Result<Vec<_>>>()?;
    steps::cargo(root, &["build", "--release", "--bin", "pavlov"])?;

    let mut missed = Vec::new();
    println!("| preset | seeds passed | mark | score per seed | steps |\n|---|---|---|---|---|");
    for preset in &presets {
        let outcomes =
            (0..preset.pass.seeds).map(|seed| preset.train(seed, change)).collect::<Result<Vec<_>>>()?;
        println!("{}", preset.row(&outcomes));
        if preset.passed(&outcomes) < preset.pass.min_seeds {
            missed.push(preset.name.as_str());
        }
    }
    if missed.is_empty() { Ok(()) } else { Err(format!("below the pass mark: {}", missed.join(", "))) }
}

impl Preset {
    fn read(directory: &Path, name: &str) -> Result<Preset> {
        let file = directory.join(format!("{name}.toml"));
        let text = fs::read_to_string(&file).map_err(|error| format!("{}: {error}", file.display()))?;
        Preset::parse(name, &text).map_err(|error| format!("{}: {error}", file.display()))
    }

    fn parse(name: &str, text: &str) -> Result<Preset> {
        let table: Table = text.parse().map_err(|error| format!("{error}"))?;
        let text_of = |key: &str| {
            let value = table.get(key).and_then(|value| value.as_str());
            value.map(str::to_owned).ok_or_else(|| format!("`{key}` is missing; it is a string"))
        };
        let pass = table.get("pass").and_then(|pass| pass.as_table()).ok_or("the table [pass] is missing")?;
        Ok(Preset {
            name: name.to_owned(),
            algorithm: text_of("algorithm")?,
            env: text_of("env")?,
            pass: Pass::parse(pass)?,
        })
    }

    fn train(&self, seed: u64, change: Option<&str>) -> Result<Outcome> {
        let program = steps::built("release", "pavlov")?;
        let out = steps::fresh("learn", &format!("{}/seed-{seed}", self.name))?;
        let mut train = Command::new(&program);
        train.args(["train", &self.algorithm, "--env", &self.env, "--preset", &self.name]);
        train.args(["--seed", &seed.to_string(), "--json", "--quiet", "--out"]).arg(&out);
        if let Some(change) = change {
            train.args(["--set", change]);
        }
        let results = steps::output_of(&mut train)?;
        let (best, steps) = best_and_steps(&results)?;
        let score = match self.pass.mark {
            Mark::Training { .. } => best,
            Mark::Evaluation { episodes, .. } => {
                let mut evaluate = Command::new(&program);
                evaluate.arg("evaluate").arg(newest_checkpoint(&out)?);
                // Not a seed of training: those count from 0.
                evaluate.args(["--episodes", &episodes.to_string(), "--seed", "1000", "--json"]);
                mean_return(&steps::output_of(&mut evaluate)?)?
            }
        };
        Ok(Outcome { score, steps })
    }

    fn passed(&self, outcomes: &[Outcome]) -> u64 {
        outcomes.iter().filter(|outcome| outcome.score >= self.pass.mark.mean()).count() as u64
    }

    fn row(&self, outcomes: &[Outcome]) -> String {
        let digits = if self.pass.mark.mean().abs() < 10.0 { 2 } else { 1 };
        let scores: Vec<_> = outcomes.iter().map(|outcome| format!("{:.digits$}", outcome.score)).collect();
        let steps = outcomes.iter().map(|outcome| outcome.steps).max().unwrap_or(0);
        format!(
            "| {} | {} of {} (needs {}) | {} | {} | {steps} |",
            self.name,
            self.passed(outcomes),
            self.pass.seeds,
            self.pass.min_seeds,
            self.pass.mark.mean(),
            scores.join(" ")
        )
    }
}

impl Pass {
    fn parse(table: &Table) -> Result<Pass> {
        let number = |key: &str| {
            let value = table.get(key)?;
            value.as_float().or_else(|| value.as_integer().map(|whole| whole as f64))
        };
        let count = |key: &str, default: u64| match table.get(key) {
            None => Ok(default),
            Some(value) => value
                .as_integer()
                .and_then(|whole| u64::try_from(whole).ok())
                .filter(|&whole| whole > 0)
                .ok_or_else(|| format!("[pass] `{key}` is {value}, but it must be a whole number from 1 on")),
        };
        let mark = match (number("episode_reward_mean"), number("train_episode_reward_mean")) {
            (Some(mean), None) => Mark::Evaluation { episodes: count("evaluation_episodes", 100)?, mean },
            (None, Some(mean)) => Mark::Training { mean },
            _ => {
                return Err("[pass] needs one number, either `episode_reward_mean` (greedy episodes after \
                            training) or `train_episode_reward_mean` (some result of the run)"
                    .to_owned());
            }
        };
        let seeds = count("seeds", 1)?;
        let min_seeds = count("min_seeds", seeds)?;
        if min_seeds > seeds {
            return Err(format!(
                "[pass] `min_seeds` is {min_seeds}, but it must be in 1..={seeds} (`seeds`)"
            ));
        }
        Ok(Pass { mark, seeds, min_seeds })
    }
}

impl Mark {
    fn mean(&self) -> f64 {
        match self {
            Mark::Evaluation { mean, .. } | Mark::Training { mean } => *mean,
        }
    }
}

/// The largest `episode_reward_mean` and the last `timesteps_total` of a run, one JSON object per line.
fn best_and_steps(results: &str) -> Result<(f64, u64)> {
    let mut best = f64::NEG_INFINITY;
    let mut steps = 0;
    for line in results.lines() {
        let result: Value = serde_json::from_str(line)
            .map_err(|error| format!("`pavlov train --json` printed `{line}`: {error}"))?;
        // Null until the first episode has ended.
        best = best.max(result["episode_reward_mean"].as_f64().unwrap_or(f64::NEG_INFINITY));
        steps = result["timesteps_total"].as_u64().unwrap_or(steps);
    }
    Ok((best, steps))
}

#[cfg(test)]
mod tests {
    use super::*;

    const PRESET: &str = "algorithm = \"PPO\"\nenv = \"CartPole-v1\"\n[config]\nlr = 0.001\n\
                          [pass]\nepisode_reward_mean = 475\nseeds = 5\nmin_seeds = 4\n";

    #[test]
    fn a_preset_passes_when_enough_seeds_reach_its_mark() {
        let preset = Preset::parse("ppo-cartpole", PRESET).unwrap();
        assert_eq!(preset.pass.mark, Mark::Evaluation { episodes: 100, mean: 475.0 });
        let outcomes = [500.0, 475.0, 474.9, 480.0, 499.0].map(|score| Outcome { score, steps: 150_000 });
        assert_eq!(preset.passed(&outcomes), 4);
        assert_eq!(
            preset.row(&outcomes),
            "| ppo-cartpole | 4 of 5 (needs 4) | 475 | 500.0 475.0 474.9 480.0 499.0 | 150000 |"
        );
    }

    #[test]
    fn a_preset_without_exactly_one_mark_or_with_too_many_seeds_asked_is_refused() {
        let error = |text: &str| Preset::parse("x", text).unwrap_err();
        assert!(error(&PRESET.replace("episode_reward_mean", "reward")).contains("needs one number"));
        assert!(error(&format!("{PRESET}train_episode_reward_mean = 150.0\n")).contains("needs one number"));
        assert!(error(&PRESET.replace("min_seeds = 4", "min_seeds = 6")).contains("in 1..=5"));
        assert!(error(&PRESET.replace("algorithm", "algo")).contains("`algorithm` is missing"));
    }

    #[test]
    fn the_best_mean_and_the_last_step_count_are_taken_from_the_results() {
        let results = "{\"episode_reward_mean\": null, \"timesteps_total\": 10}\n\
                       {\"episode_reward_mean\": 150.5, \"timesteps_total\": 20}\n\
                       {\"episode_reward_mean\": 120.0, \"timesteps_total\": 30}\n";
        assert_eq!(best_and_steps(results), Ok((150.5, 30)));
        assert!(best_and_steps("bar 100%\n").unwrap_err().contains("bar 100%"));
    }
}
