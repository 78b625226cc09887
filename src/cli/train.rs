//! `pavlov train`: a new run.

use std::path::PathBuf;

use clap::{ArgAction, Args};

use super::exit::usage;
use super::run_dir::{self, Lock, RunFile};
use super::session::{Begin, ReportArgs, Session};
use super::settings::{SettingsArgs, assignments};
use super::signals;
use super::stop::Stop;
use crate::tune::{Config, RunOptions};

/// Train an algorithm in an environment
#[derive(Args, Debug)]
#[command(after_help = "Example:\n  pavlov train PPO --env CartPole-v1 --set num_envs_per_worker=8 \\\n    \
                        --stop timesteps_total=100000 --seed 0 --out runs/first\n\n\
                        Settings: defaults < --preset < --config < --set < other flags; `pavlov config show` shows \
                        the outcome.\nCtrl-C finishes the iteration, saves a checkpoint and exits with 0; \
                        `pavlov resume` goes on from there.")]
pub(super) struct TrainArgs {
    #[command(flatten)]
    settings: SettingsArgs,
    /// Stop when a result reaches a value, e.g. timesteps_total=100000 or episode_reward_mean=475; several are allowed,
    /// and null removes one of the preset
    #[arg(long, value_name = "KEY=VALUE")]
    stop: Vec<String>,
    /// The run directory, new or empty [default: a fresh one in $PAVLOV_RESULTS_DIR or ~/pavlov_results]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Save a checkpoint every N iterations; 0 for none on the way
    #[arg(long, value_name = "N", default_value_t = 0)]
    checkpoint_freq: u64,
    /// Keep the newest K checkpoints and the best one [default: all]
    #[arg(long, value_name = "K")]
    keep_checkpoints_num: Option<usize>,
    /// Save a checkpoint when a stop criterion is met
    #[arg(long, value_name = "BOOL", default_value_t = true, action = ArgAction::Set)]
    checkpoint_at_end: bool,
    #[command(flatten)]
    report: ReportArgs,
}

pub(super) fn train(args: TrainArgs) -> anyhow::Result<()> {
    let settings = args.settings.resolve()?;
    let mut stop = Stop::default();
    stop.lay_over(&settings.stop)?;
    stop.lay_over(&assignments(&args.stop)?)?;
    refuse_evaluation_that_never_comes(&stop, &settings.resolved.config)?;
    if let Some(out) = &args.out {
        run_dir::refuse_used(out)?;
    }
    let (entry, env) = (settings.entry, settings.env);
    let options = RunOptions {
        name: Some(format!("{}_{}", entry.name(), env.name())),
        logdir: args.out,
        keep_checkpoints_num: args.keep_checkpoints_num,
        ..RunOptions::default()
    };
    let driver = entry.build(env.clone(), settings.resolved.config, options)?;
    let run = RunFile {
        pavlov: env!("CARGO_PKG_VERSION").into(),
        algorithm: entry.name().into(),
        env: env.name().into(),
        stop: stop.to_config(),
        checkpoint_freq: args.checkpoint_freq,
        checkpoint_at_end: args.checkpoint_at_end,
        keep_checkpoints_num: args.keep_checkpoints_num,
        config: driver.get_config().clone(),
    };
    signals::watch()?;
    run.write(driver.logdir())?;
    let lock = Lock::take(driver.logdir())?;
    Session::new(driver, run, stop, args.report, lock).run(Begin::New)
}

fn refuse_evaluation_that_never_comes(stop: &Stop, config: &Config) -> anyhow::Result<()> {
    let never = config.get("evaluation_interval").is_none_or(|interval| interval.is_null());
    match stop.keys().find(|key| never && key.starts_with("evaluation/")) {
        None => Ok(()),
        Some(key) => Err(usage(format!(
            "the stop criterion `{key}` needs evaluations; ask for them with --set evaluation_interval=N"
        ))),
    }
}
