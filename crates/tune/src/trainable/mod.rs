//! The trait [`Trainable`], which the author of a trainable implements.

use std::path::{Path, PathBuf};

use crate::base::{Config, Metrics, Resources, Result};

mod export;

pub use export::ExportFormat;

/// Identity, resources and directory of the trial that a trainable runs as.
#[derive(Clone, Debug)]
pub struct TrialContext {
    /// Id of the trial; `"default"` outside a sweep.
    pub trial_id: String,
    /// Name of the trial; `"default"` outside a sweep.
    pub trial_name: String,
    /// Resources that the sweep reserved for this trial; `None` outside a sweep.
    pub trial_resources: Option<Resources>,
    /// Directory of the trial. It may not exist yet: the driver creates it at the first result or checkpoint.
    pub logdir: PathBuf,
}

impl TrialContext {
    /// Returns the number of cores this trial may use, see [`Resources::num_threads`]; `None` outside a sweep.
    pub fn num_threads(&self) -> Option<usize> {
        self.trial_resources.as_ref().map(Resources::num_threads)
    }
}

/// Something that is trained step by step, and can be stopped, saved and continued.
///
/// Users do not call these methods themselves. A [`Driver`](crate::Driver) calls them in this order:
///
/// ```text
/// construct: setup
/// loop:      step, log_result
///            save_checkpoint    any time between steps
///            load_checkpoint    before a step
///            reset_config       when the object is reused for another trial
/// end:       export_model, cleanup
/// ```
///
/// # Contract
///
/// * Each `step` makes one reported result. It should be long enough that reporting costs little (seconds), and short enough
///   that schedulers and checkpoints can react (minutes).
/// * After `load_checkpoint`, training continues as if it had never stopped: it gives the same results as the saved object
///   would have. [`validate_save_restore`](crate::validate_save_restore) checks this.
/// * Files in a checkpoint are found relative to the given directory, since it may have been moved or copied.
/// * A metric that does not exist yet is `null`. (JSON has no NaN: `serde_json` writes it as `null`.)
///
/// Some result keys have a special meaning: `done` ends the trial if true, `should_checkpoint` requests a checkpoint if
/// true, `timesteps_this_iter` and `episodes_this_iter` are added to `timesteps_total` and `episodes_total`,
/// `time_this_iter_s` replaces the measured seconds, and `mean_loss` is negated to give `neg_mean_loss`.
///
/// ```
/// use std::path::Path;
/// use pavlov_tune::{Config, Driver, Error, Metrics, Result, Trainable, TrialContext};
///
/// struct Newton { target: f64, x: f64 }
///
/// impl Trainable for Newton {
///     fn setup(&mut self, config: &Config, _trial: &TrialContext) -> Result<()> {
///         self.target = config.get_or("target", 2.0)?;
///         Ok(())
///     }
///     fn step(&mut self) -> Result<Metrics> {
///         self.x = (self.x + self.target / self.x) / 2.0;
///         Ok(Metrics::from([("root", self.x)]))
///     }
///     fn save_checkpoint(&mut self, dir: &Path) -> Result<()> {
///         let file = dir.join("x");
///         std::fs::write(&file, self.x.to_le_bytes()).map_err(Error::io("write", &file))
///     }
///     fn load_checkpoint(&mut self, dir: &Path) -> Result<()> {
///         let file = dir.join("x");
///         let bytes = std::fs::read(&file).map_err(Error::io("read", &file))?;
///         self.x = f64::from_le_bytes(bytes.as_slice().try_into().map_err(Error::other)?);
///         Ok(())
///     }
/// }
///
/// let config = Config::from_iter([("target".to_string(), 9.0.into())]);
/// let options = pavlov_tune::RunOptions { loggers: pavlov_tune::LoggerChoice::None, ..Default::default() };
/// let mut driver = Driver::with(Newton { target: 0.0, x: 1.0 }, config, options)?;
/// let result = driver.train()?;
/// assert_eq!(result["root"], 5.0);
/// assert_eq!(result["training_iteration"], 1);
/// # Ok::<(), pavlov_tune::Error>(())
/// ```
pub trait Trainable: Send {
    /// Prepares the object for its first step. Called once, and not again after a restore or reset. Does nothing by default.
    ///
    /// # Errors
    /// An error fails the trial, and no driver is created.
    fn setup(&mut self, config: &Config, trial: &TrialContext) -> Result<()> {
        let _ = (config, trial);
        Ok(())
    }

    /// Trains for one iteration and returns its metrics.
    ///
    /// # Errors
    /// An error fails the trial; the driver's counters do not change.
    fn step(&mut self) -> Result<Metrics>;

    /// Whether the last step gave the last result, so that further steps would only repeat it. `false` by default.
    fn is_over(&self) -> bool {
        false
    }

    /// Writes the complete state as plain files into `dir`, an empty directory. Subfolders are allowed. The file names
    /// `manifest.json` and `metadata.json` are reserved for the driver.
    ///
    /// # Errors
    /// After an error no checkpoint is created, and an existing one of the same name is kept.
    fn save_checkpoint(&mut self, dir: &Path) -> Result<()>;

    /// Loads the state that `save_checkpoint` wrote to `dir`. The files were verified and must not be changed.
    ///
    /// # Errors
    /// An error fails the restore; the driver's counters do not change.
    fn load_checkpoint(&mut self, dir: &Path) -> Result<()>;

    /// Resets the object in place and starts again with the settings `new`. Returns `false`, as by default, if that is not
    /// supported; the caller then creates a new object.
    ///
    /// # Errors
    /// An error fails the trial that was about to start.
    fn reset_config(&mut self, new: &Config) -> Result<bool> {
        let _ = new;
        Ok(false)
    }

    /// Releases threads, processes and files. Called once, even if `setup` failed. Does nothing by default.
    ///
    /// # Errors
    /// [`Driver::stop`](crate::Driver::stop) returns the error after everything else is done.
    fn cleanup(&mut self) -> Result<()> {
        Ok(())
    }

    /// Called with each complete result before the loggers, and may add metrics to it. Does nothing by default.
    ///
    /// # Errors
    /// An error fails the trial, but the iteration still counts.
    fn log_result(&mut self, result: &mut Metrics) -> Result<()> {
        let _ = result;
        Ok(())
    }

    /// Writes the model to `dir` and returns its path, or `None` if `format` is not supported, as by default.
    ///
    /// # Errors
    /// [`Driver::export_model`](crate::Driver::export_model) returns the error.
    fn export_model(&mut self, format: ExportFormat, dir: &Path) -> Result<Option<PathBuf>> {
        let _ = (format, dir);
        Ok(None)
    }

    /// Returns the resources that a sweep must reserve for a trial with these settings. `None` by default.
    fn default_resource_request(&self, config: &Config) -> Option<Resources> {
        let _ = config;
        None
    }

    /// Returns a hint on which settings change the resource request; shown when a trial does not fit.
    fn resource_help(&self, config: &Config) -> String {
        let _ = config;
        String::new()
    }

    /// Returns a one-word name of the kind of trainable, such as `"PPO"`; by default the name of the type. A checkpoint of
    /// one kind cannot be loaded into another.
    fn kind(&self) -> String {
        short_name::<Self>()
    }

    /// Returns the complete settings with defaults filled in, for results and `params.json`. Called after `setup`,
    /// `reset_config` and `load_checkpoint`. `None`, the default, means that the given settings are complete.
    fn resolved_config(&self) -> Option<Config> {
        None
    }
}

/// Returns the name of a type without its path and type arguments.
pub(crate) fn short_name<T: ?Sized>() -> String {
    let full = std::any::type_name::<T>();
    let plain = full.split('<').next().unwrap_or(full);
    plain.rsplit("::").next().unwrap_or(plain).to_string()
}

impl<T: Trainable + ?Sized> Trainable for Box<T> {
    fn setup(&mut self, config: &Config, trial: &TrialContext) -> Result<()> {
        (**self).setup(config, trial)
    }
    fn step(&mut self) -> Result<Metrics> {
        (**self).step()
    }
    fn is_over(&self) -> bool {
        (**self).is_over()
    }
    fn save_checkpoint(&mut self, dir: &Path) -> Result<()> {
        (**self).save_checkpoint(dir)
    }
    fn load_checkpoint(&mut self, dir: &Path) -> Result<()> {
        (**self).load_checkpoint(dir)
    }
    fn reset_config(&mut self, new: &Config) -> Result<bool> {
        (**self).reset_config(new)
    }
    fn cleanup(&mut self) -> Result<()> {
        (**self).cleanup()
    }
    fn log_result(&mut self, result: &mut Metrics) -> Result<()> {
        (**self).log_result(result)
    }
    fn export_model(&mut self, format: ExportFormat, dir: &Path) -> Result<Option<PathBuf>> {
        (**self).export_model(format, dir)
    }
    fn default_resource_request(&self, config: &Config) -> Option<Resources> {
        (**self).default_resource_request(config)
    }
    fn resource_help(&self, config: &Config) -> String {
        (**self).resource_help(config)
    }
    fn kind(&self) -> String {
        (**self).kind()
    }
    fn resolved_config(&self) -> Option<Config> {
        (**self).resolved_config()
    }
}
