//! The desk: answers every request.

use super::answer::{Answer, JSON, answer, body};
use super::guard::{Token, check_host, check_target};
use super::limits::Limits;
use super::listen::{HttpRequest, Site};
use super::memory::Budget;
use super::metrics::{Metrics, Now};
use super::model::Models;
use super::queue::{Asked, Queue};
use super::refusal::Refusal;
use super::request::Request;
use super::sessions::{Lease, Sessions};
use super::{json, rows};
use hyper::body::Bytes;
use hyper::header::{ALLOW, CONTENT_TYPE, HeaderMap, HeaderValue};
use hyper::{Method, Response, StatusCode};
use pavlov_trainer::rng::Stream;
use serde_json::json;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;
use tokio::sync::{oneshot, watch};

/// What all connections share.
#[derive(Debug)]
pub(super) struct Desk {
    pub(super) limits: Limits,
    pub(super) models: Models,
    pub(super) sessions: Sessions,
    pub(super) queue: Queue,
    pub(super) metrics: Arc<Metrics>,
    /// Bytes of bodies and answers under way.
    pub(super) memory: Budget,
    /// Open connections.
    pub(super) connections: Budget,
    pub(super) token: Option<Token>,
    pub(super) admin_token: Option<Token>,
    /// Whether the server only answers to names of loopback.
    pub(super) checks_host: bool,
    /// Whether the server ends.
    pub(super) ending: watch::Sender<bool>,
    /// Seed of the streams that actions are drawn from, and number of streams so far.
    pub(super) draws: (u64, AtomicU64),
}

impl Site for Desk {
    type Visit = ();

    fn limits(&self) -> &Limits {
        &self.limits
    }

    fn connections(&self) -> &Budget {
        &self.connections
    }

    fn ending(&self) -> &watch::Sender<bool> {
        &self.ending
    }

    fn visit(self: &Arc<Self>) {}

    fn refused_connection(&self) {
        self.metrics.answer(503);
    }

    async fn answer(self: Arc<Self>, request: HttpRequest, (): &()) -> Response<Answer> {
        let response = self.route(request).await.unwrap_or_else(Response::from);
        self.metrics.answer(response.status().as_u16());
        response
    }
}

impl Desk {
    async fn route(self: &Arc<Self>, request: HttpRequest) -> Result<Response<Answer>, Refusal> {
        check_target(request.uri(), request.headers())?;
        if self.checks_host {
            check_host(request.headers())?;
        }
        let path = request.uri().path();
        let allowed = match path {
            "/healthz" | "/readyz" | "/metrics" | "/v1/model" => Method::GET,
            "/v1/act" | "/v1/reload" => Method::POST,
            _ if path.starts_with("/v1/sessions/") => Method::DELETE,
            _ => {
                let message = "there is /v1/act, /v1/sessions/NAME, /v1/model, /v1/reload, /healthz, /readyz and /metrics";
                return Err(Refusal::new(StatusCode::NOT_FOUND, "path", message));
            }
        };
        if request.method() != allowed {
            let message = format!("{path} takes {allowed}");
            let mut response =
                Response::from(Refusal::new(StatusCode::METHOD_NOT_ALLOWED, "method", message));
            let allowed = HeaderValue::from_str(allowed.as_str()).ok();
            allowed.and_then(|allowed| response.headers_mut().insert(ALLOW, allowed));
            return Ok(response);
        }
        match (path, &self.token) {
            ("/healthz" | "/readyz" | "/v1/reload", _) | (_, None) => {}
            (_, Some(token)) => token.check(request.headers())?,
        }
        match path {
            "/healthz" => Ok(answer(StatusCode::OK, "text/plain", "ok\n", None)),
            "/readyz" if *self.ending.borrow() => Err(Refusal::busy("ending", "the server ends")),
            "/readyz" => Ok(answer(StatusCode::OK, "text/plain", "ready\n", None)),
            "/metrics" => {
                Ok(answer(StatusCode::OK, "text/plain; version=0.0.4", self.metrics.text(self.now()), None))
            }
            "/v1/model" => Ok(answer(StatusCode::OK, JSON, self.describe(), None)),
            "/v1/act" => self.act(request).await,
            "/v1/reload" => self.reload_for(request.headers()).await,
            _ => {
                self.sessions.end(path.trim_start_matches("/v1/sessions/"))?;
                let mut response = Response::new(Answer::default());
                *response.status_mut() = StatusCode::NO_CONTENT;
                Ok(response)
            }
        }
    }

    fn now(&self) -> Now {
        Now {
            queue_rows: self.queue.rows(),
            sessions: self.sessions.len(),
            connections: self.connections.used(),
            version: self.models.current().version,
        }
    }

    /// What the policy takes and gives.
    fn describe(&self) -> String {
        let model = self.models.current();
        let policy = &model.policy;
        let described = json!({
            "version": model.version,
            "observation_space": policy.observation_space().to_string(),
            "observation_type": policy.observation_dtype().to_string(),
            "observation_width": policy.observation_width(),
            "action_space": policy.action_space().to_string(),
            "action_width": policy.action_width(),
            "mask_width": policy.mask_width(),
            "memory_width": policy.memory_width(),
            "pavlov": env!("CARGO_PKG_VERSION"),
        });
        described.to_string()
    }

    async fn act(&self, request: HttpRequest) -> Result<Response<Answer>, Refusal> {
        let since = Instant::now();
        let is_binary = is_binary(request.headers())?;
        let (body, held) = body(request, &self.limits, &self.memory).await?;
        let model = self.models.current();
        let asked =
            if is_binary { rows::read(&body, &model.policy) } else { json::read(&body, &model.policy) }?;
        drop(body);
        asked.check(&model.policy, &self.limits)?;
        let sessions = self.lend(&asked)?;
        // A session keeps the policy that it began with.
        let model = sessions.first().map_or(model, |session| Arc::clone(&session.model));
        if sessions.iter().any(|session| session.model.version != model.version) {
            let message = "these sessions began with different versions of the policy: ask for them in requests of their own";
            return Err(Refusal::new(StatusCode::CONFLICT, "model_changed", message));
        }
        if let Some(wanted) = asked.version.filter(|wanted| *wanted != model.version) {
            let message = format!(
                "the request is for version {wanted} of the policy, but version {} answers: ask for version 0, which is any",
                model.version
            );
            return Err(Refusal::new(StatusCode::CONFLICT, "model_changed", message));
        }
        let streams = asked.explores.then(|| match sessions.as_slice() {
            [] => (0..asked.rows).map(|_| self.stream()).collect(),
            sessions => sessions.iter().map(|session| session.stream.clone()).collect(),
        });
        let Request { obs, rows, mask, is_single, .. } = asked;
        let (answer_to, answered) = oneshot::channel();
        let asked =
            Asked { model: Arc::clone(&model), obs, rows, mask, sessions, streams, since, answer: answer_to };
        self.queue.push(asked)?;
        let gone = || Refusal::new(StatusCode::INTERNAL_SERVER_ERROR, "policy", "the policy is gone");
        let actions = answered.await.map_err(|_| gone())??;
        let policy = &model.policy;
        let (content, bytes) = if is_binary {
            (rows::CONTENT, Bytes::from(rows::write(&actions, policy, model.version)))
        } else {
            (JSON, Bytes::from(json::write(&actions, is_single, policy, model.version)))
        };
        Ok(answer(StatusCode::OK, content, bytes, Some(held)))
    }

    /// Takes the sessions of a request; those that it took are given back if one cannot be had.
    fn lend(&self, asked: &Request) -> Result<Vec<Lease>, Refusal> {
        let model = self.models.current();
        let begins = |row: usize| asked.begins.get(row).copied().unwrap_or(false);
        let named = asked.sessions.iter().enumerate();
        named.map(|(row, name)| self.sessions.lend(name, begins(row), &model, || self.stream())).collect()
    }

    /// A stream that no row has drawn from yet.
    fn stream(&self) -> Stream {
        let (seed, count) = &self.draws;
        Stream::new(*seed, "serve", count.fetch_add(1, Ordering::Relaxed))
    }

    async fn reload_for(self: &Arc<Self>, headers: &HeaderMap) -> Result<Response<Answer>, Refusal> {
        let Some(token) = &self.admin_token else {
            let message = "this server reloads by SIGHUP only; started with `--admin-token-file` it does by this path, too";
            return Err(Refusal::new(StatusCode::NOT_FOUND, "path", message));
        };
        token.check(headers)?;
        let desk = Arc::clone(self);
        let reloaded = tokio::task::spawn_blocking(move || desk.reload()).await;
        let reloaded = reloaded.unwrap_or_else(|_| Err("loading the policy panicked".into()));
        let refuse =
            |reason| Refusal::new(StatusCode::CONFLICT, "reload", format!("the policy stays: {reason}"));
        let version = reloaded.map_err(refuse)?;
        Ok(answer(StatusCode::OK, JSON, json!({"version": version}).to_string(), None))
    }

    /// Loads the policy again; returns its version, or the reason why the old one stays. This blocks its thread.
    pub(super) fn reload(&self) -> Result<u64, String> {
        let reloaded = self.models.reload();
        self.metrics.reload(reloaded.is_ok());
        let version = reloaded?.version;
        self.sessions.keep_from(version - 1);
        Ok(version)
    }
}

/// Whether the body is binary rows; JSON otherwise.
fn is_binary(headers: &HeaderMap) -> Result<bool, Refusal> {
    let content = headers.get(CONTENT_TYPE).and_then(|content| content.to_str().ok()).unwrap_or_default();
    let content = content.split(';').next().unwrap_or_default().trim();
    if content.eq_ignore_ascii_case(JSON) || content.eq_ignore_ascii_case(rows::CONTENT) {
        return Ok(content.eq_ignore_ascii_case(rows::CONTENT));
    }
    let message = format!("the content type is {content:?}, but it must be {JSON} or {}", rows::CONTENT);
    Err(Refusal::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "content_type", message))
}
