//! [`TrainableFactory`]: makes one trainable per trial, and knows which resources a trial needs.

use std::fmt;
use std::os::unix::net::UnixStream;
use std::sync::Arc;

use crate::base::{Config, Error, Resources, Result};
use crate::loggers::Logger;
use crate::run::LoggerChoice;
use crate::trainable::{Trainable, short_name};

type Make = dyn Fn(&Config) -> Result<Box<dyn Trainable>> + Send + Sync;
type MakeLogger = dyn Fn() -> Box<dyn Logger> + Send + Sync;
type Request = dyn Fn(&Config) -> Result<Resources> + Send + Sync;
/// Runs this process as a worker of the trial at the other end of the socket.
type Work = dyn Fn(UnixStream) -> Result<()> + Send + Sync;

/// Makes a trainable for each trial of a sweep. Cheap to clone.
///
/// A closure carries the values it captures into every trial (Ray's `with_parameters`). Put large data into an [`Arc`],
/// so that threads share it. Trial processes run the same closure in their own memory, see
/// [`child_main`](crate::child_main).
#[doc(alias = "with_parameters")]
#[derive(Clone)]
pub struct TrainableFactory {
    name: Arc<str>,
    make: Arc<Make>,
    resources: Option<Arc<Request>>,
    loggers: Vec<Arc<MakeLogger>>,
    /// Runs a data-parallel worker; set for function trainables only.
    work: Option<Arc<Work>>,
    /// Runs a rollout worker; set for trainables that have such workers only.
    sample: Option<Arc<Work>>,
}

impl TrainableFactory {
    /// Makes a factory. The experiment's name begins with `name`, by which trial processes also find the trainable.
    ///
    /// `make` may ignore the settings, since `setup` gets them as well. It is also called to find the resources of a
    /// trial, so expensive work belongs in `setup`.
    pub fn new<T: Trainable + 'static>(
        name: impl Into<String>,
        make: impl Fn(&Config) -> Result<T> + Send + Sync + 'static,
    ) -> Self {
        TrainableFactory {
            name: name.into().into(),
            make: Arc::new(move |config| Ok(Box::new(make(config)?))),
            resources: None,
            loggers: Vec::new(),
            work: None,
            sample: None,
        }
    }

    /// Makes a factory for a function trainable; `work` runs one of its data-parallel workers.
    pub(crate) fn of_function<T: Trainable + 'static>(
        name: String,
        make: impl Fn() -> T + Send + Sync + 'static,
        work: impl Fn(UnixStream) -> Result<()> + Send + Sync + 'static,
    ) -> Self {
        TrainableFactory { work: Some(Arc::new(work)), ..Self::new(name, move |_| Ok(make())) }
    }

    /// Sets the resources of every trial, overriding the trainable's own request.
    pub fn with_resources(self, resources: Resources) -> Self {
        self.with_resources_for(move |_| Ok(resources.clone()))
    }

    /// Sets the resources of every trial to what `resources` returns for its settings, overriding the trainable's own
    /// request.
    pub fn with_resources_for(
        mut self,
        resources: impl Fn(&Config) -> Result<Resources> + Send + Sync + 'static,
    ) -> Self {
        self.resources = Some(Arc::new(resources));
        self
    }

    /// Adds a logger to every trial; `make` is called where the trial runs.
    ///
    /// The logger is used in addition to those added before and to the standard log files such as `result.json`, which
    /// [`RunConfig::log_results`](crate::RunConfig::log_results) controls.
    pub fn with_logger<L: Logger + 'static>(mut self, make: impl Fn() -> L + Send + Sync + 'static) -> Self {
        self.loggers.push(Arc::new(move || Box::new(make())));
        self
    }

    /// Sets the function of this trainable's rollout workers. A worker is a process that calls `sample` with a socket to
    /// the trainable.
    pub fn with_rollout_workers(
        mut self,
        sample: impl Fn(UnixStream) -> Result<()> + Send + Sync + 'static,
    ) -> Self {
        self.sample = Some(Arc::new(sample));
        self
    }

    /// Gives this trainable the rollout workers of another one.
    pub fn with_rollout_workers_of(mut self, other: &Self) -> Self {
        self.sample.clone_from(&other.sample);
        self
    }

    /// Makes the loggers of one trial, with the standard log files if `standard` is set.
    pub(crate) fn loggers(&self, standard: bool) -> LoggerChoice {
        let own = self.loggers.iter().map(|make| make()).collect();
        if standard { LoggerChoice::DefaultAnd(own) } else { LoggerChoice::Custom(own) }
    }

    /// Returns the name of a type without its path and type arguments, which is the default name of a trainable.
    pub fn name_of<T: ?Sized>() -> String {
        short_name::<T>()
    }

    /// Returns the name of the trainable.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Whether this is a function trainable, which decides itself when to save a checkpoint.
    pub fn is_function(&self) -> bool {
        self.work.is_some()
    }

    /// Runs this process as a data-parallel worker of the trial at the other end of `socket`.
    pub(crate) fn work(&self, socket: UnixStream) -> Result<()> {
        match &self.work {
            Some(work) => work(socket),
            None => Err(Error::other(format!("`{}` is no function: it has no workers", self.name))),
        }
    }

    /// Runs this process as a rollout worker of the trainable at the other end of `socket`.
    pub(crate) fn sample(&self, socket: UnixStream) -> Result<()> {
        match &self.sample {
            Some(sample) => sample(socket),
            None => Err(Error::other(format!("`{}` has no rollout workers", self.name))),
        }
    }

    /// Makes the trainable of one trial.
    pub(crate) fn make(&self, config: &Config) -> Result<Box<dyn Trainable>> {
        (self.make)(config)
    }

    /// Returns the resources of a trial with these settings: those set on the factory, else the trainable's request,
    /// else one CPU.
    ///
    /// # Errors
    /// Returns the error of the closure given to `with_resources_for`; without one, the error of making the trainable.
    pub fn resources(&self, config: &Config) -> Result<Resources> {
        if let Some(resources) = &self.resources {
            return resources(config);
        }
        match self.make(config)?.default_resource_request(config) {
            Some(resources) => Ok(resources),
            None => Resources::cpus_gpus(1.0, 0.0),
        }
    }

    /// Returns the trainable's advice on its resources; empty if the trainable cannot be made.
    pub(crate) fn resource_help(&self, config: &Config) -> String {
        self.make(config).map(|trainable| trainable.resource_help(config)).unwrap_or_default()
    }
}

impl fmt::Debug for TrainableFactory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TrainableFactory")
            .field("name", &self.name)
            .field("is_function", &self.is_function())
            .finish_non_exhaustive()
    }
}
