//! Parses the URL of a storage.

use object_store::path::Path;

use pavlov_tune::{Error, Result};

/// A prefix in a bucket, parsed from a URL.
#[derive(Debug)]
pub(crate) struct Place<'a> {
    /// The URL as the user gave it.
    pub(crate) url: &'a str,
    /// Scheme of the URL, such as `s3`.
    pub(crate) scheme: &'a str,
    /// Name of the bucket, or of an Azure container, followed by its account if the URL has one.
    pub(crate) bucket: &'a str,
    /// Prefix of the objects; empty for the whole bucket.
    pub(crate) prefix: Path,
}

impl<'a> Place<'a> {
    /// Parses a URL such as `s3://bucket/prefix`.
    ///
    /// # Errors
    /// Returns [`Error::Config`] if `url` is not a URL, names no bucket, or has a prefix that objects cannot have.
    pub(crate) fn parse(url: &'a str) -> Result<Self> {
        let refused = |rule: String| Error::config("storage_path", url, rule);
        let Some((scheme, rest)) = url.split_once("://") else {
            return Err(refused("it must be a URL: s3://bucket/prefix".into()));
        };
        let (bucket, prefix) = rest.split_once('/').unwrap_or((rest, ""));
        let is_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_' | '@');
        if bucket.is_empty() || !bucket.chars().all(is_name) {
            let rule =
                format!("it must name a bucket of letters, digits, `-` and `.`: {scheme}://bucket/prefix");
            return Err(refused(rule));
        }
        let prefix = Path::parse(prefix.trim_matches('/'))
            .map_err(|error| refused(format!("its prefix cannot be used: {error}")))?;
        Ok(Place { url, scheme, bucket, prefix })
    }

    /// Makes the error that the place cannot be opened for `reason`.
    pub(crate) fn refused(&self, reason: String) -> Error {
        Error::Storage { url: self.url.into(), action: "open", reason, transient: false }
    }

    /// Returns the store, or converts the error with which a builder of object_store refuses its settings.
    pub(crate) fn built<T>(&self, store: object_store::Result<T>) -> Result<T> {
        store.map_err(|error| self.refused(format!("its settings cannot be used: {error}")))
    }
}
