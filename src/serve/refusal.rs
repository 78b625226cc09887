//! [`Refusal`]: an answer that says what is wrong and what to do.

use hyper::StatusCode;
use serde_json::json;

/// A request that is refused: the status, a code for programs, and a sentence for people.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Refusal {
    pub(super) status: StatusCode,
    pub(super) code: &'static str,
    pub(super) message: String,
}

impl Refusal {
    pub(super) fn new(status: StatusCode, code: &'static str, message: impl Into<String>) -> Self {
        Self { status, code, message: message.into() }
    }

    /// Refuses a request whose content is wrong (400).
    pub(super) fn bad(code: &'static str, message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, code, message)
    }

    /// Refuses a request for now (503): the client may try again after a second.
    pub(super) fn busy(code: &'static str, message: impl Into<String>) -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, code, message)
    }

    /// The body of the answer.
    pub(super) fn body(&self) -> String {
        json!({"error": {"code": self.code, "message": self.message}}).to_string()
    }

    /// Whether the connection ends with this answer, because what the client still sends is not read.
    pub(super) fn closes(&self) -> bool {
        matches!(
            self.status,
            StatusCode::PAYLOAD_TOO_LARGE | StatusCode::REQUEST_TIMEOUT | StatusCode::LENGTH_REQUIRED
        )
    }
}
