//! An actor: runs one trial at a time with a [`Driver`], answering each request with one report; and actors as threads of this
//! process.

use std::collections::HashMap;
use std::fs::{self, File};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::thread::{self, JoinHandle};

use crossbeam_channel::{Receiver, Sender, bounded, unbounded};
use rustix::fs::{FlockOperation, flock};

use super::{ActorId, Executor, Report, Request, SavedCheckpoint, Start};
use crate::base::{Error, Result, files, in_words};
use crate::checkpoint;
use crate::functions::TrainableFactory;
use crate::run::{Driver, Resume, RunOptions};
use crate::trainable::Trainable;

/// Answers requests until the actor is told to stop, a request fails, or there are no more requests.
pub(super) fn serve(
    factory: &TrainableFactory,
    requests: impl Iterator<Item = Request>,
    mut report: impl FnMut(Report),
) {
    let mut actor = Actor { factory, driver: None, _lock: None };
    for request in requests {
        let answer = catch_unwind(AssertUnwindSafe(|| actor.answer(request)));
        let answer = match answer {
            Ok(Ok(report)) => report,
            Ok(Err(error)) => Report::Failed { message: in_words(&error) },
            Err(panic) => {
                Report::Failed { message: format!("panicked: {}", pavlov_processes::panic_text(&*panic)) }
            }
        };
        let ends = matches!(answer, Report::CannotReset | Report::Stopped { .. } | Report::Failed { .. });
        if ends {
            // A panic during clean-up must not end the process.
            let driver = actor.driver.take();
            let _ = catch_unwind(AssertUnwindSafe(|| drop(driver)));
            actor._lock = None;
        }
        report(answer);
        if ends {
            return;
        }
    }
}

/// State of an actor between two requests.
struct Actor<'a> {
    factory: &'a TrainableFactory,
    driver: Option<Driver<Box<dyn Trainable>>>,
    /// Lock on the trial's directory. Only one process at a time may write there, and the child of a killed sweep can
    /// live on for a moment.
    _lock: Option<File>,
}

impl Actor<'_> {
    fn answer(&mut self, request: Request) -> Result<Report> {
        match request {
            Request::Start(start) => {
                let trains_at_once = start.trains_at_once;
                match self.start(*start)? {
                    Report::Started { .. } if trains_at_once => self.train(),
                    report => Ok(report),
                }
            }
            Request::Train => self.train(),
            Request::Save => {
                let driver = self.driver()?;
                let path = match driver.save() {
                    Err(error @ Error::RunDirectory { .. }) => {
                        let error = driver.rescue(error);
                        let Error::RunDirectory { rescued: Some(place), .. } = &error else {
                            return Err(error);
                        };
                        tracing::warn!("{error}");
                        place.join(checkpoint::name(driver.iteration()))
                    }
                    saved => saved?,
                };
                Ok(Report::Saved(SavedCheckpoint { iteration: driver.iteration(), bytes: size(&path)? }))
            }
            Request::Stop => {
                let outcome = self.driver.take().map_or(Ok(()), |mut driver| driver.stop());
                Ok(Report::Stopped { error: outcome.err().map(|error| in_words(&error)) })
            }
        }
    }

    fn train(&mut self) -> Result<Report> {
        let driver = self.driver()?;
        let mut result = match driver.train() {
            // Nothing is lost: the trial goes on beside its directory, and the sweep tells of it at its end.
            Err(error @ Error::RunDirectory { .. }) => {
                let error = driver.rescue(error);
                let Error::RunDirectory { rescued: Some(_), .. } = &error else { return Err(error) };
                tracing::warn!("{error}");
                driver.last_result().cloned().unwrap_or_default()
            }
            trained => trained?,
        };
        if result.contains_key("__duplicate__") {
            return Ok(Report::Ended);
        }
        result.shift_remove("config");
        Ok(Report::Trained { iteration: driver.iteration(), result, is_last: driver.is_over() })
    }

    fn driver(&mut self) -> Result<&mut Driver<Box<dyn Trainable>>> {
        self.driver.as_mut().ok_or_else(|| Error::other("the trial was not started"))
    }

    fn start(&mut self, start: Start) -> Result<Report> {
        self._lock = None;
        let (lock, is_new) = lock(&start.logdir)?;
        self._lock = Some(lock);
        let options = RunOptions {
            logdir: Some(start.logdir.clone()),
            resume: Resume::ByCaller,
            trial_id: Some(start.trial_id),
            trial_name: Some(start.trial_name),
            trial_resources: Some(start.resources),
            loggers: self.factory.loggers(start.log_results),
            hparams: Some(start.hparams),
            ..RunOptions::default()
        };
        match &mut self.driver {
            Some(driver) => {
                if !driver.reset(start.config, Some(options))? {
                    return Ok(Report::CannotReset);
                }
            }
            None => {
                let trainable = self.factory.make(&start.config)?;
                self.driver = Some(Driver::with(trainable, start.config, options)?);
            }
        }
        let driver = self.driver()?;
        let Some(from) = &start.from else {
            driver.begin_again(is_new)?;
            return Ok(Report::Started { iteration: 0, bytes: 0 });
        };
        let own = from.parent() == Some(&*start.logdir);
        let checkpoint = if own { from.clone() } else { adopt(from, &start.logdir)? };
        driver.restore(&checkpoint)?;
        Ok(Report::Started { iteration: driver.iteration(), bytes: size(&checkpoint)? })
    }
}

/// Creates the directory if it is missing and locks it, waiting for another process that holds the lock. Returns whether it
/// was missing, too.
fn lock(dir: &Path) -> Result<(File, bool)> {
    let is_new = fs::create_dir(dir).is_ok();
    if !is_new {
        fs::create_dir_all(dir).map_err(Error::io("create", dir))?;
    }
    let handle = File::open(dir).map_err(Error::io("open", dir))?;
    // A file system without locks works without this protection.
    let _ = flock(&handle, FlockOperation::LockExclusive);
    Ok((handle, is_new))
}

/// Copies another trial's checkpoint into this trial's directory, completely or not at all.
fn adopt(source: &Path, logdir: &Path) -> Result<std::path::PathBuf> {
    let manifest = checkpoint::verify(source, None)?;
    let metadata = checkpoint::metadata(source)?;
    let target = logdir.join(checkpoint::name(metadata.iteration));
    checkpoint::set_aside_damaged(logdir, metadata.iteration.checked_sub(1))?;
    checkpoint::write(&target, &manifest.kind, |dir| {
        for file in &manifest.files {
            let to = dir.join(&file.path);
            let folder = files::parent(&to);
            fs::create_dir_all(folder).map_err(Error::io("create", folder))?;
            fs::copy(source.join(&file.path), &to).map_err(Error::io("write", &to))?;
        }
        Ok(())
    })
}

/// Returns the total size in bytes of the files that a checkpoint's manifest lists.
fn size(checkpoint: &Path) -> Result<u64> {
    Ok(checkpoint::read_manifest(checkpoint)?.files.iter().map(|file| file.bytes).sum())
}

/// Runs each actor in a thread of this process. A panic ends only its trial; a crash of native code ends the whole
/// sweep.
pub(crate) struct ThreadExecutor {
    factory: TrainableFactory,
    actors: HashMap<ActorId, ActorThread>,
    /// Threads whose actors have ended. They run the next ones: a new thread costs more than a trial that ends at once.
    idle: Vec<(Sender<Job>, JoinHandle<()>)>,
    report: Sender<(ActorId, Report)>,
    reports: Receiver<(ActorId, Report)>,
}

/// A running actor: where its requests go, and its thread.
struct ActorThread {
    requests: Sender<Request>,
    jobs: Sender<Job>,
    thread: JoinHandle<()>,
}

/// What a thread does next: the actor, and its requests.
type Job = (ActorId, Receiver<Request>);

impl ThreadExecutor {
    /// Makes an executor without actors.
    pub(crate) fn new(factory: TrainableFactory) -> Self {
        let (report, reports) = unbounded();
        ThreadExecutor { factory, actors: HashMap::new(), idle: Vec::new(), report, reports }
    }

    /// Starts a thread that runs one actor after the other until it gets no more.
    fn start_thread(&self) -> Result<(Sender<Job>, JoinHandle<()>)> {
        let (sender, jobs) = bounded::<Job>(1);
        let factory = self.factory.clone();
        let report = self.report.clone();
        let run = move || {
            for (actor, requests) in jobs {
                serve(&factory, requests.into_iter(), |answer| {
                    // A closed channel means that the sweep is over.
                    let _ = report.send((actor, answer));
                });
            }
        };
        Ok((sender, thread::Builder::new().name("trial".into()).spawn(run).map_err(Error::other)?))
    }
}

impl Executor for ThreadExecutor {
    fn spawn(&mut self, actor: ActorId, start: Start) -> Result<()> {
        let (jobs, thread) = match self.idle.pop() {
            Some(idle) => idle,
            None => self.start_thread()?,
        };
        let (requests, received) = bounded(1);
        let _ = requests.send(Request::Start(Box::new(start)));
        let _ = jobs.send((actor, received));
        self.actors.insert(actor, ActorThread { requests, jobs, thread });
        Ok(())
    }

    fn send(&mut self, actor: ActorId, request: Request) {
        let sent = self.actors.get(&actor).is_some_and(|actor| actor.requests.send(request).is_ok());
        if !sent {
            let message = "its thread has ended".to_string();
            let _ = self.report.send((actor, Report::Failed { message }));
        }
    }

    fn forget(&mut self, actor: ActorId) {
        if let Some(ActorThread { requests, jobs, thread }) = self.actors.remove(&actor) {
            // A parked actor ends here; another one has ended already.
            drop(requests);
            self.idle.push((jobs, thread));
        }
    }

    fn reports(&self) -> &Receiver<(ActorId, Report)> {
        &self.reports
    }
}

impl Drop for ThreadExecutor {
    fn drop(&mut self) {
        for (jobs, thread) in self.idle.drain(..) {
            drop(jobs);
            let _ = thread.join();
        }
    }
}
