//! Parts of storage URLs, and the local directory that belongs to a URL.

use std::path::{Component, Path, PathBuf};

use crate::base::files::results_root;
use crate::base::{Error, Result};

/// Returns the scheme of a URL, `s3` for `s3://bucket/prefix`; `None` for a path.
pub fn scheme(path: &Path) -> Option<&str> {
    let (scheme, _) = path.to_str()?.split_once("://")?;
    let is_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.');
    (!scheme.is_empty() && scheme.chars().all(is_name)).then_some(scheme)
}

/// Appends `below` to a URL or to a path inside a storage, with one `/` between them.
pub(crate) fn join(above: &str, below: &str) -> String {
    match (above.trim_end_matches('/'), below) {
        ("", below) => below.into(),
        (above, "") => above.into(),
        (above, below) => format!("{above}/{below}"),
    }
}

/// Returns the local working directory for `url`: `<results root>/s3/bucket/prefix` for `s3://bucket/prefix`.
///
/// # Errors
/// Returns [`Error::Config`] if the URL has `.` or `..` as a part, and [`Error::Io`] if the current directory is needed
/// and cannot be found.
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
