//! Rows that wait for the policy, and the task that lets it act for all that wait at once.

use super::limits::Limits;
use super::metrics::Metrics;
use super::model::Model;
use super::numbers::{Actions, Numbers};
use super::refusal::Refusal;
use super::sessions::Lease;
use hyper::StatusCode;
use pavlov_trainer::rng::Stream;
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;
use tokio::sync::{Notify, oneshot};
use tokio::task::yield_now;

/// Number of rows at which a batch takes no further requests.
const BATCH: usize = 1024;

/// The rows of one request.
#[derive(Debug)]
pub(super) struct Asked {
    pub(super) model: Arc<Model>,
    pub(super) obs: Numbers,
    pub(super) rows: usize,
    pub(super) mask: Option<Vec<bool>>,
    /// The session of each row; empty if the rows have none.
    pub(super) sessions: Vec<Lease>,
    /// The random stream of each row, if actions are drawn; rows with sessions have those of the sessions.
    pub(super) streams: Option<Vec<Stream>>,
    pub(super) since: Instant,
    pub(super) answer: oneshot::Sender<Result<Actions, Refusal>>,
}

/// What waits.
#[derive(Debug, Default)]
struct Waiting {
    requests: VecDeque<Asked>,
    rows: usize,
}

/// The queue in front of the policy.
#[derive(Debug)]
pub(super) struct Queue {
    waiting: Mutex<Waiting>,
    came: Notify,
    limits: Limits,
    metrics: Arc<Metrics>,
}

impl Queue {
    pub(super) fn new(limits: Limits, metrics: Arc<Metrics>) -> Self {
        Self { waiting: Mutex::default(), came: Notify::new(), limits, metrics }
    }

    /// Number of rows that wait.
    pub(super) fn rows(&self) -> usize {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner).rows
    }

    /// Lets a request wait for the policy.
    pub(super) fn push(&self, asked: Asked) -> Result<(), Refusal> {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        if waiting.rows + asked.rows > self.limits.max_queue {
            let message = format!(
                "{} rows wait already, and at most {} may (`--max-queue`): try again in a second",
                waiting.rows, self.limits.max_queue
            );
            return Err(Refusal::busy("queue", message));
        }
        waiting.rows += asked.rows;
        waiting.requests.push_back(asked);
        drop(waiting);
        self.came.notify_one();
        Ok(())
    }

    /// Takes requests of at most [`BATCH`] rows together, the longest waiting first.
    fn take(&self, batch: &mut Vec<Asked>) {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        let mut rows = batch.iter().map(|asked| asked.rows).sum::<usize>();
        while waiting.requests.front().is_some_and(|next| rows == 0 || rows + next.rows <= BATCH) {
            let Some(next) = waiting.requests.pop_front() else { break };
            waiting.rows -= next.rows;
            rows += next.rows;
            batch.push(next);
        }
    }

    /// Answers what waits, batch after batch, for as long as the server runs. `connections` counts the open ones: when all
    /// of them have asked, nobody is left to wait for.
    pub(super) async fn answer_all(&self, connections: impl Fn() -> usize) {
        let mut batch = Vec::new();
        loop {
            self.came.notified().await;
            loop {
                self.take(&mut batch);
                if batch.is_empty() {
                    break;
                }
                let until = batch[0].since + self.limits.batch_delay;
                // Not a timer: those tick once in a millisecond.
                while batch.len() < connections() && Instant::now() < until && self.rows() < BATCH {
                    yield_now().await;
                    self.take(&mut batch);
                }
                self.answer(&mut batch);
                // The answers are written and further requests read before the next batch.
                yield_now().await;
            }
        }
    }

    fn answer(&self, batch: &mut Vec<Asked>) {
        let (late, mut batch): (Vec<Asked>, Vec<Asked>) =
            batch.drain(..).partition(|asked| asked.since.elapsed() > self.limits.deadline);
        for asked in late {
            let message =
                format!("the policy did not come to it in {:?} (`--deadline`)", self.limits.deadline);
            // A client that is gone needs no answer.
            let _ = asked.answer.send(Err(Refusal::new(StatusCode::GATEWAY_TIMEOUT, "deadline", message)));
        }
        let kind = |asked: &Asked| (asked.model.version, asked.streams.is_some());
        batch.sort_by_key(kind);
        while let Some(first) = batch.first() {
            let first = kind(first);
            let same = batch.iter().take_while(|asked| kind(asked) == first).count();
            self.answer_same(batch.drain(..same).collect());
        }
    }

    /// Answers requests to one policy which all draw actions or all do not.
    fn answer_same(&self, mut batch: Vec<Asked>) {
        let model = Arc::clone(&batch[0].model);
        let policy = &model.policy;
        let mut obs = Numbers::empty(policy.observation_dtype());
        let mut memory = Vec::new();
        let mut streams = batch[0].streams.is_some().then(Vec::new);
        let mut mask = batch.iter().any(|asked| asked.mask.is_some()).then(Vec::new);
        for asked in &mut batch {
            obs.append(&asked.obs);
            asked.sessions.iter().for_each(|session| memory.extend_from_slice(&session.memory));
            if let (Some(all), Some(own)) = (&mut streams, &mut asked.streams) {
                all.append(own);
            }
            if let Some(all) = &mut mask {
                let flags = asked.rows * policy.mask_width().unwrap_or(0);
                all.extend(asked.mask.take().unwrap_or_else(|| vec![true; flags]));
            }
        }
        let began = Instant::now();
        let acted = catch_unwind(AssertUnwindSafe(|| {
            obs.act(policy, mask.as_deref(), &mut memory, streams.as_deref_mut())
        }));
        let rows = batch.iter().map(|asked| asked.rows).sum();
        self.metrics.batch(rows, began.elapsed());
        let actions = match acted {
            Ok(Ok(actions)) => actions,
            Ok(Err(error)) => return batch.into_iter().for_each(|asked| asked.refuse(&error.to_string())),
            Err(_) => {
                return batch
                    .into_iter()
                    .for_each(|asked| asked.refuse("it panicked; the server's log says where"));
            }
        };
        let mut row = 0;
        for asked in batch {
            let width = policy.action_width();
            let own = actions.part(row * width, (row + asked.rows) * width);
            let width = policy.memory_width();
            let first = row;
            row += asked.rows;
            let after = &memory[first * width..row * width];
            if !own.is_finite() || !after.iter().all(|x| x.is_finite()) {
                asked.refuse("its numbers are not finite for these observations");
                continue;
            }
            for (i, session) in asked.sessions.into_iter().enumerate() {
                let stream = streams.as_ref().map(|streams| streams[first + i].clone());
                session.store(&after[i * width..][..width], stream);
            }
            // A client that is gone needs no answer.
            let _ = asked.answer.send(Ok(own));
        }
    }
}

impl Asked {
    fn refuse(self, why: &str) {
        let message = format!("the policy could not act: {why}");
        let refusal = Refusal::new(StatusCode::INTERNAL_SERVER_ERROR, "policy", message);
        // A client that is gone needs no answer.
        let _ = self.answer.send(Err(refusal));
    }
}
