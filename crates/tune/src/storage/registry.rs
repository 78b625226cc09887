//! Registry of storage backends by URL scheme.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use super::{Storage, file, scheme};
use crate::base::{Error, Result};

/// Function that opens the storage at a URL. It need not check that anything is stored there.
pub type Open = fn(url: &str) -> Result<Arc<dyn Storage>>;

static BACKENDS: Mutex<BTreeMap<String, Open>> = Mutex::new(BTreeMap::new());

/// Registers `open` as the backend for URLs that begin with `scheme://`.
pub fn register(scheme: &str, open: Open) {
    BACKENDS.lock().unwrap_or_else(PoisonError::into_inner).insert(scheme.into(), open);
}

/// Opens the storage at `url`.
///
/// # Errors
/// Returns [`Error::Config`] if no storage is registered for the URL's scheme, and the errors of the backend.
pub fn open(url: &str) -> Result<Arc<dyn Storage>> {
    let scheme = scheme(Path::new(url)).unwrap_or_default();
    let open = BACKENDS.lock().unwrap_or_else(PoisonError::into_inner).get(scheme).copied();
    let open = open.or((scheme == "file").then_some(file::open as Open));
    let Some(open) = open else {
        let rule = "no storage is registered for that scheme: call `pavlov_storage::register()` first; the \
                    command has it when it is built with `--features storage`";
        return Err(Error::config("storage_path", url, rule));
    };
    open(url)
}
