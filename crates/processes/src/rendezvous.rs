//! Rendezvous of workers on several machines: each one listens, and every pair of them is connected by a TCP socket.
//!
//! The worker with the higher rank connects to the one with the lower rank. Both first send the secret of their group,
//! and a caller without the secret is disconnected.

use std::env;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::thread::sleep;
use std::time::{Duration, Instant};

use rustix::net::sockopt;

use crate::{Error, Result};

/// Environment variable that the actor of a worker on Ray sets: the address of its machine in the cluster.
pub(crate) const NODE: &str = "PAVLOV_NODE_ADDRESS";

/// Time that workers wait for each other.
const PATIENCE: Duration = Duration::from_secs(60);
/// Time that a caller has to send its secret and rank; other callers are read meanwhile.
const HELLO: Duration = Duration::from_secs(5);
/// Size in bytes of a caller's greeting: its secret and its rank.
const GREETING: usize = size_of::<Secret>() + size_of::<u64>();
/// Maximum number of callers with an incomplete greeting; above it the oldest is dropped. Workers send theirs at once,
/// so the oldest is not a worker.
const MAX_CALLERS: usize = 256;
/// Time without an answer after which a machine counts as lost.
const SILENCE: Duration = Duration::from_secs(30);

/// Random bytes by which the workers of one group recognize each other.
pub type Secret = [u8; 32];

/// Listens on a free port where the other workers of the group can reach this process: on the cluster's network if an
/// actor of Ray started the process, else on the loopback address `127.0.0.1`.
///
/// # Errors
/// Fails if the address does not belong to this machine.
pub fn listen_here() -> Result<(TcpListener, SocketAddr)> {
    listen(env::var(NODE).as_deref().unwrap_or("127.0.0.1"))
}

/// Listens on a free port of the address `node` of this machine.
///
/// # Errors
/// Fails if `node` is not an IP address of this machine.
pub fn listen(node: &str) -> Result<(TcpListener, SocketAddr)> {
    let address: IpAddr = node.parse().map_err(|_| Error::config(NODE, node, "it must be an IP address"))?;
    let failed = |error: io::Error| Error::other(format!("worker cannot listen on {address}: {error}"));
    let listener = TcpListener::bind((address, 0)).map_err(failed)?;
    let address = listener.local_addr().map_err(failed)?;
    Ok((listener, address))
}

/// Connects to all other workers of the group and returns the sockets in the order of their ranks. `addresses` holds
/// the address of every worker by rank, this one's included.
///
/// # Errors
/// Fails if another worker cannot be reached, or does not connect within a minute.
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
    let mut callers: Vec<Caller> = Vec::new();
    while let Some(missing) = (rank + 1..addresses.len()).find(|&other| peers[other].is_none()) {
        if Instant::now() >= deadline {
            let reason = format!(
                "worker {rank} waited {} s at {} for worker {missing}, which did not come",
                PATIENCE.as_secs(),
                addresses[rank]
            );
            return Err(Error::other(reason));
        }
        match listener.accept() {
            Ok((socket, _)) => callers.extend(Caller::new(socket)),
            Err(error) if error.kind() == ErrorKind::WouldBlock => sleep(Duration::from_millis(2)),
            Err(error) => return Err(Error::other(error)),
        }
        if callers.len() > MAX_CALLERS {
            callers.remove(0);
        }
        let mut silent = Vec::new();
        for mut caller in callers {
            match caller.has_said_all() {
                // A caller that does not know the secret is not a worker of this group.
                Ok(true) => {
                    if let Ok((other, socket)) = caller.answer(secret)
                        && other > rank
                        && let Some(peer) = peers.get_mut(other)
                    {
                        *peer = Some(socket);
                    }
                }
                Ok(false) if caller.since.elapsed() < HELLO => silent.push(caller),
                Ok(false) | Err(_) => {}
            }
        }
        callers = silent;
    }
    peers.into_iter().flatten().map(ready).collect()
}

/// Connects to the worker at `address` and introduces itself as `rank`.
fn call(address: SocketAddr, rank: usize, secret: &Secret) -> io::Result<TcpStream> {
    let mut socket = TcpStream::connect_timeout(&address, PATIENCE)?;
    socket.set_read_timeout(Some(PATIENCE))?;
    socket.write_all(&[&secret[..], &(rank as u64).to_le_bytes()].concat())?;
    let mut theirs: Secret = [0; 32];
    socket.read_exact(&mut theirs)?;
    if theirs == *secret { Ok(socket) } else { Err(io::Error::other("it is no worker of this group")) }
}

/// A caller whose greeting is not complete yet.
struct Caller {
    socket: TcpStream,
    said: Vec<u8>,
    since: Instant,
}

impl Caller {
    /// Wraps a newly accepted socket; `None` if the caller has already closed it.
    fn new(socket: TcpStream) -> Option<Self> {
        socket.set_nonblocking(true).ok()?;
        Some(Self { socket, said: Vec::new(), since: Instant::now() })
    }

    /// Reads the available part of the greeting without waiting; true if the greeting is complete.
    fn has_said_all(&mut self) -> io::Result<bool> {
        let mut buffer = [0; GREETING];
        while self.said.len() < GREETING {
            match self.socket.read(&mut buffer[self.said.len()..]) {
                Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
                Ok(n) => {
                    let from = self.said.len();
                    self.said.extend_from_slice(&buffer[from..from + n]);
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(false),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(true)
    }

    /// Checks the secret, answers with it, and returns the caller's rank and the socket.
    fn answer(mut self, secret: &Secret) -> io::Result<(usize, TcpStream)> {
        let rank = self.said.strip_prefix(secret).and_then(|rank| rank.try_into().ok());
        let rank = u64::from_le_bytes(rank.ok_or_else(|| io::Error::other("a stranger"))?);
        self.socket.set_nonblocking(false)?;
        self.socket.write_all(secret)?;
        Ok((rank as usize, self.socket))
    }
}

/// Configures a connected socket: small messages are sent at once, and a machine that has vanished is noticed.
fn ready(socket: TcpStream) -> Result<OwnedFd> {
    socket.set_read_timeout(None).map_err(Error::other)?;
    socket.set_nodelay(true).map_err(Error::other)?;
    let as_io = |errno: rustix::io::Errno| Error::other(io::Error::from(errno));
    sockopt::set_socket_keepalive(&socket, true).map_err(as_io)?;
    sockopt::set_tcp_keepidle(&socket, SILENCE / 3).map_err(as_io)?;
    sockopt::set_tcp_keepintvl(&socket, SILENCE / 6).map_err(as_io)?;
    sockopt::set_tcp_keepcnt(&socket, 4).map_err(as_io)?;
    // Sent data that is not acknowledged within this time also counts as a lost machine; only Linux can be told so.
    #[cfg(target_os = "linux")]
    sockopt::set_tcp_user_timeout(&socket, SILENCE.as_millis() as u32).map_err(as_io)?;
    Ok(socket.into())
}

/// Returns the local rank of worker `rank` on its machine, and the number of that machine, counted in order of first
/// appearance in `addresses`.
pub(crate) fn place(rank: usize, addresses: &[SocketAddr]) -> (usize, usize) {
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
    fn workers_meet_with_a_socket_between_any_two_and_strangers_are_sent_away_or_not_waited_for() {
        let (listeners, addresses): (Vec<_>, Vec<_>) =
            (0..3).map(|_| listen("127.0.0.1").expect("a port")).unzip();
        // The stranger connects before the workers do and sends something other than the secret.
        let mut stranger = TcpStream::connect(addresses[0]).expect("worker 0 listens");
        stranger.write_all(&[7; 40]).expect("said");
        // If they were waited for one after the other, this would take longer than workers wait for each other.
        let silent = PATIENCE.as_secs() / HELLO.as_secs() + 1;
        let _silent: Vec<_> =
            (0..silent).map(|_| TcpStream::connect(addresses[0]).expect("it listens")).collect();
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
