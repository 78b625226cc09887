//! [`Limits`]: how much of everything the server takes.

use std::time::Duration;

/// How much the server takes. What goes beyond is refused with a sentence, or its connection is closed.
#[derive(Clone, Debug, PartialEq)]
pub struct Limits {
    /// Number of bytes of a request's body.
    pub max_body: usize,
    /// Number of rows of one request.
    pub max_rows: usize,
    /// Number of rows that wait for the policy.
    pub max_queue: usize,
    /// Number of open connections.
    pub max_connections: usize,
    /// Number of sessions.
    pub max_sessions: usize,
    /// Number of bytes that bodies and answers under way take together.
    pub max_memory: usize,
    /// Time in which the header of a request must arrive.
    pub header_timeout: Duration,
    /// Time in which the body of a request must arrive.
    pub body_timeout: Duration,
    /// Time after which a connection without requests is closed.
    pub idle_timeout: Duration,
    /// Time after which a client that does not read its answer is cut off.
    pub write_timeout: Duration,
    /// Time after which a session without requests ends.
    pub session_timeout: Duration,
    /// Time that a request may wait for the policy.
    pub deadline: Duration,
    /// Time in which everything under way must be answered when the server ends.
    pub end_timeout: Duration,
    /// Time that the first request of a batch waits for others. Zero takes what waits.
    pub batch_delay: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        let seconds = Duration::from_secs;
        Self {
            max_body: 1 << 20,
            max_rows: 1024,
            max_queue: 4096,
            max_connections: 1024,
            max_sessions: 10_000,
            max_memory: 64 << 20,
            header_timeout: seconds(10),
            body_timeout: seconds(10),
            idle_timeout: seconds(75),
            write_timeout: seconds(10),
            session_timeout: seconds(600),
            deadline: seconds(5),
            end_timeout: seconds(10),
            batch_delay: Duration::ZERO,
        }
    }
}
