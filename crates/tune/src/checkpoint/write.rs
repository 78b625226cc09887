//! Writes, replaces and removes checkpoints atomically.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, RenameFlags, renameat_with};
use rustix::io::Errno;
use tempfile::TempDir;

use super::state_hash::StateHash;
use super::{MANIFEST, Manifest, ManifestFile, checksum, is_checkpoint, list, read_manifest};
use crate::base::files::{parent, sync_dir};
use crate::base::{Error, Result, write_file};
use pavlov_processes::{lock_abandoned, locked_dir};

/// Name prefix of hidden directories: checkpoints being written, and checkpoints being deleted.
const UNFINISHED: &str = ".pavlov-unfinished-";
/// File in the directory of a checkpoint that is being filled.
const MARK: &str = ".being-filled";
/// Name prefix of a complete checkpoint that another one is just replacing.
const REPLACED: &str = ".pavlov-replaced-";

/// Makes the checkpoint `final_dir` from the files that `fill` writes into the directory given to it.
///
/// On success `final_dir` is complete and durable. On an error nothing has changed: an earlier checkpoint of the same
/// name is still there. While a checkpoint is replaced, either the old or the new one exists at every moment.
///
/// # Errors
/// Returns what `fill` returns, [`Error::Io`] if the files cannot be written (disk full, no permission), and
/// [`Error::Checkpoint`] if something that is not a checkpoint has the name already, or if `fill` writes a file
/// `manifest.json`, a link, or a name that is not UTF-8.
pub fn write(final_dir: &Path, kind: &str, fill: impl FnOnce(&Path) -> Result<()>) -> Result<PathBuf> {
    write_as(final_dir, kind, next_number(parent(final_dir)), fill)
}

/// Returns the number for the next checkpoint in `home`: one above the highest number found in readable manifests.
///
/// A directory that cannot be listed counts as empty; writing into it then reports the reason.
pub(crate) fn next_number(home: &Path) -> u64 {
    let found = list(home).unwrap_or_default();
    let numbers = found.iter().filter_map(|(_, path)| read_manifest(path).ok()?.number);
    numbers.max().map_or(1, |newest| newest.saturating_add(1))
}

/// Writes a checkpoint like [`write()`], with a given number, which must be above those of the other checkpoints in the
/// directory.
pub(crate) fn write_as(
    final_dir: &Path,
    kind: &str,
    number: u64,
    fill: impl FnOnce(&Path) -> Result<()>,
) -> Result<PathBuf> {
    let home = parent(final_dir);
    fs::create_dir_all(home).map_err(Error::io("create", home))?;
    clean_up(home);
    refuse_to_replace_others(final_dir)?;

    let (unfinished, _lock) = hidden_dir(home)?;
    // Who deletes everything in the directory while it is filled deletes this file as well.
    let mark = unfinished.path().join(MARK);
    File::create(&mark).map_err(Error::io("write", final_dir))?;
    fill(unfinished.path())?;
    fs::remove_file(&mark).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => {
            let reason = "its files were deleted while it was written; write it again";
            Error::io("write", final_dir)(io::Error::new(io::ErrorKind::NotFound, reason))
        }
        _ => Error::io("write", final_dir)(error),
    })?;
    seal(unfinished.path(), kind, number, final_dir)?;
    put_in_place(unfinished, final_dir)?;
    sync_dir(home).map_err(Error::io("write", home))?;
    Ok(final_dir.to_path_buf())
}

/// Makes the checkpoint `final_dir` from downloaded files: `fill` writes all of them, the manifest included.
///
/// # Errors
/// Returns [`Error::Checkpoint`], naming `origin`, if the downloaded checkpoint is not complete. Fails otherwise in the
/// same cases as [`write()`].
pub(crate) fn receive(final_dir: &Path, origin: &Path, fill: impl FnOnce(&Path) -> Result<()>) -> Result<()> {
    let home = parent(final_dir);
    fs::create_dir_all(home).map_err(Error::io("create", home))?;
    refuse_to_replace_others(final_dir)?;
    let (unfinished, _lock) = hidden_dir(home)?;
    fill(unfinished.path())?;
    super::verify(unfinished.path(), None).map_err(|error| match error {
        Error::Checkpoint { reason, .. } => Error::checkpoint(origin, reason),
        error => error,
    })?;
    put_in_place(unfinished, final_dir)
}

/// Removes a checkpoint; a half-removed one is never visible under its name. For a symbolic link only the link is
/// removed, since somebody else put its target there.
pub(crate) fn remove(dir: &Path) -> Result<()> {
    if dir.is_symlink() {
        return fs::remove_file(dir).map_err(Error::io("delete", dir));
    }
    let (grave, _lock) = hidden_dir(parent(dir))?;
    fs::rename(dir, grave.path()).map_err(Error::io("delete", dir))?;
    let path = grave.path().to_path_buf();
    match grave.close() {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(Error::io("delete", &path)(error)),
        _ => Ok(()),
    }
}

/// Removes the hidden directories that killed processes left in `home`, as far as possible. Directories that are still
/// being written are locked by their writers and stay.
pub(crate) fn clean_up(home: &Path) {
    for path in fs::read_dir(home).into_iter().flatten().flatten().map(|entry| entry.path()) {
        let Some(name) = path.file_name().and_then(|name| name.to_str()) else { continue };
        let cleaned = if let Some(original) = name.strip_prefix(REPLACED) {
            let original = home.join(original);
            if original.exists() { fs::remove_dir_all(&path) } else { fs::rename(&path, &original) }
        } else if name.starts_with(UNFINISHED)
            && let Some(_lock) = lock_abandoned(&path)
        {
            fs::remove_dir_all(&path)
        } else {
            continue;
        };
        match cleaned {
            Ok(()) => tracing::debug!("cleaned up {}, left by a process that was killed", path.display()),
            Err(error) => tracing::warn!("cannot clean up {}: {error}", path.display()),
        }
    }
}

/// Makes a locked hidden directory in `home` for a checkpoint that is being written or deleted.
fn hidden_dir(home: &Path) -> Result<(TempDir, File)> {
    locked_dir(home, UNFINISHED, 0o777).map_err(Error::io("write in", home))
}

/// Refuses a `final_dir` that exists and is neither a checkpoint nor an empty directory.
fn refuse_to_replace_others(final_dir: &Path) -> Result<()> {
    let is_empty_dir = || fs::read_dir(final_dir).is_ok_and(|mut entries| entries.next().is_none());
    if !final_dir.exists() || is_checkpoint(final_dir) || is_empty_dir() {
        return Ok(());
    }
    let reason = "something that is no checkpoint has this name; move it away or save elsewhere";
    Err(Error::checkpoint(final_dir, reason))
}

/// Makes all files in `dir` durable and adds the manifest; errors name `final_dir`.
fn seal(dir: &Path, kind: &str, number: u64, final_dir: &Path) -> Result<()> {
    if dir.join(MANIFEST).exists() {
        return Err(Error::checkpoint(final_dir, format!("{MANIFEST} is a reserved name; choose another")));
    }
    let mut files = Vec::new();
    seal_files(dir, dir, &mut files, final_dir)?;
    files.sort_by(|a, b| a.path.cmp(&b.path));
    let hash = StateHash::of(dir, &files, final_dir, number).map_err(Error::io("read", dir))?;
    let text = serde_json::to_vec_pretty(&Manifest::new(kind, number, files, hash)).map_err(Error::other)?;
    let path = dir.join(MANIFEST);
    write_file(&path, &text).map_err(Error::io("write", &path))?;
    File::open(&path).and_then(|file| file.sync_all()).map_err(Error::io("write", &path))?;
    sync_dir(dir).map_err(Error::io("write", dir))
}

/// Makes the files below `dir` durable and appends them to `files`, with paths relative to `root`.
fn seal_files(root: &Path, dir: &Path, files: &mut Vec<ManifestFile>, final_dir: &Path) -> Result<()> {
    for entry in fs::read_dir(dir).map_err(Error::io("list", dir))? {
        let entry = entry.map_err(Error::io("list", dir))?;
        let path = entry.path();
        let kind = entry.file_type().map_err(Error::io("read", &path))?;
        if kind.is_dir() {
            seal_files(root, &path, files, final_dir)?;
            sync_dir(&path).map_err(Error::io("write", &path))?;
            continue;
        }
        let relative = path.strip_prefix(root).expect("what is listed in a directory lies below it").to_str();
        let Some(relative) = relative.filter(|_| kind.is_file()) else {
            let reason = format!(
                "{} is not a plain file with a UTF-8 name; a checkpoint holds nothing else",
                entry.file_name().display()
            );
            return Err(Error::checkpoint(final_dir, reason));
        };
        let sealed = File::open(&path).and_then(|file| {
            file.sync_all()?;
            Ok(ManifestFile {
                path: relative.into(),
                bytes: file.metadata()?.len(),
                crc32c: checksum(&path)?,
            })
        });
        files.push(sealed.map_err(Error::io("write", &path))?);
    }
    Ok(())
}

/// Renames the finished checkpoint to `final_dir`, exchanging it with an older one if there is one.
fn put_in_place(unfinished: TempDir, final_dir: &Path) -> Result<()> {
    let refused = Error::io("write", final_dir);
    if fs::read_dir(final_dir).is_ok_and(|mut entries| entries.next().is_some()) {
        return match renameat_with(CWD, unfinished.path(), CWD, final_dir, RenameFlags::EXCHANGE) {
            // After the exchange, `unfinished` holds the old checkpoint and deletes it.
            Ok(()) => {
                if let Err(error) = unfinished.close() {
                    tracing::warn!("cannot delete the replaced checkpoint: {error}");
                }
                Ok(())
            }
            Err(Errno::INVAL | Errno::NOSYS | Errno::NOTSUP) => replace_in_two_steps(unfinished, final_dir),
            Err(errno) => Err(refused(errno.into())),
        };
    }
    fs::rename(unfinished.path(), final_dir).map_err(refused)?;
    // The directory has its final name now, so it must not be deleted.
    let _ = unfinished.keep();
    Ok(())
}

/// Replaces a checkpoint on file systems that cannot exchange two names. Between the two steps the old checkpoint has a
/// name from which [`clean_up`] restores it.
fn replace_in_two_steps(unfinished: TempDir, final_dir: &Path) -> Result<()> {
    let name = final_dir.file_name().ok_or_else(|| Error::checkpoint(final_dir, "the path has no name"))?;
    let aside = parent(final_dir).join(format!("{REPLACED}{}", name.to_string_lossy()));
    fs::rename(final_dir, &aside).map_err(Error::io("move", final_dir))?;
    if let Err(error) = fs::rename(unfinished.path(), final_dir) {
        fs::rename(&aside, final_dir).map_err(Error::io("bring back", final_dir))?;
        return Err(Error::io("write", final_dir)(error));
    }
    let _ = unfinished.keep();
    fs::remove_dir_all(&aside).map_err(Error::io("delete", &aside))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checkpoint::{latest, verify};

    fn save(dir: &Path, content: &str) -> Result<PathBuf> {
        write(dir, "Counter", |tmp| fs::write(tmp.join("state"), content).map_err(Error::io("write", tmp)))
    }

    #[test]
    fn a_file_system_without_exchange_replaces_in_two_steps() {
        let home = tempfile::tempdir().unwrap();
        let target = home.path().join("checkpoint_000001");
        save(&target, "old").unwrap();
        let (unfinished, _lock) = hidden_dir(home.path()).unwrap();
        fs::write(unfinished.path().join("state"), "new").unwrap();
        seal(unfinished.path(), "Counter", 2, &target).unwrap();
        replace_in_two_steps(unfinished, &target).unwrap();
        verify(&target, None).unwrap();
        assert_eq!(fs::read_to_string(target.join("state")).unwrap(), "new");
        assert_eq!(fs::read_dir(home.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_process_killed_between_the_two_steps_loses_nothing() {
        let home = tempfile::tempdir().unwrap();
        let target = home.path().join("checkpoint_000001");
        save(&target, "old").unwrap();
        fs::rename(&target, home.path().join(".pavlov-replaced-checkpoint_000001")).unwrap();
        assert_eq!(latest(home.path()).unwrap(), Some(target));
    }

    #[test]
    fn directories_of_killed_writers_are_removed_and_those_of_living_writers_are_not() {
        let home = tempfile::tempdir().unwrap();
        let left = home.path().join(".pavlov-unfinished-abc");
        fs::create_dir(&left).unwrap();
        let (alive, _lock) = hidden_dir(home.path()).unwrap();
        clean_up(home.path());
        assert!(!left.exists());
        assert!(alive.path().exists());
    }

    #[test]
    fn metadata_too_large_to_be_read_is_refused_before_anything_is_summed() {
        let home = tempfile::tempdir().unwrap();
        let target = home.path().join("checkpoint_000001");
        save(&target, "old").unwrap();
        let Manifest { mut files, hash, .. } = read_manifest(&target).unwrap();
        // The first file's content does not match its checksum; reading the files would report that first.
        files[0].crc32c += 1;
        let bytes = crate::base::LARGEST_FILE + 1;
        File::create(target.join("metadata.json")).unwrap().set_len(bytes).unwrap();
        files.push(ManifestFile { path: "metadata.json".into(), bytes, crc32c: 0 });
        let manifest = serde_json::to_vec(&Manifest::new("Counter", 1, files, hash.unwrap())).unwrap();
        fs::write(target.join(MANIFEST), manifest).unwrap();
        let message = verify(&target, None).unwrap_err().to_string();
        assert!(
            message.contains("metadata.json has 268435457 bytes, but pavlov reads 268435456"),
            "{message}"
        );
    }

    #[test]
    fn of_a_checkpoint_that_is_a_link_the_link_alone_is_removed_or_replaced() {
        let home = tempfile::tempdir().unwrap();
        let elsewhere = tempfile::tempdir().unwrap();
        let kept = save(&elsewhere.path().join("checkpoint_000001"), "old").unwrap();
        let link = home.path().join("checkpoint_000001");
        std::os::unix::fs::symlink(&kept, &link).unwrap();
        remove(&link).unwrap();
        assert!(!link.is_symlink());
        std::os::unix::fs::symlink(&kept, &link).unwrap();
        save(&link, "new").unwrap();
        assert_eq!(fs::read_to_string(link.join("state")).unwrap(), "new");
        assert_eq!(fs::read_to_string(kept.join("state")).unwrap(), "old");
        for path in [kept, link] {
            verify(&path, None).unwrap();
            assert!(!path.is_symlink());
        }
        assert_eq!(fs::read_dir(home.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_checkpoint_whose_files_are_deleted_while_it_is_written_is_not_made() {
        let home = tempfile::tempdir().unwrap();
        let target = home.path().join("checkpoint_000001");
        save(&target, "old").unwrap();
        // As `rm -rf` does in the middle: what is there is deleted, what follows is not.
        let error = write(&target, "Counter", |dir| {
            fs::write(dir.join("first"), "").map_err(Error::io("write", dir))?;
            for entry in fs::read_dir(dir).unwrap() {
                fs::remove_file(entry.unwrap().path()).unwrap();
            }
            fs::write(dir.join("second"), "").map_err(Error::io("write", dir))
        });
        let error = error.unwrap_err();
        assert!(error.to_string().ends_with("its files were deleted while it was written; write it again"));
        assert!(error.is_of_missing_file());
        verify(&target, None).unwrap();
        assert_eq!(fs::read_to_string(target.join("state")).unwrap(), "old");
    }

    #[test]
    fn a_directory_that_is_no_checkpoint_is_not_replaced() {
        let home = tempfile::tempdir().unwrap();
        let target = home.path().join("checkpoint_000001");
        fs::create_dir(&target).unwrap();
        fs::write(target.join("thesis.tex"), "years of work").unwrap();
        let message = save(&target, "new").unwrap_err().to_string();
        assert!(message.ends_with("move it away or save elsewhere"), "{message}");
        assert!(target.join("thesis.tex").exists());
    }

    #[test]
    fn links_and_the_reserved_name_are_refused_while_writing() {
        let home = tempfile::tempdir().unwrap();
        let target = home.path().join("c");
        let link = write(&target, "Counter", |tmp| {
            std::os::unix::fs::symlink("/etc/hostname", tmp.join("link")).map_err(Error::io("write", tmp))
        });
        assert!(link.unwrap_err().to_string().contains("not a plain file"));
        let reserved = write(&target, "Counter", |tmp| {
            fs::write(tmp.join(MANIFEST), "mine").map_err(Error::io("write", tmp))
        });
        assert!(reserved.unwrap_err().to_string().contains("manifest.json is a reserved name"));
        assert_eq!(fs::read_dir(home.path()).unwrap().count(), 0);
    }
}
