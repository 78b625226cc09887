//! `pavlov env`: checks whether an environment keeps the contract, and measures how fast it is.

use std::time::Duration;

use anyhow::Context;
use clap::{Args, Subcommand};
use serde_json::json;

use super::exit::usage;
use super::output::{print, print_json};
use crate::envs::{
    self, AnyMultiAgentEnv, AnyVectorEnv, DType, Element, EnvConfig, EnvCreator, Finding, Speed,
    TypedMultiAgentEnv, examine_multi_agent_env, examine_vector_env, make_multi_agent,
    measure_multi_agent_speed, measure_speed, multi_agent_ids, python::is_agents_id, seems_endless,
};
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
    /// Take random actions and test every rule that environments must keep
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
        /// Number of copies stepped together; an environment with several agents always has one
        #[arg(long, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
        num_envs: u32,
        /// Minimum time of the measurement in seconds
        #[arg(long, value_name = "S", default_value_t = 1.0)]
        seconds: f64,
        /// Print one JSON object
        #[arg(long)]
        json: bool,
    },
}

/// The notice about an environment whose episodes may never end.
fn endless_notice(id: &str) -> String {
    let mend = if ["py:", "ma:"].iter().any(|kind| id.starts_with(kind)) {
        "register it with `max_episode_steps`"
    } else {
        "implement `Env::max_episode_steps`"
    };
    format!(
        "\nnotice: it names no time limit, and no episode ended in 300 random steps. An evaluation may not end: {mend}, or \
         train with `wrappers = [\"TimeLimit(1000)\"]`"
    )
}

/// An environment and its settings.
#[derive(Args, Debug)]
struct Which {
    /// Id of the environment; `pavlov list envs` shows all
    id: String,
    #[arg(long, value_name = "KEY=VALUE", help = "One setting of its env_config; several are allowed")]
    set: Vec<String>,
}

impl Which {
    fn config(&self) -> anyhow::Result<EnvConfig> {
        let mut config = EnvConfig::new();
        for assignment in &self.set {
            let (key, value) = parse_assignment(assignment)?;
            assign(&mut config, &key, value);
        }
        Ok(config)
    }

    fn make(&self, num_envs: usize) -> anyhow::Result<Box<dyn AnyVectorEnv>> {
        Ok(EnvCreator::from(self.id.as_str()).make_vec(&self.config()?, num_envs)?)
    }

    fn has_several_agents(&self) -> bool {
        is_agents_id(&self.id) || multi_agent_ids().contains(&self.id)
    }

    /// Measures the speed of an environment with several agents, for any scalar types of observations and actions.
    fn speed_of_agents(&self, time: Duration) -> anyhow::Result<Speed> {
        fn measure<O: Element>(env: Box<dyn AnyMultiAgentEnv>, time: Duration) -> envs::Result<Speed> {
            match env.act_dtype() {
                DType::U8 => measure_multi_agent_speed(&mut TypedMultiAgentEnv::<O, u8>::new(env)?, time),
                DType::I64 => measure_multi_agent_speed(&mut TypedMultiAgentEnv::<O, i64>::new(env)?, time),
                DType::F32 => measure_multi_agent_speed(&mut TypedMultiAgentEnv::<O, f32>::new(env)?, time),
                DType::F64 => measure_multi_agent_speed(&mut TypedMultiAgentEnv::<O, f64>::new(env)?, time),
            }
        }
        let env = make_multi_agent(&self.id, &self.config()?)?;
        Ok(match env.obs_dtype() {
            DType::U8 => measure::<u8>(env, time),
            DType::I64 => measure::<i64>(env, time),
            DType::F32 => measure::<f32>(env, time),
            DType::F64 => measure::<f64>(env, time),
        }?)
    }
}

pub(super) fn env(args: EnvArgs) -> anyhow::Result<()> {
    match args.action {
        Action::Check { env, json } => check(&env, json),
        Action::Bench { env, num_envs, seconds, json } => bench(&env, num_envs as usize, seconds, json),
    }
}

fn check(which: &Which, json: bool) -> anyhow::Result<()> {
    let mut endless = false;
    let mut found: Vec<Finding> = vec![];
    if which.has_several_agents() {
        let env = make_multi_agent(&which.id, &which.config()?)?;
        found = examine_multi_agent_env(env, Duration::MAX).with_context(|| which.id.clone())?.findings;
    } else {
        endless = seems_endless(&mut *which.make(1)?)?;
        // Effects of one copy on another show only with several copies.
        for num_envs in [1, 3] {
            let place = || format!("{}, copies: {num_envs}", which.id);
            let mut env = which.make(num_envs).with_context(place)?;
            let more = examine_vector_env(&mut *env, Duration::MAX).with_context(place)?;
            let is_new = |new: &Finding| {
                !found.iter().any(|old| (old.rule, old.is_refused) == (new.rule, new.is_refused))
            };
            let new: Vec<_> =
                more.findings.into_iter().filter(|new| new.rule == "form" || is_new(new)).collect();
            found.extend(new.into_iter().filter(|new| !found.contains(new)).collect::<Vec<_>>());
        }
    }
    if !found.is_empty() {
        anyhow::bail!("{}", broken_rules(&which.id, &found));
    }
    if json {
        return print_json(&json!({ "env": which.id, "ok": true })).map(drop);
    }
    let endless = if endless { endless_notice(&which.id) } else { String::new() };
    print(&format!("{} keeps the contract{endless}", which.id)).map(drop)
}

/// The list of all rules that an environment breaks, those with which it is refused first.
fn broken_rules(id: &str, found: &[Finding]) -> String {
    let refused = found.iter().filter(|finding| finding.is_refused).count();
    let then = match (refused, found.len() - refused) {
        (0, _) => "It is trained as it is, and `strict_env_checking = true` refuses it",
        (_, 0) => "It is not trained unless `disable_env_checking = true`",
        _ => "It is not trained unless `disable_env_checking = true`, because of those marked with !",
    };
    let mut text = format!("{id} breaks rules of the contract. {then}:");
    let (first, then): (Vec<_>, Vec<_>) = found.iter().partition(|finding| finding.is_refused);
    for finding in first.into_iter().chain(then) {
        let line = match finding.is_refused {
            true => format!("! contract `{}` is broken: {}", finding.rule, finding.message),
            false => format!("* {}", finding.remark()),
        };
        text.push_str(&format!("\n{line}"));
    }
    text
}

fn bench(which: &Which, num_envs: usize, seconds: f64, json: bool) -> anyhow::Result<()> {
    let time = Duration::try_from_secs_f64(seconds).ok().filter(|time| !time.is_zero());
    let Some(time) = time else {
        return Err(usage(format!("--seconds is {seconds}, but it must be above 0")));
    };
    let (num_envs, speed) = if which.has_several_agents() {
        (1, which.speed_of_agents(time)?)
    } else {
        (num_envs, measure_speed(&mut *which.make(num_envs)?, time)?)
    };
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
        "{}, {num_envs} {}: {:.0} steps/s ({} steps and {} episodes in {:.2} s)",
        which.id,
        if num_envs == 1 { "copy" } else { "copies" },
        speed.steps_per_second(),
        speed.steps,
        speed.episodes,
        speed.seconds
    ))
    .map(drop)
}
