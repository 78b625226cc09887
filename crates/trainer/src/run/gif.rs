//! Writes pictures of episodes to GIF files.

use pavlov_envs::{Frame, encode_gif};
use pavlov_learn::base::{Error, Result};
use pavlov_tune::{Error as TuneError, write_output};
use std::fs;
use std::path::Path;

/// Writes frames of equal size as a GIF that repeats, with `render_fps` frames per second. Creates the file's folder.
///
/// # Errors
/// Fails if there are no pictures, if they differ in size, or if the file cannot be written.
pub fn write_gif(path: &Path, frames: &[Frame], render_fps: Option<f64>) -> Result<()> {
    let content = encode_gif(frames, render_fps)
        .map_err(|reason| Error::state(path.display().to_string(), reason.to_string()))?;
    if let Some(dir) = path.parent() {
        fs::create_dir_all(dir).map_err(TuneError::io("create", dir))?;
    }
    Ok(write_output(path, &content)?)
}
