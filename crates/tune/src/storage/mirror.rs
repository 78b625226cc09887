//! Uploads a directory to storage in the background.
//!
//! One thread does its jobs in order. It guarantees the following, even if the process or the storage fails at any time:
//! * The manifest of a checkpoint is stored only together with all its files.
//! * The uploaded journal never mentions a checkpoint that is not stored, unless it was deleted and a later one of its trial
//!   is stored.
//! * A checkpoint is deleted only after the journal as it was before the deletion has been uploaded.
//! * Local checkpoints are never changed.
//!
//! A checkpoint that is deleted or replaced locally before its upload leaves a [`MissingCheckpoint`](super::uploader::MissingCheckpoint). Until a later
//! checkpoint of the same trial is stored, the uploaded journal ends before the first line about a missing checkpoint, and
//! deletions wait.

use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, unbounded};
use serde::{Deserialize, Serialize};

use super::Storage;
use super::journal::Segments;
use super::lease::Lease;
use super::upload_queue::{Shared, Work};
use super::uploader::{Uploader, identity};
use crate::base::{Error, Result};

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
        let worker = Uploader::new(shared.clone(), storage, dir, config.sync_period, journal, lease, report);
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
