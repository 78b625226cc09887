//! Function trainables: turns a function that reports results into a [`Trainable`] with steps.
//!
//! The function runs in its own thread, at most one report ahead: it waits in `report` until the next step asks for
//! more.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, Sender, bounded};
use serde_json::Value;
use tempfile::TempDir;

use crate::base::{Config, Error, Metrics, Result};
use crate::functions::TrainableFactory;
use crate::functions::session::{self, Checkpoint, Message, Session};
use crate::trainable::{Trainable, TrialContext};

/// Time that a function has to end after it was told to.
const PATIENCE: Duration = Duration::from_secs(2);

/// Name of the file that marks an empty checkpoint: the function had reported no checkpoint, so it starts from the
/// beginning.
const NONE: &str = "no_checkpoint";

/// A function that runs as a trainable, with its kind, its complete settings and its advice on resources.
pub trait Function: Send + Sync + 'static {
    /// Returns the kind of the trainable, see [`Trainable::kind`].
    fn kind(&self) -> String {
        "function".into()
    }

    /// Completes the settings that the function runs with; by default they are unchanged.
    ///
    /// # Errors
    /// Fails if the settings cannot be used.
    fn complete(&self, config: &Config, trial: &TrialContext) -> Result<Config> {
        let _ = trial;
        Ok(config.clone())
    }

    /// Returns advice on the trainable's resources, see [`Trainable::resource_help`].
    fn resource_help(&self) -> String {
        String::new()
    }

    /// Runs the function in its own thread, inside a session.
    ///
    /// # Errors
    /// An error makes the trial fail.
    fn run(&self, config: &Config) -> Result<Option<Metrics>>;
}

impl<F: Fn(&Config) -> Result<Option<Metrics>> + Send + Sync + 'static> Function for F {
    fn run(&self, config: &Config) -> Result<Option<Metrics>> {
        self(config)
    }
}

/// Types that a function trainable may return as its last result: `()`, metrics, or a number.
#[diagnostic::on_unimplemented(
    message = "a function trainable cannot return `{Self}`",
    label = "return `Ok(())`, a number, a JSON object or `Metrics`",
    note = "its last result is `()` if everything was reported by `session::report`",
    note = "a struct becomes a JSON object by `serde_json::to_value(..)?`"
)]
pub trait IntoReport {
    /// Converts the value to metrics; `None` means that there is nothing more to report.
    ///
    /// # Errors
    /// Returns [`Error::Metric`] if the value is neither an object nor a finite number.
    fn into_report(self) -> Result<Option<Metrics>>;
}

impl IntoReport for () {
    fn into_report(self) -> Result<Option<Metrics>> {
        Ok(None)
    }
}

impl IntoReport for Metrics {
    fn into_report(self) -> Result<Option<Metrics>> {
        Ok(Some(self))
    }
}

impl IntoReport for f64 {
    fn into_report(self) -> Result<Option<Metrics>> {
        session::into_metrics(self.into()).map(Some)
    }
}

impl IntoReport for Value {
    fn into_report(self) -> Result<Option<Metrics>> {
        match self {
            Value::Null => Ok(None),
            value => session::into_metrics(value).map(Some),
        }
    }
}

impl<T: IntoReport> IntoReport for Option<T> {
    fn into_report(self) -> Result<Option<Metrics>> {
        self.map_or(Ok(None), T::into_report)
    }
}

impl TrainableFactory {
    /// Makes a trainable from a function or closure. The function gets the settings, reports through [`session`], and
    /// may return its last metrics.
    pub fn function<R: IntoReport>(
        name: impl Into<String>,
        function: impl Fn(&Config) -> Result<R> + Send + Sync + 'static,
    ) -> Self {
        Self::from_function(name, Arc::new(move |config: &Config| function(config)?.into_report()))
    }

    /// Makes a trainable that runs `function`. Unlike a closure, a [`Function`] can also define its kind, its complete
    /// settings and its advice on resources.
    pub fn from_function(name: impl Into<String>, function: Arc<dyn Function>) -> Self {
        let worker = function.clone();
        let work = move |socket| {
            let function = worker.clone();
            crate::functions::workers::work(move |config| function.run(config), socket)
        };
        Self::of_function(name.into(), move || FunctionTrainable::new(function.clone()), work)
    }
}

/// The [`Trainable`] around a function.
struct FunctionTrainable {
    function: Arc<dyn Function>,
    config: Config,
    context: Option<TrialContext>,
    thread: Option<Thread>,
    /// Whether the function has reported no metrics so far.
    silent: bool,
    ended: bool,
    checkpoint: Option<Checkpoint>,
    /// Copy of the files of the checkpoint that was loaded.
    loaded: Option<TempDir>,
}

/// The driver's end of the channels to the function's thread.
struct Thread {
    reports: Receiver<Message>,
    go_on: Sender<()>,
}

/// What a thread runs.
type Work = Box<dyn FnOnce() + Send>;

/// Threads whose functions have ended. They run the next ones: a new thread costs more than a function that returns at once.
static IDLE: Mutex<Idle> = Mutex::new(Idle { process: 0, threads: Vec::new() });

struct Idle {
    /// The process that has the threads: a fork copies this list, but no thread.
    process: u32,
    threads: Vec<Sender<Work>>,
}

/// Returns the threads of this process that wait for work.
fn idle() -> MutexGuard<'static, Idle> {
    let mut idle = IDLE.lock().unwrap_or_else(PoisonError::into_inner);
    let process = std::process::id();
    if idle.process != process {
        *idle = Idle { process, threads: Vec::new() };
    }
    idle
}

/// Number of threads that wait for work at most; further ones end.
const MAX_IDLE: usize = 64;

/// Runs `work` in a thread that does nothing else meanwhile.
fn in_thread(mut work: Work) -> Result<()> {
    while let Some(thread) = { idle().threads.pop() } {
        match thread.send(work) {
            Ok(()) => return Ok(()),
            Err(unsent) => work = unsent.0,
        }
    }
    let (sender, next) = bounded::<Work>(1);
    let run = move || {
        loop {
            work();
            {
                let mut idle = idle();
                if idle.threads.len() >= MAX_IDLE {
                    return;
                }
                idle.threads.push(sender.clone());
            }
            match next.recv() {
                Ok(more) => work = more,
                Err(_) => return,
            }
        }
    };
    thread::Builder::new().name("function".into()).spawn(run).map(drop).map_err(Error::other)
}

impl FunctionTrainable {
    fn new(function: Arc<dyn Function>) -> Self {
        FunctionTrainable {
            function,
            config: Config::new(),
            context: None,
            thread: None,
            silent: true,
            ended: false,
            checkpoint: None,
            loaded: None,
        }
    }

    /// Starts the function in a new thread.
    fn start(&self) -> Result<Thread> {
        let (reports_in, reports) = bounded(1);
        let (go_on, going_on) = bounded(1);
        let context = self.context.clone().ok_or_else(|| Error::other("the function was not set up"))?;
        let function = self.function.clone();
        let config = self.config.clone();
        let checkpoint = self.checkpoint.clone();
        let run = move || {
            let ends = reports_in.clone();
            session::enter(Session {
                context,
                reports: reports_in,
                go_on: going_on,
                checkpoint: checkpoint.into(),
                metadata: Config::new().into(),
                since: Instant::now().into(),
                config: config.clone(),
                worker: None,
            });
            let outcome = catch_unwind(AssertUnwindSafe(|| function.run(&config)));
            let outcome = outcome.unwrap_or_else(|panic| {
                Err(Error::other(format!("the function panicked: {}", pavlov_processes::panic_text(&*panic))))
            });
            session::leave();
            // If the trial was told to end, the channel is closed and the send fails.
            let _ = ends.send(Message::End(outcome));
        };
        in_thread(Box::new(run))?;
        Ok(Thread { reports, go_on })
    }

    /// Tells the function to end and waits up to [`PATIENCE`]; false if it still runs then.
    fn end_thread(&mut self) -> bool {
        let Some(Thread { reports, go_on }) = self.thread.take() else { return true };
        drop(go_on);
        let deadline = Instant::now() + PATIENCE;
        loop {
            match reports.recv_deadline(deadline) {
                Ok(Message::End(_)) => return true,
                Ok(Message::Report(..)) => {}
                Err(error) => return error.is_disconnected(),
            }
        }
    }
}

impl Trainable for FunctionTrainable {
    fn setup(&mut self, config: &Config, trial: &TrialContext) -> Result<()> {
        self.config = self.function.complete(config, trial)?;
        self.context = Some(trial.clone());
        Ok(())
    }

    fn step(&mut self) -> Result<Metrics> {
        if self.ended {
            return Ok(duplicate());
        }
        let thread = match self.thread.take() {
            Some(thread) => {
                // If the function has ended meanwhile, the send fails, but its last message is still in the channel.
                let _ = thread.go_on.send(());
                thread
            }
            None => self.start()?,
        };
        let message = thread.reports.recv();
        self.thread = Some(thread);
        match message {
            Ok(Message::Report(mut metrics, checkpoint)) => {
                self.silent = false;
                if checkpoint.is_some() {
                    self.checkpoint = checkpoint;
                    metrics.insert("should_checkpoint".into(), true.into());
                }
                Ok(metrics)
            }
            Ok(Message::End(outcome)) => {
                self.ended = true;
                match outcome? {
                    Some(metrics) => Ok(metrics),
                    None if self.silent && self.checkpoint.is_none() => {
                        Err(Error::other("the function ran to its end without reporting anything"))
                    }
                    None => Ok(duplicate()),
                }
            }
            Err(_) => Err(Error::other("the function's thread is gone")),
        }
    }

    fn is_over(&self) -> bool {
        self.ended
    }

    fn save_checkpoint(&mut self, dir: &Path) -> Result<()> {
        match &self.checkpoint {
            Some(checkpoint) => checkpoint.write(dir),
            None => {
                let path = dir.join(NONE);
                std::fs::write(&path, "").map_err(Error::io("write", &path))
            }
        }
    }

    fn load_checkpoint(&mut self, dir: &Path) -> Result<()> {
        self.end_thread();
        self.ended = false;
        if dir.join(NONE).exists() {
            tracing::warn!("the function reported no checkpoint before: it starts from the beginning");
            self.checkpoint = None;
            return Ok(());
        }
        // The original may be moved or deleted before the function reads it.
        let copy = tempfile::tempdir().map_err(Error::io("write in", &std::env::temp_dir()))?;
        session::copy(dir, copy.path())?;
        self.checkpoint = Some(Checkpoint::read(copy.path())?);
        self.loaded = Some(copy);
        Ok(())
    }

    fn cleanup(&mut self) -> Result<()> {
        if !self.end_thread() {
            tracing::warn!(
                "a function goes on after it was told to end: hand the error of `report` up with `?`"
            );
        }
        Ok(())
    }

    fn resource_help(&self, _: &Config) -> String {
        self.function.resource_help()
    }

    fn kind(&self) -> String {
        self.function.kind()
    }

    fn resolved_config(&self) -> Option<Config> {
        Some(self.config.clone())
    }
}

/// Returns the result with the key `__duplicate__`, by which the driver knows that there is no new result.
fn duplicate() -> Metrics {
    Metrics::from([("__duplicate__", true)])
}
