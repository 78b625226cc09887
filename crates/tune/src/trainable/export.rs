//! Formats in which a trained model can be exported.

use std::fmt;
use std::str::FromStr;

use crate::base::{Error, Result};

/// Export format for [`Driver::export_model`](crate::Driver::export_model).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum ExportFormat {
    /// Weights only.
    Checkpoint,
    /// Model that runs without this library.
    Model,
    /// Model in the ONNX format.
    Onnx,
    /// Model in the HDF5 format.
    H5,
}

impl fmt::Display for ExportFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ExportFormat::Checkpoint => "checkpoint",
            ExportFormat::Model => "model",
            ExportFormat::Onnx => "onnx",
            ExportFormat::H5 => "h5",
        })
    }
}

impl FromStr for ExportFormat {
    type Err = Error;

    /// Parses a format name, ignoring case and surrounding whitespace.
    fn from_str(given: &str) -> Result<Self> {
        match given.trim().to_ascii_lowercase().as_str() {
            "checkpoint" => Ok(ExportFormat::Checkpoint),
            "model" => Ok(ExportFormat::Model),
            "onnx" => Ok(ExportFormat::Onnx),
            "h5" => Ok(ExportFormat::H5),
            _ => Err(Error::ExportFormat { given: given.to_string() }),
        }
    }
}
