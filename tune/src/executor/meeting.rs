//! How workers on several machines find each other: each listens, and a socket is between any two of them.
//!
//! The worker of the higher rank calls that of the lower one. Both show the secret of their group before anything else, so
//! a stranger that calls is sent away.

use std::env;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::thread::sleep;
use std::time::{Duration, Instant};

use rustix::net::sockopt;

use crate::{Error, Result};

/// Set by the actor of a worker on Ray: the address of its machine in the cluster.
pub(super) const NODE: &str = "PAVLOV_NODE_ADDRESS";

/// How long workers wait for each other.
const PATIENCE: Duration = Duration::from_secs(60);
/// How long a caller may take to say who it is.
const HELLO: Duration = Duration::from_secs(5);
/// How long a machine may be silent before its workers count as lost.
const SILENCE: Duration = Duration::from_secs(30);

/// What only the workers of one group know.
pub type Secret = [u8; 32];

/// Listens where the others of a group reach this process, at a port that is free: in the cluster if an actor of Ray started
/// it, else on this machine alone.
///
/// # Errors
/// Fails if the address is none of this machine's.
pub fn listen_here() -> Result<(TcpListener, SocketAddr)> {
    listen(env::var(NODE).as_deref().unwrap_or("127.0.0.1"))
}

/// Listens on the address of this machine, at a port that is free.
///
/// # Errors
/// Fails if the address is none of this machine's.
pub fn listen(node: &str) -> Result<(TcpListener, SocketAddr)> {
    let address: IpAddr = node.parse().map_err(|_| Error::config(NODE, node, "it must be an IP address"))?;
    let failed = |error: io::Error| Error::other(format!("worker cannot listen on {address}: {error}"));
    let listener = TcpListener::bind((address, 0)).map_err(failed)?;
    let address = listener.local_addr().map_err(failed)?;
    Ok((listener, address))
}

/// The sockets to the others, by rank. `addresses` are those of all, the own one among them.
///
/// # Errors
/// Fails if another cannot be reached, or does not come in a minute.
pub fn meet(
    listener: &TcpListener,
    rank: usize,
    addresses: &[SocketAddr],
    secret: &Secret,
) -> Result<Vec<OwnedFd>> {
    let deadline = Instant::now() + PATIENCE;
    let mut peers: Vec<Option<TcpStream>> = addresses.iter().map(|_| None).collect();
    for (other, address) in addresses.iter().enumerate().take(rank) {
        let unreachable = |error: io::Error| {
            Error::other(format!(
                "worker {rank} cannot reach worker {other} at {address}: {error}; between the machines of the cluster TCP \
                 ports must be open"
            ))
        };
        peers[other] = Some(call(*address, rank, secret).map_err(unreachable)?);
    }
    listener.set_nonblocking(true).map_err(Error::other)?;
    while let Some(missing) = (rank + 1..addresses.len()).find(|&other| peers[other].is_none()) {
        match listener.accept() {
            // One that does not know the secret is not a worker of this group.
            Ok((socket, _)) => {
                if let Ok((other, socket)) = answer(socket, secret)
                    && other > rank
                    && let Some(peer) = peers.get_mut(other)
                {
                    *peer = Some(socket);
                }
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock && Instant::now() < deadline => {
                sleep(Duration::from_millis(2));
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                let reason = format!(
                    "worker {rank} waited {} s at {} for worker {missing}, which did not come",
                    PATIENCE.as_secs(),
                    addresses[rank]
                );
                return Err(Error::other(reason));
            }
            Err(error) => return Err(Error::other(error)),
        }
    }
    peers.into_iter().flatten().map(ready).collect()
}

/// Calls the worker at that address, as `rank`.
fn call(address: SocketAddr, rank: usize, secret: &Secret) -> io::Result<TcpStream> {
    let mut socket = TcpStream::connect_timeout(&address, PATIENCE)?;
    socket.set_read_timeout(Some(PATIENCE))?;
    socket.write_all(&[&secret[..], &(rank as u64).to_le_bytes()].concat())?;
    let mut theirs: Secret = [0; 32];
    socket.read_exact(&mut theirs)?;
    if theirs == *secret { Ok(socket) } else { Err(io::Error::other("it is no worker of this group")) }
}

/// Who calls.
fn answer(mut socket: TcpStream, secret: &Secret) -> io::Result<(usize, TcpStream)> {
    socket.set_nonblocking(false)?;
    socket.set_read_timeout(Some(HELLO))?;
    let (mut theirs, mut rank): (Secret, _) = ([0; 32], [0; 8]);
    socket.read_exact(&mut theirs)?;
    socket.read_exact(&mut rank)?;
    if theirs != *secret {
        return Err(io::Error::other("a stranger"));
    }
    socket.write_all(secret)?;
    Ok((u64::from_le_bytes(rank) as usize, socket))
}

/// Small messages go at once, and a machine that has vanished is noticed.
fn ready(socket: TcpStream) -> Result<OwnedFd> {
    socket.set_read_timeout(None).map_err(Error::other)?;
    socket.set_nodelay(true).map_err(Error::other)?;
    let as_io = |errno: rustix::io::Errno| Error::other(io::Error::from(errno));
    sockopt::set_socket_keepalive(&socket, true).map_err(as_io)?;
    sockopt::set_tcp_keepidle(&socket, SILENCE / 3).map_err(as_io)?;
    sockopt::set_tcp_keepintvl(&socket, SILENCE / 6).map_err(as_io)?;
    sockopt::set_tcp_keepcnt(&socket, 4).map_err(as_io)?;
    // Data that is not taken in this time counts as well.
    sockopt::set_tcp_user_timeout(&socket, SILENCE.as_millis() as u32).map_err(as_io)?;
    Ok(socket.into())
}

/// The number of worker `rank` among those of its machine, and the number of the machine among those that have workers.
pub(super) fn place(rank: usize, addresses: &[SocketAddr]) -> (usize, usize) {
    let machines: Vec<IpAddr> = addresses.iter().map(SocketAddr::ip).collect();
    let own = machines[rank];
    let local = machines[..rank].iter().filter(|machine| **machine == own).count();
    let mut known: Vec<IpAddr> = Vec::new();
    for machine in machines {
        if !known.contains(&machine) {
            known.push(machine);
        }
    }
    (local, known.iter().position(|machine| *machine == own).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::thread;

    #[test]
    fn workers_meet_with_a_socket_between_any_two_and_a_stranger_is_sent_away() {
        let (listeners, addresses): (Vec<_>, Vec<_>) =
            (0..3).map(|_| listen("127.0.0.1").expect("a port")).unzip();
        // It calls before the workers do, and says something else than the secret.
        let mut stranger = TcpStream::connect(addresses[0]).expect("worker 0 listens");
        stranger.write_all(&[7; 40]).expect("said");
        let workers: Vec<_> = listeners
            .into_iter()
            .enumerate()
            .map(|(rank, listener)| {
                let addresses = addresses.clone();
                thread::spawn(move || {
                    let peers = meet(&listener, rank, &addresses, &[3; 32]).expect("a meeting");
                    let mut heard = Vec::new();
                    for peer in peers {
                        let mut peer = TcpStream::from(peer);
                        peer.write_all(&[rank as u8]).expect("said");
                        let mut other = [0];
                        peer.read_exact(&mut other).expect("heard");
                        heard.push(other[0]);
                    }
                    heard
                })
            })
            .collect();
        let heard: Vec<Vec<u8>> =
            workers.into_iter().map(|worker| worker.join().expect("a worker")).collect();
        assert_eq!(heard, [[1, 2], [0, 2], [0, 1]]);
        assert_eq!(stranger.read(&mut [0]).expect("an end"), 0);
    }

    #[test]
    fn ranks_are_counted_on_each_machine_and_machines_by_their_first_worker() {
        let addresses: Vec<SocketAddr> =
            ["10.0.0.2:1", "10.0.0.1:1", "10.0.0.2:2", "10.0.0.1:2", "10.0.0.2:3"]
                .map(|address| address.parse().expect("an address"))
                .to_vec();
        let places: Vec<_> = (0..5).map(|rank| place(rank, &addresses)).collect();
        assert_eq!(places, [(0, 0), (0, 1), (1, 0), (1, 1), (2, 0)]);
    }
}
