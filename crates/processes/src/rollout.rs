//! Rollout workers as processes: this executable is started again for each worker.

use std::io;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, Command};
use std::sync::mpsc::{Sender, channel};
use std::sync::{LazyLock, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use crate::child::{ChildCommand, ChildHandle};
use crate::local::LocalProcess;
use crate::role::{Role, has_rollout_workers};
use crate::{Error, Result};

/// Time that a worker has to end after its socket is closed.
const PATIENCE: Duration = Duration::from_secs(1);

/// A process to start, and the channel for the result.
type StartRequest = (Command, Sender<io::Result<Child>>);

/// Sender to the thread that starts all rollout workers. The kernel kills a worker when the *thread* that started it
/// ends (`PR_SET_PDEATHSIG`), so one thread that lives as long as the process starts them all.
static SPAWNER: LazyLock<Mutex<Option<Sender<StartRequest>>>> = LazyLock::new(|| {
    let (sender, orders) = channel::<StartRequest>();
    let serve = move || {
        for (mut command, reply) in orders {
            let child = command.spawn();
            // Only the child may hold its end of the socket.
            drop(command);
            let _ = reply.send(child);
        }
    };
    let started = thread::Builder::new().name("worker-starter".into()).spawn(serve);
    Mutex::new(started.is_ok().then_some(sender))
});

/// Starts a process from the thread that lives as long as this process.
fn spawn(command: Command) -> io::Result<Child> {
    let gone = || io::Error::other("the thread that starts workers is gone");
    let (reply, child) = channel();
    {
        let spawner = SPAWNER.lock().unwrap_or_else(PoisonError::into_inner);
        spawner.as_ref().ok_or_else(gone)?.send((command, reply)).map_err(|_| gone())?;
    }
    child.recv().map_err(|_| gone())?
}

/// Process of a rollout worker. It is killed when this handle is dropped or when this process ends, in whatever way.
#[derive(Debug)]
pub struct RolloutProcess(LocalProcess);

impl RolloutProcess {
    /// Starts a rollout worker of the trainable `name`, and returns it with a socket to it. In the new process, `main`
    /// passes the trainable to `child_main`. `num_threads` is the worker's number of cores.
    ///
    /// # Errors
    /// Returns [`Error::Config`] if `child_main` was not called with this trainable, since the process would run the
    /// whole program again. Fails if the process cannot be started.
    pub fn start(name: &str, num_threads: usize) -> Result<(Self, UnixStream)> {
        refuse_unknown(name, "procs")?;
        let (own, theirs) = UnixStream::pair().map_err(Error::other)?;
        let command = Role::Rollout.command(name, theirs, num_threads)?;
        let process = spawn(command).map_err(Error::io("start", Path::new("this executable")))?;
        Ok((RolloutProcess(LocalProcess::new(process, "", PATIENCE)), own))
    }

    /// Returns the process id.
    pub fn id(&self) -> u32 {
        self.0.id()
    }
}

impl ChildHandle for RolloutProcess {
    fn kill(&mut self) {
        self.0.kill();
    }

    fn wait(&mut self) -> String {
        self.0.wait()
    }
}

/// Returns the command that starts a rollout worker on any machine, like [`RolloutProcess::start`] on this one.
/// `workers` is the value of the setting `workers`, for error messages.
///
/// # Errors
/// Returns [`Error::Config`] if `child_main` was not called with this trainable. Fails if this executable cannot be found.
pub fn rollout_command(name: &str, workers: &str, num_threads: usize) -> Result<ChildCommand> {
    refuse_unknown(name, workers)?;
    Ok(ChildCommand::of(&Role::Rollout.command_anywhere(name, num_threads)?))
}

/// Refuses a trainable that the worker's process would not find, since the process would run the whole program again.
fn refuse_unknown(name: &str, workers: &str) -> Result<()> {
    if has_rollout_workers(name) {
        return Ok(());
    }
    let rule = format!(
        "workers are processes of this program, which `main` must begin with `child_main` and the trainable `{name}`"
    );
    Err(Error::config("workers", format!("\"{workers}\""), rule))
}
