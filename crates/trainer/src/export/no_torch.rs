//! The refusal of TorchScript, which libtorch makes, in a build without it.

use crate::export::Signature;
use crate::sample::Session;
use pavlov_learn::base::{Error, Result};
use std::path::Path;

impl Session {
    pub(super) fn export_torchscript(&mut self, file: &Path, _sample: bool) -> Result<Signature> {
        Err(Error::NeedsTorch {
            what: format!("{} is to become TorchScript", file.display()),
            instead: "Write ONNX, by a name that ends in `.onnx`, or act with `pavlov::load`".into(),
        })
    }
}
