//! Answers, and reading the bodies of requests.

use super::memory::Held;
use super::refusal::Refusal;
use hyper::body::{Body, Bytes, Frame, Incoming, SizeHint};
use hyper::header::{CONNECTION, CONTENT_TYPE, HeaderValue, RETRY_AFTER};
use hyper::{Response, StatusCode};
use std::convert::Infallible;
use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll};

/// The content type of JSON.
pub(super) const JSON: &str = "application/json";

/// The body of an answer. It holds its part of the memory for answers until it is sent.
#[derive(Debug, Default)]
pub(super) struct Answer {
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
pub(super) fn answer(
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

/// Reads a body of `length` bytes, which the header announced; `None` if the client is gone.
pub(super) async fn read(mut body: Incoming, length: usize) -> Option<Bytes> {
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
