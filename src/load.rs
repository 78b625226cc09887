//! Saved policies, ready to act.

use std::path::{Path, PathBuf};

use pavlov_trainer::{Error, Result, Session};
use pavlov_tune::{checkpoint, storage};

use crate::registry;

/// The policy of a checkpoint, or of the newest checkpoint of a run directory, ready to act in one episode of yours.
///
/// It needs no settings, no environment and no workers: the checkpoint knows the network, the observation filter and how
/// actions reach the environment. Nothing that the directory names is run.
///
/// ```no_run
/// # fn main() -> pavlov::Result<()> {
/// let mut policy = pavlov::load("runs/first")?;
/// let action = policy.act(&[0.02_f32, -0.01, 0.03, 0.04])?;
/// # Ok(())
/// # }
/// ```
///
/// A policy with memory remembers from one call to the next: tell it where episodes begin with
/// [`reset`](Session::reset). Where the algorithm obeys masks, write them with [`mask_mut`](Session::mask_mut).
///
/// # Errors
/// Fails if there is no whole checkpoint at `path`, if its algorithm is not [registered](registry::register), and
/// whenever [`load_session`](pavlov_trainer::load_session) does.
pub fn load(path: impl AsRef<Path>) -> Result<Session> {
    load_policy(path, None, 1)
}

/// Does as [`load`], for the policy of that id where there are several, and for as many episodes as there are copies.
///
/// # Errors
/// Fails whenever [`load`] does, and if the checkpoint has no policy of that id or `copies` is 0.
pub fn load_policy(path: impl AsRef<Path>, policy: Option<&str>, copies: usize) -> Result<Session> {
    let checkpoint = find_checkpoint(path.as_ref())?;
    let kind = checkpoint::verify(&checkpoint, None)?.kind;
    let entry = registry::algorithm(&kind).map_err(|error| {
        let what = checkpoint.display().to_string();
        Error::state(what, format!("{error}; an algorithm of your own is known after `registry::register`"))
    })?;
    entry.load_session(&checkpoint, policy, copies)
}

/// The checkpoint that `path` is, or the newest whole one in the run directory that it is. One on another machine is
/// copied here first.
///
/// # Errors
/// Fails if there is no directory at `path`, no whole checkpoint in it, or what its URL names cannot be fetched.
pub(crate) fn find_checkpoint(path: &Path) -> Result<PathBuf> {
    if storage::scheme(path).is_some() {
        return Ok(checkpoint::fetch(path)?);
    }
    let refuse = |reason: &str| Err(Error::state(path.display().to_string(), reason));
    if !path.is_dir() {
        return refuse("there is no such directory; give a checkpoint or a run directory");
    }
    let named_so = path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("checkpoint_"));
    if named_so || path.join("manifest.json").exists() {
        return Ok(path.into());
    }
    match checkpoint::latest(path)? {
        Some(checkpoint) => Ok(checkpoint),
        None => refuse("there is no whole checkpoint in it"),
    }
}
