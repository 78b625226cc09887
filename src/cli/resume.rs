//! `pavlov resume`: continues a run from its newest whole checkpoint.

use std::path::PathBuf;

use clap::Args;

use super::loggers::{LoggerArgs, choice, in_the_form_of_before};
use super::progress::timesteps;
use super::run_dir::{self, Lock, RunFile};
use super::session::{Begin, ReportArgs, TrainingRun};
use super::settings::assignments;
use super::train::stop_criteria;
use super::trust::{self, TrustArgs};
use super::{signals, stretch};
use crate::registry;
use crate::tune::{Resume, RunOptions, checkpoint, loggers, storage};

/// Settings that apply only to workers on a Ray cluster.
const FOR_A_CLUSTER: [&str; 3] =
    ["num_gpus_per_worker", "custom_resources_per_worker", "label_selector_per_worker"];

/// Continue a run from its newest whole checkpoint
#[derive(Args, Debug)]
#[command(after_help = "Example:\n  pavlov resume runs/first --stop timesteps_total=200000\n\n\
                        Settings are those of the checkpoint, stop criteria and checkpoint frequency those of the run.")]
pub(super) struct ResumeArgs {
    /// A run directory of `pavlov train` or its URL, or the directory of a sweep's trial that has ended
    #[arg(value_name = "DIR|URL")]
    run_dir: PathBuf,
    /// Change a stop criterion or add one, e.g. timesteps_total=200000; several are allowed, and null removes one
    #[arg(long, value_name = "KEY=VALUE")]
    stop: Vec<String>,
    /// Run the workers, in the same number, on threads, in processes (procs) or on a Ray cluster (ray) from here on
    #[arg(long, value_name = "KIND", value_parser = ["threads", "procs", "ray"])]
    workers: Option<String>,
    /// Kind and number of learners from here on: procs:1 is the trainer alone, procs:N the trainer and N - 1 processes,
    /// ray:N the trainer and N - 1 actors on a Ray cluster
    #[arg(long, value_name = "KIND:N")]
    learners: Option<String>,
    /// Multiply the steps of all schedules, so that the longest of them ends where the run now stops
    #[arg(long)]
    stretch_schedules: bool,
    #[command(flatten)]
    loggers: LoggerArgs,
    #[command(flatten)]
    trust: TrustArgs,
    #[command(flatten)]
    report: ReportArgs,
}

pub(super) fn resume(args: ResumeArgs) -> anyhow::Result<()> {
    let report = args.report;
    report.check()?;
    let (run_dir, url) = match run_dir::url(&args.run_dir) {
        Some(url) => (storage::fetch_run(url)?, Some(url.to_owned())),
        None => (args.run_dir, None),
    };
    RunFile::adopt_trial(&run_dir)?;
    let lock = Lock::of_run(&run_dir)?;
    let newest = checkpoint::latest(&run_dir)?;
    let mut run = RunFile::read(&run_dir, newest.as_deref())?;
    let named = run.loggers.iter().chain(&args.loggers.loggers).copied().collect();
    let loggers = in_the_form_of_before(named, std::slice::from_ref(&run_dir), |line| report.say(line));
    let is_new_logger = loggers != run.loggers;
    run.loggers = loggers;
    let mut stop = stop_criteria(&run.stop)?;
    stop.lay_over(&assignments(&args.stop)?)?;
    let entry = registry::algorithm(&run.algorithm)?;

    let mut config = match &newest {
        Some(newest) => checkpoint::metadata(newest)?.config,
        None => run.config.clone(),
    };
    config.insert("env".into(), run.env.as_str().into());
    let mut named = trust::named(&config);
    if let (None, Some(url)) = (&url, &run.remote_checkpoint_dir)
        && !trust::is_work_dir(&run_dir, url)
    {
        named.insert(format!("bring the run to {url:?} (`remote_checkpoint_dir`)"));
    }
    args.trust.check(&run_dir, &named)?;
    run.remote_checkpoint_dir = url.or(run.remote_checkpoint_dir);
    config.shift_remove("env");
    if let Some(workers) = args.workers {
        if workers != "ray" {
            // Workers that are not on a cluster do not have these settings.
            FOR_A_CLUSTER.iter().for_each(|key| _ = config.shift_remove(*key));
        }
        config.insert("workers".into(), workers.into());
    }
    if let Some(learners) = args.learners {
        if [":0", ":1"].iter().any(|alone| learners.ends_with(alone)) {
            config.shift_remove("num_cpus_per_learner");
        }
        config.insert("learners".into(), learners.into());
    }
    if args.stretch_schedules {
        report.say(&stretch::stretch(&mut config, &stop)?);
        // A run without a checkpoint starts again with these settings.
        run.config.clone_from(&config);
    }
    let is_on_ray = |key: &str| config.get(key).and_then(|kind| kind.as_str()?.get(..3)) == Some("ray");
    if !is_on_ray("workers") && !is_on_ray("learners") {
        config.shift_remove("placement_strategy");
    }
    let options = RunOptions {
        logdir: Some(run_dir.clone()),
        resume: Resume::ByCaller,
        remote_checkpoint_dir: run.remote_checkpoint_dir.clone(),
        keep_checkpoints_num: run.keep_checkpoints_num,
        loggers: choice(&run.loggers, &format!("{}_{}", entry.name(), run.env))?,
        ..RunOptions::default()
    };
    let config_of_run = config.clone();
    let mut driver = entry.build(run.env.as_str().into(), config, options)?;
    match newest {
        Some(newest) => {
            let damaged = loggers::damaged_results(&run_dir)?;
            if let Some(first) = damaged.first() {
                let count = damaged.len();
                report.say(&format!(
                    "{first}; the run goes on and leaves damaged lines ({count} in all) as they are: delete them if a \
                     program cannot read the file"
                ));
            }
            driver.restore(&newest)?;
            report.say(&format!("resuming from {}", newest.display()));
        }
        None => {
            checkpoint::set_aside_damaged(&run_dir, None)?;
            run_dir::remove_logs(&run_dir)?;
            report.say(&format!(
                "{} has no whole checkpoint: the run starts again from the beginning, with the same seed",
                run_dir.display()
            ));
        }
    }
    if let Some(result) = driver.last_result() {
        stop.check(driver.trial_id(), result)?;
        if let Some(met) = stop.met(result)? {
            let longer = match stretch::ended(&config_of_run, timesteps(result).unwrap_or(0)) {
                Some(ended) => format!(" --stretch-schedules, because {ended}"),
                None => String::new(),
            };
            report.say(&format!(
                "nothing to do: {} is {} and the run stops at {}; extend it with --stop {}=VALUE{longer}",
                met.key, met.value, met.limit, met.key
            ));
            return Ok(());
        }
    }
    if is_new_logger {
        run.write(&run_dir)?;
    }
    let interrupt = signals::watch(signals::AFTER_ITERATION)?;
    TrainingRun::new(driver, run, stop, report, interrupt, lock).run(Begin::Resumed)
}
