//! Experiments and checkpoints on object storage: `s3://bucket/prefix` wherever a directory is asked for.
//!
//! [`Storage`] is what a backend owes. [`register`] makes a backend known by the scheme of its URLs; the crate
//! `pavlov-storage` has those of S3, GCS and Azure. `file:///dir` is known without: a directory, on NFS say.
//!
//! A sweep works in a local directory, `<results root>/s3/bucket/prefix/<name>`, and a background thread brings it to the
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
//! Two drivers at one URL: `driver.json` carries a heartbeat of 15 s. A second driver watches it for 45 s (not at all
//! where it sees that the first one's process is gone) and is refused if it beats. One that was taken over while it could
//! not reach the storage uploads nothing any more and ends with an error.

use std::fmt;
use std::path::Path;

use crate::Result;

mod check;
mod checkpoints;
mod file;
mod files;
mod journal;
mod lease;
mod mirror;
mod registry;
mod runs;
mod url;

pub use check::check_storage;
pub use mirror::SyncConfig;
pub use registry::{Open, open, register};

pub(crate) use checkpoints::{get as get_checkpoint, metadata as checkpoint_metadata};
pub(crate) use journal::{SEGMENTS, Segments};
pub(crate) use lease::{DRIVER, Lease};
pub(crate) use mirror::Mirror;
pub use runs::fetch_run;
pub(crate) use runs::{newest, written};
pub(crate) use url::join;
pub use url::{scheme, work_dir};

/// An object on a storage.
#[derive(Clone, Debug, PartialEq)]
pub struct Object {
    /// The path of the object below the storage's prefix, parts joined by `/`.
    pub path: String,
    /// The size of the object.
    pub bytes: u64,
    /// The CRC-32C of the content, where the backend was told it; not in listings.
    pub crc32c: Option<u32>,
}

/// Objects by path below one URL. Calls block; any thread may call.
///
/// # Contract
/// * An object is there whole or not at all, and replaced at once.
/// * What `put` and `put_file` have returned for is durable and seen by every reader.
/// * Deleting what is not there is no error.
/// * Errors are [`Error::Storage`](crate::Error::Storage); `transient` says whether trying again may help. Backends
///   themselves try again for some seconds at most.
pub trait Storage: Send + Sync + fmt::Debug {
    /// The URL, for messages.
    fn url(&self) -> &str;

    /// Writes an object, made or replaced.
    ///
    /// # Errors
    /// Returns [`Error::Storage`](crate::Error::Storage) if the storage refuses or cannot be reached.
    fn put(&self, path: &str, bytes: Vec<u8>) -> Result<()>;

    /// Streams a file into an object; a large one in parts. `crc32c` is kept with the object.
    ///
    /// # Errors
    /// Returns [`Error::Storage`](crate::Error::Storage) if the storage refuses or cannot be reached, and
    /// [`Error::Io`](crate::Error::Io) if the file cannot be read, or if `crc32c` is not its checksum.
    fn put_file(&self, path: &str, file: &Path, crc32c: u32) -> Result<()>;

    /// Reads an object. `None`: it is not there.
    ///
    /// # Errors
    /// Returns [`Error::Storage`](crate::Error::Storage) if the object is damaged or has more than
    /// [`LARGEST_FILE`](crate::LARGEST_FILE) bytes, or if the storage refuses or cannot be reached.
    fn get(&self, path: &str) -> Result<Option<Vec<u8>>>;

    /// Streams an object into a file, made or replaced. `false`: the object is not there.
    ///
    /// # Errors
    /// Returns [`Error::Storage`](crate::Error::Storage) if the object is damaged, or if the storage refuses or cannot
    /// be reached, and [`Error::Io`](crate::Error::Io) if the file cannot be written.
    fn get_file(&self, path: &str, file: &Path) -> Result<bool>;

    /// Looks for an object without reading it. `None`: it is not there.
    ///
    /// # Errors
    /// Returns [`Error::Storage`](crate::Error::Storage) if the storage refuses or cannot be reached.
    fn head(&self, path: &str) -> Result<Option<Object>>;

    /// All objects whose path is `prefix` or begins with `prefix/` (all of them for an empty one), sorted by path.
    ///
    /// # Errors
    /// Returns [`Error::Storage`](crate::Error::Storage) if the storage refuses or cannot be reached.
    fn list(&self, prefix: &str) -> Result<Vec<Object>>;

    /// Deletes an object. One that is not there is no error.
    ///
    /// # Errors
    /// Returns [`Error::Storage`](crate::Error::Storage) if the storage refuses or cannot be reached.
    fn delete(&self, path: &str) -> Result<()>;
}
