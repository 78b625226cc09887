//! `pavlov tune`: starts or resumes a sweep; `pavlov trial`: trains one trial of a sweep.

use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use clap::Args;
use pavlov_processes::experiment_of_trial;
use serde_json::{Value, json};

use super::choice::{Choice, environment};
use super::exit::usage;
use super::lines::Lines;
use super::loggers::{self, LoggerArgs};
use super::output::{print, print_json, program, quoted};
use super::returns::Summary;
use super::run_dir::SWEEP;
use super::session::ReportArgs;
use super::sweep_view::SweepView;
use super::train::{NewRun, start, stop_criteria};
use super::trust::{self, TrustArgs};
use super::{run_dir, signals};
use crate::envs::EnvCreator;
use crate::registry::AlgorithmEntry;
use crate::tune::config::{Layer, read_settings};
use crate::tune::loggers::flatten;
use crate::tune::{Config, Error, ExperimentFile, Metrics, Restore, ResultGrid, SweepFile, TrialResult};
use crate::tune::{child_main, replace_file, storage};

/// Search for settings: run the trials of a sweep file, or resume a sweep
#[derive(Args, Debug)]
#[command(after_help = "Example:\n  pavlov tune examples/sweeps/ppo-asha.toml --out runs/sweep\n  \
                        pavlov tune --resume runs/sweep\n\n\
                        Ctrl-C saves the trials and exits with 0; --resume goes on from there, and also after a \
                        crash.")]
pub(super) struct TuneArgs {
    /// TOML file of the sweep; with --resume needed only if it has changed
    #[arg(required_unless_present = "resume")]
    sweep: Option<PathBuf>,
    /// The experiment's directory, new or empty, or a URL such as s3://bucket/sweep to which it is copied [default: a new
    /// directory in $PAVLOV_RESULTS_DIR or ~/pavlov_results]
    #[arg(long, value_name = "DIR|URL")]
    out: Option<PathBuf>,
    /// Resume the sweep in this directory or at this URL
    #[arg(long, value_name = "DIR|URL", conflicts_with = "out")]
    resume: Option<PathBuf>,
    /// With --resume: continue failed trials from their newest checkpoint
    #[arg(long, requires = "resume")]
    resume_errored: bool,
    /// With --resume: start failed trials again
    #[arg(long, requires = "resume", conflicts_with = "resume_errored")]
    restart_errored: bool,
    /// Number of trials to draw, or of repetitions of the grid; -1 for no limit
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = clap::value_parser!(i64).range(-1..))]
    num_samples: Option<i64>,
    /// Maximum number of trials that run at the same time
    #[arg(long, value_name = "N")]
    max_concurrent: Option<usize>,
    #[command(flatten)]
    loggers: LoggerArgs,
    #[command(flatten)]
    trust: TrustArgs,
    /// Print one JSON object per trial on standard output, and nothing else there
    #[arg(long)]
    json: bool,
    /// Show no progress; errors only
    #[arg(long)]
    quiet: bool,
}

/// Train a single trial of a sweep file, e.g. as one job of a job array
#[derive(Args, Debug)]
#[command(
    after_help = "Example:\n  pavlov trial examples/sweeps/ppo-asha.toml --number 3 --out runs/third\n\n\
                        The settings are those that `pavlov tune` draws for it; no scheduler stops it early."
)]
pub(super) struct TrialArgs {
    /// TOML file of the sweep
    sweep: PathBuf,
    /// Number of the trial, from 0
    #[arg(long, value_name = "N")]
    number: u64,
    /// The run directory, new or empty, or a URL such as s3://bucket/run to which it is copied [default: a new directory in
    /// $PAVLOV_RESULTS_DIR or ~/pavlov_results]
    #[arg(long, value_name = "DIR|URL")]
    out: Option<PathBuf>,
    #[command(flatten)]
    loggers: LoggerArgs,
    #[command(flatten)]
    report: ReportArgs,
}

pub(super) fn tune(args: TuneArgs) -> anyhow::Result<()> {
    let url = args.resume.as_deref().and_then(run_dir::url);
    let path = match (&args.sweep, &args.resume) {
        // A trial's machine may not have the original sweep file, so the copy in the experiment's directory is read.
        _ if let Some(dir) = experiment_of_trial() => dir.join(SWEEP),
        (Some(path), _) => path.clone(),
        (None, _) if url.is_some() => bring_sweep(url.unwrap_or_default())?,
        (None, Some(dir)) if dir.join(SWEEP).is_file() => dir.join(SWEEP),
        (None, Some(dir)) => {
            return Err(usage(format!(
                "{}: there is no sweep in it; begin one with `{} tune FILE --out {}`",
                dir.display(),
                program(),
                quoted(dir)
            )));
        }
        (None, None) => return Err(usage("give a sweep file, or --resume with an experiment's directory")),
    };
    let ResolvedSweep { file: mut sweep, entry, env, base, lines } = ResolvedSweep::read(&path)?;
    if let Some(number) = args.num_samples {
        sweep.num_samples = u64::try_from(number).ok();
    }
    sweep.max_concurrent_trials = args.max_concurrent.or(sweep.max_concurrent_trials);
    if let Ok(first) = sweep.trial(0) {
        // Unknown settings are refused here, before any trial starts.
        let place = |error| lines.within(SPACE).place(error);
        entry.resolve_in(layers(&base, &path, first), &env).map_err(place)?;
    }
    refuse_mutations_without_effect(&sweep.scheduler)?;
    let settings: Config = serde_json::from_value(serde_json::to_value(&sweep)?)?;
    let named = trust::named(&settings);
    let flag = if named.is_empty() { "" } else { " --trust" };
    // The experiment's copy of the sweep file, which a trial reads, lists the loggers of the command.
    let of_command = if experiment_of_trial().is_some() { &[][..] } else { &args.loggers.loggers };
    let resumed = args.resume.as_deref().filter(|_| experiment_of_trial().is_none());
    let trainable =
        loggers::of_trials(entry.as_trainable(env, base), of_command, &mut sweep.loggers, resumed)?;
    // In the process of a trial this call trains the trial and does not return.
    child_main(&[&trainable]);
    if args.sweep.is_none() {
        args.trust.check(&path, &named)?;
    }

    let mut above = None;
    if let Some(url) = args.out.as_deref().and_then(run_dir::url) {
        let (parent, name) = split(url)?;
        above = Some(parent.into());
        sweep.name = Some(name.into());
    } else if let Some(out) = &args.out {
        run_dir::refuse_used(out)?;
        let out = std::path::absolute(out).map_err(Error::io("find the absolute path of", out))?;
        above = out.parent().map(Path::to_path_buf);
        sweep.name = out.file_name().map(|name| name.to_string_lossy().into_owned());
    }
    let text = toml::to_string(&sweep).context("the sweep cannot be written as TOML")?;
    let lines = lines.within(SWEEP_TABLES);
    let mut tuner = sweep.tuner(trainable, above).map_err(|error| lines.place(error))?;
    let stopper = stop_criteria(&sweep.stop).and_then(|criteria| sweep.stopper(criteria));
    tuner.run_config.stop = stopper.map_err(|error| lines.place(error))?;
    if !args.quiet {
        let alone = format!("{} trial {} --number", program(), quoted(&path));
        tuner.run_config.progress_reporter = Some(Box::new(SweepView::new(alone)));
    }
    tuner.run_config.interrupt = signals::watch("saving the trials; Ctrl-C again quits at once")?;
    // The sweep with the command's options, for `--resume`.
    let file = Some(ExperimentFile { name: SWEEP, content: text.into() });
    let ran = match &args.resume {
        None => tuner.fit_with(file),
        Some(dir) => {
            let resume_errored = args.resume_errored;
            let restart_errored = args.restart_errored;
            tuner.restore_with(dir, Restore { resume_errored, restart_errored, ..Restore::default() }, file)
        }
    };
    let grid = ran.map_err(|error| lines.place(error))?;
    if args.json {
        grid.iter().try_for_each(|trial| print_json(&as_json(trial)).map(drop))?;
    } else {
        print(&summary(&grid, flag))?;
    }
    match grid.num_errors() {
        0 => Ok(()),
        failed => {
            bail!("{failed} of {} trials failed; `error.txt` in their directories says why", grid.len())
        }
    }
}

pub(super) fn trial(args: TrialArgs) -> anyhow::Result<()> {
    let ResolvedSweep { file, entry, env, base, lines } = ResolvedSweep::read(&args.sweep)?;
    if !file.stoppers.is_empty() {
        return Err(usage(
            "`stoppers` see a whole sweep, and a trial alone has none of them: remove them from the sweep file, and \
             say in `stop` when the trial ends",
        ));
    }
    let place = |error| lines.within(SWEEP_TABLES).place(error);
    let drawn = file.trial(args.number).map_err(place)?;
    let stop = stop_criteria(&file.stop).map_err(place)?;
    let lines = lines.within(SPACE);
    let resolved =
        entry.resolve_in(layers(&base, &args.sweep, drawn), &env).map_err(|error| lines.place(error))?;
    start(NewRun {
        config: resolved.config,
        entry,
        env,
        stop,
        lines,
        hint: None,
        out: args.out,
        checkpoint_freq: file.checkpoint.checkpoint_frequency.unwrap_or(0),
        checkpoint_at_end: file.checkpoint.checkpoint_at_end.unwrap_or(true),
        keep_checkpoints_num: file.checkpoint.num_to_keep,
        loggers: args.loggers.loggers,
        report: args.report,
    })
    .map(drop)
}

/// Settings that a trial cannot change when it goes on from the checkpoint of another one: its parts depend on them.
const FIXED: [&str; 6] = [
    "batch_mode",
    "create_env_on_driver",
    "num_envs_per_worker",
    "num_workers",
    "observation_filter",
    "seed",
];

/// Refuses mutations of population based training that would be undone, or would fail, at the first exploit.
fn refuse_mutations_without_effect(scheduler: &Config) -> anyhow::Result<()> {
    let mutated = scheduler.get("hyperparam_mutations").and_then(Value::as_object);
    let fixed = |key: &&String| FIXED.contains(&key.as_str());
    match mutated.and_then(|mutated| mutated.keys().find(fixed)) {
        None => Ok(()),
        Some(key) => Err(usage(format!(
            "`scheduler.hyperparam_mutations.{key}`: a trial that copies another one goes on from its checkpoint, which fixes \
             `{key}`; leave it out there, and draw it once for each trial in `space`"
        ))),
    }
}

/// Downloads the sweep file of the experiment at `url` to the local work directory and returns its path.
fn bring_sweep(url: &str) -> anyhow::Result<PathBuf> {
    let path = storage::work_dir(url)?.join(SWEEP);
    if path.is_file() {
        return Ok(path);
    }
    let Some(text) = storage::open(url)?.get(SWEEP)? else {
        return Err(usage(format!(
            "{url}: there is no {SWEEP} in it; give the sweep's file too: `{} tune FILE --resume {}`",
            program(),
            quoted(url)
        )));
    };
    let dir = path.parent().unwrap_or(Path::new("."));
    std::fs::create_dir_all(dir).map_err(Error::io("create", dir))?;
    replace_file(&path, &text)?;
    Ok(path)
}

/// Splits the last part off a URL: `s3://bucket/sweeps/first` gives `s3://bucket/sweeps` and `first`.
fn split(url: &str) -> anyhow::Result<(&str, &str)> {
    match url.trim_end_matches('/').rsplit_once('/') {
        Some((parent, name)) if !parent.ends_with('/') => Ok((parent, name)),
        _ => Err(usage(format!("--out is {url}, but it must name a folder in the bucket: {url}/sweep"))),
    }
}

fn layers(base: &Config, path: &Path, drawn: Config) -> Vec<Layer> {
    let preset = Layer { origin: "preset".into(), values: base.clone() };
    vec![preset, Layer { origin: path.display().to_string(), values: drawn }]
}

/// A sweep file with its algorithm, environment and preset looked up.
struct ResolvedSweep {
    file: SweepFile,
    entry: AlgorithmEntry,
    env: EnvCreator,
    /// Settings of the preset, which the settings of the trials override.
    base: Config,
    /// Line numbers of the settings in the sweep file.
    lines: Lines,
}

/// Table of a sweep file with the settings of its trials.
const SPACE: &[&str] = &["space"];

/// Tables of a sweep file that an error about the sweep may refer to.
const SWEEP_TABLES: &[&str] = &["", "space", "scheduler", "search"];

impl ResolvedSweep {
    fn read(path: &Path) -> anyhow::Result<Self> {
        let text = read_settings(path)?;
        let origin = path.display().to_string();
        let lines = Lines::of(&origin, &text);
        let mut file = SweepFile::parse(&text, &origin).map_err(|error| lines.place(error))?;
        let named = |error: anyhow::Error| usage(format!("{origin}: {error:#}"));
        let choice = Choice::of(&file.algorithm, file.preset.as_deref(), file.env.take()).map_err(named)?;
        let Choice { entry, preset, env } = choice;
        let mut base = Config::new();
        if let Some(preset) = preset {
            base = preset.config;
            if file.stop.is_empty() {
                file.stop = preset.stop;
            }
        }
        let Some(id) = env else {
            return Err(usage(format!("{origin}: no environment; write e.g. env = \"CartPole-v1\"")));
        };
        let env = environment(&id)?;
        file.env = Some(id);
        Ok(ResolvedSweep { file, entry, env, base, lines })
    }
}

fn as_json(trial: &TrialResult) -> Value {
    json!({
        "trial_id": trial.trial_id,
        "experiment_tag": trial.experiment_tag,
        "status": trial.status,
        "config": trial.config,
        "result": trial.metrics,
        "error": trial.error,
        "path": trial.path,
        "checkpoint": trial.checkpoint,
    })
}

/// Formats the table of all trials, the best trial and commands to continue; `trust` is appended to the commands.
fn summary(grid: &ResultGrid, trust: &str) -> String {
    let dir = grid.experiment_path().display();
    let program = program();
    let mut lines = vec![grid.to_string()];
    if let Ok(best) = grid.best() {
        let line = grid.best_line().unwrap_or_else(|| best.trial_id.clone());
        lines.push(format!("best trial:   {}", line.strip_prefix("best ").unwrap_or(&line)));
        if let Some(checkpoint) = &best.checkpoint {
            lines.push(format!("evaluate it:  {program} evaluate {}{trust}", quoted(checkpoint)));
        }
    }
    if let Some(objective) = grid.objective() {
        let trials = grid.iter().filter_map(|trial| Some((&trial.config, trial.metrics.as_ref()?)));
        lines.extend(over_seeds(trials, &objective.metric).map(|line| format!("over seeds:   {line}")));
    }
    lines.push(format!("experiment:   {dir}"));
    if !grid.is_empty() {
        lines.push(format!("all results:  {dir}/results.csv"));
    }
    if grid.interrupted() {
        lines
            .push(format!("go on:        {program} tune --resume {}{trust}", quoted(grid.experiment_path())));
    }
    lines.join("\n")
}

/// Mean and standard deviation of `metric` over trials that differ in nothing but their seed; one line for each group of two
/// trials or more.
fn over_seeds<'a>(
    trials: impl Iterator<Item = (&'a Config, &'a Metrics)>,
    metric: &str,
) -> impl Iterator<Item = String> {
    let mut groups: Vec<(Config, Vec<f64>, Vec<f64>)> = Vec::new();
    for (config, result) in trials {
        let mut rest = config.clone();
        let seed = rest.shift_remove("seed").and_then(|seed| seed.as_f64());
        let value = flatten(result).into_iter().find(|(key, _)| key == metric);
        let (Some(seed), Some(value)) = (seed, value.and_then(|(_, value)| value.as_f64())) else { continue };
        match groups.iter_mut().find(|(known, ..)| *known == rest) {
            Some((_, seeds, values)) => {
                seeds.push(seed);
                values.push(value);
            }
            None => groups.push((rest, vec![seed], vec![value])),
        }
    }
    let metric = metric.to_owned();
    let several = groups.into_iter().filter(|(_, seeds, _)| seeds.windows(2).any(|pair| pair[0] != pair[1]));
    several.map(move |(_, seeds, values)| {
        let summary = Summary::of(&values);
        format!(
            "{metric} {:.2} on average, deviation {:.2}, of {} seeds",
            summary.mean,
            summary.std,
            seeds.len()
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trials_that_differ_in_their_seed_have_a_mean_and_a_deviation() {
        let object = |value: Value| value.as_object().cloned().unwrap_or_default();
        let trials: Vec<(Config, Metrics)> = [(0, 0.1, 1.0), (1, 0.1, 3.0), (2, 0.1, 5.0), (0, 0.2, 9.0)]
            .map(|(seed, lr, value)| {
                (object(json!({"seed": seed, "lr": lr})).into(), object(json!({"a": {"b": value}})).into())
            })
            .into();
        let lines: Vec<String> =
            over_seeds(trials.iter().map(|(config, result)| (config, result)), "a/b").collect();
        // Deviations -2, 0, 2: variance 8/3.
        assert_eq!(lines, ["a/b 3.00 on average, deviation 1.63, of 3 seeds"]);
    }
}
