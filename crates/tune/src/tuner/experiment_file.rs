//! A file that a program keeps in an experiment's directory, beside what the sweep writes.

use std::borrow::Cow;
use std::io::{self, Write};
use std::path::Path;

use crate::base::{Error, Result, read_file};
use crate::storage;

/// Extra file in an experiment's directory, beside the journal.
#[derive(Debug)]
pub struct ExperimentFile {
    /// Name of the file in the experiment's directory.
    pub name: &'static str,
    /// Content of the file.
    pub content: Vec<u8>,
}

impl ExperimentFile {
    pub(super) fn write(&self, dir: &Path) -> Result<()> {
        let path = dir.join(self.name);
        crate::base::files::replace_durably(&path, |file| {
            file.write_all(&self.content).map_err(Error::io("write", &path))
        })
    }

    /// Reads the file `name` of the experiment in `dir`, a directory or a URL. Returns `None` if there is no such file.
    ///
    /// # Errors
    /// Returns [`Error::Io`] if the file cannot be read, and [`Error::Storage`] if the storage cannot be used.
    pub fn read(dir: &Path, name: &str) -> Result<Option<Vec<u8>>> {
        let mut dir = Cow::Borrowed(dir);
        if let Some(url) = dir.to_str().filter(|_| storage::scheme(&dir).is_some()) {
            if let Some(content) = storage::open(url)?.get(name)? {
                return Ok(Some(content));
            }
            // The driver may have been killed before the file was uploaded.
            dir = Cow::Owned(storage::work_dir(url)?);
        }
        let path = dir.join(name);
        match read_file(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            content => content.map(Some).map_err(Error::io("read", &path)),
        }
    }
}
