//! Loads saved policies that are ready to act.

use std::path::{Path, PathBuf};

use pavlov_trainer::models::CustomModel;
use pavlov_trainer::policy::PolicyClass;
use pavlov_trainer::workers::Code;
use pavlov_trainer::{Error, Loaded, Pack, Result, Session};
use pavlov_tune::{checkpoint, storage};

use crate::registry;

/// Loads the policy of a packed model, of a checkpoint, or of the newest checkpoint of a run directory, ready to act in one
/// episode at a time.
///
/// No settings, environment or workers are needed: the file or the checkpoint has the network, the observation filter and the
/// conversion of actions. No program that the directory names is run.
///
/// ```no_run
/// # fn main() -> pavlov::Result<()> {
/// let mut policy = pavlov::load("runs/first")?;
/// let action = policy.act(&[0.02_f32, -0.01, 0.03, 0.04])?;
/// # Ok(())
/// # }
/// ```
///
/// A recurrent policy keeps its state from one call to the next: call [`reset`](Session::reset) where an episode begins. If
/// the algorithm obeys action masks, write them with [`mask_mut`](Session::mask_mut).
///
/// # Errors
/// Fails if there is no whole checkpoint and no packed model at `path`, if its algorithm is not [registered](registry::register), and
/// whenever [`load_session`](pavlov_trainer::load_session) does.
pub fn load(path: impl AsRef<Path>) -> Result<Session> {
    Load::from(path).session()
}

/// Loads a policy as [`load`] does: the one with the id `policy`, if there are several, for `copies` episodes at a time.
///
/// # Errors
/// Fails whenever [`load`] does, and if the checkpoint has no policy with that id or `copies` is 0. A packed model has one
/// policy without an id.
pub fn load_policy(path: impl AsRef<Path>, policy: Option<&str>, copies: usize) -> Result<Session> {
    let load = Load::from(path).copies(copies);
    match policy {
        Some(id) => load.policy(id),
        None => load,
    }
    .session()
}

/// Loads a policy from the places of [`load`] with options: the code of a network or a policy class of your own, which is
/// no part of a checkpoint; the id of the policy; the number of episodes at a time.
///
/// ```no_run
/// use pavlov::trainer::models::CustomModel;
///
/// # fn load(model: CustomModel) -> pavlov::Result<()> {
/// let mut policy = pavlov::Load::from("runs/first").custom_model(model).policy("first").copies(8).session()?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Load {
    path: PathBuf,
    code: Code,
    has_code: bool,
    policy: Option<String>,
    copies: usize,
}

impl Load {
    /// Begins to load from `path`: a packed model, a checkpoint, or a run directory, whose newest checkpoint is taken.
    pub fn from(path: impl AsRef<Path>) -> Self {
        let path = path.as_ref().to_path_buf();
        Self { path, code: Code::default(), has_code: false, policy: None, copies: 1 }
    }

    /// Gives the network that the policy was trained with; the checkpoint names it.
    #[must_use]
    pub fn custom_model(self, model: CustomModel) -> Self {
        Self { code: self.code.with_custom_model(model), has_code: true, ..self }
    }

    /// Gives the class of the policy; the checkpoint names it.
    #[must_use]
    pub fn policy_class(self, policy_class: PolicyClass) -> Self {
        Self { code: self.code.with_policy_class(policy_class), has_code: true, ..self }
    }

    /// Sets the id of the policy, if the checkpoint has several.
    #[must_use]
    pub fn policy(self, id: impl Into<String>) -> Self {
        Self { policy: Some(id.into()), ..self }
    }

    /// Sets the number of episodes that the session acts in at a time. Default: 1.
    #[must_use]
    pub fn copies(self, copies: usize) -> Self {
        Self { copies, ..self }
    }

    /// Loads the policy as a session, which acts in its episodes one step after the other.
    ///
    /// # Errors
    /// Fails whenever [`load`] does; if the checkpoint has no policy with that id; if the number of episodes is 0; and if
    /// the checkpoint has a network or a policy class of another name, or a network that computes something else. A packed
    /// model has one policy without an id, and needs no code.
    pub fn session(self) -> Result<Session> {
        let Self { path, code, has_code, policy, copies } = self;
        if is_pack(&path) {
            let rule = "a packed model has all that is needed to act; leave it out";
            return match policy {
                None if has_code => Err(Error::config("custom_model or policy_class", "given", rule)),
                None => Pack::read(&path)?.session(copies),
                Some(id) => {
                    Err(Error::config("policy", id, "a packed model has one policy; leave the id out"))
                }
            };
        }
        // A checkpoint may be of an environment that other programs play.
        #[cfg(feature = "serve")]
        crate::external::register();
        let checkpoint = find_checkpoint(&path)?;
        let kind = checkpoint::verify(&checkpoint, None)?.kind;
        let entry = registry::algorithm(&kind).map_err(|error| {
            let what = checkpoint.display().to_string();
            Error::state(
                what,
                format!("{error}; an algorithm of your own is known after `registry::register`"),
            )
        })?;
        entry.load_session_with(&checkpoint, policy.as_deref(), copies, &code)
    }

    /// Loads the policy for threads to share; see [`load_shared`].
    ///
    /// # Errors
    /// Fails whenever [`session`](Self::session) does, and if the policy is of a class of your own that cannot be shared.
    pub fn shared(self) -> Result<Loaded> {
        self.session()?.into_loaded()
    }
}

/// Loads a policy that threads share, from the same places as [`load`]: the one with the id `policy`, if there are several.
///
/// ```no_run
/// # fn main() -> pavlov::Result<()> {
/// let policy = pavlov::load_shared("runs/first", None)?;
/// std::thread::scope(|scope| {
///     for row in [[0.02_f32, -0.01, 0.03, 0.04], [0.0, 0.1, 0.2, 0.3]] {
///         let policy = policy.clone();
///         scope.spawn(move || println!("{:?}", policy.act_once(&row)));
///     }
/// });
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// Fails whenever [`load_policy`] does, and if the policy is of a class of your own that cannot be shared.
pub fn load_shared(path: impl AsRef<Path>, policy: Option<&str>) -> Result<Loaded> {
    load_policy(path, policy, 1)?.into_loaded()
}

/// Returns the name of the algorithm that trained the policy at `path`, one of the places of [`load`]; `None` if a packed
/// model does not say.
///
/// # Errors
/// Fails if there is no whole checkpoint and no packed model at `path`.
pub fn algorithm_of(path: impl AsRef<Path>) -> Result<Option<String>> {
    let path = path.as_ref();
    if is_pack(path) {
        let pack = Pack::read(path)?;
        return Ok(pack.facts().settings.get("algorithm").and_then(|name| Some(name.as_str()?.into())));
    }
    Ok(Some(checkpoint::verify(&find_checkpoint(path)?, None)?.kind))
}

/// Whether `path` is a packed model, which is a file, while a checkpoint is a directory.
pub(crate) fn is_pack(path: &Path) -> bool {
    storage::scheme(path).is_none() && path.is_file()
}

/// Finds a checkpoint: `path` itself, or the newest whole checkpoint of the run directory `path`. A checkpoint at a URL is
/// copied to this machine first.
///
/// # Errors
/// Fails if there is no directory at `path`, if it has no whole checkpoint, or if the checkpoint at a URL cannot be
/// fetched.
pub(crate) fn find_checkpoint(path: &Path) -> Result<PathBuf> {
    if storage::scheme(path).is_some() {
        return Ok(storage::fetch_checkpoint(path)?);
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
