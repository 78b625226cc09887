//! A worker of a group, as its own process sees the group.

use std::env;
use std::io::{BufRead, BufReader, Lines};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::thread;

use crossbeam_channel::{Receiver, bounded};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::messages::{Instruction, MemberSetup, WorkerMessage, receive_sockets, send_line};
use crate::rendezvous::{NODE, listen, meet, place};
use crate::{Error, Result};

/// Membership of this process in a [`WorkerGroup`](super::WorkerGroup). The process ends at once when its socket to the
/// process that started the group is closed, which happens whenever that process ends, in whatever way.
#[derive(Debug)]
pub struct GroupMember<T> {
    /// Rank of the worker, from 0.
    pub rank: usize,
    /// Sockets to the other workers, ordered by rank.
    pub peers: Vec<OwnedFd>,
    /// Rank among the workers on the same machine, from 0.
    pub local_rank: usize,
    /// Number of the worker's machine. Machines with workers are numbered in the order of their lowest rank.
    pub node_rank: usize,
    /// What the group was started for.
    pub task: T,
    /// Receives one message for each report, when all workers have reported; closed when the worker must stop.
    pub go_on: Receiver<()>,
    /// Sends the worker's messages.
    pub sender: MessageSender,
}

/// The way from a worker to the process that started its group.
#[derive(Debug)]
pub struct MessageSender(UnixStream);

impl MessageSender {
    /// Sends a message.
    ///
    /// # Errors
    /// Fails if the process that started the group has ended.
    pub fn send<R: Serialize>(&self, message: &WorkerMessage<R>) -> Result<()> {
        send_line(&self.0, message)
    }
}

impl<T: DeserializeOwned> GroupMember<T> {
    /// Receives the worker's task and connects to the other workers; `None` if the group has ended meanwhile. `socket` is the
    /// one that [`take_socket`](crate::take_socket) returned.
    ///
    /// # Errors
    /// Fails if what the socket brings cannot be read. An error of the connection to other workers is reported to the group.
    pub fn join(socket: UnixStream) -> Result<Option<Self>> {
        let node = env::var(NODE).ok();
        let sent = if node.is_none() { receive_sockets(&socket)? } else { Vec::new() };
        let mut lines = BufReader::new(socket.try_clone().map_err(Error::other)?).lines();
        let Some(setup) = next::<MemberSetup<T>>(&mut lines)? else { return Ok(None) };
        let mut peers = sent;
        let (mut local_rank, mut node_rank) = (setup.rank, 0);
        if let (Some(node), Some(secret)) = (&node, &setup.secret) {
            let (listener, address) = listen(node)?;
            send_line(&socket, &WorkerMessage::<()>::Listens(address))?;
            let Some(Instruction::Meet(all)) = next(&mut lines)? else { return Ok(None) };
            match meet(&listener, setup.rank, &all, secret) {
                Ok(met) => peers = met,
                Err(error) => {
                    let is_lost = matches!(error, Error::WorkerLost { .. });
                    let failed = WorkerMessage::<()>::Failed { message: error.to_string(), is_lost };
                    return send_line(&socket, &failed).map(|()| None);
                }
            }
            (local_rank, node_rank) = place(setup.rank, &all);
        }
        let go_on = follow(lines)?;
        let sender = MessageSender(socket);
        Ok(Some(GroupMember {
            rank: setup.rank,
            peers,
            local_rank,
            node_rank,
            task: setup.task,
            go_on,
            sender,
        }))
    }
}

/// Reads the next line; `None` at the end.
fn next<T: for<'de> Deserialize<'de>>(lines: &mut Lines<BufReader<UnixStream>>) -> Result<Option<T>> {
    let Some(line) = lines.next() else { return Ok(None) };
    serde_json::from_str(&line.map_err(Error::other)?).map_err(Error::other)
}

/// Starts the thread that hears the group's orders, and returns what [`GroupMember::go_on`] is.
fn follow(lines: Lines<BufReader<UnixStream>>) -> Result<Receiver<()>> {
    let (going_on, go_on) = bounded(1);
    let listen = move || {
        let mut going_on = Some(going_on);
        for line in lines {
            match line.ok().and_then(|line| serde_json::from_str(&line).ok()) {
                Some(Instruction::GoOn) => {
                    if let Some(going_on) = &going_on {
                        let _ = going_on.send(());
                    }
                }
                Some(Instruction::Stop) => going_on = None,
                Some(Instruction::Meet(_)) | None => break,
            }
        }
        // The process that started the group has ended, and no other process waits for this worker's result.
        std::process::exit(0);
    };
    thread::Builder::new().spawn(listen).map_err(Error::other)?;
    Ok(go_on)
}
