//! The server that programs connect to: one for each address, however often a run is restored in this process.

use super::site::Front;
use super::wire::Spaces;
use super::{ID, PolicyServerInput};
use crate::guard::Token;
use crate::limits::Limits;
use crate::listen::answer_all;
use pavlov_envs::external::Calls;
use pavlov_envs::{Error, Result};
use std::collections::HashMap;
use std::net::{SocketAddr, TcpListener, ToSocketAddrs};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::thread::{JoinHandle, spawn};
use tokio::runtime::Builder;

/// The servers of this process.
static SERVERS: Mutex<Option<HashMap<SocketAddr, Weak<Server>>>> = Mutex::new(None);

/// A server that listens until it is dropped.
#[derive(Debug)]
struct Server {
    front: Arc<Front>,
    thread: Option<JoinHandle<()>>,
}

impl Drop for Server {
    fn drop(&mut self) {
        self.front.ending.send_replace(true);
        if let Some(thread) = self.thread.take() {
            // A panic there was printed there.
            drop(thread.join());
        }
    }
}

fn refuse(message: String) -> Error {
    Error::Config { env: ID.into(), message }
}

/// Begins to take messages. A run that is restored in the same process takes over the server of the run before.
pub(super) fn open(input: &PolicyServerInput) -> Result<Calls> {
    let address = &input.address;
    let mut addresses = address.to_socket_addrs().map_err(|error| {
        refuse(format!("`address` is {address:?}: {error}; give a host and a port, such as 127.0.0.1:9900"))
    })?;
    let addr =
        addresses.next().ok_or_else(|| refuse(format!("`address` is {address:?}, which names no host")))?;
    let is_local = addr.ip().is_loopback();
    let token = input.token_file.as_deref().map(Token::read).transpose().map_err(refuse)?;
    if !is_local && token.is_none() {
        let message = format!(
            "`address` is {address:?}, where others can reach it: give `token_file`, or listen on 127.0.0.1"
        );
        return Err(refuse(message));
    }
    let (trainer, calls) = channel();
    let mut servers = SERVERS.lock().unwrap_or_else(PoisonError::into_inner);
    let servers = servers.get_or_insert_default();
    let running = servers.get(&addr).and_then(Weak::upgrade);
    let same = |server: &Arc<Server>| {
        let Spaces { observation_space, action_space } = &server.front.spaces;
        *observation_space == input.observation_space && *action_space == input.action_space
    };
    if let Some(server) = running.filter(same) {
        *server.front.trainer.lock().unwrap_or_else(PoisonError::into_inner) = trainer;
        return Ok(Calls::new(calls, server));
    }
    let failed = |error: std::io::Error| {
        refuse(format!(
            "cannot listen on {addr}: {error}; choose another `address`, or end the program that has it"
        ))
    };
    let listener = TcpListener::bind(addr).map_err(failed)?;
    listener.set_nonblocking(true).map_err(failed)?;
    let bound = listener.local_addr().map_err(failed)?;
    let spaces = Spaces {
        observation_space: input.observation_space.clone(),
        action_space: input.action_space.clone(),
    };
    let front = Arc::new(Front::new(Limits::default(), spaces, token, is_local, trainer));
    let runtime = Builder::new_current_thread().enable_all().build().map_err(failed)?;
    let answering = Arc::clone(&front);
    let thread = spawn(move || {
        runtime.block_on(async {
            if let Ok(listener) = tokio::net::TcpListener::from_std(listener) {
                answer_all(listener, &answering).await;
            }
        });
        runtime.shutdown_background();
    });
    tracing::info!("programs that play the environment connect to http://{bound}");
    let server = Arc::new(Server { front, thread: Some(thread) });
    servers.retain(|_, server| server.strong_count() > 0);
    servers.insert(addr, Arc::downgrade(&server));
    Ok(Calls::new(calls, server))
}
