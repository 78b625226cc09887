//! Starts this executable again as a child process.

use std::collections::BTreeMap;
use std::env;
use std::ffi::{OsStr, OsString};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Command, ExitStatus};
use std::sync::OnceLock;

use serde::Serialize;

use crate::rendezvous::NODE;
use crate::{Error, Result};

/// Environment variable that lists those of [`THREADS`] that this module set; any other was set by the user and is
/// kept.
const OURS: &str = "PAVLOV_SETS_THREADS";
/// Environment variables with which math libraries limit their number of threads.
const THREADS: [&str; 3] = ["OMP_NUM_THREADS", "MKL_NUM_THREADS", "RAYON_NUM_THREADS"];

/// Program and first arguments of child processes, if they are not those of this process.
static COMMAND: OnceLock<Vec<OsString>> = OnceLock::new();

/// Sets the program and the arguments with which this process starts its children. The default is its
/// own executable with its own arguments, which is wrong in an interpreter that runs a script of the user's. The program
/// must begin with the function that serves its parent, such as `rollout_main`. Later calls change nothing.
pub fn set_child_command(command: impl IntoIterator<Item = OsString>) {
    COMMAND.get_or_init(|| command.into_iter().collect());
}

/// Returns the program that starts a child, with its arguments.
fn program() -> Result<Command> {
    if let Some([program, arguments @ ..]) = COMMAND.get().map(Vec::as_slice) {
        let mut command = Command::new(program);
        command.args(arguments);
        return Ok(command);
    }
    let executable = env::current_exe().map_err(Error::io("find", Path::new("this executable")))?;
    let mut command = Command::new(executable);
    command.args(env::args_os().skip(1));
    Ok(command)
}

/// Makes the command that starts this program again, on any machine; the child's standard input must be a socket, see
/// [`connect`]. `num_threads` is the child's share of the cores, unless the user's environment sets the number of threads.
///
/// # Errors
/// Fails if this executable cannot be found.
pub fn command(num_threads: usize) -> Result<Command> {
    let mut command = program()?;
    // The variable is meant for an actor's own child, not for processes that the child starts.
    command.env_remove(NODE);
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

/// Makes `socket` the standard input of a child on this machine. Drop the command after `spawn`, so that only the child
/// holds the socket.
pub fn connect(command: &mut Command, socket: UnixStream) {
    // Ctrl-C must reach only the driver, which then stops its children.
    command.stdin(OwnedFd::from(socket)).process_group(0);
}

/// How to start a child on any machine; its standard input must be a socket.
#[derive(Clone, Debug, Serialize)]
pub struct ChildCommand {
    path: String,
    arguments: Vec<String>,
    /// Environment variables to set in addition to those of this process.
    set: BTreeMap<String, String>,
    /// Environment variables of this process that the child must not inherit.
    unset: Vec<String>,
}

impl ChildCommand {
    /// Extracts program, arguments and environment from `command`.
    pub fn of(command: &Command) -> Self {
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

/// Handle of a child of this executable, wherever it runs. The child reads from a socket and ends when that is closed.
pub trait ChildHandle: Send + std::fmt::Debug {
    /// Ends the process at once, even if it is stopped by a signal.
    fn kill(&mut self);

    /// Waits until the process, whose socket must be closed, has ended, and returns how it ended as a sentence. Most
    /// implementations kill a process that does not end in time.
    fn wait(&mut self) -> String;
}

/// Returns the child's end of the socket that is its standard input, and redirects standard input to `/dev/null`.
///
/// # Errors
/// Fails if standard input is closed, or `/dev/null` cannot be opened.
pub fn take_socket() -> Result<UnixStream> {
    let socket = std::io::stdin().as_fd().try_clone_to_owned().map(UnixStream::from);
    let socket = socket.map_err(Error::io("open", Path::new("standard input")))?;
    let null = Path::new("/dev/null");
    let null = std::fs::File::open(null).map_err(Error::io("open", null))?;
    rustix::stdio::dup2_stdin(&null).map_err(|errno| Error::other(std::io::Error::from(errno)))?;
    Ok(socket)
}

/// Makes the system kill this child when the thread that started it ends, even if the child is stopped or busy. If the
/// parent ended before this call, the child notices by the closed socket.
///
/// # Errors
/// Returns the error of the system.
pub fn end_with_parent() -> Result<()> {
    #[cfg(target_os = "linux")]
    rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL))
        .map_err(|errno| Error::other(std::io::Error::from(errno)))?;
    Ok(())
}

/// Describes an exit status as a predicate after "its process", e.g. "exited with code 1". `hint` is appended, e.g.
/// where the child's error output is.
pub(crate) fn how_it_ended(status: ExitStatus, hint: &str) -> String {
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
