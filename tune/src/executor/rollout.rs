//! Rollout workers as processes: this executable started once more for each.

use std::io;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, Command};
use std::sync::mpsc::{Sender, channel};
use std::sync::{LazyLock, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use super::child::{self, Body, ChildCommand, ROLLOUT};
use super::has_rollout_workers;
use super::local::LocalProcess;
use crate::{Error, Result};

/// How long a worker whose socket is closed may take to be gone.
const PATIENCE: Duration = Duration::from_secs(1);

type Order = (Command, Sender<io::Result<Child>>);

/// The kernel ends a worker with the *thread* that started it (`PR_SET_PDEATHSIG`), so all are started by one that lives
/// as long as the process.
static SPAWNER: LazyLock<Mutex<Option<Sender<Order>>>> = LazyLock::new(|| {
    let (sender, orders) = channel::<Order>();
    let serve = move || {
        for (mut command, reply) in orders {
            let child = command.spawn();
            // The child alone has its end of the socket.
            drop(command);
            let _ = reply.send(child);
        }
    };
    let started = thread::Builder::new().name("worker-starter".into()).spawn(serve);
    Mutex::new(started.is_ok().then_some(sender))
});

fn spawn(command: Command) -> io::Result<Child> {
    let gone = || io::Error::other("the thread that starts workers is gone");
    let (reply, child) = channel();
    {
        let spawner = SPAWNER.lock().unwrap_or_else(PoisonError::into_inner);
        spawner.as_ref().ok_or_else(gone)?.send((command, reply)).map_err(|_| gone())?;
    }
    child.recv().map_err(|_| gone())?
}

/// The process of a rollout worker. It is ended with its handle, and with this process, however that ends.
#[derive(Debug)]
pub struct RolloutProcess(LocalProcess);

impl RolloutProcess {
    /// Starts a process in which `main` gives the trainable `name` to `child_main`; it is a rollout worker of that
    /// trainable, and the socket leads to it. It has `num_threads` cores.
    ///
    /// # Errors
    /// Returns [`Error::Config`] if `child_main` was not called with this trainable: the process would run the whole
    /// program again. Fails if the process cannot be started.
    pub fn start(name: &str, num_threads: usize) -> Result<(Self, UnixStream)> {
        refuse_unknown(name, "procs")?;
        let (own, theirs) = UnixStream::pair().map_err(Error::other)?;
        let command = child::command(ROLLOUT, name, theirs, num_threads)?;
        let process = spawn(command).map_err(Error::io("start", Path::new("this executable")))?;
        Ok((RolloutProcess(LocalProcess::new(process, "", PATIENCE)), own))
    }

    /// The number of the process.
    pub fn id(&self) -> u32 {
        self.0.id()
    }
}

impl Body for RolloutProcess {
    fn kill(&mut self) {
        self.0.kill();
    }

    fn wait(&mut self) -> String {
        self.0.wait()
    }
}

/// How the process of a rollout worker is started on whatever machine, as [`RolloutProcess::start`] starts one; `workers` is
/// the setting that asks for it.
///
/// # Errors
/// Returns [`Error::Config`] if `child_main` was not called with this trainable. Fails if this executable cannot be found.
pub fn rollout_command(name: &str, workers: &str, num_threads: usize) -> Result<ChildCommand> {
    refuse_unknown(name, workers)?;
    Ok(ChildCommand::of(&child::command_anywhere(ROLLOUT, name, num_threads)?))
}

/// Refuses rollout workers whose process would run the whole program again.
fn refuse_unknown(name: &str, workers: &str) -> Result<()> {
    if has_rollout_workers(name) {
        return Ok(());
    }
    let rule = format!(
        "workers are processes of this program, which `main` must begin with `child_main` and the trainable `{name}`"
    );
    Err(Error::config("workers", format!("\"{workers}\""), rule))
}
