//! `pavlov train`: starts a new run.

use std::path::PathBuf;

use clap::{ArgAction, Args};

use super::exit::usage;
use super::leaves::leaves;
use super::lines::Lines;
use super::loggers::{self, LoggerArgs, LoggerName};
use super::report;
use super::run_dir::{self, Lock, RunFile};
use super::session::{Begin, ReportArgs, TrainingRun};
use super::settings::{SettingsArgs, assignments};
use super::signals;
use crate::envs::EnvCreator;
use crate::registry::AlgorithmEntry;
use crate::tune::stoppers::StoppingCriteria;
use crate::tune::{Config, Error, RunOptions};

/// Train an algorithm in an environment
#[derive(Args, Debug)]
#[command(after_help = "Example:\n  pavlov train PPO --env CartPole-v1 --set num_envs_per_worker=8 \\\n    \
                        --stop timesteps_total=100000 --seed 0 --out runs/first\n\n\
                        Settings: defaults < --preset, --from-sb3 or --from-rllib < --config < --set < other flags; `pavlov config show` shows \
                        the outcome.\nCtrl-C finishes the iteration, saves a checkpoint and exits with 0; \
                        `pavlov resume` goes on from there.")]
pub(super) struct TrainArgs {
    #[command(flatten)]
    settings: SettingsArgs,
    /// Stop when a result reaches a value, e.g. timesteps_total=100000 or episode_reward_mean=475; several are allowed, and
    /// null removes a criterion of the preset
    #[arg(long, value_name = "KEY=VALUE")]
    stop: Vec<String>,
    /// The run directory, new or empty, or a URL such as s3://bucket/run to which it is copied [default: a new directory in
    /// $PAVLOV_RESULTS_DIR or ~/pavlov_results]
    #[arg(long, value_name = "DIR|URL")]
    out: Option<PathBuf>,
    /// Save a checkpoint every N iterations; 0: none before the end of the run
    #[arg(long, value_name = "N", default_value_t = 0)]
    checkpoint_freq: u64,
    /// Keep the newest K checkpoints and the best one [default: all]
    #[arg(long, value_name = "K")]
    keep_checkpoints_num: Option<usize>,
    /// Save a checkpoint when a stop criterion is met
    #[arg(long, value_name = "BOOL", default_value_t = true, action = ArgAction::Set)]
    checkpoint_at_end: bool,
    /// Write a page about the run when it ends, as `pavlov report` does
    #[arg(long = "report", value_name = "FILE.html")]
    page: Option<PathBuf>,
    #[command(flatten)]
    loggers: LoggerArgs,
    #[command(flatten)]
    report: ReportArgs,
}

pub(super) fn train(args: TrainArgs) -> anyhow::Result<()> {
    if let Some(page) = &args.page {
        report::refuse_unwritable("--report", page)?;
    }
    let settings = args.settings.resolve()?;
    if let Some(translation) = &settings.translation {
        args.report.say(translation);
    }
    let mut stop = stop_criteria(&settings.stop).map_err(|error| settings.lines.place(error))?;
    stop.lay_over(&assignments(&args.stop)?)?;
    let run_dir = start(NewRun {
        entry: settings.entry,
        env: settings.env,
        config: settings.resolved.config,
        stop,
        lines: settings.lines,
        hint: settings.hint,
        out: args.out,
        checkpoint_freq: args.checkpoint_freq,
        checkpoint_at_end: args.checkpoint_at_end,
        keep_checkpoints_num: args.keep_checkpoints_num,
        loggers: args.loggers.loggers,
        report: args.report,
    })?;
    if let Some(page) = &args.page {
        report::write(&[run_dir], page)?;
        args.report.say(&format!("report:        {}", page.display()));
    }
    Ok(())
}

/// Options of a new run.
pub(super) struct NewRun {
    pub(super) entry: AlgorithmEntry,
    pub(super) env: EnvCreator,
    pub(super) config: Config,
    pub(super) stop: StoppingCriteria,
    /// Line numbers of the settings in the `--config` or sweep file.
    pub(super) lines: Lines,
    /// The first line of the run, about presets.
    pub(super) hint: Option<String>,
    pub(super) out: Option<PathBuf>,
    pub(super) checkpoint_freq: u64,
    pub(super) checkpoint_at_end: bool,
    pub(super) keep_checkpoints_num: Option<usize>,
    pub(super) loggers: Vec<LoggerName>,
    pub(super) report: ReportArgs,
}

/// Starts a run, trains it to its end and returns its directory.
pub(super) fn start(new: NewRun) -> anyhow::Result<PathBuf> {
    let NewRun { entry, env, config, stop, .. } = new;
    new.report.check()?;
    refuse_evaluation_that_never_comes(&stop, &config)?;
    let (logdir, url) = match new.out {
        Some(out) => run_dir::place(&out)?,
        None => (None, None),
    };
    let options = RunOptions {
        name: Some(format!("{}_{}", entry.name(), env.name())),
        logdir,
        remote_checkpoint_dir: url.clone(),
        keep_checkpoints_num: new.keep_checkpoints_num,
        hparams: Some(hparams(entry.name(), env.name(), &config, &entry.default_config()?)),
        loggers: loggers::choice(&new.loggers, &format!("{}_{}", entry.name(), env.name()))?,
        ..RunOptions::default()
    };
    let driver = entry.build(env.clone(), config, options).map_err(|error| new.lines.place(error))?;
    if let Some(hint) = &new.hint {
        new.report.say(hint);
    }
    let run = RunFile {
        pavlov: env!("CARGO_PKG_VERSION").into(),
        algorithm: entry.name().into(),
        env: env.name().into(),
        stop: stop.to_config(),
        checkpoint_freq: new.checkpoint_freq,
        checkpoint_at_end: new.checkpoint_at_end,
        keep_checkpoints_num: new.keep_checkpoints_num,
        remote_checkpoint_dir: url,
        loggers: new.loggers,
        config: driver.get_config().clone(),
    };
    let interrupt = signals::watch(signals::AFTER_ITERATION)?;
    let lock = Lock::of_new_run(driver.logdir())?;
    run.write(driver.logdir())?;
    let run_dir = driver.logdir().to_path_buf();
    TrainingRun::new(driver, run, stop, new.report, interrupt, lock).run(Begin::New)?;
    Ok(run_dir)
}

/// The settings for TensorBoard's HPARAMS tab: what runs are told apart by most, and what differs from the defaults.
fn hparams(algorithm: &str, env: &str, config: &Config, defaults: &Config) -> Config {
    const ALWAYS: [&str; 4] = ["gamma", "lr", "seed", "train_batch_size"];
    let defaults = leaves(defaults, "");
    let mut shown = Config::new();
    shown.insert("algorithm".into(), algorithm.into());
    shown.insert("env".into(), env.into());
    for (key, value) in leaves(config, "") {
        let is_default = defaults.iter().any(|(known, default)| *known == key && *default == value);
        if !value.is_null() && (!is_default || ALWAYS.contains(&key.as_str())) {
            shown.insert(key, value.clone());
        }
    }
    shown
}

/// Parts of a result that may appear only after some iterations; stop criteria on keys below them are not refused before.
const LATER: [&str; 4] = ["custom_metrics", "evaluation", "info/learner", "sampler_results/custom_metrics"];

/// Makes the stop criteria of a run.
pub(super) fn stop_criteria(stop: &Config) -> Result<StoppingCriteria, Error> {
    Ok(StoppingCriteria::new(stop)?.later(LATER))
}

fn refuse_evaluation_that_never_comes(stop: &StoppingCriteria, config: &Config) -> anyhow::Result<()> {
    let never = config.get("evaluation_interval").is_none_or(|interval| interval.is_null());
    match stop.keys().find(|key| never && key.starts_with("evaluation/")) {
        None => Ok(()),
        Some(key) => Err(usage(format!(
            "the stop criterion `{key}` needs evaluations; ask for them with --set evaluation_interval=N"
        ))),
    }
}
