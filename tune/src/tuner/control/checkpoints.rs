//! Deletion of surplus checkpoints, locally and on the storage, and the queueing of uploads.

use std::collections::BTreeSet;

use super::Control;
use crate::tuner::progress;
use crate::tuner::sweep::Stage;
use crate::tuner::table::Columns;
use crate::{Result, checkpoint, files};

/// File with the table of all trials.
const RESULTS: &str = "results.csv";

impl Control {
    pub(super) fn delete_surplus(&mut self, i: usize) -> Result<()> {
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

    fn delete(&mut self, i: usize, iteration: u64) -> Result<()> {
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
                    remote.is_there(i, iteration, path);
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
        if run.stage == Stage::Starting || self.run_config.sync_config.keep_local_checkpoints {
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

    /// Brings a trial's checkpoints in line with the files, after a replay. Forgets checkpoints that exist neither locally
    /// nor on the storage. If only some checkpoints are kept, deletes those that the journal does not mention: they were
    /// written just before the driver was killed, and no trial starts from them. `there` has the iterations of the trial's
    /// checkpoints on the storage.
    pub(super) fn restore_checkpoints(&mut self, i: usize, there: &[u64]) -> Result<()> {
        let run = &mut self.sweep.runs[i];
        let dir = run.dir.clone();
        let is_gone = |path: &std::path::Path| {
            !path.is_dir() && !self.remote.as_ref().is_some_and(|remote| remote.has(path))
        };
        let gone: Vec<u64> = run
            .checkpoints
            .iter()
            .map(|saved| saved.iteration)
            .filter(|iteration| is_gone(&dir.join(checkpoint::name(*iteration))))
            .collect();
        for iteration in gone {
            run.checkpoints.forget(iteration);
        }
        let config = &self.run_config.checkpoint_config;
        if config.num_to_keep.is_none() && config.max_bytes.is_none() {
            return Ok(());
        }
        let here = checkpoint::list(&dir)?.into_iter().filter(|(_, path)| checkpoint::is_checkpoint(path));
        let mut found: BTreeSet<u64> = here.map(|(iteration, _)| iteration).collect();
        found.extend(there);
        for saved in run.checkpoints.iter() {
            found.remove(&saved.iteration);
        }
        found.into_iter().try_for_each(|iteration| self.delete(i, iteration))
    }

    /// Queues uploads after a replay: first local checkpoints that the storage may lack, then the other files and the
    /// journal.
    pub(super) fn restore_uploads(&mut self) -> Result<()> {
        let Some(remote) = &self.remote else { return Ok(()) };
        if !remote.is_fresh {
            for run in &self.sweep.runs {
                let paths =
                    run.checkpoints.iter().map(|saved| run.dir.join(checkpoint::name(saved.iteration)));
                paths.filter(|path| path.is_dir()).for_each(|path| remote.mirror.save(&path, 0));
            }
        }
        remote.mirror.sync(&self.sweep.dir, self.journal.length());
        Ok(())
    }

    /// Writes `results.csv`, with one row per trial.
    pub(in crate::tuner) fn write_results(&self, columns: Columns<'_>) -> Result<()> {
        if self.sweep.trials.is_empty() {
            return Ok(());
        }
        let rows: Vec<_> = self.sweep.trials.iter().map(progress::row).collect();
        let path = self.sweep.dir.join(RESULTS);
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
