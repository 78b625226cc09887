//! What is common to requests to any service.

use std::time::Duration;

use object_store::{BackoffConfig, ClientOptions, RetryConfig};

/// The names of a service's settings, for messages.
#[derive(Clone, Debug)]
pub(crate) struct Service {
    /// Where it is reached.
    pub(crate) endpoint: String,
    /// The variable that says where.
    pub(crate) endpoint_variable: &'static str,
    /// The variables that have the keys.
    pub(crate) keys: &'static str,
}

/// A part of 8 MiB has 60 s to go up; a download may take any time that bytes keep coming.
pub(crate) fn client_options() -> ClientOptions {
    let options = ClientOptions::new().with_timeout_disabled();
    options.with_connect_timeout(Duration::from_secs(3)).with_read_timeout(Duration::from_secs(60))
}

/// Four tries within some seconds.
pub(crate) fn retries() -> RetryConfig {
    let backoff = BackoffConfig {
        init_backoff: Duration::from_millis(100),
        max_backoff: Duration::from_secs(1),
        base: 2.0,
    };
    RetryConfig { backoff, max_retries: 3, retry_timeout: Duration::from_secs(5) }
}
