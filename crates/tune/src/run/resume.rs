//! What happens where a run's directory holds a run already.

use std::path::Path;

use crate::base::{Error, Result};
use crate::checkpoint;
use crate::loggers::RESULTS_FILE;

/// What happens where the directory of a new run, of a sweep or of a training holds one already.
///
/// ```
/// # use pavlov_tune::{Config, Driver, Metrics, Resume, RunOptions, Trainable, TrialContext, Result};
/// # #[derive(Default)]
/// # struct Count(u64);
/// # impl Trainable for Count {
/// #     fn setup(&mut self, _: &Config, _: &TrialContext) -> Result<()> { Ok(()) }
/// #     fn step(&mut self) -> Result<Metrics> { self.0 += 1; Ok(Metrics::new()) }
/// #     fn save_checkpoint(&mut self, dir: &std::path::Path) -> Result<()> {
/// #         std::fs::write(dir.join("count"), self.0.to_string()).map_err(pavlov_tune::Error::other)
/// #     }
/// #     fn load_checkpoint(&mut self, dir: &std::path::Path) -> Result<()> {
/// #         let text = std::fs::read_to_string(dir.join("count")).map_err(pavlov_tune::Error::other)?;
/// #         self.0 = text.parse().map_err(pavlov_tune::Error::other)?;
/// #         Ok(())
/// #     }
/// # }
/// # let home = tempfile::tempdir().unwrap();
/// # let here = home.path().join("run");
/// // A program that is started again after a crash continues its run.
/// let start = || {
///     let options = RunOptions { logdir: Some(here.clone()), resume: Resume::IfThere, ..RunOptions::default() };
///     Driver::with(Count::default(), Config::new(), options)
/// };
/// let mut first = start()?;
/// first.train()?;
/// first.save()?;
/// drop(first);
/// assert_eq!(start()?.iteration(), 1);
/// # Ok::<(), pavlov_tune::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Resume {
    /// A directory that holds a run is refused and stays as it is.
    #[default]
    Never,
    /// The run that the directory holds continues from its newest checkpoint. If that run has no checkpoint, it starts
    /// again from the beginning. A new directory gets a new run.
    IfThere,
    /// The program calls `restore` itself. Until then a run neither trains nor saves in a directory that holds a run.
    ByCaller,
}

/// Refuses a directory that holds the results or the checkpoints of a run.
///
/// # Errors
/// Returns [`Error::Config`] if there are any.
pub(super) fn refuse_used(dir: &Path) -> Result<()> {
    // A directory that cannot be listed is reported where it is written to.
    match checkpoint::list(dir).unwrap_or_default().last() {
        Some((_, newest)) => Err(used(dir, &format!("with the checkpoint {}", name_of(newest)))),
        None if dir.join(RESULTS_FILE).metadata().is_ok_and(|file| file.len() > 0) => {
            Err(used(dir, &format!("with results in {RESULTS_FILE}")))
        }
        None => Ok(()),
    }
}

/// Refuses a URL at which the files `names` of a run lie.
///
/// # Errors
/// Returns [`Error::Config`] if results or checkpoints are among them.
pub(super) fn refuse_used_url<'a>(url: &str, mut names: impl Iterator<Item = &'a str>) -> Result<()> {
    let of_run = |name: &&str| {
        let first = name.split('/').next().unwrap_or_default();
        first == RESULTS_FILE || checkpoint::iteration(first).is_some()
    };
    match names.find(of_run) {
        Some(name) => {
            let rule = format!("a run lies there already ({name}): {WAY_OUT}");
            Err(Error::config("remote_checkpoint_dir", url, rule))
        }
        None => Ok(()),
    }
}

const WAY_OUT: &str =
    "`resume = Resume::IfThere` continues it from its newest checkpoint; a new run needs a place of its own";

fn used(dir: &Path, what: &str) -> Error {
    let rule = format!("that directory holds a run already, {what}: {WAY_OUT}");
    Error::config("logdir", dir.display(), rule)
}

fn name_of(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}
