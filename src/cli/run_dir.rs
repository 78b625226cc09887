//! The run directory as the command sees it: `run.json`, what is needed to go on beside the checkpoints.

use std::fs::{self, File};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::exit::usage;
use super::output::{program, quoted, say};
use crate::load;
use crate::tune::{
    Config, Error, Objective, Standings, SweepFile, checkpoint, read_file, replace_file, storage,
};

const RUN: &str = "run.json";
/// The sweep's file, kept in the experiment's directory.
pub(super) const SWEEP: &str = "sweep.toml";
/// A [`RUN`] that could not be read.
const DAMAGED: &str = "run.json.damaged";
/// What makes a directory a checkpoint.
const MANIFEST: &str = "manifest.json";

/// What `pavlov resume` goes by.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct RunFile {
    /// Version of pavlov that began the run.
    pub(super) pavlov: String,
    pub(super) algorithm: String,
    pub(super) env: String,
    /// Result key → value that ends training.
    pub(super) stop: Config,
    /// Iterations from one checkpoint to the next; 0 for none.
    pub(super) checkpoint_freq: u64,
    pub(super) checkpoint_at_end: bool,
    pub(super) keep_checkpoints_num: Option<usize>,
    /// Where the run is kept besides.
    #[serde(default)]
    pub(super) remote_checkpoint_dir: Option<String>,
    /// Complete settings, the seed included: a run that was killed before its first checkpoint starts again with them.
    pub(super) config: Config,
}

impl RunFile {
    /// Where the file is damaged, what can be had from `newest`, the newest checkpoint of the run, takes its place; the
    /// damaged file stays as `run.json.damaged`.
    pub(super) fn read(run_dir: &Path, newest: Option<&Path>) -> anyhow::Result<RunFile> {
        let path = run_dir.join(RUN);
        let text = read_file(&path).map_err(|error| match (error.kind(), newest) {
            (ErrorKind::FileTooLarge, Some(newest)) => usage(format!(
                "{}, or an empty file: then the settings of {} are used",
                Error::io("read", &path)(error),
                newest.display()
            )),
            _ => Error::io("read", &path)(error).into(),
        })?;
        let error = match serde_json::from_slice(&text) {
            Ok(run) => return Ok(run),
            Err(error) => error,
        };
        let (shown, damaged) = (path.display(), run_dir.join(DAMAGED));
        let Some(newest) = newest else {
            return Err(usage(format!(
                "{shown} is damaged: {error}; no whole checkpoint has its settings either, so begin the run again in \
                 another directory"
            )));
        };
        let run = RunFile::of_checkpoint(newest)?;
        // A copy: without a `run.json` the directory would be no run any more.
        replace_file(&damaged, &text)?;
        run.write(run_dir)?;
        say(&format!(
            "warning: {shown} is damaged ({error}) and was replaced; what was left of it is {}. The settings are those of \
             {}, which knows no stop criteria: give them again with --stop",
            damaged.display(),
            newest.display()
        ));
        Ok(run)
    }

    fn of_checkpoint(checkpoint: &Path) -> anyhow::Result<RunFile> {
        let manifest = checkpoint::verify(checkpoint, None)?;
        let config = checkpoint::metadata(checkpoint)?.config;
        let Some(env) = config.get("env").and_then(|env| env.as_str()) else {
            return Err(usage(format!("{}: metadata.json names no environment", checkpoint.display())));
        };
        Ok(RunFile {
            pavlov: manifest.pavlov,
            algorithm: manifest.kind,
            env: env.into(),
            stop: Config::new(),
            checkpoint_freq: 0,
            checkpoint_at_end: true,
            keep_checkpoints_num: None,
            remote_checkpoint_dir: None,
            config,
        })
    }

    /// Makes a run of the trial of a sweep that `dir` is, if it is one: `pavlov resume` goes on with it alone.
    ///
    /// Only a trial that has ended: the sweep itself goes on with the others.
    pub(super) fn adopt_trial(dir: &Path) -> anyhow::Result<()> {
        let dir = std::path::absolute(dir).map_err(Error::io("find the absolute path of", dir))?;
        let (Some(sweep), Some(trial_id)) = (dir.parent(), dir.file_name().and_then(|name| name.to_str()))
        else {
            return Ok(());
        };
        if !dir.is_dir() || dir.join(RUN).exists() {
            return Ok(());
        }
        let has_ended = Standings::read(sweep)?.and_then(|standings| standings.has_ended(trial_id));
        let (shown, program) = (dir.display(), program());
        match has_ended {
            None => return Ok(()),
            Some(true) => {}
            Some(false) => {
                return Err(usage(format!(
                    "{shown} is a trial that has not ended; go on with its whole sweep: `{program} tune --resume {}`",
                    quoted(sweep)
                )));
            }
        }
        let Some(newest) = checkpoint::latest(&dir)? else {
            return Err(usage(format!(
                "{shown} is a trial without a whole checkpoint, so there is nothing to go on from; train it again alone \
                 with `{program} trial`"
            )));
        };
        let mut run = RunFile::of_checkpoint(&newest)?;
        if sweep.join(SWEEP).is_file() {
            let file = SweepFile::load(sweep.join(SWEEP))?;
            run.checkpoint_freq = file.checkpoint.checkpoint_frequency.unwrap_or(0);
            run.stop = file.stop;
        }
        run.write(&dir)
    }

    /// Replaces the file whole; a power cut leaves the old one or the new one.
    pub(super) fn write(&self, run_dir: &Path) -> anyhow::Result<()> {
        Ok(replace_file(&run_dir.join(RUN), &serde_json::to_vec_pretty(self)?)?)
    }
}

fn why_no_run(dir: &Path) -> String {
    let program = program();
    if !dir.is_dir() {
        return format!(
            "there is no such directory; give the run directory that `{program} train` named at its end"
        );
    }
    match dir.parent() {
        Some(parent) if parent.join(RUN).exists() => {
            format!("this is a part of a run; resume it with `{program} resume {}`", quoted(parent))
        }
        _ => format!("this is no run of `{program} train`: it has no {RUN}"),
    }
}

/// What `--out` says: the directory of a new run, and the URL where it is kept besides.
pub(super) fn place(out: &Path) -> anyhow::Result<(Option<PathBuf>, Option<String>)> {
    let Some(url) = url(out) else {
        refuse_used(out)?;
        return Ok((Some(out.into()), None));
    };
    refuse_used(&storage::work_dir(url)?)?;
    if !storage::open(url)?.list("")?.is_empty() {
        return Err(usage(format!(
            "something lies at {url} already; continue a run there with `{} resume {}`, or give --out another URL",
            program(),
            quoted(url)
        )));
    }
    Ok((None, Some(url.into())))
}

/// `place` if it is a URL.
pub(super) fn url(place: &Path) -> Option<&str> {
    place.to_str().filter(|_| storage::scheme(place).is_some())
}

/// Refuses a directory for a new run in which something lies already.
pub(super) fn refuse_used(out: &Path) -> anyhow::Result<()> {
    let shown = out.display();
    if out.join(RUN).exists() {
        return Err(usage(format!(
            "{shown} holds a run already; continue it with `{} resume {}`, or give --out another directory",
            program(),
            quoted(out)
        )));
    }
    match fs::read_dir(out) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        Err(error) => Err(usage(format!("cannot use {shown} as run directory: {error}"))),
        Ok(mut entries) => match entries.next() {
            None => Ok(()),
            Some(_) => Err(usage(format!("{shown} is not empty; give --out a new or an empty directory"))),
        },
    }
}

/// Keeps a run directory to this process for as long as the value lives, a killed process included.
#[derive(Debug)]
pub(super) struct Lock {
    _handle: File,
}

impl Lock {
    /// For a run that exists.
    pub(super) fn of_run(run_dir: &Path) -> anyhow::Result<Lock> {
        // A checkpoint has a `run.json` of its own.
        if !run_dir.join(RUN).exists() || run_dir.join(MANIFEST).exists() {
            return Err(usage(format!("{}: {}", run_dir.display(), why_no_run(run_dir))));
        }
        Lock::take(run_dir)
    }

    /// For a new run. A process that comes too late writes nothing.
    pub(super) fn of_new_run(run_dir: &Path) -> anyhow::Result<Lock> {
        fs::create_dir_all(run_dir).map_err(Error::io("create", run_dir))?;
        let lock = Lock::take(run_dir)?;
        // Another process may have been faster, and have ended.
        refuse_used(run_dir)?;
        Ok(lock)
    }

    fn take(run_dir: &Path) -> anyhow::Result<Lock> {
        let handle = File::open(run_dir).map_err(Error::io("read", run_dir))?;
        match flock(&handle, FlockOperation::NonBlockingLockExclusive) {
            Err(Errno::WOULDBLOCK) => {
                Err(usage(format!("another process is training in {}; stop it first", run_dir.display())))
            }
            // Some file systems have no locks.
            _ => Ok(Lock { _handle: handle }),
        }
    }
}

/// Forgets the results of a run that has no checkpoint to go on from.
pub(super) fn remove_logs(run_dir: &Path) -> anyhow::Result<()> {
    for entry in fs::read_dir(run_dir).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let name = name.to_string_lossy();
        let is_log = ["params.json", "result.json", "progress.csv"].contains(&name.as_ref());
        if is_log || name.starts_with("events.out.tfevents") {
            let path = entry.path();
            fs::remove_file(&path).map_err(Error::io("delete", &path))?;
        }
    }
    Ok(())
}

/// Takes back a run that never was: its logs, `run.json`, and the directory unless something else lies in it; and all
/// that lies at its URL.
pub(super) fn take_back(run_dir: &Path, url: Option<&str>) -> anyhow::Result<()> {
    if let Some(url) = url {
        let storage = storage::open(url)?;
        storage.list("")?.iter().try_for_each(|object| storage.delete(&object.path))?;
    }
    remove_logs(run_dir)?;
    let path = run_dir.join(RUN);
    fs::remove_file(&path).map_err(Error::io("delete", &path))?;
    // It is not empty, so it is another program's file, which stays.
    let _ = fs::remove_dir(run_dir);
    Ok(())
}

/// The directory of the best trial. Where the sweep itself names no metric, that of its scheduler counts.
fn best_trial(dir: &Path, sweep: &Standings) -> anyhow::Result<PathBuf> {
    let scheduler = match dir.join(SWEEP) {
        file if file.is_file() => SweepFile::load(file)?.scheduler,
        _ => Config::new(),
    };
    let text = |key: &str| scheduler.get(key).and_then(Value::as_str);
    let objective = match (text("metric"), text("mode")) {
        (Some(metric), Some("max")) => Some(Objective::maximize(metric)),
        (Some(metric), Some("min")) => Some(Objective::minimize(metric)),
        _ => None,
    };
    Ok(sweep.best(objective.as_ref())?)
}

/// The checkpoint that `path` is, or the newest whole one in the run directory that it is, or that of the best trial in the
/// sweep that it is.
pub(super) fn find_checkpoint(path: &Path) -> anyhow::Result<PathBuf> {
    if url(path).is_some() {
        return Ok(load::find_checkpoint(path)?);
    }
    let best = Standings::read(path)?.map(|sweep| best_trial(path, &sweep)).transpose()?;
    if let Some(best) = &best {
        say(&format!("{} is a sweep; its best trial is {}", path.display(), best.display()));
    }
    load::find_checkpoint(best.as_deref().unwrap_or(path)).map_err(|error| usage(error.to_string()))
}
