//! Converts errors of object_store to pavlov's, which say what happened and what to do about it.

use std::error::Error as _;

use object_store::client::HttpError;
use pavlov_tune::Error;

use crate::service::Service;

/// Error codes of the services for a bucket that does not exist.
const NO_BUCKET: &[&str] = &["NoSuchBucket", "ContainerNotFound"];

/// Converts a failed request, with or without an answer of the service, to [`Error::Storage`].
pub(crate) fn storage_error(
    action: &'static str,
    url: String,
    service: &Service,
    error: &object_store::Error,
) -> Error {
    let (reason, transient) = match connection(error) {
        Some(cause) => unreachable_service(service, &cause),
        None => refusal(service, error),
    };
    Error::Storage { url, action, reason, transient }
}

/// Returns true if the bucket exists, but not the object.
pub(crate) fn is_missing_object(error: &object_store::Error) -> bool {
    matches!(error, object_store::Error::NotFound { .. })
        && !NO_BUCKET.contains(&element(&root_text(error), "Code").unwrap_or_default())
}

/// Returns the root cause if the service did not answer; `None` if it did.
fn connection(error: &object_store::Error) -> Option<String> {
    let mut source = error.source();
    while let Some(error) = source {
        if error.is::<HttpError>() {
            let mut root = error;
            while let Some(below) = root.source() {
                root = below;
            }
            return Some(root.to_string());
        }
        source = error.source();
    }
    None
}

fn unreachable_service(service: &Service, cause: &str) -> (String, bool) {
    let Service { endpoint, endpoint_variable, .. } = service;
    let reason = format!("no answer from {endpoint} ({cause}); check the network and {endpoint_variable}");
    // A wrong certificate or name stays wrong, so trying again is useless.
    let lasting = ["certificate", "Name or service not known", "scheme is not allowed", "builder error"];
    (reason, !lasting.iter().any(|text| cause.contains(text)))
}

fn refusal(service: &Service, error: &object_store::Error) -> (String, bool) {
    use object_store::Error::{NotFound, PermissionDenied, Unauthenticated};

    let text = root_text(error);
    let code = element(&text, "Code").unwrap_or_default();
    let message = element(&text, "Message").unwrap_or(&text).trim_end_matches('.');
    let keys = service.keys;
    let is = |codes: &[&str]| codes.contains(&code);
    if is(NO_BUCKET) {
        return ("the bucket does not exist: make it first, or correct its name".into(), false);
    }
    if is(&["AccessDenied", "AuthorizationPermissionMismatch", "AuthorizationFailure"]) {
        let way_out = "grant its owner reading, writing, listing and deleting there";
        return (format!("{code}: the key is known, but may not do that: {way_out}"), false);
    }
    if is(&[
        "InvalidAccessKeyId",
        "SignatureDoesNotMatch",
        "InvalidToken",
        "ExpiredToken",
        "AuthenticationFailed",
    ]) {
        return (format!("{code}: {message}; check {keys}"), false);
    }
    if is(&["RequestTimeTooSkewed"]) {
        return (format!("{code}: {message}; set the clock of this machine"), false);
    }
    if is(&["AuthorizationHeaderMalformed", "PermanentRedirect"])
        || text.contains("incorrectly configured region")
    {
        return ("the bucket is in another region: set AWS_REGION to that".into(), false);
    }
    if is(&["NoSuchUpload"]) {
        return (format!("{code}: the service has lost the parts that were sent"), true);
    }
    let busy = [
        "status code: 5",
        "status code: 429",
        "SlowDown",
        "InternalError",
        "RequestTimeout",
        "ServiceUnavailable",
    ];
    if busy.iter().any(|sign| text.contains(sign)) {
        return (format!("the service failed or is too busy: {message}"), true);
    }
    match error {
        // Answers to HEAD have no body.
        PermissionDenied { .. } | Unauthenticated { .. } if code.is_empty() => {
            (format!("access denied; check {keys}, and that they may read there"), false)
        }
        NotFound { .. } if code.is_empty() => ("it is not there".into(), false),
        _ if code.is_empty() => (message.to_owned(), false),
        _ => (format!("{code}: {message}"), false),
    }
}

/// Returns the text of the innermost error, which has the service's answer if there is one, in one line.
fn root_text(error: &object_store::Error) -> String {
    let mut root: &dyn std::error::Error = error;
    while let Some(below) = root.source() {
        root = below;
    }
    root.to_string().split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Returns the text of the first XML element `name`.
fn element<'a>(xml: &'a str, name: &str) -> Option<&'a str> {
    let (_, rest) = xml.split_once(&format!("<{name}>"))?;
    rest.split_once(&format!("</{name}>")).map(|(text, _)| text)
}
