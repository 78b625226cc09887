//! Other processes of a program: children on this machine or on a Ray cluster, and the connections between them.
//!
//! * [`command`] and [`connect`] start this program again as a child, whose standard input is a socket;
//!   [`take_socket`] is the child's side. [`LocalProcess`] is the handle of a child on this machine. It waits for the
//!   child's end for a bounded time only.
//! * A child has a [`Role`] and serves a name: a trial, a rollout worker ([`RolloutProcess`]), or a member of a [`WorkerGroup`],
//!   whose workers report in step. [`GroupMember`] is the group as a worker sees it.
//! * [`RayEngine`] starts children through a Ray cluster. Their handle is a [`RayActor`].
//! * [`listen`] and [`meet`] connect the workers of a group on several machines by TCP.
//! * [`Collective`] has the calls that all workers of a group make together, such as sums over gradients.
//! * [`HeldFolder`] is a temporary folder that is removed even if its process was killed.
//!
//! The crate knows nothing of what the processes compute. It runs on Unix systems only. Its items may change in any
//! version, since it serves the other crates of pavlov; those that `pavlov-train` hands out follow that crate's version.

mod child;
mod collective;
mod error;
mod held_folder;
mod lines;
mod local;
mod memory;
mod ray;
mod rendezvous;
mod role;
mod rollout;
mod transport;
mod worker_group;

pub use child::{
    ChildCommand, ChildHandle, command, connect, end_with_parent, set_child_command, take_socket,
};
pub use collective::{Collective, ReduceOp, SocketCollective, sockets};
pub use error::{Error, Result};
pub use held_folder::{HeldFolder, lock_abandoned, locked_dir};
pub use lines::{LONGEST_LINE, lines, read_line, refuse_too_long};
pub use local::LocalProcess;
pub use memory::available_memory;
pub use ray::{RayActor, RayEngine};
pub use rendezvous::{Secret, listen, listen_here, meet};
pub use role::{EXPERIMENT, Role, experiment_of_trial, is_known_to_children, serve_names, serve_rollouts_of};
pub use rollout::{RolloutProcess, rollout_command};
pub use transport::{Bundle, PlacementStrategy, WorkerTransport, Workers};
pub use worker_group::{
    GroupMember, MessageSender, WorkerGroup, WorkerGroupSetup, WorkerMessage, WorkerPlace,
};

/// Returns the message of a panic.
pub fn panic_text(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| text.to_string());
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "no message".into())
}
