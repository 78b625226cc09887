//! Actors as processes: this executable is started again for each one, on this machine or through an actor of a Ray
//! cluster.
//!
//! The child's standard input is one end of a socket that carries requests and reports, one JSON object per line. The
//! child moves the socket to another descriptor and reads nothing from standard input afterwards. Its standard output
//! and error are the files `stdout` and `stderr` in the trial's directory. It ends at once when the socket is closed,
//! which happens whenever the driver ends, in whatever way.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io::{BufReader, ErrorKind, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use crossbeam_channel::{Receiver, Sender, bounded, unbounded};
use serde_json::json;

use pavlov_processes::{
    Bundle, ChildCommand, ChildHandle, EXPERIMENT, LocalProcess, PlacementStrategy, RayEngine, Role,
    end_with_parent, is_known_to_children, lines, serve_names, serve_rollouts_of, take_socket,
};

use super::{ActorId, Executor, Report, Request, Start, actor};
use crate::base::{Error, Result, files};
use crate::functions::TrainableFactory;

/// Time that a trial's process has to end after its socket is closed. Native libraries such as CUDA's may need seconds.
const PATIENCE: Duration = Duration::from_secs(5);

/// Runs the trial or worker and never returns if this process is a child; returns at once in the main program.
///
/// Call it first in the `main` of a program whose trials, rollout workers (`workers = "procs"`) or data-parallel
/// workers run in processes. Register your own environments and algorithms before this call.
///
/// ```no_run
/// use pavlov_tune::{ExecutorKind, TrainableFactory, Tuner, child_main};
/// # use pavlov_tune::*;
/// # struct Newton;
/// # impl Trainable for Newton {
/// #     fn step(&mut self) -> Result<Metrics> { Ok(Metrics::new()) }
/// #     fn save_checkpoint(&mut self, _: &std::path::Path) -> Result<()> { Ok(()) }
/// #     fn load_checkpoint(&mut self, _: &std::path::Path) -> Result<()> { Ok(()) }
/// # }
///
/// fn main() -> pavlov_tune::Result<()> {
///     let newton = TrainableFactory::new("newton", |_| Ok(Newton));
///     child_main(&[&newton]);
///     Tuner::new(newton).executor(ExecutorKind::Processes).fit()?;
///     Ok(())
/// }
/// ```
pub fn child_main(trainables: &[&TrainableFactory]) {
    serve_names(trainables.iter().map(|trainable| trainable.name().to_string()));
    let Some((role, name)) = Role::of_this_process() else { return };
    let trainable = trainables.iter().find(|trainable| trainable.name() == name);
    let served = match (role, trainable) {
        (_, None) => {
            Err(Error::config(role.variable(), &name, "`child_main` was given no trainable of that name"))
        }
        (Role::Worker, Some(trainable)) => {
            take_socket().map_err(Error::from).and_then(|socket| trainable.work(socket))
        }
        (Role::Rollout, Some(trainable)) => end_with_parent()
            .and_then(|()| take_socket())
            .map_err(Error::from)
            .and_then(|socket| trainable.sample(socket)),
        (Role::Trial, Some(trainable)) => serve(trainable),
    };
    let code = match served {
        Ok(()) => 0,
        Err(error) => {
            let _ = writeln!(std::io::stderr(), "error: {error}");
            1
        }
    };
    std::process::exit(code);
}

/// Like [`child_main`], but for rollout workers only; `find` makes a trainable from its name.
pub fn rollout_main(find: fn(&str) -> Option<TrainableFactory>) {
    serve_rollouts_of(move |name| find(name).is_some());
    if let Some((Role::Rollout, name)) = Role::of_this_process() {
        child_main(&find(&name).iter().collect::<Vec<_>>());
    }
}

/// Runs a trial process: answers requests from the socket until it is closed.
fn serve(factory: &TrainableFactory) -> Result<()> {
    let socket = take_socket()?;
    let mut reports = socket.try_clone().map_err(Error::other)?;
    let (sender, requests) = bounded::<Request>(1);
    let listen = move || {
        for line in lines(BufReader::new(socket)) {
            let Some(request) = line.ok().and_then(|line| serde_json::from_str(&line).ok()) else { break };
            if sender.send(request).is_err() {
                break;
            }
        }
        // The driver has ended or needs nothing more, so nobody waits for the current computation.
        std::process::exit(0);
    };
    thread::Builder::new().spawn(listen).map_err(Error::other)?;
    let requests = requests.into_iter().inspect(|request| {
        if let Request::Start(start) = request
            && let Err(error) = redirect(&start.logdir)
        {
            let _ = writeln!(std::io::stderr(), "warning: {error}");
        }
    });
    actor::serve(factory, requests, |report| {
        let sent = serde_json::to_vec(&report).map_err(std::io::Error::from).and_then(|mut line| {
            line.push(b'\n');
            reports.write_all(&line)
        });
        if sent.is_err() {
            std::process::exit(0);
        }
    });
    Ok(())
}

/// Redirects output to the trial's own files; repeated when the process is reused for another trial.
fn redirect(logdir: &Path) -> Result<()> {
    let as_io = |errno: rustix::io::Errno| Error::other(std::io::Error::from(errno));
    let _ = std::io::stdout().flush();
    rustix::stdio::dup2_stdout(output(logdir, "stdout")?).map_err(as_io)?;
    rustix::stdio::dup2_stderr(output(logdir, "stderr")?).map_err(as_io)
}

/// Opens an output file in the trial's directory for appending.
fn output(logdir: &Path, name: &str) -> Result<File> {
    std::fs::create_dir_all(logdir).map_err(Error::io("create", logdir))?;
    files::append(&logdir.join(name))
}

/// Runs each actor in its own process, so that a crash of any kind ends only that trial.
pub(crate) struct ProcessExecutor {
    name: String,
    /// Connection to Ray; without it trials are processes on this machine.
    ray: Option<Arc<RayEngine>>,
    actors: HashMap<ActorId, (UnixStream, JoinHandle<()>)>,
    report: Sender<(ActorId, Report)>,
    reports: Receiver<(ActorId, Report)>,
}

impl ProcessExecutor {
    /// Makes an executor for processes on this machine.
    ///
    /// # Errors
    /// Returns [`Error::Config`] if `child_main` was not called with this trainable, since the processes would run the
    /// whole program again.
    pub(crate) fn new(factory: &TrainableFactory) -> Result<Self> {
        Self::known(factory, "processes", "in processes")
    }

    /// Makes an executor for the cluster at `RAY_ADDRESS`, or for one that is started on this machine and ends with
    /// this executor.
    ///
    /// # Errors
    /// Fails in the same cases as [`new`](Self::new), and with [`Error::Config`] if Ray or the cluster cannot be
    /// reached.
    pub(crate) fn on_ray(factory: &TrainableFactory) -> Result<Self> {
        let mut known = Self::known(factory, "\"ray\"", "on Ray")?;
        known.ray = Some(RayEngine::shared("executor")?);
        Ok(known)
    }

    /// Makes an executor; refuses a trainable that the child processes would not find.
    fn known(factory: &TrainableFactory, executor: &str, place: &str) -> Result<Self> {
        let name = factory.name();
        if Role::of_this_process().is_some() || !is_known_to_children(name) {
            let rule = format!(
                "trials run {place} only if `main` first calls `child_main` with the trainable `{name}`"
            );
            return Err(Error::config("executor", executor, rule));
        }
        let (report, reports) = unbounded();
        Ok(ProcessExecutor { name: name.into(), ray: None, actors: HashMap::new(), report, reports })
    }

    /// Starts a trial's process on this machine.
    fn start_process(&self, start: &Start) -> Result<(Box<dyn ChildHandle>, UnixStream)> {
        let (own, theirs) = UnixStream::pair().map_err(Error::other)?;
        let gpus: Vec<String> = start.gpus.iter().map(usize::to_string).collect();
        let mut command = Role::Trial.command(&self.name, theirs, start.resources.num_threads())?;
        command.stdout(output(&start.logdir, "stdout")?).stderr(output(&start.logdir, "stderr")?);
        if start.resources.total("GPU") > 0.0 {
            command.env("CUDA_VISIBLE_DEVICES", gpus.join(","));
        }
        let process = command.spawn().map_err(Error::io("start", Path::new("this executable")))?;
        let hint = "; see `stderr` in its directory";
        Ok((Box::new(LocalProcess::new(process, hint, PATIENCE)), own))
    }

    /// Starts a trial's actor on the cluster. It waits there for free resources, and Ray chooses its GPUs.
    fn start_on(&self, engine: &Arc<RayEngine>, start: &Start) -> Result<(Box<dyn ChildHandle>, UnixStream)> {
        // Each machine checks for this directory to learn whether it shares the file system.
        fs::create_dir_all(&start.logdir).map_err(Error::io("create", &start.logdir))?;
        let mut command = Role::Trial.command_anywhere(&self.name, start.resources.num_threads())?;
        command.env(EXPERIMENT, files::parent(&start.logdir));
        // Without a strategy, the trial's workers run on the trial's own machine.
        let (bundles, strategy) = match start.resources.strategy() {
            Some(strategy) => (start.resources.bundles().to_vec(), strategy),
            None => (vec![start.resources.required()], PlacementStrategy::Pack),
        };
        let what = json!({
            "trial": start.logdir, "bundles": bundles, "strategy": strategy, "program": ChildCommand::of(&command),
        });
        let (actor, socket) = engine.start(what)?;
        Ok((Box::new(actor), socket))
    }
}

impl Executor for ProcessExecutor {
    fn spawn(&mut self, actor: ActorId, start: Start) -> Result<()> {
        let (body, socket) = match &self.ray {
            None => self.start_process(&start)?,
            Some(engine) => self.start_on(engine, &start)?,
        };
        let incoming = socket.try_clone().map_err(Error::other)?;
        let report = self.report.clone();
        let listener = thread::Builder::new()
            .name(format!("trial {}", start.trial_id))
            .spawn(move || listen(actor, body, incoming, &report))
            .map_err(Error::other)?;
        self.actors.insert(actor, (socket, listener));
        self.send(actor, Request::Start(Box::new(start)));
        Ok(())
    }

    fn send(&mut self, actor: ActorId, request: Request) {
        let Some((socket, _)) = self.actors.get_mut(&actor) else { return };
        // If the child has ended, its listener reports it.
        if let Ok(mut line) = serde_json::to_vec(&request) {
            line.push(b'\n');
            let _ = socket.write_all(&line);
        }
    }

    fn forget(&mut self, actor: ActorId) {
        self.actors.remove(&actor);
    }

    fn reports(&self) -> &Receiver<(ActorId, Report)> {
        &self.reports
    }

    fn total_resources(&self) -> Option<Bundle> {
        self.ray.as_ref().and_then(|engine| engine.resources())
    }

    fn is_on_ray(&self) -> bool {
        self.ray.is_some()
    }

    fn alive(&self) -> Result<()> {
        self.ray.as_ref().map_or(Ok(()), |engine| Ok(engine.alive("executor")?))
    }
}

impl Drop for ProcessExecutor {
    fn drop(&mut self) {
        for (socket, _) in self.actors.values() {
            let _ = socket.shutdown(Shutdown::Both);
        }
        // The thread that drops the last reference to the engine ends the engine. That must be this thread, since the
        // others end with the process.
        if self.ray.is_some() {
            self.actors.drain().for_each(|(_, (_, listener))| _ = listener.join());
        }
    }
}

/// Forwards a child's reports to the sweep; the end of its process becomes a report as well.
fn listen(
    actor: ActorId,
    mut body: Box<dyn ChildHandle>,
    incoming: UnixStream,
    report: &Sender<(ActorId, Report)>,
) {
    for line in lines(BufReader::new(&incoming)) {
        let line = match line {
            Err(error) if error.kind() == ErrorKind::InvalidData => {
                body.kill();
                body.wait();
                let message = format!("its process said what cannot be read: {error}");
                let _ = report.send((actor, Report::Failed { message }));
                return;
            }
            Err(_) => break,
            Ok(line) => line,
        };
        let answer = serde_json::from_str(&line).unwrap_or_else(|error| Report::Failed {
            message: format!("its process said `{line}`: {error}"),
        });
        let said_end = matches!(answer, Report::CannotReset | Report::Stopped { .. } | Report::Failed { .. });
        if said_end {
            // The trial's directory is free only after the process has ended.
            let _ = incoming.shutdown(Shutdown::Both);
            body.wait();
        }
        let _ = report.send((actor, answer));
        if said_end {
            return;
        }
    }
    let _ = incoming.shutdown(Shutdown::Both);
    let _ = report.send((actor, Report::Failed { message: body.wait() }));
}
