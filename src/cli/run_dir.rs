//! The run directory: its lock, and `run.json`, which `pavlov resume` needs besides the checkpoints.

use std::fs::{self, File};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::exit::usage;
use super::loggers::LoggerName;
use super::output::{program, quoted, say};
use crate::load;
use crate::tune::{
    Config, Error, Objective, Standings, SweepFile, checkpoint, read_file, replace_file, storage,
};

pub(super) const RUN: &str = "run.json";
/// Name of the sweep file in the experiment's directory.
pub(super) const SWEEP: &str = "sweep.toml";
/// New name of a [`RUN`] that could not be read.
const DAMAGED: &str = "run.json.damaged";
/// File that every checkpoint directory has.
const MANIFEST: &str = "manifest.json";

/// Content of `run.json`, from which `pavlov resume` continues a run.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct RunFile {
    /// Version of pavlov that started the run.
    pub(super) pavlov: String,
    pub(super) algorithm: String,
    pub(super) env: String,
    /// Result keys, each with the value that ends training.
    pub(super) stop: Config,
    /// Number of iterations between two checkpoints; 0 for none.
    pub(super) checkpoint_freq: u64,
    pub(super) checkpoint_at_end: bool,
    pub(super) keep_checkpoints_num: Option<usize>,
    /// URL to which the run is copied; `None` if it is only on this machine.
    #[serde(default)]
    pub(super) remote_checkpoint_dir: Option<String>,
    /// Programs for which results are written besides pavlov's own files.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) loggers: Vec<LoggerName>,
    /// Complete settings, including the seed; a run that was killed before its first checkpoint starts again with them.
    pub(super) config: Config,
}

impl RunFile {
    /// Reads `run.json`. A damaged file is replaced by the settings of `newest`, the run's newest checkpoint, and is kept as
    /// `run.json.damaged`.
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
        let shown = path.display();
        let damaged = run_dir.join(DAMAGED);
        let Some(newest) = newest else {
            return Err(usage(format!(
                "{shown} is damaged: {error}; no whole checkpoint has its settings either, so begin the run again in \
                 another directory"
            )));
        };
        let run = RunFile::of_checkpoint(newest)?;
        // The damaged file is copied, not renamed: a directory without `run.json` is no run.
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

    /// Reads `run.json`. A trial of a sweep has none: its settings are those of `newest`, its newest checkpoint.
    pub(super) fn of_run_or_trial(run_dir: &Path, newest: Option<&Path>) -> anyhow::Result<RunFile> {
        match newest {
            Some(newest) if !run_dir.join(RUN).exists() && is_trial(run_dir)? => {
                RunFile::of_checkpoint(newest)
            }
            _ => RunFile::read(run_dir, newest),
        }
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
            loggers: Vec::new(),
            config,
        })
    }

    /// Turns the directory of a sweep's trial into a run that `pavlov resume` can continue; other directories are left as
    /// they are.
    ///
    /// A trial that has not ended is refused, because the sweep continues it.
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
        let shown = dir.display();
        let program = program();
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

    /// Writes `run.json` atomically: after a power failure the file is either the old one or the new one.
    pub(super) fn write(&self, run_dir: &Path) -> anyhow::Result<()> {
        Ok(replace_file(&run_dir.join(RUN), &self.content()?)?)
    }

    /// Content of `run.json`.
    pub(super) fn content(&self) -> anyhow::Result<Vec<u8>> {
        Ok(serde_json::to_vec_pretty(self)?)
    }
}

/// Whether the directory is that of a trial of a sweep.
fn is_trial(dir: &Path) -> anyhow::Result<bool> {
    let dir = std::path::absolute(dir).map_err(Error::io("find the absolute path of", dir))?;
    let (Some(sweep), Some(trial_id)) = (dir.parent(), dir.file_name().and_then(|name| name.to_str())) else {
        return Ok(false);
    };
    Ok(Standings::read(sweep)?.is_some_and(|standings| standings.has_ended(trial_id).is_some()))
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

/// Returns the directory or the URL of a new run, whichever `--out` gives; refuses one that is in use.
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

/// Returns `place` as text if it is a URL.
pub(super) fn url(place: &Path) -> Option<&str> {
    place.to_str().filter(|_| storage::scheme(place).is_some())
}

/// Refuses a directory for a new run that is not empty.
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

/// Exclusive lock of a run directory. It is released when the value is dropped or the process ends.
#[derive(Debug)]
pub(super) struct Lock {
    _handle: File,
}

impl Lock {
    /// Locks the directory of an existing run.
    pub(super) fn of_run(run_dir: &Path) -> anyhow::Result<Lock> {
        // A checkpoint has a `run.json` of its own.
        if !run_dir.join(RUN).exists() || run_dir.join(MANIFEST).exists() {
            return Err(usage(format!("{}: {}", run_dir.display(), why_no_run(run_dir))));
        }
        Lock::take(run_dir)
    }

    /// Creates and locks the directory of a new run. If the directory is in use, fails without writing anything.
    pub(super) fn of_new_run(run_dir: &Path) -> anyhow::Result<Lock> {
        fs::create_dir_all(run_dir).map_err(Error::io("create", run_dir))?;
        let lock = Lock::take(run_dir)?;
        // Another process may have used the directory and ended since the first check.
        refuse_used(run_dir)?;
        Ok(lock)
    }

    fn take(run_dir: &Path) -> anyhow::Result<Lock> {
        let handle = File::open(run_dir).map_err(Error::io("read", run_dir))?;
        match flock(&handle, FlockOperation::NonBlockingLockExclusive) {
            Err(Errno::WOULDBLOCK) => {
                Err(usage(format!("another process is training in {}; stop it first", run_dir.display())))
            }
            // File systems without locks are accepted.
            _ => Ok(Lock { _handle: handle }),
        }
    }
}

/// Deletes the logs of a run that has no checkpoint to continue from.
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

/// Deletes a new run that is given up: all objects at its URL, its logs, `run.json`, and the directory if it is empty
/// then.
pub(super) fn take_back(run_dir: &Path, url: Option<&str>) -> anyhow::Result<()> {
    if let Some(url) = url {
        let storage = storage::open(url)?;
        storage.list("")?.iter().try_for_each(|object| storage.delete(&object.path))?;
    }
    remove_logs(run_dir)?;
    let path = run_dir.join(RUN);
    fs::remove_file(&path).map_err(Error::io("delete", &path))?;
    // A directory that is not empty has files of another program, which stay.
    let _ = fs::remove_dir(run_dir);
    Ok(())
}

/// Returns the directory of the best trial, by the metric of the sweep or else of its scheduler.
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

/// Finds a checkpoint: `path` itself, the newest whole checkpoint of the run directory `path`, or that of the best trial of
/// the sweep `path`.
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

/// Finds what a policy is loaded from: a packed model, which is a file, or a checkpoint as [`find_checkpoint`] finds it.
pub(super) fn find_policy(path: &Path) -> anyhow::Result<PathBuf> {
    if load::is_pack(path) { Ok(path.into()) } else { find_checkpoint(path) }
}
