//! Experiments and checkpoints on object storage: URLs such as `s3://bucket/prefix` in place of a directory.
//!
//! [`Storage`] is the trait that a backend implements. [`register`] registers a backend for a URL scheme; the crate
//! `pavlov-storage` has backends for S3, GCS and Azure. `file:///dir` is built in: a directory, for example on NFS.
//!
//! A sweep works in a local directory, `<results root>/s3/bucket/prefix/<name>`, and a background thread uploads it to the
//! storage:
//!
//! ```text
//! s3://bucket/prefix/<name>/
//!     driver.json               which driver runs it; absent when none does
//!     journal/<offset>.jsonl    the journal in pieces, named by the byte they begin with
//!     3f2a1_00000/              a trial: its files,
//!         checkpoint_000010/    and its checkpoints: manifest.json is put last and deleted first
//! ```
//!
//! Protection against two drivers at one URL: `driver.json` carries a heartbeat of 15 s. A second driver watches it for 45
//! s, or not at all if it can see that the first driver's process is gone, and is refused if there is a heartbeat. A driver
//! that was taken over while it could not reach the storage uploads nothing more and ends with an error.

use std::fmt;
use std::path::Path;

use crate::base::Result;

mod check;
mod checkpoints;
mod fetch;
mod file;
mod files;
mod journal;
mod lease;
mod mirror;
mod registry;
mod runs;
mod upload_queue;
mod uploader;
mod url;

pub use check::check_storage;
pub use fetch::fetch_checkpoint;
pub use mirror::SyncConfig;
pub use registry::{Open, open, register};

pub(crate) use checkpoints::{get as get_checkpoint, metadata as checkpoint_metadata};
pub(crate) use files::download_small_files;
pub(crate) use journal::{SEGMENTS, Segments};
pub(crate) use lease::{DRIVER, Lease};
pub(crate) use mirror::Mirror;
pub use runs::fetch_run;
pub(crate) use runs::written;
pub(crate) use url::join;
pub use url::{scheme, work_dir};

/// Metadata of an object on a storage.
#[derive(Clone, Debug, PartialEq)]
pub struct Object {
    /// Path of the object below the storage's URL, with parts joined by `/`.
    pub path: String,
    /// Size of the object in bytes.
    pub bytes: u64,
    /// CRC-32C of the content, if the backend knows it; always `None` in listings.
    pub crc32c: Option<u32>,
}

/// A storage backend: objects by path below one URL. Calls block, and any thread may call.
///
/// # Contract
/// * An object is present completely or not at all, and is replaced atomically.
/// * Once `put` or `put_file` returns, the object is durable and visible to every reader.
/// * Deleting a missing object is not an error.
/// * Errors are [`Error::Storage`](crate::Error::Storage); `transient` says whether another attempt may succeed. A backend
///   itself retries for a few seconds at most.
pub trait Storage: Send + Sync + fmt::Debug {
    /// Returns the URL of the storage, for messages.
    fn url(&self) -> &str;

    /// Writes an object, or replaces an existing one.
    ///
    /// # Errors
    /// Returns [`Error::Storage`](crate::Error::Storage) if the storage refuses or cannot be reached.
    fn put(&self, path: &str, bytes: Vec<u8>) -> Result<()>;

    /// Uploads a file as an object without reading it all into memory; large files are uploaded in parts. `crc32c` is stored
    /// with the object.
    ///
    /// # Errors
    /// Returns [`Error::Storage`](crate::Error::Storage) if the storage refuses or cannot be reached, and
    /// [`Error::Io`](crate::Error::Io) if the file cannot be read or does not match `crc32c`.
    fn put_file(&self, path: &str, file: &Path, crc32c: u32) -> Result<()>;

    /// Reads an object; `None` if it does not exist.
    ///
    /// # Errors
    /// Returns [`Error::Storage`](crate::Error::Storage) if the object is damaged or has more than
    /// [`LARGEST_FILE`](crate::LARGEST_FILE) bytes, or if the storage refuses or cannot be reached.
    fn get(&self, path: &str) -> Result<Option<Vec<u8>>>;

    /// Downloads an object to a file, which is created or replaced. Returns `false` if the object does not exist.
    ///
    /// # Errors
    /// Returns [`Error::Storage`](crate::Error::Storage) if the object is damaged, or if the storage refuses or cannot
    /// be reached, and [`Error::Io`](crate::Error::Io) if the file cannot be written.
    fn get_file(&self, path: &str, file: &Path) -> Result<bool>;

    /// Returns an object's metadata without its content; `None` if it does not exist.
    ///
    /// # Errors
    /// Returns [`Error::Storage`](crate::Error::Storage) if the storage refuses or cannot be reached.
    fn head(&self, path: &str) -> Result<Option<Object>>;

    /// Lists all objects whose path is `prefix` or begins with `prefix/`, sorted by path. An empty prefix lists all objects.
    ///
    /// # Errors
    /// Returns [`Error::Storage`](crate::Error::Storage) if the storage refuses or cannot be reached.
    fn list(&self, prefix: &str) -> Result<Vec<Object>>;

    /// Deletes an object. A missing object is not an error.
    ///
    /// # Errors
    /// Returns [`Error::Storage`](crate::Error::Storage) if the storage refuses or cannot be reached.
    fn delete(&self, path: &str) -> Result<()>;
}
