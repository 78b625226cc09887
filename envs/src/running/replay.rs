//! What a replayed episode needs besides its seed and actions.

use std::sync::Arc;

use serde_json::Value;

use crate::{Error, ResetOptions, Result};

/// Converts the options of a reset to JSON, for a saved state.
pub(crate) fn options_text(options: &Option<Arc<ResetOptions>>) -> Option<String> {
    options.as_ref().map(|options| Value::Object((**options).clone()).to_string())
}

/// Reads options that [`options_text`] wrote.
pub(crate) fn options_of(text: Option<String>) -> Result<Option<Arc<ResetOptions>>> {
    let read = |text: String| serde_json::from_str(&text).map(Arc::new);
    text.map(read).transpose().map_err(|error| Error::state(format!("the options of a reset: {error}")))
}
