//! A check that a storage backend keeps the contract of [`Storage`].

use std::fs;

use crate::base::{Error, Result};
use crate::storage::{Object, Storage};

/// Checks that a backend keeps the contract of [`Storage`]. The storage must be empty, and is empty again afterwards.
///
/// # Errors
/// Returns [`Error::Storage`] for the first part of the contract that does not hold, with the value found. Returns errors of
/// the backend unchanged, and [`Error::Io`] if a temporary directory cannot be used.
pub fn check_storage(storage: &dyn Storage) -> Result<()> {
    let check = Check { storage };
    let scratch = tempfile::tempdir().map_err(Error::io("make a directory below", &std::env::temp_dir()))?;
    let large: Vec<u8> = (0..20_000_000_u32).map(|i| (i ^ (i >> 11)) as u8).collect();

    check.listing("", &[])?;
    check.that(storage.get("a")?.is_none(), "`get` finds what was never put")?;
    check.that(storage.head("a")?.is_none(), "`head` finds what was never put")?;
    let file = scratch.path().join("file");
    check.that(!storage.get_file("a", &file)?, "`get_file` finds what was never put")?;
    check.that(!file.exists(), "`get_file` leaves a file for what was never put")?;
    storage.delete("a")?;

    storage.put("dir/a", b"first".to_vec())?;
    storage.put("dir/a", b"second, longer".to_vec())?;
    storage.put("dir/sub/odd name +%=#.json", vec![])?;
    storage.put("dir2/a", b"neighbour".to_vec())?;
    check.content("dir/a", b"second, longer")?;
    check.content("dir/sub/odd name +%=#.json", b"")?;
    check.listing("", &[("dir/a", 14), ("dir/sub/odd name +%=#.json", 0), ("dir2/a", 9)])?;
    check.listing("dir", &[("dir/a", 14), ("dir/sub/odd name +%=#.json", 0)])?;
    check.listing("dir/sub", &[("dir/sub/odd name +%=#.json", 0)])?;
    check.listing("dir/a", &[("dir/a", 14)])?;
    check.listing("nowhere", &[])?;

    for (path, content) in [("dir/file", &b"of a file"[..]), ("dir/large", &large), ("dir/none", b"")] {
        let crc32c = crc32c::crc32c(content);
        fs::write(&file, content).map_err(Error::io("write", &file))?;
        storage.put_file(path, &file, crc32c)?;
        check.content(path, content)?;
        let found = storage.head(path)?;
        let expected = Object { path: path.into(), bytes: content.len() as u64, crc32c: Some(crc32c) };
        check
            .that(found.as_ref() == Some(&expected), &format!("`head` gives {found:?}, not {expected:?}"))?;
        fs::write(&file, b"replaced").map_err(Error::io("write", &file))?;
        check.that(storage.get_file(path, &file)?, "`get_file` does not find what was put")?;
        let found = fs::read(&file).map_err(Error::io("read", &file))?;
        check.that(found == content, &format!("`get_file` of {path} gives other content"))?;
    }
    let left = fs::read_dir(scratch.path()).map_err(Error::io("list", scratch.path()))?.count();
    check.that(left == 1, "`get_file` leaves files beside the one it was asked for")?;

    fs::write(&file, b"other").map_err(Error::io("write", &file))?;
    let refused = storage.put_file("dir/file", &file, 1).is_err();
    check.that(refused, "`put_file` takes a file that is not the one its checksum was made of")?;
    check.content("dir/file", b"of a file")?;

    for object in storage.list("")? {
        storage.delete(&object.path)?;
    }
    check.listing("", &[])
}

struct Check<'a> {
    storage: &'a dyn Storage,
}

impl Check<'_> {
    fn that(&self, kept: bool, broken: &str) -> Result<()> {
        if kept { Ok(()) } else { Err(self.broken(broken.into())) }
    }

    fn content(&self, path: &str, expected: &[u8]) -> Result<()> {
        match self.storage.get(path)? {
            Some(found) if found == expected => Ok(()),
            Some(found) => Err(self.broken(format!(
                "{path}: {} bytes were put, {} other ones read",
                expected.len(),
                found.len()
            ))),
            None => Err(self.broken(format!("{path}: `get` does not find what was put"))),
        }
    }

    fn listing(&self, prefix: &str, expected: &[(&str, u64)]) -> Result<()> {
        let found = self.storage.list(prefix)?;
        let found: Vec<(&str, u64)> = found.iter().map(|object| (&*object.path, object.bytes)).collect();
        self.that(found == expected, &format!("`list({prefix:?})` gives {found:?}, not {expected:?}"))
    }

    fn broken(&self, reason: String) -> Error {
        Error::Storage { url: self.storage.url().into(), action: "use", reason, transient: false }
    }
}
