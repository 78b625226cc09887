//! Export of a policy for other programs: ONNX, one file of C or Rust, or TorchScript.

mod c;
mod onnx;
mod pack;
// TorchScript alone is described by its outputs.
#[cfg_attr(not(feature = "torch"), allow(dead_code))]
mod signature;
mod spaces;
#[cfg_attr(not(feature = "torch"), path = "no_torch.rs")]
mod torchscript;

use crate::sample::Session;
pub use c::Agreement;
pub(crate) use onnx::encoded;
pub use pack::{Pack, PackFacts};
use pavlov_envs::Space;
use pavlov_learn::base::{Error, Result};
use pavlov_tune as tune;
pub use signature::Signature;
use std::ffi::OsString;
use std::fmt;
use std::path::{Path, PathBuf};

/// Format of an exported policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PolicyFormat {
    /// ONNX, operators of version 13, for files that end in `.onnx`. The model takes raw observations and gives actions.
    Onnx,
    /// One file of C99 without libraries, for files that end in `.c`. Its function takes a raw observation and gives the
    /// action.
    C,
    /// One file of Rust without the standard library and without `unsafe`, for files that end in `.rs`. Its function takes a
    /// raw observation and gives the action.
    Rust,
    /// TorchScript, for files that end in `.pt`, `.pth` or `.ts`; needs libtorch. The function takes raw observations and gives the
    /// network's outputs, or for SAC, TD3 and DDPG on a box actions; with masks or recurrent layers it takes and gives what the
    /// ONNX model does.
    TorchScript,
}

impl PolicyFormat {
    /// The format of a file by the end of its name.
    ///
    /// # Errors
    /// Returns [`Error::Config`] for an end that no format has.
    pub fn of(file: &Path) -> Result<Self> {
        match file.extension().and_then(|end| end.to_str()) {
            Some("onnx") => Ok(Self::Onnx),
            Some("c") => Ok(Self::C),
            Some("rs") => Ok(Self::Rust),
            Some("pt" | "pth" | "ts") => Ok(Self::TorchScript),
            _ => {
                let rule = "the end of the name says the format: `.onnx` is ONNX, `.c` is C, `.rs` is Rust, `.pt` (or `.pth`, `.ts`) is TorchScript";
                Err(Error::config("file", file.display(), rule))
            }
        }
    }
}

impl fmt::Display for PolicyFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Onnx => "ONNX",
            Self::C => "C",
            Self::Rust => "Rust",
            Self::TorchScript => "TorchScript",
        })
    }
}

impl Session {
    /// Writes the policy for other programs, in the [`PolicyFormat`] that the end of the file's name says. One-hot coding
    /// and the observation filter are part of the file. It is compared with the policy before it appears. What it takes and
    /// gives is returned, and for ONNX and TorchScript stored in a file of the same name with `.json` at its end.
    ///
    /// **ONNX** (`.onnx`): the input `obs` holds raw observations `[batch, ...]`; `mask` the flags of legal actions
    /// `[batch, options]`, with the setting `mask_actions`; `h`, `c` the recurrent state `[batch, units]` of each recurrent
    /// layer (`h2`, `c2` of the second), zeros where an episode begins. The output `action` is the best action as the
    /// environment takes it, `head` holds the numbers that it was chosen by, `h_next` and `c_next` the next recurrent
    /// state. See [`export_drawing`](Self::export_drawing)
    /// for actions that are drawn.
    ///
    /// **C** (`.c`): one function, `policy_act`, from a raw observation to the best action, with the flags of legal actions
    /// and the recurrent state as arguments where the policy has them. The file says how it is called.
    ///
    /// **Rust** (`.rs`): one function, `act`, as in C. The file needs no crate, not even the standard library.
    ///
    /// **TorchScript** (`.pt`): a function from raw observations `[rows, ...]` to the outputs of the policy, or to actions,
    /// scaled to the bounds, if the policy has [`Policy::best_actions`](crate::policy::Policy::best_actions). A policy with
    /// masks or recurrent layers takes the inputs of ONNX as arguments and gives its outputs side by side as columns.
    ///
    /// # Errors
    /// Returns [`Error::Config`] if the end of the name says no format, [`Error::NeedsTorch`] for TorchScript in a build
    /// without libtorch, and [`Error::State`] if the policy has no network, its network does what the format cannot hold,
    /// the file differs from the policy, or it cannot be written.
    pub fn export(&mut self, file: &Path) -> Result<Signature> {
        match PolicyFormat::of(file)? {
            PolicyFormat::Onnx => self.export_onnx(file, false),
            PolicyFormat::C => self.export_c(file),
            PolicyFormat::Rust => self.export_rust(file),
            PolicyFormat::TorchScript => self.export_torchscript(file, false),
        }
    }

    /// Writes the policy as ONNX or TorchScript like [`export`](Self::export), but its `action` is drawn from the distribution. The input
    /// `noise` decides which: one uniform number in [0, 1) for each discrete choice, one standard normal number for each
    /// component of a continuous action. The output `logp` is the logarithm of the action's probability or density.
    ///
    /// # Errors
    /// Fails like [`export`](Self::export). Returns [`Error::Config`] if the file's name says neither ONNX nor TorchScript, and
    /// [`Error::State`] if the policy has no distribution (DQN, TD3, DDPG).
    pub fn export_drawing(&mut self, file: &Path) -> Result<Signature> {
        match PolicyFormat::of(file)? {
            PolicyFormat::Onnx => self.export_onnx(file, true),
            PolicyFormat::TorchScript => self.export_torchscript(file, true),
            PolicyFormat::C | PolicyFormat::Rust => {
                let rule = "C and Rust files have no random numbers: let the name end in `.onnx` or `.pt`";
                Err(Error::config("file", file.display(), rule))
            }
        }
    }
}

/// The error for a network with outputs from which no action of `space` follows.
fn misfit(columns: usize, space: &Space) -> Error {
    let reason = format!(
        "it gives {columns} numbers, from which no action of {space} follows: let `NetPolicy::distribution` or \
         `NetPolicy::best_actions` say how, or act with `pavlov::load`"
    );
    Error::state("the policy's network", reason)
}

/// Writes the description of the exported file `file` beside it: `pole.onnx.json` for `pole.onnx`.
fn write_description(file: &Path, text: &str) -> Result<()> {
    let mut name = OsString::from(file);
    name.push(".json");
    let path = PathBuf::from(name);
    Ok(tune::write_output(&path, text.as_bytes())?)
}
