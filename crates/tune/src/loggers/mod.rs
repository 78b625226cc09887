//! Loggers: write the results of a run, one file per format.
//!
//! `result.json` is the source of truth. The other files are made from it or from the same results, and may be deleted.

use std::path::Path;

use crate::base::{Config, Metrics, Result};
use crate::trainable::TrialContext;

mod csv;
mod from_end;
mod histogram;
mod json;
mod mlflow;
mod params;
mod protobuf;
mod tags;
mod tensorboard;
mod wandb;

pub use csv::{CsvLogger, table_differences};
pub(crate) use json::FILE as RESULTS_FILE;
pub use json::{JsonLogger, damaged_results, read_results};
pub(crate) use json::{last_result, visit_results};
pub use mlflow::MlflowFolderLogger;
#[cfg(feature = "sqlite")]
pub use mlflow::MlflowLogger;
pub(crate) use params::{PARAMS_FILE, write_params};
pub use tensorboard::TensorBoardLogger;
pub use wandb::WandbLogger;

pub use crate::base::flatten;

/// Receives every complete result of a run, in order.
///
/// A run uses the loggers in its [`RunOptions`](crate::RunOptions::loggers). Each trial of a sweep uses those that
/// [`TrainableFactory::with_logger`](crate::TrainableFactory::with_logger) makes for it.
///
/// ```
/// use std::fs::File;
/// use std::io::Write;
///
/// use pavlov_tune::loggers::Logger;
/// use pavlov_tune::{Config, Error, LoggerChoice, Metrics, Result, RunOptions, TrialContext};
///
/// /// Writes the losses of a run to `losses.txt`.
/// #[derive(Default)]
/// struct Losses(Option<File>);
///
/// impl Logger for Losses {
///     fn setup(&mut self, _: &Config, trial: &TrialContext) -> Result<()> {
///         let path = trial.logdir.join("losses.txt");
///         self.0 = Some(File::options().create(true).append(true).open(&path).map_err(Error::io("open", &path))?);
///         Ok(())
///     }
///     fn on_result(&mut self, result: &Metrics) -> Result<()> {
///         match &mut self.0 {
///             Some(file) => writeln!(file, "{}", result["loss"]).map_err(Error::other),
///             None => Ok(()),
///         }
///     }
/// }
///
/// let loggers = LoggerChoice::DefaultAnd(vec![Box::new(Losses::default())]);
/// let options = RunOptions { loggers, ..RunOptions::default() };
/// ```
pub trait Logger: Send {
    /// Prepares for the run with these complete settings; the run directory `trial.logdir` exists. Called before the
    /// first result, and again before the first result with other settings (see
    /// [`Driver::reset`](crate::Driver::reset)).
    ///
    /// # Errors
    /// An error fails the run: it is returned by [`Driver::train`](crate::Driver::train), or by a save before the first
    /// result.
    fn setup(&mut self, config: &Config, trial: &TrialContext) -> Result<()> {
        let _ = (config, trial);
        Ok(())
    }

    /// Writes one result, in such a way that it survives if the process is killed right afterwards.
    ///
    /// # Errors
    /// An error fails the run: [`Driver::train`](crate::Driver::train) returns it, although the iteration is counted.
    fn on_result(&mut self, result: &Metrics) -> Result<()>;

    /// Removes the results after `iteration`, because the run went back to that iteration. Called before the next
    /// `on_result`. A trial of a sweep that starts from the beginning goes back to 0, since an earlier attempt may have
    /// logged results.
    ///
    /// # Errors
    /// An error fails the run: the call that uses the logger returns it.
    fn rewind(&mut self, iteration: u64) -> Result<()> {
        let _ = iteration;
        Ok(())
    }

    /// Writes buffered data to the file.
    ///
    /// # Errors
    /// Fails if the data cannot be written.
    fn flush(&mut self) -> Result<()> {
        Ok(())
    }

    /// Makes all results so far durable, so that they survive a power cut. Called before each checkpoint of the run is
    /// written, so that no checkpoint is newer than the log.
    ///
    /// # Errors
    /// An error prevents the checkpoint: [`Driver::save`](crate::Driver::save) returns it.
    fn sync(&mut self) -> Result<()> {
        Ok(())
    }

    /// Notes that the trainable failed, so that [`close`](Logger::close) can record it. A later result supersedes this.
    fn failed(&mut self) {}

    /// Makes sure that the log is in `run_dir`: if it was deleted or replaced, or lies elsewhere, it is written there again
    /// from what is known of it, and goes on there. Returns the name of a file that was written. Called before each result.
    ///
    /// By default nothing is done.
    ///
    /// # Errors
    /// Fails if the file cannot be written.
    fn keep_in(&mut self, run_dir: &Path) -> Result<Option<String>> {
        let _ = run_dir;
        Ok(None)
    }

    /// Closes the log; no result follows.
    ///
    /// # Errors
    /// [`Driver::stop`](crate::Driver::stop) returns the error after it has finished all its other work.
    fn close(&mut self) -> Result<()> {
        self.flush()
    }
}

/// Name of the folder at the end of a path.
fn folder_of(path: Option<&Path>) -> Option<String> {
    Some(path?.file_name()?.to_string_lossy().into_owned())
}
