//! Answers, and reading the bodies of requests.

use super::limits::Limits;
use super::memory::{Budget, Held};
use super::refusal::Refusal;
use hyper::body::{Body, Bytes, Frame, Incoming, SizeHint};
use hyper::header::{CONNECTION, CONTENT_LENGTH, CONTENT_TYPE, HeaderValue, RETRY_AFTER};
use hyper::{Response, StatusCode};
use std::convert::Infallible;
use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll};
use tokio::time::timeout;

/// The content type of JSON.
pub(crate) const JSON: &str = "application/json";

/// The body of an answer. It holds its part of the memory for answers until it is sent.
#[derive(Debug, Default)]
pub(crate) struct Answer {
    bytes: Bytes,
    _held: Option<Held>,
}

impl Body for Answer {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let bytes = std::mem::take(&mut self.get_mut().bytes);
        Poll::Ready((!bytes.is_empty()).then(|| Ok(Frame::data(bytes))))
    }

    fn is_end_stream(&self) -> bool {
        self.bytes.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.bytes.len() as u64)
    }
}

/// An answer with a body of this content type.
pub(crate) fn answer(
    status: StatusCode,
    content: &'static str,
    body: impl Into<Bytes>,
    held: Option<Held>,
) -> Response<Answer> {
    let mut response = Response::new(Answer { bytes: body.into(), _held: held });
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(content));
    response
}

impl From<Refusal> for Response<Answer> {
    fn from(refusal: Refusal) -> Self {
        let mut response = answer(refusal.status, JSON, refusal.body(), None);
        let headers = response.headers_mut();
        if refusal.status == StatusCode::SERVICE_UNAVAILABLE {
            headers.insert(RETRY_AFTER, HeaderValue::from_static("1"));
        }
        if refusal.closes() {
            headers.insert(CONNECTION, HeaderValue::from_static("close"));
        }
        response
    }
}

/// Reads the body of a request, within the bounds of its size and time. The body holds its part of `memory`.
pub(crate) async fn body(
    request: hyper::Request<Incoming>,
    limits: &Limits,
    memory: &Budget,
) -> Result<(Bytes, Held), Refusal> {
    let length: Option<usize> =
        request.headers().get(CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse().ok());
    let Some(length) = length else {
        let message = "the request must say how long its body is (`Content-Length`)";
        return Err(Refusal::new(StatusCode::LENGTH_REQUIRED, "length", message));
    };
    if length > limits.max_body {
        let most = limits.max_body;
        let message = format!(
            "the body has {length} bytes, but at most {most} are taken (`--max-body`): send fewer rows"
        );
        return Err(Refusal::new(StatusCode::PAYLOAD_TOO_LARGE, "body", message));
    }
    // Numbers take up to four times the memory of their text.
    let Some(held) = memory.take(length.saturating_mul(4).saturating_add(1024)) else {
        let message =
            "the bodies under way take all memory that they may (`--max-memory`): try again in a second";
        return Err(Refusal::busy("memory", message));
    };
    let limit = limits.body_timeout;
    match timeout(limit, read(request.into_body(), length)).await {
        Ok(Some(body)) => Ok((body, held)),
        Ok(None) => Err(Refusal::bad("body", "the body ended before the length that its header says")),
        Err(_) => {
            let message = format!("the body did not arrive in {limit:?} (`--body-timeout`)");
            Err(Refusal::new(StatusCode::REQUEST_TIMEOUT, "slow_body", message))
        }
    }
}

/// Reads a body of `length` bytes, which the header announced; `None` if the client is gone.
async fn read(mut body: Incoming, length: usize) -> Option<Bytes> {
    let mut all = Vec::new();
    while let Some(frame) = poll_fn(|cx| Pin::new(&mut body).poll_frame(cx)).await {
        let Ok(data) = frame.ok()?.into_data() else { continue };
        if all.is_empty() && data.len() == length {
            return Some(data);
        }
        all.extend_from_slice(&data);
    }
    (all.len() == length).then(|| all.into())
}
