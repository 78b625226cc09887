//! What answers the programs that play an environment: it hands their messages to the trainer.

use super::wire::{KINDS, Message, Spaces, answer, refusal};
use crate::answer::{Answer as Sent, JSON, answer as response, body};
use crate::guard::{Token, check_host, check_target};
use crate::limits::Limits;
use crate::listen::{HttpRequest, Site};
use crate::memory::Budget;
use crate::refusal::Refusal;
use hyper::header::{ALLOW, CONTENT_TYPE, ETAG, HeaderMap, HeaderValue, IF_NONE_MATCH};
use hyper::{Method, Response, StatusCode};
use pavlov_envs::external::{Answer, Ask, Call, Refused, Reply};
use serde_json::{Value, json};
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::runtime::Handle;
use tokio::sync::{oneshot, watch};
use tokio::time::sleep;

/// Time in which a program whose connection broke may come back before its episodes are cut.
const BACK: Duration = Duration::from_secs(2);
/// The path of a copy of the policy.
const POLICY: &str = "/v1/external/policy.onnx";
/// The path of all messages.
const PATH: &str = "/v1/external/";

/// What all connections share.
#[derive(Debug)]
pub(super) struct Front {
    pub(super) limits: Limits,
    pub(super) spaces: Spaces,
    pub(super) connections: Budget,
    pub(super) memory: Budget,
    pub(super) ending: watch::Sender<bool>,
    pub(super) token: Option<Token>,
    /// Whether only names of loopback are answered to.
    pub(super) checks_host: bool,
    /// The way to the trainer; another one after a restore.
    pub(super) trainer: Mutex<Sender<Call>>,
    clients: Mutex<HashMap<String, Client>>,
    /// Number of programs so far.
    count: AtomicU64,
}

/// A program that plays episodes.
#[derive(Clone, Copy, Debug)]
struct Client {
    number: u64,
    /// Number of its open connections.
    connections: usize,
}

/// One connection, and the programs that asked over it.
#[derive(Debug)]
pub(super) struct Visit {
    front: Arc<Front>,
    /// Number of the program that plays over this connection if it gives no name.
    number: u64,
    names: Mutex<Vec<String>>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Drop for Visit {
    fn drop(&mut self) {
        self.front.tell_gone(self.number);
        let names = std::mem::take(&mut *lock(&self.names));
        let mut clients = lock(&self.front.clients);
        for name in names {
            let Some(client) = clients.get_mut(&name) else { continue };
            client.connections -= 1;
            let Ok(runtime) = Handle::try_current() else { continue };
            if client.connections == 0 {
                runtime.spawn(leave(Arc::clone(&self.front), name));
            }
        }
    }
}

/// Forgets a program that does not come back.
async fn leave(front: Arc<Front>, name: String) {
    sleep(BACK).await;
    let mut clients = lock(&front.clients);
    if clients.get(&name).is_some_and(|client| client.connections == 0)
        && let Some(client) = clients.remove(&name)
    {
        front.tell_gone(client.number);
    }
}

impl Front {
    pub(super) fn new(
        limits: Limits,
        spaces: Spaces,
        token: Option<Token>,
        is_local: bool,
        trainer: Sender<Call>,
    ) -> Self {
        Self {
            connections: Budget::new(limits.max_connections),
            memory: Budget::new(limits.max_memory),
            ending: watch::Sender::new(false),
            checks_host: is_local && token.is_none(),
            token,
            spaces,
            trainer: Mutex::new(trainer),
            clients: Mutex::new(HashMap::new()),
            count: AtomicU64::new(0),
            limits,
        }
    }

    fn next_number(&self) -> u64 {
        self.count.fetch_add(1, Ordering::Relaxed)
    }

    fn tell_gone(&self, client: u64) {
        let call = Call { client, ask: Ask::Gone, reply: Reply::new(drop) };
        // A trainer that is gone has no episodes either.
        drop(lock(&self.trainer).send(call));
    }

    /// The number by which the trainer tells the program of this name from others.
    fn client(&self, name: Option<String>, visit: &Visit) -> Result<u64, Refusal> {
        let Some(name) = name else { return Ok(visit.number) };
        if name.is_empty() || name.len() > 64 {
            let message = format!("the name of the client has {} bytes: give 1 to 64", name.len());
            return Err(Refusal::bad("client", message));
        }
        let mut clients = lock(&self.clients);
        let mut names = lock(&visit.names);
        if let Some(client) = clients.get_mut(&name) {
            if !names.contains(&name) {
                client.connections += 1;
                names.push(name);
            }
            return Ok(client.number);
        }
        if clients.len() >= self.limits.max_sessions {
            let message = format!("{} programs play already, the most that are taken", clients.len());
            return Err(Refusal::new(StatusCode::TOO_MANY_REQUESTS, "clients", message));
        }
        let number = self.next_number();
        clients.insert(name.clone(), Client { number, connections: 1 });
        names.push(name);
        Ok(number)
    }

    async fn route(self: &Arc<Self>, request: HttpRequest, visit: &Visit) -> Result<Response<Sent>, Refusal> {
        check_target(request.uri(), request.headers())?;
        if self.checks_host {
            check_host(request.headers())?;
        }
        let path = request.uri().path().to_owned();
        let allowed = match path.as_str() {
            "/healthz" | "/v1/external" | POLICY => Method::GET,
            _ if path.starts_with(PATH) => Method::POST,
            _ => {
                let message = format!(
                    "there is {PATH}MESSAGE, with {}, {PATH}rows, /v1/external and /healthz",
                    KINDS.join(", ")
                );
                return Err(Refusal::new(StatusCode::NOT_FOUND, "path", message));
            }
        };
        if request.method() != allowed {
            let refusal =
                Refusal::new(StatusCode::METHOD_NOT_ALLOWED, "method", format!("{path} takes {allowed}"));
            let mut response = Response::from(refusal);
            let allowed = HeaderValue::from_str(allowed.as_str()).ok();
            allowed.and_then(|allowed| response.headers_mut().insert(ALLOW, allowed));
            return Ok(response);
        }
        if path == "/healthz" {
            return Ok(response(StatusCode::OK, "text/plain", "ok\n", None));
        }
        if let Some(token) = &self.token {
            token.check(request.headers())?;
        }
        if path == "/v1/external" {
            let Spaces { observation_space, action_space } = &self.spaces;
            let spaces = json!({
                "observation_space": observation_space.to_string(),
                "action_space": action_space.to_string(),
                "pavlov": env!("CARGO_PKG_VERSION"),
            });
            return Ok(response(StatusCode::OK, JSON, spaces.to_string(), None));
        }
        if path == POLICY {
            return self.policy(request.headers(), visit).await;
        }
        let content =
            request.headers().get(CONTENT_TYPE).and_then(|content| content.to_str().ok()).unwrap_or_default();
        if !content.split(';').next().unwrap_or_default().trim().eq_ignore_ascii_case(JSON) {
            let message = format!("the content type is {content:?}, but it must be {JSON}");
            return Err(Refusal::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "content_type", message));
        }
        let (bytes, held) = body(request, &self.limits, &self.memory).await?;
        let mut message = Message::read(&bytes)?;
        drop(bytes);
        let client = self.client(message.client.take(), visit)?;
        let kind = &path[PATH.len()..];
        let answered = match (kind, message.rows.take()) {
            ("rows", Some(rows)) => self.rows(client, rows).await?,
            ("rows", None) => {
                return Err(Refusal::bad("missing", "a request to rows needs `rows`, a list of messages"));
            }
            (kind, Some(_)) => {
                return Err(Refusal::bad(
                    "message",
                    format!("the message {kind} takes no `rows`: send them to {PATH}rows"),
                ));
            }
            (kind, None) if KINDS.contains(&kind) => self.one(client, kind, message).await?,
            (kind, None) => {
                let message = format!("there is no message {kind:?}, but {} and rows", KINDS.join(", "));
                return Err(Refusal::new(StatusCode::NOT_FOUND, "path", message));
            }
        };
        Ok(response(StatusCode::OK, JSON, answered.to_string(), Some(held)))
    }

    /// Sends a copy of the policy; 304 if the program has this version (`If-None-Match`).
    async fn policy(&self, headers: &HeaderMap, visit: &Visit) -> Result<Response<Sent>, Refusal> {
        let known = headers.get(IF_NONE_MATCH).and_then(|tag| tag.to_str().ok());
        let than = known.and_then(|tag| tag.trim_matches('"').parse().ok());
        let answered = self.send(visit.number, Ask::GetPolicy { than })?.await.map_err(|_| ended())?;
        let Answer::Policy { version, onnx } = answered.map_err(refusal)? else { return Err(ended()) };
        let mut sent = match onnx {
            Some(onnx) => response(StatusCode::OK, "application/octet-stream", onnx.to_vec(), None),
            None => {
                let mut none = Response::new(Sent::default());
                *none.status_mut() = StatusCode::NOT_MODIFIED;
                none
            }
        };
        let tag = HeaderValue::from_str(&format!("\"{version}\"")).ok();
        tag.and_then(|tag| sent.headers_mut().insert(ETAG, tag));
        Ok(sent)
    }

    /// Carries out one message.
    async fn one(&self, client: u64, kind: &str, message: Message) -> Result<Value, Refusal> {
        let answered = self.send(client, message.ask(kind, &self.spaces)?)?;
        self.answered(answered.await)
    }

    /// Carries out several messages; each has an answer of its own.
    async fn rows(&self, client: u64, rows: Vec<Message>) -> Result<Value, Refusal> {
        if rows.len() > self.limits.max_rows {
            let message = format!(
                "the request has {} messages, but one request has {} at most",
                rows.len(),
                self.limits.max_rows
            );
            return Err(Refusal::bad("rows", message));
        }
        // All are sent before the first answer is waited for, so that those of several episodes are one batch.
        let sent: Vec<_> = rows
            .into_iter()
            .map(|row| row.ask_of_row(&self.spaces).and_then(|ask| self.send(client, ask)))
            .collect();
        let mut all = Vec::with_capacity(sent.len());
        for sent in sent {
            let answered = match sent {
                Ok(answered) => self.answered(answered.await),
                Err(refusal) => Err(refusal),
            };
            all.push(answered.unwrap_or_else(|refusal| refusal.json()));
        }
        Ok(Value::Array(all))
    }

    fn send(&self, client: u64, ask: Ask) -> Result<oneshot::Receiver<Result<Answer, Refused>>, Refusal> {
        let (to, answered) = oneshot::channel();
        // A program that is gone needs no answer.
        let reply = Reply::new(move |answer| drop(to.send(answer)));
        lock(&self.trainer).send(Call { client, ask, reply }).map_err(|_| ended())?;
        Ok(answered)
    }

    fn answered(
        &self,
        answered: Result<Result<Answer, Refused>, oneshot::error::RecvError>,
    ) -> Result<Value, Refusal> {
        let answered = answered.map_err(|_| ended())?.map_err(refusal)?;
        Ok(answer(&answered, &self.spaces))
    }
}

fn ended() -> Refusal {
    Refusal::busy("ending", "the run has ended or begins anew: try again in a second")
}

impl Site for Front {
    type Visit = Visit;

    fn limits(&self) -> &Limits {
        &self.limits
    }

    fn connections(&self) -> &Budget {
        &self.connections
    }

    fn ending(&self) -> &watch::Sender<bool> {
        &self.ending
    }

    fn visit(self: &Arc<Self>) -> Visit {
        Visit { front: Arc::clone(self), number: self.next_number(), names: Mutex::new(Vec::new()) }
    }

    async fn answer(self: Arc<Self>, request: HttpRequest, visit: &Visit) -> Response<Sent> {
        self.route(request, visit).await.unwrap_or_else(Response::from)
    }
}
