//! [`Refusal`]: an answer that says what is wrong and what to do.

use hyper::StatusCode;
use serde_json::{Value, json};

/// A request that is refused: the status, a code for programs, and a sentence for people.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Refusal {
    pub(crate) status: StatusCode,
    pub(crate) code: &'static str,
    pub(crate) message: String,
}

impl Refusal {
    pub(crate) fn new(status: StatusCode, code: &'static str, message: impl Into<String>) -> Self {
        Self { status, code, message: message.into() }
    }

    /// Refuses a request whose content is wrong (400).
    pub(crate) fn bad(code: &'static str, message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, code, message)
    }

    /// Refuses a request for now (503): the client may try again after a second.
    pub(crate) fn busy(code: &'static str, message: impl Into<String>) -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, code, message)
    }

    /// The body of the answer.
    pub(crate) fn body(&self) -> String {
        self.json().to_string()
    }

    /// The refusal as JSON.
    pub(crate) fn json(&self) -> Value {
        json!({"error": {"code": self.code, "message": self.message}})
    }

    /// Whether the connection ends with this answer, because what the client still sends is not read.
    pub(super) fn closes(&self) -> bool {
        matches!(
            self.status,
            StatusCode::PAYLOAD_TOO_LARGE | StatusCode::REQUEST_TIMEOUT | StatusCode::LENGTH_REQUIRED
        )
    }
}
