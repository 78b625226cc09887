//! Checkpoints of a run: save, delete, keep in memory, and export of the model.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use super::Driver;
use crate::base::{Error, Result, files, write_file};
use crate::checkpoint::{self, METADATA, Metadata};
use crate::trainable::{ExportFormat, Trainable};

/// Size in bytes above which a checkpoint object is logged, since it is held in memory.
const LARGE_OBJECT: usize = 10_000_000;

impl<T: Trainable> Driver<T> {
    /// Writes the checkpoint `<logdir>/checkpoint_<iteration>` and returns its path; then deletes surplus checkpoints.
    ///
    /// All results so far are made durable before it. With a `remote_checkpoint_dir` the checkpoint is uploaded in the
    /// background; the local copy stays until the upload is complete and a newer checkpoint exists.
    /// [`restore`](Driver::restore) accepts the returned path even after that.
    ///
    /// A checkpoint whose files are deleted while it is written is written a second time.
    ///
    /// # Errors
    /// Returns [`Error::RunDirectory`] if the run directory was moved or removed since training began. Nothing is
    /// written then; [`rescue`](Driver::rescue) saves the run beside it. Returns the error of a logger or
    /// of `save_checkpoint`, [`Error::Checkpoint`] if something that is not a checkpoint has the name or the trainable
    /// wrote a file with a reserved name, and [`Error::Io`] if the checkpoint cannot be written; no checkpoint was
    /// deleted then. Returns [`Error::Io`] if an old checkpoint cannot be deleted; the new one exists then. Returns
    /// [`Error::Stopped`] after [`stop`](Driver::stop).
    pub fn save(&mut self) -> Result<PathBuf> {
        self.check_run_dir()?;
        self.refuse_other_run()?;
        self.log.open(&self.config)?;
        self.log.sync()?;
        let run_dir = self.log.dir().to_path_buf();
        let path = match self.save_to(&run_dir) {
            Ok(path) if checkpoint::has_all_files(&path) => path,
            Err(error) if !error.is_of_missing_file() => return Err(error),
            // As when the directory is being deleted: either it is gone, or its last files are.
            _ => {
                self.check_run_dir()?;
                self.save_again(&run_dir)?
            }
        };
        self.run_dir.note(&run_dir);
        match &mut self.remote {
            Some(remote) => remote.saved(&path, &self.retention)?,
            None => self.retention.apply(&run_dir, &path)?,
        }
        Ok(path)
    }

    /// Writes the checkpoint of this iteration a second time, because another program deleted its files during the first.
    fn save_again(&mut self, run_dir: &Path) -> Result<PathBuf> {
        match self.save_to(run_dir) {
            Ok(path) if checkpoint::has_all_files(&path) => Ok(path),
            Err(error) if !error.is_of_missing_file() => Err(error),
            _ => Err(Error::RunDirectory { path: run_dir.into(), moved_to: None, rescued: None }),
        }
    }

    /// Saves the run beside its directory if `error` says that the directory was moved or removed during training: the
    /// results so far and a checkpoint go to a new directory, `<dir>.rescued`, which is the run directory from then on.
    /// Returns the error with that place; any other error is returned unchanged.
    pub fn rescue(&mut self, error: Error) -> Error {
        let Error::RunDirectory { path, moved_to, rescued: None } = error else { return error };
        let rescued = match self.move_beside() {
            Ok(place) => Some(place),
            Err(error) => {
                tracing::warn!("nothing could be saved beside {}: {error}", path.display());
                None
            }
        };
        Error::RunDirectory { path, moved_to, rescued }
    }

    /// Goes on in a new directory beside the run directory, which has all results and a checkpoint.
    fn move_beside(&mut self) -> Result<PathBuf> {
        let place = files::rescue_dir(self.log.dir(), |place| !place.exists())?;
        self.log.move_to(&place, &self.config)?;
        if let Some(last) = self.last_result.clone().filter(|_| self.logged < self.counters.iteration) {
            self.log.on_result(&last, &self.config)?;
            self.logged = self.counters.iteration;
        }
        if let Err(error) = self.save_to(&place) {
            tracing::warn!("{} has the results, but no checkpoint: {error}", place.display());
        }
        Ok(place)
    }

    /// Writes a checkpoint like [`save`](Driver::save), but into the directory `parent`, where no checkpoint is
    /// deleted.
    ///
    /// # Errors
    /// Returns the error of `save_checkpoint`, [`Error::Checkpoint`] if something that is not a checkpoint has the name
    /// or the trainable wrote a file with a reserved name, [`Error::Io`] if the checkpoint cannot be written, and
    /// [`Error::Stopped`] after [`stop`](Driver::stop).
    pub fn save_to(&mut self, parent: impl AsRef<Path>) -> Result<PathBuf> {
        let parent = parent.as_ref();
        self.refuse_if_stopped("save")?;
        let metadata = Metadata {
            experiment_id: self.experiment_id.clone(),
            iteration: self.counters.iteration,
            timesteps_total: self.counters.timesteps_total,
            episodes_total: self.counters.episodes_total,
            time_total_s: self.counters.time_total_s,
            config: self.config.clone(),
            last_result: self.last_result.clone(),
        };
        let target = parent.join(checkpoint::name(self.counters.iteration));
        let kind = self.trainable.kind();
        let number = match &self.numbered {
            Some((dir, last)) if dir == parent => last + 1,
            _ => checkpoint::next_number(parent),
        };
        let path = checkpoint::write_as(&target, &kind, number, |dir| {
            self.trainable.save_checkpoint(dir)?;
            let path = dir.join(METADATA);
            if path.exists() {
                return Err(Error::checkpoint(
                    &target,
                    format!("{METADATA} is a reserved name; choose another"),
                ));
            }
            let text = serde_json::to_vec_pretty(&metadata).map_err(Error::other)?;
            write_file(&path, &text).map_err(Error::io("write", &path))
        })?;
        self.numbered = Some((parent.into(), number));
        Ok(path)
    }

    /// Returns a checkpoint as bytes in memory.
    ///
    /// # Errors
    /// Fails in the same cases as [`save_to`](Driver::save_to), since the checkpoint is first written to the system's
    /// temporary directory.
    pub fn save_to_object(&mut self) -> Result<Vec<u8>> {
        let temporary = temporary_dir()?;
        let path = self.save_to(temporary.path())?;
        let object = checkpoint::pack(&path)?;
        if object.len() > LARGE_OBJECT {
            tracing::info!("the checkpoint object has {:.1} MB", object.len() as f64 / 1e6);
        }
        Ok(object)
    }

    /// Continues from the bytes that [`save_to_object`](Driver::save_to_object) returned, like
    /// [`restore`](Driver::restore).
    ///
    /// # Errors
    /// Returns [`Error::Checkpoint`] if the bytes are truncated, damaged, or of another kind of trainable,
    /// [`Error::Io`] if the system's temporary directory cannot be used, and [`Error::Stopped`] after
    /// [`stop`](Driver::stop); nothing has changed then. Returns the error of `load_checkpoint`.
    pub fn restore_from_object(&mut self, object: &[u8]) -> Result<()> {
        let temporary = temporary_dir()?;
        checkpoint::unpack(object, temporary.path())?;
        self.restore(temporary.path())
    }

    /// Deletes the checkpoint at `path`, or the one that contains `path`; does nothing if there is none. A checkpoint
    /// of the run directory is also deleted at `remote_checkpoint_dir`.
    ///
    /// # Errors
    /// Returns [`Error::Io`] if the checkpoint cannot be deleted.
    pub fn delete_checkpoint(&self, path: &Path) -> Result<()> {
        let path = std::path::absolute(path).map_err(Error::io("find the absolute path of", path))?;
        let is_named = |dir: &Path| {
            let name = dir.file_name().and_then(|name| name.to_str());
            name.is_some_and(|name| checkpoint::iteration(name).is_some())
                && dir.parent() == Some(self.log.dir())
        };
        if let Some(remote) = &self.remote
            && let Some(dir) = path.ancestors().find(|dir| is_named(dir))
        {
            return remote.delete(dir);
        }
        match path.ancestors().find(|dir| checkpoint::is_checkpoint(dir)) {
            Some(dir) => checkpoint::remove(dir),
            None => {
                tracing::debug!("no checkpoint to delete at {}", path.display());
                Ok(())
            }
        }
    }

    /// Exports the model into `dir` (the run directory if `None`) and returns the path of each exported format. Formats
    /// that the trainable does not support are missing from the map.
    ///
    /// # Errors
    /// Returns the error of the trainable, [`Error::Io`] if `dir` cannot be created, and [`Error::Stopped`] after
    /// [`stop`](Driver::stop).
    pub fn export_model(
        &mut self,
        formats: &[ExportFormat],
        dir: Option<&Path>,
    ) -> Result<BTreeMap<ExportFormat, PathBuf>> {
        self.refuse_if_stopped("export")?;
        let dir = dir.unwrap_or(self.log.dir()).to_path_buf();
        fs::create_dir_all(&dir).map_err(Error::io("create", &dir))?;
        let mut exported = BTreeMap::new();
        for format in formats {
            if let Some(path) = self.trainable.export_model(*format, &dir)? {
                exported.insert(*format, path);
            }
        }
        Ok(exported)
    }

    /// Lists the checkpoints in the run directory, sorted by iteration and including damaged ones.
    ///
    /// # Errors
    /// Returns [`Error::Io`] if the run directory cannot be listed; one that does not exist has no checkpoints.
    pub fn checkpoints(&self) -> Result<Vec<(u64, PathBuf)>> {
        checkpoint::list(self.log.dir())
    }
}

/// Makes a temporary directory that is deleted when it is dropped.
fn temporary_dir() -> Result<tempfile::TempDir> {
    tempfile::tempdir().map_err(Error::io("write in", &std::env::temp_dir()))
}
