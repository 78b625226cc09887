//! The thread that uploads what a [`Mirror`](super::mirror::Mirror) queues.

use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

use crossbeam_channel::Sender;

use super::files::Files;
use super::journal::Segments;
use super::lease::Lease;
use super::upload_queue::{Job, Shared, Work};
use super::{Storage, checkpoints, join};
use crate::base::files::parent;
use crate::base::{Error, Result, read_file};
use crate::checkpoint::MANIFEST;

/// First pause between attempts during an outage; each pause is twice as long as the one before.
const SHORTEST_PAUSE: Duration = Duration::from_millis(250);
const LONGEST_PAUSE: Duration = Duration::from_secs(60);
/// Checkpoint that the journal mentions but that will never be uploaded.
#[derive(Debug)]
pub(super) struct MissingCheckpoint {
    number: u64,
    trial: PathBuf,
    /// Length of the journal in bytes before the line about this checkpoint.
    before: u64,
}

/// State of the thread that uploads.
pub(super) struct Uploader {
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
    pub(super) fn new(
        shared: Arc<Shared>,
        storage: Arc<dyn Storage>,
        dir: &Path,
        period: Duration,
        journal: Option<Segments>,
        lease: Option<Lease>,
        report: Sender<PathBuf>,
    ) -> Self {
        Uploader {
            shared,
            wanted: journal.as_ref().map_or(0, Segments::end),
            storage,
            dir: dir.to_path_buf(),
            period,
            journal,
            files: Files::default(),
            missing: Vec::new(),
            deletions: Vec::new(),
            lease,
            report,
        }
    }

    pub(super) fn run(mut self) {
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

    /// Waits for the next job. Returns `None` if all jobs are done or the [`Mirror`](super::mirror::Mirror) was dropped.
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
pub(super) fn identity(checkpoint: &Path) -> Option<u32> {
    read_file(&checkpoint.join(MANIFEST)).ok().map(|text| crc32c::crc32c(&text))
}
