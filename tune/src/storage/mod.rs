//! Experiments and checkpoints on object storage: `s3://bucket/prefix` wherever a directory is asked for.
//!
//! [`Storage`] is what a backend owes. [`register`] makes a backend known by the scheme of its URLs; the crate
//! `pavlov-storage` has those of S3, GCS and Azure.

mod check;

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

pub use check::check_storage;

use crate::{Error, Result};

/// An object.
#[derive(Clone, Debug, PartialEq)]
pub struct Object {
    /// Below the storage's prefix, parts joined by `/`.
    pub path: String,
    /// Size.
    pub bytes: u64,
    /// CRC-32C of the content, where the backend was told it; not in listings.
    pub crc32c: Option<u32>,
}

/// Objects by path below one URL. Calls block; any thread may call.
///
/// # Contract
/// * An object is there whole or not at all, and replaced at once.
/// * What `put` and `put_file` have returned for is durable and seen by every reader.
/// * Deleting what is not there is no error.
/// * Errors are [`Error::Storage`]; `transient` says whether trying again may help. Backends themselves try again for
///   some seconds at most.
pub trait Storage: Send + Sync + fmt::Debug {
    /// The URL, for messages.
    fn url(&self) -> &str;

    /// # Errors
    /// See the contract.
    fn put(&self, path: &str, bytes: Vec<u8>) -> Result<()>;

    /// Streams a file; large ones in parts. `crc32c` is kept with the object.
    ///
    /// # Errors
    /// See the contract; [`Error::Io`] for the file.
    fn put_file(&self, path: &str, file: &Path, crc32c: u32) -> Result<()>;

    /// `None`: it is not there.
    ///
    /// # Errors
    /// See the contract.
    fn get(&self, path: &str) -> Result<Option<Vec<u8>>>;

    /// Streams into a file, made or replaced. `false`: it is not there.
    ///
    /// # Errors
    /// See the contract; [`Error::Io`] for the file.
    fn get_file(&self, path: &str, file: &Path) -> Result<bool>;

    /// `None`: it is not there.
    ///
    /// # Errors
    /// See the contract.
    fn head(&self, path: &str) -> Result<Option<Object>>;

    /// All objects whose path is `prefix` or begins with `prefix/` (all of them for an empty one), sorted by path.
    ///
    /// # Errors
    /// See the contract.
    fn list(&self, prefix: &str) -> Result<Vec<Object>>;

    /// # Errors
    /// See the contract.
    fn delete(&self, path: &str) -> Result<()>;
}

/// Opens a URL. It need not look whether anything is there.
pub type Open = fn(url: &str) -> Result<Arc<dyn Storage>>;

static BACKENDS: Mutex<BTreeMap<String, Open>> = Mutex::new(BTreeMap::new());

/// Makes `open` the backend for URLs that begin with `scheme://`.
pub fn register(scheme: &str, open: Open) {
    BACKENDS.lock().unwrap_or_else(PoisonError::into_inner).insert(scheme.into(), open);
}

/// The storage at `url`.
///
/// # Errors
/// A scheme that nobody registered; what the backend returns.
pub fn open(url: &str) -> Result<Arc<dyn Storage>> {
    let scheme = scheme(Path::new(url)).unwrap_or_default();
    let open = BACKENDS.lock().unwrap_or_else(PoisonError::into_inner).get(scheme).copied();
    let Some(open) = open else {
        let rule = "no storage is registered for that scheme: call `pavlov_storage::register()` first";
        return Err(Error::config("storage_path", url, rule));
    };
    open(url)
}

/// `s3` of `s3://bucket/prefix`; `None` for a path.
pub fn scheme(path: &Path) -> Option<&str> {
    let (scheme, _) = path.to_str()?.split_once("://")?;
    let is_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.');
    (!scheme.is_empty() && scheme.chars().all(is_name)).then_some(scheme)
}
