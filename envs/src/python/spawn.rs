//! The thread that starts all worker processes.
//!
//! The kernel kills a worker when the *thread* that started it ends (`PR_SET_PDEATHSIG`). So workers are started by a thread
//! that lives as long as the process, and not by the caller's.

use std::{
    io,
    process::{Child, Command},
    sync::{
        LazyLock, Mutex,
        mpsc::{Sender, channel},
    },
    thread,
};

/// The cores that a thread may run on.
#[cfg(target_os = "linux")]
mod cores {
    use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

    pub(super) type Cores = CpuSet;

    /// Those of the calling thread; `None` if the system does not say.
    pub(super) fn own() -> Option<Cores> {
        sched_getaffinity(None).ok()
    }

    /// Restricts the calling thread to `cores`, if that is permitted.
    pub(super) fn restrict_to(cores: &Cores) {
        let _ = sched_setaffinity(None, cores);
    }
}

/// Other systems do not say on which cores a thread may run.
#[cfg(not(target_os = "linux"))]
mod cores {
    pub(super) type Cores = ();

    pub(super) fn own() -> Option<Cores> {
        None
    }

    pub(super) fn restrict_to((): &Cores) {}
}

/// Request to the thread: the command to run, the cores that the process may use, and the channel for the reply.
type StartRequest = (Command, Option<cores::Cores>, Sender<io::Result<Child>>);

static SPAWNER: LazyLock<Mutex<Option<Sender<StartRequest>>>> = LazyLock::new(|| {
    let (sender, orders) = channel::<StartRequest>();
    let serve = move || {
        for (mut command, cores, reply) in orders {
            // A child process inherits the affinity of the thread that starts it.
            if let Some(cores) = cores
                && cores::own() != Some(cores)
            {
                cores::restrict_to(&cores);
            }
            // If the caller is gone, sending fails, and the child reads the end of its pipe.
            let _ = reply.send(command.spawn());
        }
    };
    let started = thread::Builder::new().name("pavlov-py-spawn".into()).spawn(serve);
    Mutex::new(started.is_ok().then_some(sender))
});

/// Starts a process that lives no longer than this one, and that may run on the cores of the calling thread.
pub(super) fn spawn(command: Command) -> io::Result<Child> {
    let gone = || io::Error::other("the thread that starts workers is gone");
    let (reply, child) = channel();
    let cores = cores::own();
    {
        let spawner = SPAWNER.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        spawner.as_ref().ok_or_else(gone)?.send((command, cores, reply)).map_err(|_| gone())?;
    }
    child.recv().map_err(|_| gone())?
}
