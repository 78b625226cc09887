//! `pavlov evaluate`: plays episodes with a saved policy, prints their returns, and can render the first one.

use std::path::{Path, PathBuf};

use clap::Args;
use serde_json::{Value, json};

use super::exit::usage;
use super::output::{print, print_json, say, visible};
use super::returns::{self, Summary};
use super::run_dir::find_checkpoint;
use super::trust::{self, TrustArgs};
use crate::envs::{EnvCreator, Frame, python::is_python_id};
use crate::load;
use crate::registry;
use crate::trainer::{Evaluation, Pack};
use crate::tune::{
    Config, LoggerChoice, RunOptions, checkpoint,
    config::{assign, parse_assignment},
};

/// Play whole episodes with a saved policy
#[derive(Args, Debug)]
#[command(after_help = "Example:\n  pavlov evaluate runs/first --episodes 100 --seed 1 --render pole.gif")]
pub(super) struct EvaluateArgs {
    /// A packed model, a checkpoint, a run directory (its newest checkpoint) or a sweep (that of its best trial);
    /// checkpoints and runs may be URLs
    #[arg(value_name = "DIR|URL|FILE.pavlov")]
    checkpoint: PathBuf,
    /// Number of episodes to play
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    episodes: u64,
    /// Seed of the episodes; the same seed plays the same episodes
    #[arg(long, value_name = "N", default_value_t = 0)]
    seed: u64,
    /// One setting in place of the trained one, e.g. env_config.g=9.81; several are allowed
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<String>,
    /// Sample and explore as in training instead of taking the best action
    #[arg(long)]
    explore: bool,
    /// Write the first episode as an animated GIF
    #[arg(long, value_name = "FILE.gif")]
    render: Option<PathBuf>,
    /// Maximum number of frames in the animation; they are kept in memory (0.7 MB for one of 600x400)
    #[arg(long, value_name = "N", default_value_t = 1000, requires = "render", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    max_frames: u32,
    #[command(flatten)]
    trust: TrustArgs,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

pub(super) fn evaluate(args: EvaluateArgs) -> anyhow::Result<()> {
    if let Some(file) = &args.render {
        refuse_unwritable(file)?;
    }
    if load::is_pack(&args.checkpoint) {
        return evaluate_pack(&args);
    }
    let path = find_checkpoint(&args.checkpoint)?;
    let kind = checkpoint::verify(&path, None)?.kind;
    let metadata = checkpoint::metadata(&path)?;
    let (env, mut config) = for_acting(metadata.config, &path)?;
    // Python environments can render only if they were made with a render mode.
    let draws = (args.render.is_some() && is_python_id(&env))
        .then(|| "env_config.kwargs.render_mode=rgb_array".into());
    let mut unchanged = config.clone();
    unchanged.insert("env".into(), env.as_str().into());
    for assignment in draws.iter().chain(&args.set) {
        let (key, value) = parse_assignment(assignment)?;
        assign(&mut unchanged, &key, Value::Null);
        assign(&mut config, &key, value);
    }
    args.trust.check(&path, &trust::named(&unchanged))?;
    if let Some(other) = config.get("env").and_then(Value::as_str).filter(|other| *other != env) {
        refuse_other_spaces(&env, other, &unchanged, &config)?;
    }
    let entry = registry::algorithm(&kind)?;
    let options = RunOptions { loggers: LoggerChoice::None, ..RunOptions::default() };
    let mut driver = entry.build(env.as_str().into(), config, options)?;
    driver.restore_policies(&path)?;

    let frames = if args.render.is_some() { args.max_frames as usize } else { 0 };
    let played = driver.play(args.episodes, args.seed, args.explore, frames)?;
    let about = json!({
        "algorithm": entry.name(),
        "env": env,
        "checkpoint": path,
        "training_iteration": metadata.iteration,
        "timesteps_total": metadata.timesteps_total,
    });
    tell(&args, &env, &played, about)
}

/// Plays episodes with the policy of a packed model. Of its settings only the environment's are used.
fn evaluate_pack(args: &EvaluateArgs) -> anyhow::Result<()> {
    let path = &args.checkpoint;
    let pack = Pack::read(path)?;
    let facts = pack.facts();
    let mut settings = Config::new();
    for key in ["env", "env_config", "wrappers"] {
        settings.extend(facts.settings.get(key).map(|value| (key.to_owned(), value.clone())));
    }
    let mut unchanged = settings.clone();
    for assignment in &args.set {
        let (key, value) = parse_assignment(assignment)?;
        if !["env", "env_config", "wrappers"].contains(&key.first().map_or("", String::as_str)) {
            return Err(usage(format!(
                "--set {assignment}: a packed model is played with the settings `env`, `env_config` and `wrappers` alone"
            )));
        }
        assign(&mut unchanged, &key, Value::Null);
        assign(&mut settings, &key, value);
    }
    args.trust.check(path, &trust::named(&unchanged))?;
    let Some(env) = settings.get("env").and_then(Value::as_str).map(str::to_owned) else {
        return Err(usage(format!(
            "{} does not name its environment; name one of the same spaces by --set env=ID",
            path.display()
        )));
    };
    let frames = if args.render.is_some() { args.max_frames as usize } else { 0 };
    let which = (args.episodes, args.seed);
    let played = pack.play(&EnvCreator::from(env.as_str()), &settings, which, args.explore, frames)?;
    let fact = |map: &Config, key: &str| map.get(key).cloned().unwrap_or_default();
    let about = json!({
        "algorithm": fact(&facts.settings, "algorithm"),
        "env": env,
        "checkpoint": path,
        "training_iteration": fact(&facts.results, "training_iteration"),
        "timesteps_total": fact(&facts.results, "timesteps_total"),
    });
    tell(args, &env, &played, about)
}

/// Writes the animation, and prints what the episodes brought; `about` says which policy played.
fn tell(args: &EvaluateArgs, env: &str, played: &Evaluation, mut about: Value) -> anyhow::Result<()> {
    let frames = if args.render.is_some() { args.max_frames as usize } else { 0 };
    if let Some(file) = &args.render {
        write_gif(file, env, &played.frames, played.render_fps)?;
        let length = played.episodes.first().map_or(0, |episode| episode.length);
        if length > frames as u64 {
            say(&format!(
                "{} holds the first {frames} of the {length} steps of the episode; --max-frames {length} keeps all",
                file.display()
            ));
        }
    }
    let of_episodes: Vec<f64> = played.episodes.iter().map(|episode| episode.total_reward).collect();
    let lengths: Vec<f64> = played.episodes.iter().map(|episode| episode.length as f64).collect();
    let summary = Summary::of(&of_episodes);
    let of_agents = returns::of_agents(&played.episodes);
    if args.json {
        let (agents, games) = returns::report(&of_agents);
        let more = json!({
            "seed": args.seed,
            "explore": args.explore,
            "episodes": of_episodes.len(),
            "episode_reward_mean": summary.mean,
            "episode_reward_std": summary.std,
            "episode_reward_min": summary.min,
            "episode_reward_max": summary.max,
            "episode_len_mean": Summary::of(&lengths).mean,
            "episode_rewards": of_episodes,
            "agents": agents,
            "games": games,
        });
        if let (Value::Object(all), Value::Object(more)) = (&mut about, more) {
            all.extend(more);
        }
        return print_json(&about).map(drop);
    }
    let Summary { mean, std, min, max } = summary;
    print(&format!(
        "{} on {}, iteration {}: {} {} episodes\n\
         return  mean {mean:.2}  std {std:.2}  min {min:.2}  max {max:.2}\n\
         length  mean {:.1}{}",
        visible(about["algorithm"].as_str().unwrap_or("a policy")),
        visible(env),
        about["training_iteration"],
        of_episodes.len(),
        if args.explore { "exploring" } else { "greedy" },
        Summary::of(&lengths).mean,
        returns::lines(&of_agents)
    ))
    .map(drop)
}

/// Returns the environment id and the settings without workers, evaluation and GPUs, which only training needs.
pub(super) fn for_acting(mut config: Config, checkpoint: &Path) -> anyhow::Result<(String, Config)> {
    let Some(Value::String(env)) = config.shift_remove("env") else {
        return Err(usage(format!("{}: metadata.json names no environment", checkpoint.display())));
    };
    for (key, value) in
        [("num_workers", json!(0)), ("num_gpus", json!(0)), ("evaluation_interval", Value::Null)]
    {
        config.insert(key.into(), value);
    }
    Ok((env, config))
}

fn refuse_unwritable(file: &Path) -> anyhow::Result<()> {
    let shown = file.display();
    if !file.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("gif")) {
        return Err(usage(format!(
            "--render is {shown}, but its name must end in .gif, the format it writes"
        )));
    }
    match file.parent() {
        Some(dir) if !dir.as_os_str().is_empty() && !dir.is_dir() => {
            Err(usage(format!("--render is {shown}, but there is no directory {}", dir.display())))
        }
        _ => Ok(()),
    }
}

/// Refuses an environment whose spaces are not those of the environment that the policy was trained on.
fn refuse_other_spaces(trained: &str, other: &str, before: &Config, now: &Config) -> anyhow::Result<()> {
    let spaces = |env: &str, config: &Config| {
        let of_env = config.get("env_config").and_then(Value::as_object).cloned().unwrap_or_default();
        let copy = EnvCreator::from(env).make_vec(&of_env, 1).ok()?;
        Some((copy.observation_space().clone(), copy.action_space().clone()))
    };
    // An environment that cannot be made is refused with its own words later; several agents have spaces of their own.
    let (Some(wanted), Some(found)) = (spaces(trained, before), spaces(other, now)) else { return Ok(()) };
    if wanted == found {
        return Ok(());
    }
    Err(usage(format!(
        "--set env={other}: it has observations {} and actions {}, but the policy was trained on {trained} with {} and {}; \
         choose an environment with the same spaces",
        found.0, found.1, wanted.0, wanted.1
    )))
}

fn write_gif(file: &Path, env: &str, frames: &[Frame], render_fps: Option<f64>) -> anyhow::Result<()> {
    if frames.is_empty() {
        return Err(usage(format!(
            "{env} draws no pictures; leave out --render, or {}",
            if is_python_id(env) {
                "give it `render_mode` = \"rgb_array\" in the `kwargs` of its env_config"
            } else {
                "implement `render` for it"
            }
        )));
    }
    Ok(crate::trainer::write_gif(file, frames, render_fps)?)
}
