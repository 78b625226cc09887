//! What the author of a trainable implements.

use std::path::{Path, PathBuf};

use crate::{Config, ExportFormat, Metrics, Resources, Result};

/// The trial that a trainable runs as.
#[derive(Clone, Debug)]
pub struct TrialContext {
    /// The id of the trial; `"default"` outside a sweep.
    pub trial_id: String,
    /// The name of the trial; `"default"` outside a sweep.
    pub trial_name: String,
    /// The resources that the sweep reserved for this trial.
    pub trial_resources: Option<Resources>,
    /// The run directory. It need not exist yet: the driver makes it at the first result or checkpoint.
    pub logdir: PathBuf,
}

impl TrialContext {
    /// This trial's share of the machine's cores, see [`Resources::num_threads`]; `None` outside a sweep.
    pub fn num_threads(&self) -> Option<usize> {
        self.trial_resources.as_ref().map(Resources::num_threads)
    }
}

/// Something that improves step by step, can be stopped, saved, and continued.
///
/// Callers do not call these methods: they hold a [`Driver`](crate::Driver), which calls them in this order:
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
/// * One `step` is one reported result. Make it long enough that reporting does not matter (seconds) and short
///   enough that schedulers and checkpoints keep up (minutes).
/// * After `load_checkpoint` the object continues as if it had never stopped: the next results are those that
///   the saved object would have given. [`validate_save_restore`](crate::validate_save_restore) checks it.
/// * Files in a checkpoint are found relative to the directory given; it may have been moved or copied.
/// * A metric that does not exist yet is `null`. (JSON has no NaN: `serde_json` turns it into `null` as well.)
///
/// Keys of the result with a meaning: `done` and `should_checkpoint` (true asks for it), `timesteps_this_iter` and
/// `episodes_this_iter` (summed up into `timesteps_total` and `episodes_total`), `time_this_iter_s` (replaces the
/// measured seconds), `mean_loss` (its negation becomes `neg_mean_loss`).
///
/// ```
/// use std::path::Path;
/// use pavlov_tune::{Config, Driver, Error, Metrics, Result, Trainable, TrialContext};
///
/// struct Newton { target: f64, x: f64 }
///
/// impl Trainable for Newton {
///     fn setup(&mut self, config: &Config, _trial: &TrialContext) -> Result<()> {
///         self.target = config["target"].as_f64().unwrap_or(2.0);
///         Ok(())
///     }
///     fn step(&mut self) -> Result<Metrics> {
///         self.x = (self.x + self.target / self.x) / 2.0;
///         Ok(Metrics::from_iter([("root".to_string(), self.x.into())]))
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
    /// Prepares the first step. Called once; not again after a restore or a reset.
    ///
    /// # Errors
    /// An error fails the trial: there is no driver then.
    fn setup(&mut self, config: &Config, trial: &TrialContext) -> Result<()> {
        let _ = (config, trial);
        Ok(())
    }

    /// Trains for one iteration.
    ///
    /// # Errors
    /// An error fails the trial; the driver's counters stay where they are.
    fn step(&mut self) -> Result<Metrics>;

    /// Writes the whole state as plain files (folders allowed) into `dir`, an empty directory.
    /// The names `manifest.json` and `metadata.json` are the driver's.
    ///
    /// # Errors
    /// After an error there is no new checkpoint, and one of the same name is still there.
    fn save_checkpoint(&mut self, dir: &Path) -> Result<()>;

    /// Takes over the state that `save_checkpoint` wrote. `dir` was verified; leave it unchanged.
    ///
    /// # Errors
    /// An error fails the restore; the driver's counters stay where they are.
    fn load_checkpoint(&mut self, dir: &Path) -> Result<()>;

    /// Starts afresh with other settings, in place. `false`: it cannot; the caller makes a new object instead.
    ///
    /// # Errors
    /// An error fails the trial that was to begin.
    fn reset_config(&mut self, new: &Config) -> Result<bool> {
        let _ = new;
        Ok(false)
    }

    /// Lets go of threads, processes and files. Called once, also after a `setup` that failed.
    ///
    /// # Errors
    /// An error is what [`Driver::stop`](crate::Driver::stop) returns, after all else is done.
    fn cleanup(&mut self) -> Result<()> {
        Ok(())
    }

    /// Sees each complete result before the loggers do, and may add to it.
    ///
    /// # Errors
    /// An error fails the trial, although the iteration counts.
    fn log_result(&mut self, result: &mut Metrics) -> Result<()> {
        let _ = result;
        Ok(())
    }

    /// Writes the model into `dir` and says where; `None` for a format it does not have.
    ///
    /// # Errors
    /// An error is what [`Driver::export_model`](crate::Driver::export_model) returns.
    fn export_model(&mut self, format: ExportFormat, dir: &Path) -> Result<Option<PathBuf>> {
        let _ = (format, dir);
        Ok(None)
    }

    /// What a sweep has to reserve for a trial with these settings.
    fn default_resource_request(&self, config: &Config) -> Option<Resources> {
        let _ = config;
        None
    }

    /// Which settings change the resource request; shown when a trial cannot be placed.
    fn resource_help(&self, config: &Config) -> String {
        let _ = config;
        String::new()
    }

    /// What it is, in one word: `"PPO"`. A checkpoint of one kind is not loaded into another.
    fn kind(&self) -> String {
        short_name::<Self>()
    }

    /// The complete settings, defaults filled in, for results and `params.json`; asked after `setup`,
    /// `reset_config` and `load_checkpoint`. `None`: the settings are those it was given.
    fn resolved_config(&self) -> Option<Config> {
        None
    }
}

/// The name of a type without its path and arguments.
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
