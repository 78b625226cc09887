//! `file:///dir`: a directory as storage, such as one that machines share over NFS.
//!
//! An object is a file that is written under a temporary name and then renamed. A process that is killed while writing
//! leaves a hidden file, which is not listed. Checksums are not stored; they are computed on request.

use std::fs::{self, File, Permissions};
use std::io::{self, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use super::{Object, Storage, join};
use crate::base::error::room;
use crate::base::files::{self, create_anew, parent, sync_dir};
use crate::base::{Error, Result, read_file};

/// Prefix of temporary files for objects that are being written; they are not listed.
const UNFINISHED: &str = ".pavlov-unfinished-";
/// Maximum number of attempts to write when another process removes the empty folder meanwhile.
const ATTEMPTS: usize = 3;

#[derive(Debug)]
struct FileStorage {
    url: String,
    dir: PathBuf,
}

pub(super) fn open(url: &str) -> Result<Arc<dyn Storage>> {
    let dir = url.strip_prefix("file://").filter(|dir| dir.starts_with('/'));
    let dir = dir.ok_or_else(|| {
        Error::config("storage_path", url, "it must hold an absolute path: three slashes, file:///dir")
    })?;
    Ok(Arc::new(FileStorage { url: url.trim_end_matches('/').into(), dir: dir.into() }))
}

impl FileStorage {
    fn at(&self, path: &str) -> Result<PathBuf> {
        let relative = Path::new(path);
        if path.is_empty() || !relative.components().all(|part| matches!(part, Component::Normal(_))) {
            return Err(self.error("use", path)(io::Error::other("this is no name for an object")));
        }
        Ok(self.dir.join(relative))
    }

    fn error(&self, action: &'static str, path: &str) -> impl Fn(io::Error) -> Error {
        let url = join(&self.url, path);
        move |error| Error::Storage {
            url: url.clone(),
            action,
            reason: match error.kind() {
                io::ErrorKind::PermissionDenied => format!("{error}; it must be writable"),
                _ => format!("{error}{}", room(&error)),
            },
            transient: matches!(
                error.kind(),
                io::ErrorKind::TimedOut
                    | io::ErrorKind::Interrupted
                    | io::ErrorKind::ResourceBusy
                    | io::ErrorKind::StaleNetworkFileHandle
                    | io::ErrorKind::HostUnreachable
                    | io::ErrorKind::NetworkDown
                    | io::ErrorKind::NetworkUnreachable
            ),
        }
    }

    fn write(&self, path: &str, fill: impl Fn(&mut File) -> Result<()>) -> Result<()> {
        let target = self.at(path)?;
        let folder = parent(&target);
        let refused = self.error("write", path);
        let mut attempt = 1;
        let mut temporary = loop {
            let made = self.make_folder(folder).and_then(|()| {
                tempfile::Builder::new()
                    .prefix(UNFINISHED)
                    .permissions(Permissions::from_mode(0o666))
                    .tempfile_in(folder)
            });
            match made {
                Err(error) if error.kind() == io::ErrorKind::NotFound && attempt < ATTEMPTS => attempt += 1,
                made => break made.map_err(&refused)?,
            }
        };
        if let Err(error) = fill(temporary.as_file_mut()) {
            drop(temporary);
            self.prune(&target);
            return Err(error);
        }
        temporary.as_file().sync_all().map_err(&refused)?;
        temporary.persist(&target).map_err(|error| refused(error.error))?;
        sync_dir(folder).map_err(&refused)
    }

    /// Creates the folder and its parents, and syncs them to disk.
    fn make_folder(&self, folder: &Path) -> io::Result<()> {
        if folder.is_dir() {
            return Ok(());
        }
        fs::create_dir_all(folder)?;
        let made = folder.ancestors().skip(1).take_while(|above| above.starts_with(&self.dir));
        made.chain([parent(&self.dir)]).try_for_each(sync_dir)
    }

    /// Removes the folders above `target` that are empty: a folder is not an object and must not remain.
    fn prune(&self, target: &Path) {
        for folder in target.ancestors().skip(1).take_while(|folder| **folder != self.dir) {
            if fs::remove_dir(folder).is_err() {
                break;
            }
        }
    }

    fn collect(&self, folder: &Path, prefix: &str, found: &mut Vec<Object>) -> io::Result<()> {
        let entries = match fs::read_dir(folder) {
            Err(error) if is_absent(&error) => return Ok(()),
            entries => entries?,
        };
        for entry in entries {
            let entry = entry?;
            let Ok(name) = entry.file_name().into_string() else { continue };
            let path = join(prefix, &name);
            let attributes = match entry.metadata() {
                Err(error) if is_absent(&error) => continue,
                attributes => attributes?,
            };
            if attributes.is_dir() {
                self.collect(&entry.path(), &path, found)?;
            } else if attributes.is_file() && !name.starts_with(UNFINISHED) {
                found.push(Object { path, bytes: attributes.len(), crc32c: None });
            }
        }
        Ok(())
    }
}

impl Storage for FileStorage {
    fn url(&self) -> &str {
        &self.url
    }

    fn put(&self, path: &str, bytes: Vec<u8>) -> Result<()> {
        self.write(path, |target| target.write_all(&bytes).map_err(self.error("write", path)))
    }

    fn put_file(&self, path: &str, file: &Path, crc32c: u32) -> Result<()> {
        self.write(path, |target| {
            let mut source = files::open(file).map_err(Error::io("read", file))?;
            let mut buffer = vec![0; 1 << 16];
            let mut found = 0;
            loop {
                let n = source.read(&mut buffer).map_err(Error::io("read", file))?;
                if n == 0 {
                    break;
                }
                found = crc32c::crc32c_append(found, &buffer[..n]);
                target.write_all(&buffer[..n]).map_err(self.error("write", path))?;
            }
            if found == crc32c {
                Ok(())
            } else {
                let reason = format!("checksum {found:08x} instead of {crc32c:08x}: it has changed");
                Err(Error::io("upload", file)(io::Error::new(io::ErrorKind::InvalidData, reason)))
            }
        })
    }

    fn get(&self, path: &str) -> Result<Option<Vec<u8>>> {
        match read_file(&self.at(path)?) {
            Err(error) if is_absent(&error) => Ok(None),
            read => read.map(Some).map_err(self.error("read", path)),
        }
    }

    fn get_file(&self, path: &str, file: &Path) -> Result<bool> {
        let mut source = match files::open(&self.at(path)?) {
            Err(error) if is_absent(&error) => return Ok(false),
            source => source.map_err(self.error("read", path))?,
        };
        let mut target = create_anew(file).map_err(Error::io("write", file))?;
        io::copy(&mut source, &mut target).map_err(Error::io("write", file))?;
        Ok(true)
    }

    fn head(&self, path: &str) -> Result<Option<Object>> {
        let mut source = match files::open(&self.at(path)?) {
            Err(error) if is_absent(&error) => return Ok(None),
            source => source.map_err(self.error("read", path))?,
        };
        let mut buffer = vec![0; 1 << 16];
        let mut crc = 0;
        let mut bytes = 0;
        loop {
            match source.read(&mut buffer).map_err(self.error("read", path))? {
                0 => return Ok(Some(Object { path: path.into(), bytes, crc32c: Some(crc) })),
                n => {
                    crc = crc32c::crc32c_append(crc, &buffer[..n]);
                    bytes += n as u64;
                }
            }
        }
    }

    fn list(&self, prefix: &str) -> Result<Vec<Object>> {
        let start = if prefix.is_empty() { self.dir.clone() } else { self.at(prefix)? };
        let mut found = Vec::new();
        match fs::metadata(&start) {
            Err(error) if is_absent(&error) => {}
            attributes => {
                let attributes = attributes.map_err(self.error("list", prefix))?;
                if attributes.is_file() {
                    found.push(Object { path: prefix.into(), bytes: attributes.len(), crc32c: None });
                } else {
                    self.collect(&start, prefix, &mut found).map_err(self.error("list", prefix))?;
                }
            }
        }
        found.sort_by(|a, b| a.path.cmp(&b.path));
        Ok(found)
    }

    fn delete(&self, path: &str) -> Result<()> {
        let target = self.at(path)?;
        match fs::remove_file(&target) {
            Err(error) if !is_absent(&error) => return Err(self.error("delete", path)(error)),
            _ => {}
        }
        self.prune(&target);
        Ok(())
    }
}

/// Whether the error means that there is no such object; this includes `a/b` where `a` is an object.
fn is_absent(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}
