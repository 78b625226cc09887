//! Uploads of a run to a URL, `remote_checkpoint_dir`.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::base::{Error, Result};
use crate::checkpoint::{self, Kept, Retention};
use crate::run::resume::refuse_used_url;
use crate::run::{Resume, RunOptions};
use crate::storage::{self, Lease, Mirror, Storage};

/// Uploads a run directory to storage and applies the checkpoint limit on both sides.
pub(super) struct RunUpload {
    storage: Arc<dyn Storage>,
    mirror: Mirror,
    dir: PathBuf,
    /// Checkpoints that are uploaded or being uploaded; empty if their number is not limited.
    kept: Vec<Kept>,
    /// Checkpoints that exist both on storage and in the run directory.
    on_both: BTreeSet<PathBuf>,
    keep_local_checkpoints: bool,
}

impl RunUpload {
    /// Starts the upload; `None` if `remote_checkpoint_dir` is not set.
    ///
    /// # Errors
    /// Returns [`Error::Config`] if `remote_checkpoint_dir` is not a URL, [`Error::Experiment`] if another driver
    /// writes there, [`Error::Storage`] if the storage cannot be used, and [`Error::Checkpoint`] if a checkpoint there
    /// is damaged.
    pub(super) fn start(options: &RunOptions, dir: &Path, retention: &Retention) -> Result<Option<Self>> {
        let Some(url) = &options.remote_checkpoint_dir else { return Ok(None) };
        if storage::scheme(Path::new(url)).is_none() {
            let rule = "it must be a URL such as s3://bucket/run; for a directory there is `logdir`";
            return Err(Error::config("remote_checkpoint_dir", url, rule));
        }
        let storage = storage::open(url)?;
        if options.resume == Resume::Never {
            refuse_used_url(url, storage.list("")?.iter().map(|object| object.path.as_str()))?;
        }
        let lease = Lease::take(storage.clone())?;
        let mut kept = Vec::new();
        if retention.has_limit() {
            for (written, name) in storage::written(&*storage, &storage.list("")?)? {
                let metadata = storage::checkpoint_metadata(&*storage, &name)?;
                kept.extend(
                    checkpoint::iteration(&name)
                        .map(|iteration| retention.judge(iteration, written, &metadata)),
                );
            }
        }
        let mirror = Mirror::start(storage.clone(), dir, None, Some(lease), options.sync_config.clone())?;
        let keep_local_checkpoints = options.sync_config.keep_local_checkpoints;
        Ok(Some(RunUpload {
            storage,
            mirror,
            dir: dir.into(),
            kept,
            on_both: BTreeSet::new(),
            keep_local_checkpoints,
        }))
    }

    /// The URL of the run if a checkpoint lies there, which [`fetch_checkpoint`](storage::fetch_checkpoint) then takes.
    ///
    /// # Errors
    /// Returns [`Error::Storage`] if the storage cannot be used.
    pub(super) fn newest_checkpoint(&self) -> Result<Option<String>> {
        let written = storage::written(&*self.storage, &self.storage.list("")?)?;
        Ok((!written.is_empty()).then(|| self.url().to_owned()))
    }

    pub(super) fn url(&self) -> &str {
        self.storage.url()
    }

    /// Uploads a checkpoint that was just written. The logs are uploaded first, since a run restored from it needs all
    /// results so far.
    ///
    /// # Errors
    /// Returns [`Error::Io`] if a surplus checkpoint cannot be deleted from the local disk, and [`Error::Checkpoint`]
    /// if the new one cannot be read.
    pub(super) fn saved(&mut self, path: &Path, retention: &Retention) -> Result<()> {
        self.mirror.sync(&self.dir, 0);
        self.mirror.save(path, 0);
        self.on_both.remove(path);
        if retention.has_limit() {
            let written = checkpoint::read_manifest(path)?.written();
            let metadata = checkpoint::metadata(path)?;
            let iteration = metadata.iteration;
            let newest = retention.judge(iteration, written, &metadata);
            self.kept.retain(|kept| kept.iteration != iteration);
            self.kept.push(newest);
            for iteration in retention.surplus(self.kept.clone(), Some(iteration)) {
                self.delete(&self.dir.join(checkpoint::name(iteration)))?;
                self.kept.retain(|kept| kept.iteration != iteration);
            }
        }
        self.drop_what_is_there(path)
    }

    /// Deletes a checkpoint of the run from storage and from the local disk.
    ///
    /// # Errors
    /// Returns [`Error::Io`] if the local checkpoint cannot be deleted.
    pub(super) fn delete(&self, path: &Path) -> Result<()> {
        self.mirror.delete(path, 0);
        if path.is_dir() { checkpoint::remove(path) } else { Ok(()) }
    }

    /// Downloads a checkpoint of the run directory if it exists only on storage.
    ///
    /// # Errors
    /// Returns [`Error::Checkpoint`] if the checkpoint on the storage is damaged, [`Error::Storage`] if the storage cannot be
    /// used, and [`Error::Io`] if the files cannot be written.
    pub(super) fn bring_back(&self, path: &Path) -> Result<()> {
        match path.strip_prefix(&self.dir).ok().and_then(Path::to_str) {
            Some(name) if !path.exists() => storage::get_checkpoint(&*self.storage, name, path),
            _ => Ok(()),
        }
    }

    /// Waits until everything is uploaded.
    ///
    /// # Errors
    /// Returns [`Error::Experiment`] if the upload fails or takes longer than `sync_timeout`.
    pub(super) fn finish(&mut self) -> Result<()> {
        self.mirror.finish().map_err(|error| {
            let reason = format!(
                "it is whole here, but not at {}: {error}; resume it here to upload the rest",
                self.storage.url()
            );
            Error::experiment(&self.dir, reason)
        })?;
        match checkpoint::latest(&self.dir) {
            Ok(Some(newest)) => self.drop_what_is_there(&newest),
            _ => Ok(()),
        }
    }

    /// Deletes the local copies of uploaded checkpoints except `newest`, unless local checkpoints are to be kept.
    fn drop_what_is_there(&mut self, newest: &Path) -> Result<()> {
        if self.keep_local_checkpoints {
            return Ok(());
        }
        self.on_both.extend(self.mirror.uploaded());
        for path in std::mem::take(&mut self.on_both) {
            if path == newest {
                self.on_both.insert(path);
            } else if path.is_dir() {
                checkpoint::remove(&path)?;
            }
        }
        Ok(())
    }
}
