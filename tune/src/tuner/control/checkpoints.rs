//! Deletion of surplus checkpoints, locally and on the storage, and the queueing of uploads.

use super::Control;
use crate::tuner::reporter;
use crate::tuner::table::Columns;
use crate::{Result, checkpoint, files};

/// File with the table of all trials.
const RESULTS: &str = "results.csv";

impl Control {
    pub(in crate::tuner) fn delete_surplus(&mut self, i: usize) -> Result<()> {
        let config = &self.run_config.checkpoint_config;
        if let Some(num_to_keep) = config.num_to_keep {
            let by_score = config.score.is_some();
            for iteration in self.sweep.runs[i].checkpoints.surplus(num_to_keep, by_score) {
                self.delete(i, iteration)?;
            }
        }
        let Some(budget) = self.run_config.checkpoint_config.max_bytes else { return Ok(()) };
        // Oldest trials first; each trial keeps its newest checkpoint.
        let mut oldest = 0;
        while self.unsaved.bytes > budget && oldest < self.sweep.runs.len() {
            match self.sweep.runs[oldest].checkpoints.oldest_unneeded() {
                Some(iteration) => self.delete(oldest, iteration)?,
                None => oldest += 1,
            }
        }
        Ok(())
    }

    pub(in crate::tuner) fn delete(&mut self, i: usize, iteration: u64) -> Result<()> {
        let run = &mut self.sweep.runs[i];
        let forgotten = run.checkpoints.forget(iteration);
        self.unsaved.bytes -= forgotten.map_or(0, |checkpoint| checkpoint.bytes);
        let path = run.dir.join(checkpoint::name(iteration));
        if let Some(remote) = &mut self.remote {
            remote.delete(i, iteration, &path, self.journal.length());
        }
        if path.is_dir() { checkpoint::remove(&path) } else { Ok(()) }
    }

    /// Queues the upload of a new checkpoint. The last line of the journal must be the event of this checkpoint.
    pub(super) fn upload(&self, i: usize, iteration: u64) {
        let Some(remote) = &self.remote else { return };
        let path = self.sweep.runs[i].dir.join(checkpoint::name(iteration));
        remote.mirror.save(&path, self.journal.length());
    }

    /// Queues the upload of an ended trial's files. The journal's last line, which says that the trial has ended, is
    /// uploaded after them.
    pub(super) fn upload_files(&self, i: usize) {
        let Some(remote) = &self.remote else { return };
        remote.mirror.sync(&self.sweep.runs[i].dir, self.journal.length());
    }

    pub(super) fn on_uploads(&mut self) -> Result<()> {
        let Some(remote) = &self.remote else { return Ok(()) };
        for path in remote.mirror.uploaded().collect::<Vec<_>>() {
            let trial_id = path.parent().and_then(|dir| dir.file_name()?.to_str()).unwrap_or_default();
            let i = self.sweep.find(trial_id)?;
            let run = &self.sweep.runs[i];
            let found =
                run.checkpoints.iter().find(|saved| run.dir.join(checkpoint::name(saved.iteration)) == path);
            // Otherwise the checkpoint was deleted meanwhile.
            if let Some(iteration) = found.map(|saved| saved.iteration) {
                if let Some(remote) = &mut self.remote {
                    remote.uploaded(i, iteration, path);
                }
                self.drop_local_surplus(i)?;
            }
        }
        Ok(())
    }

    /// Deletes local copies of uploaded checkpoints, except those a trial may start from, unless `keep_local_checkpoints` is
    /// set.
    pub(super) fn drop_local_surplus(&mut self, i: usize) -> Result<()> {
        let Some(remote) = &mut self.remote else { return Ok(()) };
        let run = &self.sweep.runs[i];
        if run.is_starting() || self.run_config.sync_config.keep_local_checkpoints {
            return Ok(());
        }
        for iteration in remote.surplus(i, |iteration| !run.checkpoints.is_needed(iteration)) {
            let path = run.dir.join(checkpoint::name(iteration));
            if path.is_dir() {
                checkpoint::remove(&path)?;
            }
        }
        Ok(())
    }

    /// Writes `results.csv`, with one row per trial.
    pub(in crate::tuner) fn write_results(&self) -> Result<()> {
        if self.sweep.trials.is_empty() {
            return Ok(());
        }
        let rows: Vec<_> = self.sweep.trials.iter().map(reporter::row).collect();
        let path = self.sweep.dir.join(RESULTS);
        let columns = Columns { space: &self.space, objective: self.shown.as_ref() };
        let text = columns.csv(&rows)?;
        files::replace_file(&path, &text)
    }

    /// Waits for outstanding uploads at the end of the sweep. If the sweep has failed, an upload error is only logged.
    pub(in crate::tuner) fn finish_uploads(&mut self, went_well: bool) -> Result<()> {
        let Some(remote) = &self.remote else { return Ok(()) };
        match remote.finish() {
            Err(error) if !went_well => tracing::warn!("{error}"),
            outcome => outcome?,
        }
        self.on_uploads()
    }
}
