//! The roles of child processes: a trial, a data-parallel worker of a trial, or a rollout worker.

use std::env;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::Command;

use crate::Result;

/// Environment variable that makes a process a trial; its value is the name of the trainable.
pub(super) const TRIAL: &str = "PAVLOV_TRIAL_OF";
/// Environment variable that makes a process a data-parallel worker; its value is the name of the trainable.
pub(super) const WORKER: &str = "PAVLOV_WORKER_OF";
/// Environment variable that makes a process a rollout worker; its value is the name of the trainable.
pub(super) const ROLLOUT: &str = "PAVLOV_ROLLOUT_WORKER_OF";
/// The variables that give a process its role; at most one of them is set.
pub(super) const ROLES: [&str; 3] = [ROLLOUT, WORKER, TRIAL];
/// Environment variable of trials on Ray: the directory of their experiment.
pub(super) const EXPERIMENT: &str = "PAVLOV_EXPERIMENT";

/// Makes the command for a child on this machine, with `socket` as its standard input; see [`command_anywhere`]. Drop the
/// command after `spawn`, so that only the child holds the socket.
pub(super) fn command(role: &str, name: &str, socket: UnixStream, num_threads: usize) -> Result<Command> {
    let mut command = command_anywhere(role, name, num_threads)?;
    pavlov_processes::connect(&mut command, socket);
    Ok(command)
}

/// Makes the command for a child on any machine; its standard input must be a socket.
///
/// `role` is one of [`ROLES`] and `name` the name of the trainable. `num_threads` is the child's share of the cores,
/// unless the user's environment sets the number of threads.
pub(super) fn command_anywhere(role: &str, name: &str, num_threads: usize) -> Result<Command> {
    let mut command = pavlov_processes::command(num_threads)?;
    ROLES.iter().for_each(|role| _ = command.env_remove(role));
    command.env(role, name);
    Ok(command)
}

/// Returns the directory of the experiment if this process is a trial on Ray, else `None`.
///
/// All machines see that directory, while files named in the program's arguments may exist on one machine only.
pub fn experiment_of_trial() -> Option<PathBuf> {
    env::var_os(TRIAL)?;
    env::var_os(EXPERIMENT).map(PathBuf::from)
}

/// Whether this process is a child with one of [`ROLES`].
pub(super) fn is_child() -> bool {
    ROLES.iter().any(|role| env::var_os(role).is_some())
}
