//! `journal.jsonl`: everything that happens in a sweep, one JSON object per line, append-only.
//!
//! No actor gets a request that follows from an event before the event's line has been written, with one `write`. So a
//! killed driver loses nothing that a trial has acted on. A thread syncs the file to disk every second. A power cut loses at
//! most the last moments, and those are trained again. The cost of an event does not depend on the number of earlier events.

use std::borrow::Cow;
use std::fs::File;
use std::io::{BufReader, ErrorKind, Write};
use std::path::{Component, Path, PathBuf};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crossbeam_channel::{Sender, bounded};
use rustix::fs::{FlockOperation, flock};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::ExperimentFile;
use crate::base::{Bundle, Config, Error, Metrics, Mode, Resources, Result, files, limit};
use crate::executor::SavedCheckpoint;
use crate::schedulers::Decision;

pub(crate) const FILE: &str = "journal.jsonl";
pub(super) const FORMAT_VERSION: u32 = 1;
/// Minimum time between two syncs to disk. Writing waits during a sync, so there is not one for each line.
const SYNC_EVERY: Duration = Duration::from_secs(1);
/// Minimum time between two looks at whether the journal is still in its place.
const LOOK_EVERY: Duration = Duration::from_millis(50);
const LOCK_PATIENCE: Duration = Duration::from_secs(5);

/// Event in a sweep: one line of the journal.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub(crate) enum Event<'a> {
    /// The sweep was created. This is the first line.
    Experiment(Cow<'a, Header>),
    /// A driver restored the sweep.
    Restored {
        #[serde(with = "limit::minus_one")]
        num_samples: Option<u64>,
        /// Total resources for trials from now on.
        resources: Cow<'a, Bundle>,
    },
    /// The searcher suggested a new trial.
    Trial {
        trial_id: Cow<'a, str>,
        config: Cow<'a, Config>,
        /// Drawn values by dotted path.
        drawn: Cow<'a, Config>,
        experiment_tag: Cow<'a, str>,
        resources: Cow<'a, Resources>,
    },
    /// The trial got its resources and starts.
    Started {
        trial_id: Cow<'a, str>,
        /// Iteration of the checkpoint that the trial starts from; `None` if it starts from scratch.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        from: Option<u64>,
    },
    /// The trial continued from a copy of another trial's checkpoint.
    Adopted { trial_id: Cow<'a, str>, source: Cow<'a, str>, checkpoint: SavedCheckpoint },
    /// The trial was to continue from another trial's checkpoint, but there was none, so it keeps its own state and
    /// settings.
    KeptOwn { trial_id: Cow<'a, str> },
    /// The trial reported a result, and `verdict` was decided.
    Result {
        trial_id: Cow<'a, str>,
        iteration: u64,
        verdict: Verdict,
        /// Seconds that the sweep has run.
        elapsed: f64,
        result: Cow<'a, Metrics>,
    },
    /// The trial has no more results; the last one is final.
    Ended { trial_id: Cow<'a, str> },
    /// The trial wrote a complete checkpoint.
    Saved {
        trial_id: Cow<'a, str>,
        checkpoint: SavedCheckpoint,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        score: Option<f64>,
    },
    /// No trial could continue, and the scheduler was asked what to do.
    Idle,
    /// Nothing is left to do for the trial; it is never started again.
    Completed { trial_id: Cow<'a, str> },
    /// The trial failed and may be tried again.
    Failed { trial_id: Cow<'a, str>, message: Cow<'a, str> },
    /// The trial failed more often than allowed.
    GivenUp { trial_id: Cow<'a, str> },
    /// A restore requested another attempt at a trial that had been given up.
    Retried { trial_id: Cow<'a, str>, from_scratch: bool },
    /// The trial was stopped in its current state, because a restore did not ask for it or all trials stop.
    Stopped { trial_id: Cow<'a, str> },
    /// All trials stop.
    StopAll { reason: Cow<'a, str> },
}

/// Settings with which the sweep was created.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Header {
    pub(crate) format_version: u32,
    pub(crate) pavlov: String,
    pub(crate) name: String,
    /// Five hexadecimal digits with which every trial's id begins.
    pub(crate) prefix: String,
    pub(crate) trainable: String,
    pub(crate) metric: Option<String>,
    pub(crate) mode: Option<Mode>,
    #[serde(with = "limit::minus_one")]
    pub(crate) num_samples: Option<u64>,
    pub(crate) space: Value,
    /// Total resources for trials.
    pub(crate) resources: Bundle,
}

/// Decision about a result, by the stop conditions or by the scheduler.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Verdict {
    /// Stop: the stop conditions are met, or the result has `done: true`.
    Done,
    /// The scheduler lets the trial continue.
    Continue,
    /// The scheduler pauses the trial.
    Pause,
    /// The scheduler stops the trial.
    Stop,
    /// The scheduler has sent an order for the trial instead of a decision.
    Noop,
}

impl From<Decision> for Verdict {
    fn from(decision: Decision) -> Self {
        match decision {
            Decision::Continue => Verdict::Continue,
            Decision::Pause => Verdict::Pause,
            Decision::Stop => Verdict::Stop,
            Decision::Noop => Verdict::Noop,
        }
    }
}

/// Open journal, locked so that only one driver writes it.
pub(crate) struct Journal {
    path: PathBuf,
    file: File,
    /// The sweep's directory as it was opened; it still identifies the directory after a move.
    home: File,
    /// File beside the journal that is written again with it.
    kept: Option<ExperimentFile>,
    /// Directory in which the journal goes on, since the sweep's directory was removed or moved.
    rescued: Option<PathBuf>,
    /// New path of the sweep's directory, if it was moved.
    moved_to: Option<PathBuf>,
    line: Vec<u8>,
    length: u64,
    ends_with_idle: bool,
    /// When the journal was last found in its place.
    found: Instant,
    synced: Instant,
    sync: Option<(Sender<()>, JoinHandle<()>)>,
}

impl Journal {
    /// Creates the journal of a new experiment. A journal without a complete first line is overwritten, since its driver was
    /// killed before the sweep began.
    pub(super) fn create(dir: &Path) -> Result<Self> {
        let path = dir.join(FILE);
        let refuse = "there is a sweep already; restore it, or choose another name or storage path";
        if has_begun(&path)? {
            return Err(Error::experiment(dir, refuse));
        }
        let journal = Self::open(path.clone(), files::append(&path)?)?;
        // Another process may have begun the sweep meanwhile.
        if has_begun(&path)? {
            return Err(Error::experiment(dir, refuse));
        }
        journal.file.set_len(0).map_err(Error::io("write", &path))?;
        Ok(journal)
    }

    /// Opens and reads the journal in `dir`. An incomplete last line is cut off.
    pub(super) fn restore(dir: &Path) -> Result<(Self, Header, Vec<Event<'static>>)> {
        let path = dir.join(FILE);
        if !path.exists() {
            return Err(Error::experiment(dir, format!("there is no sweep in it: no {FILE}")));
        }
        let file = files::append(&path)?;
        let mut journal = Self::open(path, file)?;
        let (header, events, whole) = read(&journal.path)?;
        if whole < journal.length {
            let cut = journal.length - whole;
            tracing::warn!("cut a broken line of {cut} bytes off {}", journal.path.display());
            journal.file.set_len(whole).map_err(Error::io("write", &journal.path))?;
            journal.length = whole;
        }
        Ok((journal, header, events))
    }

    fn open(path: PathBuf, file: File) -> Result<Self> {
        // A child process of a driver that was just killed may hold the lock a moment longer.
        let deadline = Instant::now() + LOCK_PATIENCE;
        while flock(&file, FlockOperation::NonBlockingLockExclusive) == Err(rustix::io::Errno::WOULDBLOCK) {
            if Instant::now() > deadline {
                let dir = files::parent(&path);
                return Err(Error::experiment(dir, "another process is running this sweep; stop it first"));
            }
            thread::sleep(LOCK_PATIENCE / 100);
        }
        let length = file.metadata().map_err(Error::io("read", &path))?.len();
        let dir = files::parent(&path);
        let home = File::open(dir).map_err(Error::io("open", dir))?;
        let (sender, wanted) = bounded(1);
        let durable = file.try_clone().map_err(Error::io("open", &path))?;
        let thread = thread::Builder::new()
            .name("journal".into())
            .spawn(move || {
                for () in wanted {
                    if let Err(error) = durable.sync_data() {
                        tracing::warn!("cannot make the journal durable: {error}");
                    }
                }
            })
            .map_err(Error::other)?;
        let sync = Some((sender, thread));
        let synced = Instant::now();
        Ok(Journal {
            path,
            file,
            home,
            kept: None,
            rescued: None,
            moved_to: None,
            line: Vec::new(),
            length,
            ends_with_idle: false,
            found: synced,
            synced,
            sync,
        })
    }

    /// Appends one event as a line.
    pub(crate) fn append(&mut self, event: &Event<'_>) -> Result<()> {
        self.line.clear();
        serde_json::to_writer(&mut self.line, event).map_err(Error::other)?;
        self.line.push(b'\n');
        files::refuse_too_large(&self.line).map_err(Error::io("write", &self.path))?;
        // A file that is deleted in between keeps its lines until they are written again. No trial begins in a directory that
        // is gone.
        if matches!(event, Event::Started { .. }) || self.found.elapsed() >= LOOK_EVERY {
            self.stay()?;
            self.found = Instant::now();
        }
        self.file.write_all(&self.line).map_err(Error::io("write", &self.path))?;
        self.length += self.line.len() as u64;
        self.ends_with_idle = matches!(event, Event::Idle);
        if let Some((sender, _)) = &self.sync
            && self.synced.elapsed() >= SYNC_EVERY
        {
            // If the channel is full, a sync that has not begun yet will include this line.
            let _ = sender.try_send(());
            self.synced = Instant::now();
        }
        Ok(())
    }
}

impl Journal {
    /// Has this file beside the journal written again if both are deleted.
    pub(super) fn keep(&mut self, file: Option<ExperimentFile>) {
        self.kept = file;
    }

    /// Writes the journal again if it was deleted while the sweep runs. If its whole directory was removed or moved, the
    /// journal continues in a new directory next to it.
    pub(super) fn stay(&mut self) -> Result<()> {
        if files::is_at(&self.file, &self.path)? {
            return Ok(());
        }
        let dir = files::parent(&self.path).to_path_buf();
        let path = if files::is_dir_at(&self.home, &dir)? {
            tracing::warn!("{} was deleted while the sweep runs and is written again", self.path.display());
            self.path.clone()
        } else {
            self.moved_to = files::place_of(&self.home);
            // Trials may have been saved there already.
            let place = files::rescue_dir(&dir, |place| !place.join(FILE).exists())?;
            let path = place.join(FILE);
            self.rescued = Some(place);
            path
        };
        let Some(file) = files::write_again(&self.file, &path)? else { return Ok(()) };
        if let Some(kept) = &self.kept {
            kept.write(files::parent(&path))?;
        }
        let mut again = Self::open(path, file)?;
        std::mem::swap(&mut self.file, &mut again.file);
        std::mem::swap(&mut self.path, &mut again.path);
        std::mem::swap(&mut self.home, &mut again.home);
        std::mem::swap(&mut self.sync, &mut again.sync);
        Ok(())
    }

    /// Directory in which the journal goes on since the sweep's directory was removed or moved.
    pub(super) fn rescued(&self) -> Option<&Path> {
        self.rescued.as_deref()
    }

    /// New path of the sweep's directory, if it was moved.
    pub(super) fn moved_to(&self) -> Option<PathBuf> {
        self.moved_to.clone()
    }

    /// Length of the journal in bytes.
    pub(super) fn length(&self) -> u64 {
        self.length
    }

    /// Whether the last line written by this process is [`Event::Idle`].
    pub(super) fn ends_with_idle(&self) -> bool {
        self.ends_with_idle
    }
}

impl Drop for Journal {
    fn drop(&mut self) {
        if let Some((sender, thread)) = self.sync.take() {
            let _ = sender.try_send(());
            drop(sender);
            let _ = thread.join();
        }
    }
}

/// Whether a journal with at least one complete line exists at `path`.
pub(crate) fn has_begun(path: &Path) -> Result<bool> {
    let mut line = Vec::new();
    match files::open(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
        file => {
            let mut reader = BufReader::new(file.map_err(Error::io("read", path))?);
            pavlov_processes::read_line(&mut reader, &mut line).map_err(Error::io("read", path))?;
            Ok(line.last() == Some(&b'\n'))
        }
    }
}

/// Reads the complete lines of a journal. Returns the header, the events, and the length of these lines in bytes.
pub(crate) fn read(path: &Path) -> Result<(Header, Vec<Event<'static>>, u64)> {
    let mut reader = BufReader::new(files::open(path).map_err(Error::io("read", path))?);
    let dir = files::parent(path);
    let mut header = None;
    let mut events = Vec::new();
    let mut whole = 0;
    let mut is_over = false;
    let mut line = Vec::new();
    for number in 1.. {
        let refuse = |reason: String| Error::experiment(dir, format!("{FILE}, line {number}: {reason}"));
        let length =
            pavlov_processes::read_line(&mut reader, &mut line).map_err(|error| match error.kind() {
                ErrorKind::InvalidData => refuse(format!(
                    "{error}; cut the file off before this line, or put a copy of it in its place"
                )),
                _ => Error::io("read", path)(error),
            })?;
        if line.last() != Some(&b'\n') {
            break;
        }
        let value: Value = serde_json::from_slice(&line).map_err(|error| refuse(error.to_string()))?;
        let version = value.get("format_version").and_then(Value::as_u64);
        if version.is_some_and(|version| version != u64::from(FORMAT_VERSION)) {
            return Err(refuse(format!(
                "format version {} cannot be read by this version of pavlov, which reads {FORMAT_VERSION}",
                version.unwrap_or_default()
            )));
        }
        match (serde_json::from_value(value).map_err(|error| refuse(error.to_string()))?, &header) {
            (Event::Experiment(found), None) => header = Some(found.into_owned()),
            (_, None) | (Event::Experiment(_), Some(_)) => {
                return Err(refuse("a journal has one `experiment` line, its first".into()));
            }
            // Earlier versions could repeat this line endlessly after `StopAll`, where it has no effect.
            (Event::Idle, Some(_)) if is_over => {}
            (event, Some(_)) => {
                match event {
                    Event::StopAll { .. } => is_over = true,
                    Event::Retried { .. } => is_over = false,
                    _ => {}
                }
                events.push(event);
            }
        }
        whole += length as u64;
    }
    let header = header.ok_or_else(|| {
        Error::experiment(
            dir,
            format!("{FILE} is empty: the sweep was killed before it began; start it anew"),
        )
    })?;
    Ok((header, events, whole))
}

/// Checks that a trial's id, which names its directory, does not lead out of the sweep's directory.
///
/// # Errors
/// Returns [`Error::Experiment`] if the id leads out of `dir`, or if the trial's directory is a symbolic link.
pub(super) fn check_trial_id(dir: &Path, trial_id: &str) -> Result<()> {
    let mut parts = Path::new(trial_id).components();
    let is_name =
        matches!((parts.next(), parts.next()), (Some(Component::Normal(name)), None) if name == trial_id);
    if !is_name {
        let reason = format!(
            "its journal names the trial {trial_id:?}, which leads out of its directory: the journal was changed, so \
             begin a new sweep"
        );
        return Err(Error::experiment(dir, reason));
    }
    if dir.join(trial_id).is_symlink() {
        let reason = format!("{trial_id} in it is a symbolic link; put the trial's directory itself there");
        return Err(Error::experiment(dir, reason));
    }
    Ok(())
}
