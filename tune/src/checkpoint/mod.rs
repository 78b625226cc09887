//! Checkpoints: directories that are there whole or not at all.
//!
//! ```text
//! checkpoint_000010/
//!     manifest.json   written last: format version, kind, size and CRC-32C of every other file, hashes of the state
//!     metadata.json   the driver's counters, settings and last result
//!     ...             what the trainable wrote
//! ```
//!
//! [`write()`] fills a hidden sibling directory, makes it durable, and renames it into place. A process that dies on
//! the way leaves only the hidden directory, which the next `write` beside it removes, or the sweep whose trial it was. Sizes and checksums are
//! compared by [`verify`] before anything is loaded.
//!
//! The manifest holds its own checksum too, so that no flipped bit in it goes unseen. It also holds the checkpoint's
//! number: which one of a directory was written last does not depend on a clock.
//!
//! A damaged checkpoint whose name a run needs again is renamed, see [`set_aside_damaged`].

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Component, Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::{Config, Error, LARGEST_FILE, Metrics, Result, read_file};

mod fetch;
mod object;
mod retention;
mod set_aside;
mod state_hash;
mod write;

pub use fetch::fetch;
pub(crate) use object::{pack, unpack};
pub(crate) use retention::{Kept, Retention, beyond};
pub(crate) use set_aside::is_named_so;
pub use set_aside::set_aside_damaged;
pub use state_hash::{StateHash, chain};
pub use write::write;
pub(crate) use write::{clean_up, next_number, receive, remove, write_as};

const FORMAT: &str = "pavlov-checkpoint";
const FORMAT_VERSION: u32 = 1;
pub(crate) const MANIFEST: &str = "manifest.json";
pub(crate) const METADATA: &str = "metadata.json";

/// What a checkpoint holds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Manifest {
    format: String,
    format_version: u32,
    /// The version of this library that wrote it.
    pub pavlov: String,
    /// The [`Trainable::kind`](crate::Trainable::kind) of what wrote it.
    pub kind: String,
    /// When it was written: RFC 3339 in UTC with nanoseconds, so that it sorts as text.
    pub created: String,
    /// The number of the checkpoint: 1 for the first one that was written into its directory, then one more each time.
    /// `None`: an older version of this library wrote it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub number: Option<u64>,
    /// Every other file, sorted by path.
    pub files: Vec<ManifestFile>,
    /// Hashes of the state. `None`: an older version of this library wrote the checkpoint.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hash: Option<StateHash>,
    /// CRC-32C of this manifest as compact JSON with 0 here.
    crc32c: u32,
}

/// One file of a checkpoint.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ManifestFile {
    /// The path relative to the checkpoint, parts joined by `/`.
    pub path: String,
    /// The size of the file.
    pub bytes: u64,
    /// The CRC-32C of the content.
    pub crc32c: u32,
}

/// The driver's part of a checkpoint, `metadata.json`.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Metadata {
    /// The id of the run, 32 hexadecimal digits: the same for all that continues one object.
    pub experiment_id: String,
    /// How many results there were.
    pub iteration: u64,
    /// The sum of all timesteps; `None` if no result counted any.
    pub timesteps_total: Option<u64>,
    /// The sum of all episodes; `None` if no result counted any.
    pub episodes_total: Option<u64>,
    /// The seconds spent in `step`.
    pub time_total_s: f64,
    /// The complete settings.
    pub config: Config,
    /// The newest result; `None` before the first one.
    pub last_result: Option<Metrics>,
}

/// The name of the checkpoint after `iteration` results.
pub fn name(iteration: u64) -> String {
    format!("checkpoint_{iteration:06}")
}

/// The iteration in such a name.
pub(crate) fn iteration(name: &str) -> Option<u64> {
    name.strip_prefix("checkpoint_")?.parse().ok()
}

/// Checks that the checkpoint is whole, of this format version and, where asked, of this kind.
///
/// # Errors
/// Returns [`Error::Checkpoint`] with the file at fault and the reason if the checkpoint is damaged, of another version
/// of the format or of another kind, and [`Error::Io`] if a file cannot be read.
pub fn verify(dir: &Path, expected_kind: Option<&str>) -> Result<Manifest> {
    let manifest = read_manifest(dir)?;
    if let Some(expected) = expected_kind.filter(|expected| *expected != manifest.kind) {
        let reason = format!("it was saved by {}, but is to be loaded into {expected}", manifest.kind);
        return Err(Error::checkpoint(dir, reason));
    }
    for file in &manifest.files {
        let path = dir.join(relative(dir, &file.path)?);
        let attributes = match fs::symlink_metadata(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Err(Error::checkpoint(dir, format!("{} is missing", file.path)));
            }
            attributes => attributes.map_err(Error::io("read", &path))?,
        };
        let parts = Path::new(&file.path).ancestors().skip(1);
        let in_link = parts.filter(|part| *part != Path::new("")).any(|part| dir.join(part).is_symlink());
        if !attributes.is_file() || in_link {
            return Err(Error::checkpoint(dir, format!("{} is not a plain file", file.path)));
        }
        if attributes.len() != file.bytes {
            let reason = format!("{} has {} bytes instead of {}", file.path, attributes.len(), file.bytes);
            return Err(Error::checkpoint(dir, reason));
        }
        if file.path == METADATA && file.bytes > LARGEST_FILE {
            let reason = format!(
                "{METADATA} has {} bytes, but pavlov reads {LARGEST_FILE} at most and writes no larger one",
                file.bytes
            );
            return Err(Error::checkpoint(dir, reason));
        }
    }
    // What can be seen without reading was seen of all: a large file is not read to its end for nothing.
    for file in &manifest.files {
        let path = dir.join(&file.path);
        let found = checksum(&path).map_err(Error::io("read", &path))?;
        if found != file.crc32c {
            let reason =
                format!("{} is damaged: checksum {found:08x} instead of {:08x}", file.path, file.crc32c);
            return Err(Error::checkpoint(dir, reason));
        }
    }
    Ok(manifest)
}

/// The [`StateHash::state`] of the files that are in the checkpoint now.
///
/// # Errors
/// Fails whenever [`verify`] does.
pub fn state_hash(dir: &Path) -> Result<String> {
    let manifest = verify(dir, None)?;
    state_hash::state(dir, &manifest.files).map_err(Error::io("read", dir))
}

/// Refuses to read the file `name` of a checkpoint that its manifest does not list: nothing has compared it with a
/// checksum. A directory without a manifest is no checkpoint, and all in it may be read.
///
/// # Errors
/// Returns [`Error::Checkpoint`] if the manifest does not list the file or is damaged, and [`Error::Io`] if the
/// manifest cannot be read.
pub fn refuse_unlisted(dir: &Path, name: &str) -> Result<()> {
    if !dir.join(MANIFEST).exists() || read_manifest(dir)?.files.iter().any(|file| file.path == name) {
        return Ok(());
    }
    Err(Error::checkpoint(dir, format!("{name} is not listed in {MANIFEST}, so it is not read")))
}

/// The driver's part of a checkpoint. Does not look at the other files; see [`verify`].
///
/// # Errors
/// Returns [`Error::Checkpoint`] if `metadata.json` is missing, damaged or not listed in the manifest, and
/// [`Error::Io`] if a file cannot be read.
pub fn metadata(dir: &Path) -> Result<Metadata> {
    let text = read_text(dir, METADATA)?;
    refuse_unlisted(dir, METADATA)?;
    serde_json::from_str(&text).map_err(|error| Error::checkpoint(dir, format!("{METADATA}: {error}")))
}

/// Checkpoints in a run directory by iteration, whole or not; none if there is no such directory.
///
/// # Errors
/// Returns [`Error::Io`] if the directory cannot be listed.
pub fn list(run_dir: &Path) -> Result<Vec<(u64, PathBuf)>> {
    let entries = match fs::read_dir(run_dir) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries.map_err(Error::io("list", run_dir))?,
    };
    let mut found = Vec::new();
    for entry in entries {
        let path = entry.map_err(Error::io("list", run_dir))?.path();
        let named = path.file_name().and_then(|name| iteration(name.to_str()?));
        if let Some(iteration) = named
            && path.is_dir()
        {
            found.push((iteration, path));
        }
    }
    found.sort();
    Ok(found)
}

/// The whole checkpoint of a run that was written last; damaged ones are skipped with a warning.
///
/// The order is that of [`Manifest::number`], not of iterations: after a return to an older checkpoint the new ones count.
/// Those without a number count as older, in the order of the clock.
///
/// # Errors
/// Returns [`Error::Io`] if the run directory does not exist or cannot be listed.
pub fn latest(run_dir: &Path) -> Result<Option<PathBuf>> {
    if !run_dir.is_dir() {
        return Err(Error::io("list", run_dir)(io::ErrorKind::NotFound.into()));
    }
    write::clean_up(run_dir);
    let mut found = Vec::new();
    for (iteration, path) in list(run_dir)? {
        match read_manifest(&path) {
            Ok(manifest) => found.push((manifest.written(), iteration, path)),
            Err(error) => tracing::warn!("skipped: {error}"),
        }
    }
    found.sort();
    for (_, _, path) in found.into_iter().rev() {
        match verify(&path, None) {
            Ok(_) => return Ok(Some(path)),
            Err(error) => tracing::warn!("skipped: {error}"),
        }
    }
    Ok(None)
}

/// Whether this library made the directory, however damaged it may be by now.
pub(crate) fn is_checkpoint(dir: &Path) -> bool {
    read_file(&dir.join(MANIFEST))
        .is_ok_and(|bytes| bytes.windows(FORMAT.len()).any(|part| part == FORMAT.as_bytes()))
}

pub(crate) fn read_manifest(dir: &Path) -> Result<Manifest> {
    parse_manifest(dir, &read_text(dir, MANIFEST)?)
}

pub(crate) fn parse_manifest(dir: &Path, text: &str) -> Result<Manifest> {
    #[derive(Deserialize)]
    struct Header {
        format: String,
        format_version: u32,
    }
    let refuse = |reason: String| Err(Error::checkpoint(dir, format!("{MANIFEST}: {reason}")));
    let header: Header = match serde_json::from_str(text) {
        Ok(header) => header,
        Err(error) => return refuse(error.to_string()),
    };
    if header.format != FORMAT {
        return refuse(format!("format is {:?} instead of {FORMAT:?}", header.format));
    }
    if header.format_version != FORMAT_VERSION {
        return refuse(format!(
            "format version {} cannot be read by this version of pavlov, which reads {FORMAT_VERSION}",
            header.format_version
        ));
    }
    let manifest: Manifest = match serde_json::from_str(text) {
        Ok(manifest) => manifest,
        Err(error) => return refuse(error.to_string()),
    };
    if manifest.crc32c != manifest.checksum() {
        return refuse("it is damaged: its checksum does not fit".into());
    }
    Ok(manifest)
}

/// Compares as the moments at which checkpoints of one directory were written.
pub(crate) type Written = (Option<u64>, String);

impl Manifest {
    pub(crate) fn written(&self) -> Written {
        (self.number, self.created.clone())
    }

    fn new(kind: &str, number: u64, files: Vec<ManifestFile>, hash: StateHash) -> Self {
        let mut manifest = Manifest {
            format: FORMAT.into(),
            format_version: FORMAT_VERSION,
            pavlov: env!("CARGO_PKG_VERSION").into(),
            kind: kind.into(),
            created: format!("{:.9}", jiff::Timestamp::now()),
            number: Some(number),
            files,
            hash: Some(hash),
            crc32c: 0,
        };
        manifest.crc32c = manifest.checksum();
        manifest
    }

    fn checksum(&self) -> u32 {
        let bare = Manifest { crc32c: 0, ..self.clone() };
        crc32c::crc32c(&serde_json::to_vec(&bare).expect("a manifest is plain data"))
    }
}

fn read_text(dir: &Path, name: &str) -> Result<String> {
    let path = dir.join(name);
    match read_file(&path) {
        Ok(text) => String::from_utf8(text)
            .map_err(|_| Error::checkpoint(dir, format!("{name} is damaged: it is not text"))),
        Err(error) if error.kind() == io::ErrorKind::FileTooLarge => {
            Err(Error::checkpoint(dir, format!("{name} is damaged: {error}")))
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            Err(Error::checkpoint(dir, why_absent(dir, name)))
        }
        Err(error) => Err(Error::io("read", &path)(error)),
    }
}

fn why_absent(dir: &Path, name: &str) -> String {
    if !dir.exists() {
        return "there is no such directory".into();
    }
    match list(dir).ok().and_then(|found| found.into_iter().next_back()) {
        Some((_, newest)) if name == MANIFEST => {
            format!("this is a run directory; a checkpoint in it is {}", newest.display())
        }
        _ => format!("{name} is missing"),
    }
}

/// The path of a file in a checkpoint, refused if it leads out of it.
pub(crate) fn relative<'a>(dir: &Path, path: &'a str) -> Result<&'a Path> {
    let relative = Path::new(path);
    let inside = relative.components().all(|part| matches!(part, Component::Normal(_)));
    if path.is_empty() || !inside {
        return Err(Error::checkpoint(
            dir,
            format!("{MANIFEST}: the path {path:?} leads out of the checkpoint"),
        ));
    }
    Ok(relative)
}

fn checksum(path: &Path) -> io::Result<u32> {
    let mut file = File::open(path)?;
    let mut buffer = vec![0; 1 << 16];
    let mut crc = 0;
    loop {
        match file.read(&mut buffer)? {
            0 => return Ok(crc),
            n => crc = crc32c::crc32c_append(crc, &buffer[..n]),
        }
    }
}
