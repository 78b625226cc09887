//! What a URL names.

use object_store::path::Path;

use pavlov_tune::{Error, Result};

/// A prefix in a bucket.
#[derive(Debug)]
pub(crate) struct Place<'a> {
    /// As it was given.
    pub(crate) url: &'a str,
    /// `s3`
    pub(crate) scheme: &'a str,
    /// Also a container of Azure, with its account where the URL has one.
    pub(crate) bucket: &'a str,
    /// Empty for the whole bucket.
    pub(crate) prefix: Path,
}

impl<'a> Place<'a> {
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

    /// Why it cannot be opened.
    pub(crate) fn refused(&self, reason: String) -> Error {
        Error::Storage { url: self.url.into(), action: "open", reason, transient: false }
    }

    /// What a builder of object_store says to the settings in the environment.
    pub(crate) fn built<T>(&self, store: object_store::Result<T>) -> Result<T> {
        store.map_err(|error| self.refused(format!("its settings cannot be used: {error}")))
    }
}
