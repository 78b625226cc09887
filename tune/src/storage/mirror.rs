//! Uploads a directory to storage in the background.
//!
//! One thread does its jobs in order. It guarantees the following, even if the process or the storage fails at any time:
//! * The manifest of a checkpoint is stored only together with all its files.
//! * The uploaded journal never mentions a checkpoint that is not stored, unless it was deleted and a later one of its trial
//!   is stored.
//! * A checkpoint is deleted only after the journal as it was before the deletion has been uploaded.
//! * Local checkpoints are never changed.
//!
//! A checkpoint that is deleted or replaced locally before its upload leaves a [`MissingCheckpoint`]. Until a later
//! checkpoint of the same trial is stored, the uploaded journal ends before the first line about a missing checkpoint, and
//! deletions wait.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, Sender, unbounded};
use serde::{Deserialize, Serialize};

use super::files::Files;
use super::journal::Segments;
use super::lease::Lease;
use super::{Storage, checkpoints, join};
use crate::checkpoint::MANIFEST;
use crate::files::parent;
use crate::{Error, Result, read_file};

/// First pause between attempts during an outage; each pause is twice as long as the one before.
const SHORTEST_PAUSE: Duration = Duration::from_millis(250);
const LONGEST_PAUSE: Duration = Duration::from_secs(60);
/// How long dropping a [`Mirror`] waits for a storage call in progress.
const GRACE_PERIOD: Duration = Duration::from_secs(5);

/// Settings for uploading a sweep or run to storage.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SyncConfig {
    /// Interval between uploads of results and other small files. They are also uploaded when their trial ends. Default: 5
    /// minutes.
    pub sync_period: Duration,
    /// Maximum time that the end of a run waits for outstanding uploads. Default: 30 minutes.
    pub sync_timeout: Duration,
    /// Whether local copies of uploaded checkpoints are kept. If false, only the newest one of each trial is kept. Default:
    /// false.
    pub keep_local_checkpoints: bool,
}

impl Default for SyncConfig {
    fn default() -> Self {
        SyncConfig {
            sync_period: Duration::from_secs(300),
            sync_timeout: Duration::from_secs(1800),
            keep_local_checkpoints: false,
        }
    }
}

/// Uploads a directory to storage in the background. Its methods only add jobs to a queue.
///
/// The argument `journal` is the journal's length in bytes, including the line about the event. After the job, the journal
/// is uploaded up to that length. Without a journal it is 0.
#[derive(Debug)]
pub(crate) struct Mirror {
    shared: Arc<Shared>,
    url: String,
    config: SyncConfig,
    uploaded: Receiver<PathBuf>,
}

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<Queue>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct Queue {
    jobs: VecDeque<Job>,
    next: u64,
    /// Journal length in bytes given by the last call.
    journal: u64,
    /// Whether the end has been queued, so that no more jobs follow.
    closing: bool,
    /// Whether the [`Mirror`] was dropped, so that nobody waits for the uploads.
    abandoned: bool,
    /// Last error of the job at the front of the queue.
    last_error: Option<Error>,
    /// Whether the thread has ended.
    ended: bool,
}

#[derive(Clone, Debug)]
struct Job {
    number: u64,
    work: Work,
    journal: u64,
}

#[derive(Clone, Debug)]
enum Work {
    Save {
        checkpoint: PathBuf,
        manifest: u32,
        before: u64,
    },
    Delete {
        checkpoint: PathBuf,
    },
    Files {
        at: PathBuf,
    },
    /// Upload of all small files; the last job.
    End,
}

impl Mirror {
    /// Starts a thread that uploads `dir`. First writes and deletes a small object, so that a storage that cannot be used is
    /// reported at once.
    ///
    /// # Errors
    /// Returns [`Error::Storage`] if the storage cannot be used.
    pub(crate) fn start(
        storage: Arc<dyn Storage>,
        dir: &Path,
        journal: Option<Segments>,
        lease: Option<Lease>,
        config: SyncConfig,
    ) -> Result<Self> {
        let probe = format!(".pavlov-probe-{:08x}", rand::random::<u32>());
        storage.put(&probe, Vec::new())?;
        storage.delete(&probe)?;
        let shared = Arc::new(Shared::default());
        shared.lock().journal = journal.as_ref().map_or(0, Segments::end);
        let url = storage.url().to_string();
        let (report, uploaded) = unbounded();
        let worker = Uploader {
            shared: shared.clone(),
            wanted: journal.as_ref().map_or(0, Segments::end),
            storage,
            dir: dir.to_path_buf(),
            period: config.sync_period,
            journal,
            files: Files::default(),
            missing: Vec::new(),
            deletions: Vec::new(),
            lease,
            report,
        };
        thread::Builder::new().name("mirror".into()).spawn(move || worker.run()).map_err(Error::other)?;
        Ok(Mirror { shared, url, config, uploaded })
    }

    /// Records that the journal has grown.
    pub(crate) fn note(&self, journal: u64) {
        self.shared.lock().journal = journal;
    }

    /// Queues the upload of a complete checkpoint below the mirror's directory. The journal's last line, up to `journal`,
    /// must be the one about this checkpoint.
    pub(crate) fn save(&self, checkpoint: &Path, journal: u64) {
        let before = self.shared.lock().journal.min(journal);
        let manifest = identity(checkpoint).unwrap_or_default();
        self.push(Work::Save { checkpoint: checkpoint.into(), manifest, before }, journal);
    }

    /// Queues the deletion of a stored checkpoint. Call it before the checkpoint is deleted locally.
    pub(crate) fn delete(&self, checkpoint: &Path, journal: u64) {
        self.push(Work::Delete { checkpoint: checkpoint.into() }, journal);
    }

    /// Queues the upload of a changed file, or of the changed small files in a folder.
    pub(crate) fn sync(&self, at: &Path, journal: u64) {
        self.push(Work::Files { at: at.into() }, journal);
    }

    /// Returns the checkpoints uploaded since the last call. The same checkpoint may appear more than once.
    pub(crate) fn uploaded(&self) -> impl Iterator<Item = PathBuf> {
        self.uploaded.try_iter()
    }

    /// Waits until everything is uploaded, for at most `sync_timeout`.
    ///
    /// # Errors
    /// Returns [`Error::Storage`] or another error with the reason why the upload is incomplete. The local files are kept.
    pub(crate) fn finish(&self) -> Result<()> {
        let deadline = Instant::now() + self.config.sync_timeout;
        let mut state = self.shared.lock();
        let journal = state.journal;
        state.push(Work::End, journal);
        state.closing = true;
        state.last_error = None;
        self.shared.changed.notify_all();
        loop {
            if state.ended && state.jobs.is_empty() {
                return Ok(());
            }
            let left = deadline.saturating_duration_since(Instant::now());
            let hopeless = match &state.last_error {
                Some(Error::Storage { transient, .. }) => !transient,
                last_error => last_error.is_some(),
            };
            if state.ended || hopeless || left.is_zero() {
                let reason = if state.ended {
                    "the thread that uploads has panicked".into()
                } else {
                    format!("{:.0?} were not enough", self.config.sync_timeout)
                };
                let unfinished = || Error::Storage {
                    url: self.url.clone(),
                    action: "write all to",
                    reason,
                    transient: true,
                };
                return Err(state.last_error.take().unwrap_or_else(unfinished));
            }
            state = self.shared.changed.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    fn push(&self, work: Work, journal: u64) {
        let mut state = self.shared.lock();
        state.push(work, journal);
        state.journal = state.journal.max(journal);
        self.shared.changed.notify_all();
    }
}

impl Drop for Mirror {
    /// Ends the thread. Files that are not uploaded by now are not uploaded any more.
    fn drop(&mut self) {
        let deadline = Instant::now() + GRACE_PERIOD;
        let mut state = self.shared.lock();
        state.abandoned = true;
        self.shared.changed.notify_all();
        while !state.ended {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            state = self.shared.changed.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Queue {
    fn push(&mut self, work: Work, journal: u64) {
        self.next += 1;
        self.jobs.push_back(Job { number: self.next, work, journal });
    }
}

/// Checkpoint that the journal mentions but that will never be uploaded.
#[derive(Debug)]
struct MissingCheckpoint {
    number: u64,
    trial: PathBuf,
    /// Length of the journal in bytes before the line about this checkpoint.
    before: u64,
}

/// State of the thread that uploads.
struct Uploader {
    shared: Arc<Shared>,
    storage: Arc<dyn Storage>,
    dir: PathBuf,
    period: Duration,
    journal: Option<Segments>,
    /// Byte up to which the journal may be uploaded, apart from missing checkpoints.
    wanted: u64,
    files: Files,
    missing: Vec<MissingCheckpoint>,
    /// Deletions that wait for the journal's upload: number of the job, and the checkpoint.
    deletions: Vec<(u64, PathBuf)>,
    lease: Option<Lease>,
    report: Sender<PathBuf>,
}

/// Tells waiting callers, when dropped, that the thread has ended, even after a panic.
struct EndSignal(Arc<Shared>);

impl Drop for EndSignal {
    fn drop(&mut self) {
        self.0.lock().ended = true;
        self.0.changed.notify_all();
    }
}

impl Uploader {
    fn run(mut self) {
        let _signal = EndSignal(self.shared.clone());
        let mut synced = Instant::now();
        let mut pause = SHORTEST_PAUSE;
        let mut outage = false;
        while let Some(job) = self.next_job(&mut synced) {
            match self.work(&job) {
                Ok(()) => {
                    self.done();
                    if std::mem::take(&mut outage) {
                        tracing::info!("{} can be reached again", self.storage.url());
                    }
                    pause = SHORTEST_PAUSE;
                }
                Err(error) => {
                    if !std::mem::replace(&mut outage, true) {
                        tracing::warn!("{error}; training goes on, and the upload is tried again and again");
                    }
                    self.rest(error, pause);
                    pause = LONGEST_PAUSE.min(pause * 2);
                }
            }
        }
        // Release the lease before the end is signalled: the process that waits for the end may start the next driver.
        drop(self.lease.take());
    }

    /// Waits for the next job. Returns `None` if all jobs are done or the [`Mirror`] was dropped.
    fn next_job(&self, synced: &mut Instant) -> Option<Job> {
        let mut state = self.shared.lock();
        loop {
            if state.abandoned {
                return None;
            }
            let due = self.period.saturating_sub(synced.elapsed());
            // No periodic upload before the first job, which shows that the files left by an earlier run have been read.
            if due.is_zero() && !state.closing && state.next > 0 {
                *synced = Instant::now();
                let waits = matches!(state.jobs.back(), Some(Job { work: Work::Files { at }, .. }) if *at == self.dir);
                if !waits {
                    let journal = state.journal;
                    state.push(Work::Files { at: self.dir.clone() }, journal);
                }
            }
            if let Some(job) = state.jobs.front() {
                return Some(job.clone());
            }
            if state.closing {
                return None;
            }
            let due = if state.next == 0 { self.period } else { due };
            state = self.shared.changed.wait_timeout(state, due).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    fn done(&self) {
        let mut state = self.shared.lock();
        state.jobs.pop_front();
        state.last_error = None;
    }

    /// Pauses after an error; ends early when the run ends.
    fn rest(&self, error: Error, pause: Duration) {
        let until = Instant::now() + pause;
        let mut state = self.shared.lock();
        state.last_error = Some(error);
        self.shared.changed.notify_all();
        let was_closing = state.closing;
        loop {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() || state.abandoned || state.closing != was_closing {
                return;
            }
            state = self.shared.changed.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Does one job. After an error the whole job is done again, so each step can be repeated.
    fn work(&mut self, job: &Job) -> Result<()> {
        if let Some(lease) = &self.lease {
            lease.check()?;
        }
        match &job.work {
            Work::Save { checkpoint, manifest, before } => self.save(job, checkpoint, *manifest, *before)?,
            Work::Delete { checkpoint } => {
                if !self.deletions.iter().any(|(number, _)| *number == job.number) {
                    self.deletions.push((job.number, checkpoint.clone()));
                }
            }
            Work::Files { at } => self.upload_files(at)?,
            Work::End => {
                self.upload_files(&self.dir.clone())?;
                // Another process deleted these checkpoints, so they will never be uploaded.
                for absent in self.missing.drain(..) {
                    tracing::warn!(
                        "a checkpoint in {} was gone before it was uploaded",
                        absent.trial.display()
                    );
                }
            }
        }
        self.wanted = self.wanted.max(job.journal);
        self.catch_up(job.number)
    }

    fn upload_files(&mut self, at: &Path) -> Result<()> {
        let journal = self.journal.as_ref().map(Segments::file);
        self.files.upload(&*self.storage, &self.dir, at, journal)
    }

    fn save(&mut self, job: &Job, checkpoint: &Path, manifest: u32, before: u64) -> Result<()> {
        let trial = parent(checkpoint).to_path_buf();
        let is_the_same = || identity(checkpoint) == Some(manifest);
        let path = self.path_of(checkpoint)?;
        let outcome = if is_the_same() {
            let storage = self.storage.clone();
            checkpoints::put(&*storage, &path, checkpoint, || {
                let to = self.limit(self.wanted.max(before));
                self.journal.as_mut().map_or(Ok(()), |journal| journal.advance(&*storage, to))
            })
        } else {
            Err(Error::checkpoint(checkpoint, "it is not there any more"))
        };
        match outcome {
            Ok(()) => {
                self.missing.retain(|absent| absent.trial != trial || absent.number > job.number);
                self.deletions.retain(|(_, deleted)| deleted != checkpoint);
                let _ = self.report.send(checkpoint.to_path_buf());
            }
            Err(_) if !is_the_same() => {
                if !self.missing.iter().any(|absent| absent.number == job.number) {
                    self.missing.push(MissingCheckpoint { number: job.number, trial, before });
                }
            }
            Err(error @ Error::Checkpoint { .. }) => tracing::warn!("not uploaded: {error}"),
            Err(error) => return Err(error),
        }
        Ok(())
    }

    /// Uploads the journal up to the last line whose checkpoints are stored, then deletes the checkpoints that no uploaded
    /// line needs.
    fn catch_up(&mut self, number: u64) -> Result<()> {
        let to = self.limit(self.wanted);
        if let Some(journal) = &mut self.journal {
            journal.advance(&*self.storage, to)?;
        }
        let reached = self.missing.iter().map(|absent| absent.number - 1).min().unwrap_or(number);
        while let Some(at) = self.deletions.iter().position(|(number, _)| *number <= reached) {
            let path = self.path_of(&self.deletions[at].1)?;
            checkpoints::delete(&*self.storage, &path)?;
            self.deletions.remove(at);
        }
        Ok(())
    }

    fn limit(&self, wanted: u64) -> u64 {
        self.missing.iter().map(|absent| absent.before).fold(wanted, u64::min)
    }

    fn path_of(&self, checkpoint: &Path) -> Result<String> {
        let path = checkpoint.strip_prefix(&self.dir).ok().and_then(Path::to_str);
        path.map(|path| join("", path))
            .ok_or_else(|| Error::checkpoint(checkpoint, format!("it is not in {}", self.dir.display())))
    }
}

/// Checksum of the manifest, which tells apart two checkpoints of the same name; `None` without a manifest.
fn identity(checkpoint: &Path) -> Option<u32> {
    read_file(&checkpoint.join(MANIFEST)).ok().map(|text| crc32c::crc32c(&text))
}
