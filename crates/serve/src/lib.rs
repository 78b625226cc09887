//! A policy behind HTTP, as a part of a program, and environments that other programs play over HTTP.
//!
//! One thread reads requests, lets the policy act for all rows that wait at once, and answers. `docs/serve.md` describes the
//! endpoints; `SECURITY.md` says what the server protects and what it does not.
//!
//! ```no_run
//! use pavlov_serve::{ServeConfig, Server};
//! use pavlov_trainer::{Loaded, Result};
//!
//! fn serve(load: impl Fn() -> Result<Loaded> + Send + Sync + 'static) -> Result<()> {
//!     let server = Server::bind(ServeConfig::default(), load)?;
//!     println!("http://{}", server.local_addr());
//!     server.run()
//! }
//! ```
//!
//! Three rooms: what every server here needs (`listen`, `guard`, `answer`, `memory`, `limits`, `refusal`), the server of a policy
//! ([`Server`]), and [`external`], the environment that other programs play. [`PageServer`] serves one page that changes. This
//! crate does not need libtorch.

mod answer;
mod desk;
pub mod external;
mod guard;
mod json;
mod limits;
mod listen;
mod memory;
mod metrics;
mod model;
mod numbers;
mod page;
mod queue;
mod refusal;
mod request;
mod rows;
mod running;
mod sessions;
mod stream;

pub use guard::Token;
pub use limits::Limits;
pub use page::{PageServer, Source};

use desk::Desk;
use memory::Budget;
use metrics::Metrics;
use model::Models;
use pavlov_trainer::{Error, Loaded, Result};
use queue::Queue;
use sessions::Sessions;
use std::hash::{BuildHasher, RandomState};
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use tokio::sync::watch;

/// Where a server listens, who may ask, and how much it takes.
#[derive(Clone, Debug)]
pub struct ServeConfig {
    /// The address to listen on; with port 0 the system chooses one.
    pub addr: SocketAddr,
    /// What clients must send; needed unless the address is one of loopback.
    pub token: Option<Token>,
    /// What a client must send that lets the server load a newer policy; without it no client can.
    pub admin_token: Option<Token>,
    /// How much the server takes.
    pub limits: Limits,
}

impl Default for ServeConfig {
    fn default() -> Self {
        Self {
            addr: ([127, 0, 0, 1], 8000).into(),
            token: None,
            admin_token: None,
            limits: Limits::default(),
        }
    }
}

/// A server that listens; [`run`](Self::run) lets it answer.
#[derive(Debug)]
pub struct Server {
    listener: TcpListener,
    addr: SocketAddr,
    desk: Arc<Desk>,
}

/// Ends a server, or lets it load a newer policy, from any thread.
#[derive(Clone, Debug)]
pub struct ServerHandle(Arc<Desk>);

impl Server {
    /// Loads the policy and begins to listen. `load` is called again whenever a newer policy is asked for.
    ///
    /// # Errors
    /// Returns [`Error::Config`] if the address is not one of loopback and there is no token, and [`Error::State`] if the
    /// policy cannot be loaded or gives numbers that are not finite, or if the address cannot be listened on.
    pub fn bind(
        config: ServeConfig,
        load: impl Fn() -> Result<Loaded> + Send + Sync + 'static,
    ) -> Result<Self> {
        let ServeConfig { addr, token, admin_token, limits } = config;
        let is_local = addr.ip().is_loopback();
        if !is_local && token.is_none() {
            let rule = "others can reach it there, so a token is needed: give `--token-file FILE`, or listen on 127.0.0.1";
            return Err(Error::config("addr", addr, rule));
        }
        let models =
            Models::open(Box::new(load)).map_err(|reason| Error::state("the policy to serve", reason))?;
        let refuse =
            |error: std::io::Error| Error::state(format!("cannot listen on {addr}"), error.to_string());
        let listener = TcpListener::bind(addr).map_err(refuse)?;
        listener.set_nonblocking(true).map_err(refuse)?;
        let addr = listener.local_addr().map_err(refuse)?;
        let metrics = Arc::new(Metrics::new());
        let desk = Desk {
            models,
            sessions: Sessions::new(limits.max_sessions, limits.session_timeout),
            queue: Queue::new(limits.clone(), Arc::clone(&metrics)),
            metrics,
            memory: Budget::new(limits.max_memory),
            connections: Budget::new(limits.max_connections),
            // Who has the token is no web page.
            checks_host: is_local && token.is_none(),
            token,
            admin_token,
            ending: watch::Sender::new(false),
            draws: (RandomState::new().hash_one(0), AtomicU64::new(0)),
            limits,
        };
        Ok(Self { listener, addr, desk: Arc::new(desk) })
    }

    /// The address that the server listens on.
    pub fn local_addr(&self) -> SocketAddr {
        self.addr
    }

    /// A handle to end the server, or to let it load a newer policy, from another thread.
    pub fn handle(&self) -> ServerHandle {
        ServerHandle(Arc::clone(&self.desk))
    }

    /// Answers requests until [`ServerHandle::end`] is called; then what waits is answered.
    ///
    /// # Errors
    /// Returns [`Error::State`] if the system has no room for another event loop.
    pub fn run(self) -> Result<()> {
        let Self { listener, desk, .. } = self;
        running::run(listener, &desk, None)
    }

    /// Answers requests as [`run`](Self::run) does, until SIGTERM or Ctrl-C; a second one ends the process at once. SIGHUP
    /// loads a newer policy. `say` gets a line about each.
    ///
    /// # Errors
    /// Fails whenever [`run`](Self::run) does, and if the signals cannot be watched.
    pub fn run_until_signal(self, say: fn(&str)) -> Result<()> {
        let Self { listener, desk, .. } = self;
        running::run(listener, &desk, Some(say))
    }
}

impl ServerHandle {
    /// Ends the server: it takes no more connections, answers what waits, and [`Server::run`] returns.
    pub fn end(&self) {
        self.0.ending.send_replace(true);
    }

    /// Loads the policy again and exchanges it for the old one; returns the new version. No request is lost. The old policy
    /// stays if the new one cannot be loaded, has other spaces, or gives numbers that are not finite.
    ///
    /// # Errors
    /// Returns [`Error::State`] with the reason why the old policy stays.
    pub fn reload(&self) -> Result<u64> {
        self.0.reload().map_err(|reason| Error::state("the newer policy", reason))
    }
}

/// The programs of the README, compiled by `cargo test --doc`.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
