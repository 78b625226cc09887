//! Sessions: memory and random stream of an episode that a client plays, by the name that the client gave it.

use super::model::Model;
use super::refusal::Refusal;
use hyper::StatusCode;
use pavlov_trainer::rng::Stream;
use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Largest number of characters of a session's name.
const NAME: usize = 64;

/// All sessions of a server.
#[derive(Clone, Debug)]
pub(super) struct Sessions {
    table: Arc<Mutex<HashMap<String, SessionState>>>,
    most: usize,
    timeout: Duration,
}

/// One session.
struct SessionState {
    memory: Vec<f32>,
    stream: Stream,
    /// The policy that the session began with; `None` after a second exchange of the policy.
    model: Option<Arc<Model>>,
    is_busy: bool,
    /// Whether the session has acted since it was made.
    has_acted: bool,
    last: Instant,
    /// Differs between sessions of one name, so that an answer that comes late finds its own.
    number: u64,
}

impl fmt::Debug for SessionState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Session").field("is_busy", &self.is_busy).finish_non_exhaustive()
    }
}

/// A session that one request uses. When it is dropped without [`store`](Self::store), the session is as it was before.
#[derive(Debug)]
pub(super) struct Lease {
    table: Arc<Mutex<HashMap<String, SessionState>>>,
    name: String,
    number: u64,
    /// Whether the episode begins with this request, so that memory is zeros.
    begins: bool,
    is_done: bool,
    pub(super) memory: Vec<f32>,
    pub(super) stream: Stream,
    pub(super) model: Arc<Model>,
}

impl Sessions {
    pub(super) fn new(most: usize, timeout: Duration) -> Self {
        Self { table: Arc::default(), most, timeout }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, SessionState>> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Number of sessions.
    pub(super) fn len(&self) -> usize {
        self.lock().len()
    }

    /// Lends the session `name` to one request. With `begins` the episode begins anew, by the policy `model`, and the
    /// session is made if there is none; `stream` draws its actions.
    pub(super) fn lend(
        &self,
        name: &str,
        begins: bool,
        model: &Arc<Model>,
        stream: impl FnOnce() -> Stream,
    ) -> Result<Lease, Refusal> {
        check_name(name)?;
        let mut table = self.lock();
        if begins && !table.contains_key(name) {
            self.make_room(&mut table)?;
            let session = SessionState {
                memory: vec![0.0; model.policy.memory_width()],
                stream: stream(),
                model: Some(Arc::clone(model)),
                is_busy: false,
                has_acted: false,
                last: Instant::now(),
                number: next_number(),
            };
            table.insert(name.to_owned(), session);
        }
        let Some(session) = table.get_mut(name) else {
            let message = format!(
                "there is no session {name:?}: begin one with `\"begin\": true`, which starts an episode"
            );
            return Err(Refusal::new(StatusCode::NOT_FOUND, "unknown_session", message));
        };
        if session.is_busy {
            let message =
                format!("session {name:?} is in a request that is not answered yet: wait for its answer");
            return Err(Refusal::new(StatusCode::CONFLICT, "session_busy", message));
        }
        let own = match &session.model {
            _ if begins => model,
            Some(own) => own,
            None => {
                let message = format!(
                    "session {name:?} began with a policy that was exchanged twice since: begin it anew with `\"begin\": true`"
                );
                return Err(Refusal::new(StatusCode::CONFLICT, "model_changed", message));
            }
        };
        let lease = Lease {
            table: Arc::clone(&self.table),
            name: name.to_owned(),
            number: session.number,
            begins,
            is_done: false,
            memory: if begins { vec![0.0; model.policy.memory_width()] } else { session.memory.clone() },
            stream: session.stream.clone(),
            model: Arc::clone(own),
        };
        session.is_busy = true;
        Ok(lease)
    }

    /// Refuses another session if there are too many, after those that were silent for long have ended.
    fn make_room(&self, table: &mut HashMap<String, SessionState>) -> Result<(), Refusal> {
        if table.len() < self.most {
            return Ok(());
        }
        self.end_silent(table);
        if table.len() < self.most {
            return Ok(());
        }
        let message = format!(
            "there are {} sessions, the most that this server keeps (`--max-sessions`): end one with DELETE, or wait until a \
             silent one ends",
            self.most
        );
        Err(Refusal::new(StatusCode::TOO_MANY_REQUESTS, "sessions", message))
    }

    fn end_silent(&self, table: &mut HashMap<String, SessionState>) {
        table.retain(|_, session| session.is_busy || session.last.elapsed() < self.timeout);
    }

    /// Ends the sessions that were silent for too long.
    pub(super) fn sweep(&self) {
        self.end_silent(&mut self.lock());
    }

    /// Ends the session `name`.
    pub(super) fn end(&self, name: &str) -> Result<(), Refusal> {
        check_name(name)?;
        if self.lock().remove(name).is_some() {
            return Ok(());
        }
        let message =
            format!("there is no session {name:?}; it may have ended after a time without requests");
        Err(Refusal::new(StatusCode::NOT_FOUND, "unknown_session", message))
    }

    /// Lets go of policies before version `oldest`: sessions that began with them must begin anew.
    pub(super) fn keep_from(&self, oldest: u64) {
        for session in self.lock().values_mut() {
            session.model.take_if(|model| model.version < oldest);
        }
    }
}

fn check_name(name: &str) -> Result<(), Refusal> {
    if (1..=NAME).contains(&name.len()) && name.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Ok(());
    }
    let message = format!("a session's name has 1 to {NAME} visible ASCII characters without spaces");
    Err(Refusal::bad("session", message))
}

fn next_number() -> u64 {
    static NEXT: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(0);
    NEXT.fetch_add(1, std::sync::atomic::Ordering::Relaxed)
}

impl Lease {
    /// Ends the request: the session continues with `memory` and `stream`, unless it was ended meanwhile.
    pub(super) fn store(mut self, memory: &[f32], stream: Option<Stream>) {
        self.is_done = true;
        let mut table = self.table.lock().unwrap_or_else(PoisonError::into_inner);
        let session = table.get_mut(&self.name).filter(|session| session.number == self.number);
        let Some(session) = session else { return };
        session.memory.clear();
        session.memory.extend_from_slice(memory);
        if let Some(stream) = stream {
            session.stream = stream;
        }
        session.model = Some(Arc::clone(&self.model));
        session.is_busy = false;
        session.has_acted = true;
        session.last = Instant::now();
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        if self.is_done {
            return;
        }
        let mut table = self.table.lock().unwrap_or_else(PoisonError::into_inner);
        let session = table.get_mut(&self.name).filter(|session| session.number == self.number);
        let Some(session) = session else { return };
        session.is_busy = false;
        if self.begins && !session.has_acted {
            table.remove(&self.name);
        }
    }
}
