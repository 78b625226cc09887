//! Settings of requests that all services share: names for messages, timeouts and retries.

use std::time::Duration;

use object_store::{BackoffConfig, ClientOptions, RetryConfig};

/// The names of a service's settings, for messages.
#[derive(Clone, Debug)]
pub(crate) struct Service {
    /// Name or address of the endpoint.
    pub(crate) endpoint: String,
    /// Environment variable that sets the endpoint.
    pub(crate) endpoint_variable: &'static str,
    /// Environment variables that hold the keys.
    pub(crate) keys: &'static str,
}

/// Returns the timeouts: 3 s to connect and 60 s without a received byte, which limits the upload of a part to 60 s. A
/// download may take any time while bytes arrive.
pub(crate) fn client_options() -> ClientOptions {
    let options = ClientOptions::new().with_timeout_disabled();
    options.with_connect_timeout(Duration::from_secs(3)).with_read_timeout(Duration::from_secs(60))
}

/// Returns the retry policy: at most four tries within 5 s.
pub(crate) fn retries() -> RetryConfig {
    let backoff = BackoffConfig {
        init_backoff: Duration::from_millis(100),
        max_backoff: Duration::from_secs(1),
        base: 2.0,
    };
    RetryConfig { backoff, max_retries: 3, retry_timeout: Duration::from_secs(5) }
}
