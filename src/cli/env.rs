//! `pavlov env`: whether an environment keeps the contract, and how fast it is.

use std::time::Duration;

use anyhow::Context;
use clap::{Args, Subcommand};
use serde_json::json;

use super::exit::usage;
use super::output::{print, print_json};
use crate::envs::{AnyVectorEnv, EnvConfig, EnvCreator, check_vector_env, measure_speed};
use crate::tune::config::{assign, parse_assignment};

/// Check or measure an environment
#[derive(Args, Debug)]
#[command(after_help = "Example:\n  pavlov env check CartPole-v1")]
pub(super) struct EnvArgs {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Play with random actions and test every rule that environments must keep
    #[command(after_help = "Example:\n  pavlov env check Pendulum-v1 --set g=9.81")]
    Check {
        #[command(flatten)]
        env: Which,
        /// Print one JSON object
        #[arg(long)]
        json: bool,
    },
    /// Step with random actions and count steps per second
    #[command(after_help = "Example:\n  pavlov env bench CartPole-v1 --num-envs 1024")]
    Bench {
        #[command(flatten)]
        env: Which,
        /// Copies stepped together
        #[arg(long, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
        num_envs: u32,
        /// How long, at least
        #[arg(long, value_name = "S", default_value_t = 1.0)]
        seconds: f64,
        /// Print one JSON object
        #[arg(long)]
        json: bool,
    },
}

/// An environment and its settings.
#[derive(Args, Debug)]
struct Which {
    /// Environment; `pavlov list envs` shows all
    id: String,
    #[arg(long, value_name = "KEY=VALUE", help = "One setting of its env_config; several are allowed")]
    set: Vec<String>,
}

impl Which {
    fn make(&self, num_envs: usize) -> anyhow::Result<Box<dyn AnyVectorEnv>> {
        let mut config = EnvConfig::new();
        for assignment in &self.set {
            let (key, value) = parse_assignment(assignment)?;
            assign(&mut config, &key, value);
        }
        Ok(EnvCreator::from(self.id.as_str()).make_vec(&config, num_envs)?)
    }
}

pub(super) fn env(args: EnvArgs) -> anyhow::Result<()> {
    match args.action {
        Action::Check { env, json } => check(&env, json),
        Action::Bench { env, num_envs, seconds, json } => bench(&env, num_envs as usize, seconds, json),
    }
}

/// A single copy and several: what one copy does to the next shows with several only.
fn check(which: &Which, json: bool) -> anyhow::Result<()> {
    for num_envs in [1, 3] {
        let mut env = which.make(num_envs)?;
        check_vector_env(&mut *env).with_context(|| format!("{}, copies: {num_envs}", which.id))?;
    }
    if json {
        return print_json(&json!({ "env": which.id, "ok": true })).map(drop);
    }
    print(&format!("{} keeps the contract", which.id)).map(drop)
}

fn bench(which: &Which, num_envs: usize, seconds: f64, json: bool) -> anyhow::Result<()> {
    let time = Duration::try_from_secs_f64(seconds).ok().filter(|time| !time.is_zero());
    let Some(time) = time else {
        return Err(usage(format!("--seconds is {seconds}, but it must be above 0")));
    };
    let mut env = which.make(num_envs)?;
    let speed = measure_speed(&mut *env, time)?;
    if json {
        return print_json(&json!({
            "env": which.id,
            "num_envs": num_envs,
            "steps": speed.steps,
            "episodes": speed.episodes,
            "seconds": speed.seconds,
            "steps_per_second": speed.steps_per_second(),
        }))
        .map(drop);
    }
    print(&format!(
        "{}, {num_envs} copies: {:.0} steps/s ({} steps and {} episodes in {:.2} s)",
        which.id,
        speed.steps_per_second(),
        speed.steps,
        speed.episodes,
        speed.seconds
    ))
    .map(drop)
}
