//! The roles of child processes: a trial, a data-parallel worker of a trial, or a rollout worker.
//!
//! A child is this program, started again with an environment variable that says its role. What it serves is found by a
//! name, so the program says at its start which names it can serve.

use std::env;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::Command;
use std::sync::{Arc, Mutex, PoisonError};

use crate::Result;
use crate::child;

/// Environment variable of trials on Ray: the directory of their experiment.
pub const EXPERIMENT: &str = "PAVLOV_EXPERIMENT";

/// Names of the trainables that a child of any role can serve.
static KNOWN: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// Function that says whether a rollout worker can serve a name.
type Find = Arc<dyn Fn(&str) -> bool + Send + Sync>;

/// Function of the program that was passed to [`serve_rollouts_of`].
static FIND: Mutex<Option<Find>> = Mutex::new(None);

/// What a child process is to its parent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// The child samples environments for a trainer.
    Rollout,
    /// The child is a data-parallel worker of a trial.
    Worker,
    /// The child runs a trial of a sweep.
    Trial,
}

impl Role {
    const ALL: [Role; 3] = [Role::Rollout, Role::Worker, Role::Trial];

    /// Returns the environment variable that gives a process this role; its value is the name that it serves.
    pub fn variable(self) -> &'static str {
        match self {
            Role::Trial => "PAVLOV_TRIAL_OF",
            Role::Worker => "PAVLOV_WORKER_OF",
            Role::Rollout => "PAVLOV_ROLLOUT_WORKER_OF",
        }
    }

    /// Returns the role of this process and the name that it serves; `None` if it is no child.
    pub fn of_this_process() -> Option<(Role, String)> {
        Role::ALL.into_iter().find_map(|role| Some((role, env::var(role.variable()).ok()?)))
    }

    /// Makes the command for a child on this machine, with `socket` as its standard input; see
    /// [`command_anywhere`](Role::command_anywhere). Drop the command after `spawn`, so that only the child holds the socket.
    ///
    /// # Errors
    /// Fails if this executable cannot be found.
    pub fn command(self, name: &str, socket: UnixStream, num_threads: usize) -> Result<Command> {
        let mut command = self.command_anywhere(name, num_threads)?;
        child::connect(&mut command, socket);
        Ok(command)
    }

    /// Makes the command for a child on any machine that serves `name`; its standard input must be a socket.
    /// `num_threads` is the child's share of the cores, unless the user's environment sets the number of threads.
    ///
    /// # Errors
    /// Fails if this executable cannot be found.
    pub fn command_anywhere(self, name: &str, num_threads: usize) -> Result<Command> {
        let mut command = child::command(num_threads)?;
        Role::ALL.iter().for_each(|role| _ = command.env_remove(role.variable()));
        command.env(self.variable(), name);
        Ok(command)
    }
}

/// Returns the directory of the experiment if this process is a trial on Ray, else `None`.
///
/// All machines see that directory, while files named in the program's arguments may exist on one machine only.
pub fn experiment_of_trial() -> Option<PathBuf> {
    env::var_os(Role::Trial.variable())?;
    env::var_os(EXPERIMENT).map(PathBuf::from)
}

/// Adds names that children of this program can serve in every role.
pub fn serve_names(names: impl IntoIterator<Item = String>) {
    KNOWN.lock().unwrap_or_else(PoisonError::into_inner).extend(names);
}

/// Sets the function that says which other names a rollout worker of this program can serve.
pub fn serve_rollouts_of(find: impl Fn(&str) -> bool + Send + Sync + 'static) {
    *FIND.lock().unwrap_or_else(PoisonError::into_inner) = Some(Arc::new(find));
}

/// Whether children of this program can serve the name in every role.
pub fn is_known_to_children(name: &str) -> bool {
    KNOWN.lock().unwrap_or_else(PoisonError::into_inner).iter().any(|known| known == name)
}

/// Whether a rollout worker of this program can serve the name.
pub(crate) fn has_rollout_workers(name: &str) -> bool {
    let find = FIND.lock().unwrap_or_else(PoisonError::into_inner).clone();
    is_known_to_children(name) || find.is_some_and(|find| find(name))
}
