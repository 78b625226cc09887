//! Lines of the report of `pavlov doctor`.

use serde::Serialize;

#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Status {
    Ok,
    /// Something is missing that pavlov can run without.
    Warn,
    Broken,
}

#[derive(Debug, Serialize)]
pub(super) struct Line {
    pub(super) what: &'static str,
    pub(super) status: Status,
    pub(super) found: String,
    pub(super) remedy: Option<String>,
}

impl Line {
    pub(super) fn ok(what: &'static str, found: impl Into<String>) -> Line {
        Line { what, status: Status::Ok, found: found.into(), remedy: None }
    }

    pub(super) fn bad(
        what: &'static str,
        status: Status,
        found: impl Into<String>,
        remedy: impl Into<String>,
    ) -> Line {
        Line { what, status, found: found.into(), remedy: Some(remedy.into()) }
    }
}
