//! Which backend a URL means, and where its files are worked on.

use std::collections::BTreeMap;
use std::path::{Component, Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use super::{Storage, file};
use crate::files::results_root;
use crate::{Error, Result};

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
    let open = open.or((scheme == "file").then_some(file::open as Open));
    let Some(open) = open else {
        let rule = "no storage is registered for that scheme: call `pavlov_storage::register()` first; the \
                    command has it when it is built with `--features storage`";
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

/// `below` a URL, or below a path inside of a storage.
pub(crate) fn join(above: &str, below: &str) -> String {
    match (above.trim_end_matches('/'), below) {
        ("", below) => below.into(),
        (above, "") => above.into(),
        (above, below) => format!("{above}/{below}"),
    }
}

/// Where what is at `url` is worked on: `<results root>/s3/bucket/prefix` for `s3://bucket/prefix`.
///
/// # Errors
/// `.` or `..` in the URL.
pub fn work_dir(url: &str) -> Result<PathBuf> {
    let root = results_root(None);
    let mut dir = std::path::absolute(&root).map_err(Error::io("find the absolute path of", &root))?;
    let (scheme, place) = url.split_once("://").unwrap_or(("", url));
    dir.push(scheme);
    for part in place.split('/').filter(|part| !part.is_empty()) {
        if !matches!(Path::new(part).components().next(), Some(Component::Normal(_))) {
            return Err(Error::config("storage_path", url, "it must not have `.` or `..` as a part"));
        }
        dir.push(part);
    }
    Ok(dir)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_has_a_scheme_is_a_url() {
        let of = |path: &str| scheme(Path::new(path)).map(str::to_string);
        assert_eq!(of("s3://bucket/prefix"), Some("s3".into()));
        assert_eq!(of("/tmp/odd://name"), None);
        assert_eq!((of("results"), of("://x")), (None, None));
    }

    #[test]
    fn a_working_directory_is_named_after_its_url_and_stays_below_the_results() {
        let dir = work_dir("s3://bucket//a/b/").unwrap();
        assert!(dir.ends_with("s3/bucket/a/b"), "{}", dir.display());
        let message = work_dir("s3://bucket/../x").unwrap_err().to_string();
        assert!(message.ends_with("but it must not have `.` or `..` as a part"), "{message}");
    }
}
