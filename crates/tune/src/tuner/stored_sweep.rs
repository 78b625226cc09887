//! A sweep whose storage path is a URL: its local working directory, and what is stored where.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use tempfile::NamedTempFile;

use super::journal;
use crate::base::{Error, Result, files, read_file};
use crate::checkpoint;
use crate::storage::{self, Lease, Mirror, Object, SEGMENTS, Segments, Storage, SyncConfig};

/// File in a working directory with the URL that it belongs to. It is not uploaded.
const ORIGIN: &str = ".storage";
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// Storage of a running sweep.
pub(super) struct StoredSweep {
    storage: Arc<dyn Storage>,
    dir: PathBuf,
    pub(super) mirror: Mirror,
    patience: Duration,
    /// Checkpoints on the storage, by their local paths.
    stored: HashSet<PathBuf>,
    /// Checkpoints that are both on the storage and local: iterations by trial.
    on_both: BTreeMap<usize, Vec<u64>>,
    /// Whether the working directory was just downloaded from the storage.
    pub(super) is_fresh: bool,
}

/// Returns the URL of the sweep at `place`: `place` itself if it is a URL, otherwise the URL named in its working directory,
/// if any.
pub(super) fn origin(place: &Path) -> Option<String> {
    match storage::scheme(place) {
        Some(_) => place.to_str().map(|url| url.trim_end_matches('/').into()),
        None => String::from_utf8(read_file(&place.join(ORIGIN)).ok()?).ok(),
    }
}

/// Returns `dir` if it is the working directory of the sweep at `url`. This check is needed because a directory copied from
/// elsewhere could name any URL, and the sweep would then be uploaded there.
///
/// # Errors
/// Returns [`Error::Experiment`] if the working directory for `url` is another directory.
pub(super) fn work_dir_of(url: &str, dir: &Path) -> Result<PathBuf> {
    let work_dir = storage::work_dir(url)?;
    let is_same = matches!((dir.canonicalize(), work_dir.canonicalize()), (Ok(a), Ok(b)) if a == b);
    if is_same {
        return Ok(work_dir);
    }
    let reason = format!(
        "it names {url} as its storage, but that sweep is worked on in {}; restore it by the URL, or, to go on with this \
         directory alone, delete {ORIGIN} in it",
        work_dir.display()
    );
    Err(Error::experiment(dir, reason))
}

/// Whether a sweep has begun at `place`, a directory or a URL.
///
/// # Errors
/// Returns [`Error::Storage`] if the storage cannot be used, and [`Error::Io`] if the journal cannot be read.
pub(super) fn has_begun(place: &Path) -> Result<bool> {
    match place.to_str().filter(|_| storage::scheme(place).is_some()) {
        Some(url) => exists(url),
        None => journal::has_begun(&place.join(journal::FILE)),
    }
}

/// Whether there is a journal at `url` or in the working directory of that URL.
///
/// # Errors
/// Returns [`Error::Storage`] if the storage cannot be used, and [`Error::Io`] if the local journal cannot be read.
fn exists(url: &str) -> Result<bool> {
    let is_here = journal::has_begun(&storage::work_dir(url)?.join(journal::FILE))?;
    Ok(is_here || !storage::open(url)?.list(SEGMENTS)?.is_empty())
}

impl StoredSweep {
    /// Prepares the storage for a new sweep at `url` with the working directory `dir`.
    ///
    /// # Errors
    /// Returns [`Error::Experiment`] if a sweep exists already or another driver is running, and [`Error::Storage`] if the
    /// storage cannot be used.
    pub(super) fn begin(url: &str, dir: &Path, sync: &SyncConfig) -> Result<Self> {
        let storage = storage::open(url)?;
        let lease = Lease::take(storage.clone())?;
        if !storage.list(SEGMENTS)?.is_empty() {
            let reason = "there is a sweep already; restore it, or choose another name or storage path";
            return Err(Error::experiment(Path::new(url), reason));
        }
        if journal::has_begun(&dir.join(journal::FILE))? {
            let reason = format!(
                "a sweep that is not at {url} was worked on here; restore it from here, or delete this directory"
            );
            return Err(Error::experiment(dir, reason));
        }
        fs::create_dir_all(dir).map_err(Error::io("create", dir))?;
        write_origin(dir, url)?;
        Self::start(storage, dir, Segments::new(dir.join(journal::FILE)), lease, sync, &[], false)
    }

    /// Prepares the storage for continuing the sweep at `url`, which last ran in `dir` or on another machine. Afterwards
    /// `dir` has the longer of the local and the stored journal.
    ///
    /// # Errors
    /// Returns [`Error::Experiment`] if there is no sweep, if the two journals contradict each other, or if another driver
    /// is running, and [`Error::Storage`] if the storage cannot be used.
    pub(super) fn resume(url: &str, dir: &Path, sync: &SyncConfig) -> Result<Self> {
        let storage = storage::open(url)?;
        let lease = Lease::take(storage.clone())?;
        fs::create_dir_all(dir).map_err(Error::io("create", dir))?;
        let local = dir.join(journal::FILE);
        let mut copy = NamedTempFile::with_prefix_in(".journal-", dir).map_err(Error::io("write in", dir))?;
        let segments = Segments::download(&*storage, local.clone(), copy.as_file_mut())?;
        let is_here = journal::has_begun(&local)?;
        let objects = storage.list("")?;
        let mut is_fresh = false;
        let segments = match segments {
            None if !is_here => {
                return Err(Error::experiment(Path::new(url), "there is no sweep"));
            }
            None => Segments::new(local),
            Some(segments) => {
                let order = if is_here { compare(&local, copy.path())? } else { JournalOrder::Behind };
                match order {
                    JournalOrder::Ahead => {}
                    JournalOrder::Behind => {
                        clear(dir)?;
                        storage::download_small_files(&*storage, &objects, dir)?;
                        // The journal comes last, so that a directory with a journal is complete.
                        copy.persist(&local).map_err(|error| Error::io("write", &local)(error.error))?;
                        is_fresh = true;
                    }
                    JournalOrder::Apart => {
                        let reason = format!(
                            "this sweep and the one at {url} have gone different ways; move this directory away to go \
                             on with that one, or restore this one alone after deleting {ORIGIN} in it"
                        );
                        return Err(Error::experiment(dir, reason));
                    }
                }
                segments
            }
        };
        write_origin(dir, url)?;
        Self::start(storage, dir, segments, lease, sync, &objects, is_fresh)
    }

    fn start(
        storage: Arc<dyn Storage>,
        dir: &Path,
        segments: Segments,
        lease: Lease,
        sync: &SyncConfig,
        objects: &[Object],
        is_fresh: bool,
    ) -> Result<Self> {
        let mirror = Mirror::start(storage.clone(), dir, Some(segments), Some(lease), sync.clone())?;
        let manifests = objects.iter().filter_map(|object| {
            object.path.strip_suffix(checkpoint::MANIFEST)?.strip_suffix('/').map(|path| dir.join(path))
        });
        Ok(StoredSweep {
            stored: manifests.collect(),
            on_both: BTreeMap::new(),
            patience: sync.sync_timeout,
            dir: dir.to_path_buf(),
            storage,
            mirror,
            is_fresh,
        })
    }

    /// Whether the checkpoint with this local path is on the storage.
    pub(super) fn has(&self, checkpoint: &Path) -> bool {
        self.stored.contains(checkpoint)
    }

    /// Iterations of the checkpoints on the storage, by the trial's directory.
    pub(super) fn stored_iterations(&self) -> HashMap<PathBuf, Vec<u64>> {
        let mut iterations: HashMap<PathBuf, Vec<u64>> = HashMap::new();
        for path in &self.stored {
            let name = path.file_name().and_then(|name| name.to_str());
            if let Some(iteration) = name.and_then(checkpoint::iteration) {
                iterations.entry(files::parent(path).into()).or_default().push(iteration);
            }
        }
        iterations
    }

    /// Records that a checkpoint of a trial is both on the storage and local.
    pub(super) fn uploaded(&mut self, trial: usize, iteration: u64, checkpoint: PathBuf) {
        self.stored.insert(checkpoint);
        let on_both = self.on_both.entry(trial).or_default();
        if !on_both.contains(&iteration) {
            on_both.push(iteration);
        }
    }

    /// Returns the iterations of a trial's uploaded checkpoints whose local copies are `unneeded`, and no longer counts them
    /// as local.
    pub(super) fn surplus(&mut self, trial: usize, unneeded: impl Fn(u64) -> bool) -> Vec<u64> {
        let Some(on_both) = self.on_both.get_mut(&trial) else { return Vec::new() };
        let (surplus, left) = on_both.drain(..).partition(|iteration| unneeded(*iteration));
        *on_both = left;
        surplus
    }

    /// Queues the deletion of a checkpoint on the storage. Call it before the local copy is deleted.
    pub(super) fn delete(&mut self, trial: usize, iteration: u64, checkpoint: &Path, journal: u64) {
        self.mirror.delete(checkpoint, journal);
        self.stored.remove(checkpoint);
        if let Some(on_both) = self.on_both.get_mut(&trial) {
            on_both.retain(|other| *other != iteration);
        }
    }

    /// Downloads a checkpoint to its local path. Retries for up to `sync_timeout` while the storage cannot be reached.
    ///
    /// # Errors
    /// Returns [`Error::Checkpoint`] if the checkpoint is damaged or missing, and [`Error::Storage`] if the storage cannot
    /// be used or cannot be reached in time.
    pub(super) fn fetch(&mut self, trial: usize, iteration: u64, checkpoint: &Path) -> Result<()> {
        let path = self.object(checkpoint);
        let deadline = Instant::now() + self.patience;
        let mut pause = Duration::from_millis(250);
        loop {
            match storage::get_checkpoint(&*self.storage, &path, checkpoint) {
                Err(error @ Error::Storage { transient: true, .. }) if Instant::now() < deadline => {
                    tracing::warn!("{error}; trying again for {:.0?}", deadline - Instant::now());
                    std::thread::sleep(pause.min(deadline.saturating_duration_since(Instant::now())));
                    pause = LONGEST_PAUSE.min(pause * 2);
                }
                outcome => {
                    outcome?;
                    self.uploaded(trial, iteration, checkpoint.to_path_buf());
                    return Ok(());
                }
            }
        }
    }

    /// Returns the local path of a checkpoint, or its URL if it is only on the storage.
    pub(super) fn place(&self, checkpoint: PathBuf) -> PathBuf {
        if self.has(&checkpoint) && !checkpoint.is_dir() {
            storage::join(self.storage.url(), &self.object(&checkpoint)).into()
        } else {
            checkpoint
        }
    }

    fn object(&self, checkpoint: &Path) -> String {
        checkpoint.strip_prefix(&self.dir).unwrap_or(checkpoint).to_string_lossy().into_owned()
    }

    /// Waits until everything is uploaded, for at most `sync_timeout`.
    ///
    /// # Errors
    /// Returns [`Error::Experiment`] if the upload is not complete within `sync_timeout`, or fails.
    pub(super) fn finish(&self) -> Result<()> {
        self.mirror.finish().map_err(|error| {
            let reason = format!(
                "it is whole here, but not at {}: {error}; restore it from here to upload the rest",
                self.storage.url()
            );
            Error::experiment(&self.dir, reason)
        })
    }
}

fn write_origin(dir: &Path, url: &str) -> Result<()> {
    let path = dir.join(ORIGIN);
    files::replace_file(&path, url.as_bytes())
}

/// Relation of the local journal to the stored one.
#[derive(Debug, PartialEq)]
enum JournalOrder {
    /// The local journal equals the stored one or continues it.
    Ahead,
    /// The stored journal continues the local one.
    Behind,
    Apart,
}

fn compare(local: &Path, other: &Path) -> Result<JournalOrder> {
    let open = |path: &Path| files::open(path).map(BufReader::new).map_err(Error::io("read", path));
    let mut left = open(local)?;
    let mut right = open(other)?;
    loop {
        let ours = left.fill_buf().map_err(Error::io("read", local))?;
        let theirs = right.fill_buf().map_err(Error::io("read", other))?;
        if theirs.is_empty() {
            return Ok(JournalOrder::Ahead);
        }
        if ours.is_empty() {
            return Ok(JournalOrder::Behind);
        }
        let length = ours.len().min(theirs.len());
        if ours[..length] != theirs[..length] {
            return Ok(JournalOrder::Apart);
        }
        left.consume(length);
        right.consume(length);
    }
}

/// Deletes the outdated local files of a sweep that was continued elsewhere, the journal first. Keeps folders that are not
/// trials, since they may be working directories of other sweeps.
fn clear(dir: &Path) -> Result<()> {
    let journal = dir.join(journal::FILE);
    if journal.exists() {
        fs::remove_file(&journal).map_err(Error::io("delete", &journal))?;
    }
    for entry in fs::read_dir(dir).map_err(Error::io("list", dir))?.flatten() {
        let path = entry.path();
        let name = entry.file_name().to_string_lossy().into_owned();
        let removed = match path.is_dir() {
            true if is_trial(&name) => fs::remove_dir_all(&path),
            false if !name.starts_with('.') => fs::remove_file(&path),
            _ => Ok(()),
        };
        removed.map_err(Error::io("delete", &path))?;
    }
    Ok(())
}

/// Whether `name` is the id of a trial, such as `3f2a1_00004`.
fn is_trial(name: &str) -> bool {
    let is_hex = |prefix: &str| prefix.len() == 5 && prefix.bytes().all(|byte| byte.is_ascii_hexdigit());
    let is_number = |number: &str| number.len() >= 5 && number.bytes().all(|byte| byte.is_ascii_digit());
    name.split_once('_').is_some_and(|(prefix, number)| is_hex(prefix) && is_number(number))
}
