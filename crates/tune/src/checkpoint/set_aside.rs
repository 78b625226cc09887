//! Renames damaged checkpoints, so that their names are free again.

use std::fs;
use std::path::{Path, PathBuf};

use super::{iteration, list, verify};
use crate::base::{Error, Result};

/// Suffix of the names of damaged checkpoints that were renamed.
const DAMAGED: &str = ".damaged";

/// Renames the damaged checkpoints of a run whose names the run will need again, and returns their new paths.
///
/// These are the damaged ones with an iteration above `after`, or all if `after` is `None`. `checkpoint_000010` becomes
/// `checkpoint_000010.damaged`, or `.damaged2` if that name is taken. Each renamed checkpoint is logged as a warning.
///
/// # Errors
/// Returns [`Error::Io`] if the run directory cannot be listed, or if a checkpoint cannot be renamed.
pub fn set_aside_damaged(run_dir: &Path, after: Option<u64>) -> Result<Vec<PathBuf>> {
    let mut moved = Vec::new();
    for (iteration, path) in list(run_dir)? {
        if after.is_some_and(|after| iteration <= after) {
            continue;
        }
        let Err(error @ Error::Checkpoint { .. }) = verify(&path, None) else { continue };
        let place = free_place(&path);
        fs::rename(&path, &place).map_err(Error::io("rename", &path))?;
        tracing::warn!("{error}; it was renamed to {}", place.display());
        moved.push(place);
    }
    Ok(moved)
}

/// Returns the first unused path among `<path>.damaged`, `<path>.damaged2`, and so on.
fn free_place(path: &Path) -> PathBuf {
    let place = |number: u64| {
        let mut place = path.as_os_str().to_owned();
        place.push(DAMAGED);
        if number > 1 {
            place.push(number.to_string());
        }
        PathBuf::from(place)
    };
    (1..).map(place).find(|place| !place.exists()).expect("some number is free")
}

/// Whether `name` is the name of a checkpoint or of a damaged one that was renamed.
pub(crate) fn is_named_so(name: &str) -> bool {
    let name = name.split_once(DAMAGED).map_or(name, |(name, _)| name);
    iteration(name).is_some()
}
