//! Checkpoints: directories that are either complete or absent.
//!
//! ```text
//! checkpoint_000010/
//!     manifest.json   written last: format version, kind, size and CRC-32C of every other file, hashes of the state
//!     metadata.json   the driver's counters, settings and last result
//!     ...             files of the trainable
//! ```
//!
//! [`write()`] fills a hidden sibling directory, makes it durable, and renames it into place. A process that dies while
//! writing leaves only the hidden directory. The next `write` to the same parent directory removes it, or the sweep
//! that owns the trial does. [`verify`] compares sizes and checksums before anything is loaded.
//!
//! The manifest also holds its own checksum, so that a flipped bit in it is detected, and the checkpoint's number, so
//! that the most recently written checkpoint of a directory is known without a clock.
//!
//! If a run needs the name of a damaged checkpoint again, [`set_aside_damaged`] renames the damaged one.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Component, Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::base::{Config, Error, LARGEST_FILE, Metrics, Result, read_file};

mod object;
mod retention;
mod set_aside;
mod sparse;
mod state_hash;
mod write;

pub(crate) use object::{pack, unpack};
pub(crate) use retention::{Kept, Retention, beyond};
pub(crate) use set_aside::is_named_so;
pub use set_aside::set_aside_damaged;
pub use state_hash::{StateHash, chain};
pub use write::write;
pub(crate) use write::{clean_up, next_number, receive, remove, write_as};

/// Value of `format` in every manifest; also how a damaged checkpoint is recognized.
const FORMAT: &str = "pavlov-checkpoint";
/// Version of the manifest's layout; other versions are refused.
const FORMAT_VERSION: u32 = 1;
/// File name of the manifest inside a checkpoint.
pub(crate) const MANIFEST: &str = "manifest.json";
/// File name of the driver's [`Metadata`] inside a checkpoint.
pub(crate) const METADATA: &str = "metadata.json";

/// Content of `manifest.json`: who wrote a checkpoint, when, and which files it holds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Manifest {
    format: String,
    format_version: u32,
    /// Version of this library that wrote the checkpoint.
    pub pavlov: String,
    /// [`Trainable::kind`](crate::Trainable::kind) of the trainable that wrote the checkpoint.
    pub kind: String,
    /// Time at which the checkpoint was written: RFC 3339 in UTC with nanoseconds, so that it sorts as text.
    pub created: String,
    /// Number of the checkpoint: 1 for the first one written into its directory, then one more for each further one.
    /// `None` if an older version of this library wrote the checkpoint.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub number: Option<u64>,
    /// Every file of the checkpoint except the manifest, sorted by path.
    pub files: Vec<ManifestFile>,
    /// Hashes of the state; `None` if an older version of this library wrote the checkpoint.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hash: Option<StateHash>,
    /// CRC-32C of this manifest as compact JSON in which this field is 0.
    crc32c: u32,
}

/// One file of a checkpoint, as its manifest lists it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ManifestFile {
    /// Path relative to the checkpoint, with `/` as separator.
    pub path: String,
    /// Size of the file in bytes.
    pub bytes: u64,
    /// CRC-32C of the file's content.
    pub crc32c: u32,
}

/// Content of `metadata.json`: the driver's part of a checkpoint.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Metadata {
    /// Id of the run, 32 hexadecimal digits; a run that continues from this checkpoint keeps it.
    pub experiment_id: String,
    /// Number of results that the run had reported.
    pub iteration: u64,
    /// Sum of timesteps over all results; `None` if no result counted any.
    pub timesteps_total: Option<u64>,
    /// Sum of episodes over all results; `None` if no result counted any.
    pub episodes_total: Option<u64>,
    /// Seconds spent in `step` so far.
    pub time_total_s: f64,
    /// Complete settings of the run.
    pub config: Config,
    /// Newest result; `None` before the first one.
    pub last_result: Option<Metrics>,
}

/// Returns the directory name of the checkpoint after `iteration` results, e.g. `checkpoint_000010`.
pub fn name(iteration: u64) -> String {
    format!("checkpoint_{iteration:06}")
}

/// Returns the iteration in the name of a checkpoint (`checkpoint_000010` gives 10); `None` for any other name.
pub(crate) fn iteration(name: &str) -> Option<u64> {
    name.strip_prefix("checkpoint_")?.parse().ok()
}

/// Checks that the checkpoint in `dir` is complete and undamaged, and that `expected_kind` wrote it if one is given.
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
    for file in &manifest.files {
        sparse::refuse(dir, &file.path)?;
    }
    // The checks above read no content. All files are checked so first: reading a large file takes long.
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

/// Returns the [`StateHash::state`] of the files that the checkpoint in `dir` has now.
///
/// # Errors
/// Fails whenever [`verify`] does.
pub fn state_hash(dir: &Path) -> Result<String> {
    let manifest = verify(dir, None)?;
    state_hash::state(dir, &manifest.files).map_err(Error::io("read", dir))
}

/// Refuses the file `name` of the checkpoint in `dir` if the manifest does not list it, since no checksum covers such a
/// file. A directory without a manifest is not a checkpoint, and every file in it may be read.
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

/// Reads the driver's part of a checkpoint. Does not look at the other files; see [`verify`].
///
/// # Errors
/// Returns [`Error::Checkpoint`] if `metadata.json` is missing, damaged or not listed in the manifest, and
/// [`Error::Io`] if a file cannot be read.
pub fn metadata(dir: &Path) -> Result<Metadata> {
    let text = read_text(dir, METADATA)?;
    refuse_unlisted(dir, METADATA)?;
    serde_json::from_str(&text).map_err(|error| Error::checkpoint(dir, format!("{METADATA}: {error}")))
}

/// Lists the checkpoints in a run directory, sorted by iteration and including damaged ones; empty if the directory
/// does not exist.
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

/// Returns the most recently written undamaged checkpoint of a run; damaged ones are skipped with a warning.
///
/// Checkpoints are ordered by [`Manifest::number`], not by iteration: after a return to an older checkpoint, those
/// written since then are the newest. Checkpoints without a number come before all others, ordered by their time.
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

/// Whether the checkpoint in `dir` has every file with its size, as a quick check: contents are not read.
pub fn has_all_files(dir: &Path) -> bool {
    let is_there = |file: &ManifestFile| {
        dir.join(&file.path).symlink_metadata().is_ok_and(|attributes| attributes.len() == file.bytes)
    };
    read_manifest(dir).is_ok_and(|manifest| manifest.files.iter().all(is_there))
}

/// Whether this library made the directory, even if the checkpoint is damaged by now.
pub(crate) fn is_checkpoint(dir: &Path) -> bool {
    read_file(&dir.join(MANIFEST))
        .is_ok_and(|bytes| bytes.windows(FORMAT.len()).any(|part| part == FORMAT.as_bytes()))
}

/// Reads and checks the manifest of the checkpoint in `dir`.
pub(crate) fn read_manifest(dir: &Path) -> Result<Manifest> {
    parse_manifest(dir, &read_text(dir, MANIFEST)?)
}

/// Parses a manifest and checks its format, version and checksum; errors name `dir`.
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

/// Sort key that orders the checkpoints of one directory by when they were written: number, then time.
pub(crate) type Written = (Option<u64>, String);

impl Manifest {
    /// Returns the key by which checkpoints of one directory are ordered by age.
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

    /// Returns the CRC-32C of the manifest with its own `crc32c` field set to 0.
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

/// Explains why the file `name` of a checkpoint is not there.
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

/// Turns the path of a file in a manifest into a relative path; refuses one that leads out of the checkpoint.
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

/// Returns the CRC-32C of a file's content.
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
