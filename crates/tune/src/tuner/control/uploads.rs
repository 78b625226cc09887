//! What a sweep on a storage uploads, which local copies it deletes after that, and the file with all results.

use super::Control;
use crate::base::{Result, files};
use crate::checkpoint;
use crate::tuner::reporter;
use crate::tuner::table::Columns;

/// File with the table of all trials.
const RESULTS: &str = "results.csv";

impl Control {
    /// Queues uploads at the start of a sweep: first local checkpoints that the storage may lack, then the other files and the
    /// journal.
    pub(super) fn queue_uploads(&self) {
        let Some(remote) = &self.remote else { return };
        if !remote.is_fresh {
            for run in &self.sweep.runs {
                let paths =
                    run.checkpoints.iter().map(|saved| run.dir.join(checkpoint::name(saved.iteration)));
                paths.filter(|path| path.is_dir()).for_each(|path| remote.mirror.save(&path, 0));
            }
        }
        remote.mirror.sync(&self.sweep.dir, self.journal.length());
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
        let path = self.journal.rescued().unwrap_or(&self.sweep.dir).join(RESULTS);
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
