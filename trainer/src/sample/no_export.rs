//! The refusal of exports, which libtorch makes, in a build without it.

use crate::base::{Error, Result};
use crate::sample::session::Session;
use crate::sample::signature::Signature;
use std::path::Path;

impl Session {
    /// Refuses to write the policy as TorchScript.
    ///
    /// # Errors
    /// Always returns [`Error::NeedsTorch`].
    pub fn export(&mut self, file: &Path) -> Result<Signature> {
        Err(Error::NeedsTorch {
            what: format!("{} is to become TorchScript", file.display()),
            instead: "Act with `pavlov::load`".into(),
        })
    }
}
