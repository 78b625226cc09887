//! This executable started once more, to be something else than the program: a trial, a worker of one, or a rollout worker.

use std::collections::BTreeMap;
use std::env;
use std::ffi::OsStr;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};

use serde::Serialize;

use super::meeting::NODE;
use crate::{Error, Result};

/// Set for trial processes: the name of the trainable.
pub(super) const TRIAL: &str = "PAVLOV_TRIAL_OF";
/// Set for worker processes: the name of the trainable.
pub(super) const WORKER: &str = "PAVLOV_WORKER_OF";
/// Set for rollout workers: the name of the trainable.
pub(super) const ROLLOUT: &str = "PAVLOV_ROLLOUT_WORKER_OF";
/// All of these.
pub(super) const ROLES: [&str; 3] = [ROLLOUT, WORKER, TRIAL];
/// Set for trials on Ray: the directory of their experiment.
pub(super) const EXPERIMENT: &str = "PAVLOV_EXPERIMENT";
/// Those of the variables below that this module set; the user set the others.
const OURS: &str = "PAVLOV_SETS_THREADS";
const THREADS: [&str; 3] = ["OMP_NUM_THREADS", "MKL_NUM_THREADS", "RAYON_NUM_THREADS"];

/// [`command_anywhere`] on this machine. `socket` becomes the standard input; drop the command after `spawn`, so that the
/// child alone has it.
pub(super) fn command(role: &str, name: &str, socket: UnixStream, num_threads: usize) -> Result<Command> {
    let mut command = command_anywhere(role, name, num_threads)?;
    // Ctrl-C is for the driver, which then tells its trials.
    command.stdin(OwnedFd::from(socket)).process_group(0);
    Ok(command)
}

/// `role`: one of [`ROLES`], of the trainable `name`. `num_threads`: its share of the cores, unless the user's
/// environment says otherwise. The child's standard input must be a socket.
pub(super) fn command_anywhere(role: &str, name: &str, num_threads: usize) -> Result<Command> {
    let executable = env::current_exe().map_err(Error::io("find", Path::new("this executable")))?;
    let mut command = Command::new(executable);
    ROLES.iter().for_each(|role| _ = command.env_remove(role));
    // An actor says it to its own child, not to what that starts.
    command.env_remove(NODE);
    command.args(env::args_os().skip(1)).env(role, name);
    let ours = env::var(OURS).unwrap_or_default();
    let set =
        |variable: &&str| env::var_os(*variable).is_none() || ours.split(',').any(|our| our == *variable);
    let set: Vec<&str> = THREADS.into_iter().filter(set).collect();
    for variable in &set {
        command.env(variable, num_threads.to_string());
    }
    command.env(OURS, set.join(","));
    Ok(command)
}

/// How a child is started on whatever machine; its standard input must be a socket.
#[derive(Clone, Debug, Serialize)]
pub struct ChildCommand {
    path: String,
    arguments: Vec<String>,
    /// Environment variables that it has besides this process's.
    set: BTreeMap<String, String>,
    /// Environment variables of this process that it must not have.
    unset: Vec<String>,
}

impl ChildCommand {
    pub(super) fn of(command: &Command) -> Self {
        let text = |text: &OsStr| text.to_string_lossy().into_owned();
        let variables = || command.get_envs().map(|(name, value)| (text(name), value.map(text)));
        Self {
            path: text(command.get_program()),
            arguments: command.get_args().map(text).collect(),
            set: variables().filter_map(|(name, value)| Some((name, value?))).collect(),
            unset: variables().filter(|(_, value)| value.is_none()).map(|(name, _)| name).collect(),
        }
    }
}

/// A child of this executable, wherever it runs. It reads from a socket, and the end of that ends it.
pub trait Body: Send + std::fmt::Debug {
    /// Ends the process at once, stopped or not.
    fn kill(&mut self);

    /// Waits until the process is gone, whose socket is closed, and ends it if that takes long. Says how it ended.
    fn wait(&mut self) -> String;
}

/// In a trial on Ray: the directory of its experiment, which all machines see, as they need not see the files that this
/// program's arguments name.
pub fn experiment_of_trial() -> Option<PathBuf> {
    env::var_os(TRIAL)?;
    env::var_os(EXPERIMENT).map(PathBuf::from)
}

/// Whether this process is a trial or a worker.
pub(super) fn is_child() -> bool {
    ROLES.iter().any(|role| env::var_os(role).is_some())
}

/// In the child: the other end of its standard input, which reads nothing from now on.
pub(super) fn socket() -> Result<UnixStream> {
    let socket = std::io::stdin().as_fd().try_clone_to_owned().map(UnixStream::from);
    let socket = socket.map_err(Error::io("open", Path::new("standard input")))?;
    let null = Path::new("/dev/null");
    let null = std::fs::File::open(null).map_err(Error::io("open", null))?;
    rustix::stdio::dup2_stdin(&null).map_err(|errno| Error::other(std::io::Error::from(errno)))?;
    Ok(socket)
}

/// In the child: it ends with the thread that started it, also while it is stopped or busy. A parent that ended before this is seen
/// by the end of the socket.
pub(super) fn end_with_parent() -> Result<()> {
    #[cfg(target_os = "linux")]
    rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL))
        .map_err(|errno| Error::other(std::io::Error::from(errno)))?;
    Ok(())
}

/// Reads on after "its process"; `hint` says where it may have told more.
pub(super) fn how_it_ended(status: ExitStatus, hint: &str) -> String {
    match status.signal() {
        Some(9) => "was killed (signal 9), by hand or because the machine ran out of memory".into(),
        Some(signal) => {
            let name = match signal {
                4 => ", an illegal instruction",
                6 => ", an abort",
                7 => ", a bus error",
                8 => ", an arithmetic error",
                11 => ", a segmentation fault",
                15 => ", asked to terminate",
                _ => "",
            };
            format!("died of signal {signal}{name}{hint}")
        }
        None => format!("exited with code {}{hint}", status.code().unwrap_or_default()),
    }
}
