//! Storage of experiments and checkpoints on S3, GCS and Azure: implements [`tune::storage::Storage`] with the crate
//! object_store.
//!
//! Call [`register`] at the start of a program; then URLs such as `s3://bucket/prefix` can be used as directories of
//! pavlov:
//!
//! ```
//! pavlov_storage::register();
//! ```
//!
//! | scheme | service | feature | settings |
//! |---|---|---|---|
//! | `s3`, `s3a` | S3, and servers that speak its protocol | `s3` (default) | `AWS_*` |
//! | `gs` | Google Cloud Storage | `gcs` | `GOOGLE_*` |
//! | `az`, `azure`, `abfs`, `abfss` | Azure Blob Storage | `azure` | `AZURE_*` |
//!
//! Keys and endpoints are read from environment variables with the names that the services' own tools use. For S3 these
//! are `AWS_ACCESS_KEY_ID`, `AWS_SECRET_ACCESS_KEY`, `AWS_SESSION_TOKEN`, `AWS_REGION`, `AWS_ENDPOINT_URL` and the
//! variables of web identities and containers; a machine of EC2 can use its role. Files such as `~/.aws/credentials` are
//! **not** read: `eval "$(aws configure export-credentials --format env)"` puts a profile into the environment.
//!
//! # Guarantees
//! * Objects are written and replaced atomically, as the services promise. Files above 8 MiB are uploaded in parts; an
//!   upload that fails is aborted. If the process is killed during an upload, parts stay that no listing shows and that the
//!   service charges for: give the bucket a rule that deletes incomplete uploads.
//! * Every object carries its CRC-32C as metadata, and reading verifies it. For S3, every part is sent with its SHA-256,
//!   which the service verifies.
//! * Calls block. The requests of all storages of a process run on one separate thread, which the first call starts.
//! * A request that fails for a transient reason is tried again for some seconds; then the caller gets the error.

#[cfg(feature = "azure")]
mod azure;
mod cloud;
mod environment;
mod error;
#[cfg(feature = "gcs")]
mod gcs;
mod place;
mod runtime;
#[cfg(feature = "s3")]
mod s3;
mod service;

#[cfg(not(any(feature = "s3", feature = "gcs", feature = "azure")))]
compile_error!("pavlov-storage needs one of its features: s3, gcs, azure");

use std::sync::Arc;

use tune::storage::Storage;
use tune::{Error, Result};

pub use cloud::CloudStorage;
use environment::Environment;
use place::Place;

use pavlov_tune as tune;

/// Registers the URL schemes of this build with [`tune::storage::open`].
pub fn register() {
    for scheme in schemes() {
        tune::storage::register(scheme, open);
    }
}

/// Opens the storage at `url`, with keys and endpoints from the environment. No request is sent.
///
/// # Errors
/// Returns [`Error::Config`] if `url` is not a URL, names no bucket or a prefix that objects cannot have, or has a
/// scheme that this build does not know. Returns [`Error::Storage`] if the environment has no keys for S3, or settings
/// that the service's client refuses.
pub fn open(url: &str) -> Result<Arc<dyn Storage>> {
    open_with(
        url,
        std::env::vars_os()
            .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?))),
    )
}

/// Opens the storage at `url` as [`open`] does, with keys and endpoints from `variables` in place of the environment.
///
/// # Errors
/// Returns [`Error::Config`] and [`Error::Storage`] in the same cases as [`open`].
pub fn open_with(
    url: &str,
    variables: impl IntoIterator<Item = (String, String)>,
) -> Result<Arc<dyn Storage>> {
    let place = Place::parse(url)?;
    let environment = Environment::new(variables);
    let storage = match place.scheme {
        #[cfg(feature = "s3")]
        "s3" | "s3a" => s3::open(&place, &environment),
        #[cfg(feature = "gcs")]
        "gs" => gcs::open(&place, &environment),
        #[cfg(feature = "azure")]
        "az" | "azure" | "abfs" | "abfss" => azure::open(&place, &environment),
        _ => {
            let known = schemes().collect::<Vec<_>>().join("://, ");
            let rule = format!("this build knows {known}://; gs:// needs the feature `gcs`, az:// `azure`");
            return Err(Error::config("storage_path", url, rule));
        }
    };
    Ok(Arc::new(storage?))
}

fn schemes() -> impl Iterator<Item = &'static str> {
    [
        (cfg!(feature = "s3"), ["s3", "s3a"].as_slice()),
        (cfg!(feature = "gcs"), &["gs"]),
        (cfg!(feature = "azure"), &["az", "azure", "abfs", "abfss"]),
    ]
    .into_iter()
    .filter(|(built, _)| *built)
    .flat_map(|(_, schemes)| schemes.iter().copied())
}
