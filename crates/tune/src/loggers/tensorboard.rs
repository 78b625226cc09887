//! Writes TensorBoard event files without a protobuf library: TFRecord frames around a handful of protobuf fields.
//!
//! ```text
//! frame:   u64 length, u32 masked CRC-32C of the length, content, u32 masked CRC-32C of the content
//! Event:   1 wall_time: double, 2 step: int64, 3 file_version: string, 5 summary, 7 session_log
//! Summary: 1 repeated Value { 1 tag: string, 2 simple_value: float, 4 image, 5 histo }
//! Image:   1 height, 2 width, 3 colorspace (3 = RGB), 4 encoded_image_string: bytes
//! SessionLog: 1 status (START = 1)
//! ```
//!
//! A START record makes TensorBoard discard what it has read for that step and later steps. So results that were logged
//! before a return to an older checkpoint disappear.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::Value;

use super::histogram::histogram;
use super::protobuf::Message;
use super::{Logger, flatten, tags::tag};
use crate::base::{Config, Error, Metrics, Result, files, node, read_file};

/// Writes results as TensorBoard scalars, with grouped tags: `rollout/episode_reward_mean`, `train/kl`,
/// `eval/episode_reward_mean`, `time/timesteps_total`.
///
/// Any other key of a trainable is its own tag, with nested keys joined by `/`. Each number appears once. A list of numbers
/// is shown as a histogram: `rollout/hist_stats/episode_reward`. A string that names a GIF in the run directory is shown as
/// an image. The step is `timesteps_total`, or the iteration if timesteps
/// are not counted.
#[derive(Debug)]
pub struct TensorBoardLogger {
    path: PathBuf,
    file: File,
    announce_restart: bool,
}

impl TensorBoardLogger {
    /// Creates a new event file in `run_dir`; TensorBoard reads it after the older ones.
    ///
    /// # Errors
    /// Returns [`Error::Io`] if the file cannot be written.
    pub fn open(run_dir: &Path) -> Result<Self> {
        let (path, file) = loop {
            let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
            let name = format!(
                "events.out.tfevents.{:010}.{:06}.{}",
                now.as_secs(),
                now.subsec_micros(),
                node::hostname()
            );
            let path = run_dir.join(name);
            match OpenOptions::new().create_new(true).read(true).append(true).open(&path) {
                Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
                opened => {
                    let file = opened.map_err(Error::io("write", &path))?;
                    break (path, file);
                }
            }
        };
        let mut logger = TensorBoardLogger { path, file, announce_restart: false };
        let mut event = event_at(0);
        event.bytes(3, b"brain.Event:2");
        logger.write(&[event])?;
        Ok(logger)
    }

    /// Writes the settings of a trial for the HPARAMS tab: numbers, booleans and strings as such, any other value as
    /// JSON text.
    ///
    /// # Errors
    /// Returns [`Error::Io`] if the file cannot be written.
    pub fn hparams(&mut self, hparams: &Config) -> Result<()> {
        // hparams/plugin_data.proto: HParamsPluginData { 3 session_start_info }, SessionStartInfo { 1 map<string, Value>
        // hparams, 5 start_time_secs }. summary.proto: Value { 1 tag, 9 metadata }, SummaryMetadata { 1 plugin_data },
        // PluginData { 1 plugin_name, 2 content }. struct.proto: Value { 2 number, 3 string, 4 bool }.
        let mut session = Message::default();
        for (name, value) in hparams {
            let mut shown = Message::default();
            match value {
                Value::Bool(flag) => shown.varint(4, u64::from(*flag)),
                Value::Number(number) => shown.double(2, number.as_f64().unwrap_or_default()),
                Value::String(text) => shown.bytes(3, text.as_bytes()),
                other => shown.bytes(3, other.to_string().as_bytes()),
            }
            let mut entry = Message::default();
            entry.bytes(1, name.as_bytes());
            entry.message(2, &shown);
            session.message(1, &entry);
        }
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        session.double(5, now.as_secs_f64());
        let wrap = |field: u32, inner: &Message| {
            let mut outer = Message::default();
            outer.message(field, inner);
            outer
        };
        let mut plugin = Message::default();
        plugin.bytes(1, b"hparams");
        plugin.message(2, &wrap(3, &session));
        let mut value = Message::default();
        value.bytes(1, b"_hparams_/session_start_info");
        value.message(9, &wrap(1, &plugin));
        let mut event = event_at(0);
        event.message(5, &wrap(1, &value));
        self.write(&[event])
    }

    /// Reads a GIF in the run directory into an image message; `None` if there is no such file.
    fn animation(&self, file: &str) -> Option<Message> {
        let content = read_file(&self.path.parent()?.join(file)).ok()?;
        let side =
            |at: usize| Some(u64::from(u16::from_le_bytes([*content.get(at)?, *content.get(at + 1)?])));
        let mut image = Message::default();
        // A GIF starts with six bytes of version, then its width and height as 16-bit integers.
        image.varint(1, side(8)?);
        image.varint(2, side(6)?);
        image.varint(3, 3);
        image.bytes(4, &content);
        Some(image)
    }

    /// Appends events to the file.
    fn write(&mut self, events: &[Message]) -> Result<()> {
        let frames: Vec<u8> = events.iter().flat_map(|event| frame(event.bytes_of())).collect();
        self.file.write_all(&frames).map_err(Error::io("write", &self.path))
    }
}

impl Logger for TensorBoardLogger {
    fn on_result(&mut self, result: &Metrics) -> Result<()> {
        let whole = |key: &str| result.get(key).and_then(Value::as_u64);
        let step =
            whole("timesteps_total").filter(|n| *n > 0).or_else(|| whole("training_iteration")).unwrap_or(0);
        let mut events = Vec::new();
        if std::mem::take(&mut self.announce_restart) {
            let mut start = Message::default();
            start.varint(1, 1);
            let mut event = event_at(step);
            event.message(7, &start);
            events.push(event);
        }
        let mut summary = Message::default();
        for (key, value) in flatten(result) {
            let Some(tag) = tag(&key) else { continue };
            let mut shown = Message::default();
            shown.bytes(1, tag.as_bytes());
            match value {
                Value::Number(number) => shown.fixed32(2, number.as_f64().unwrap_or(f64::NAN) as f32),
                Value::String(file) if file.ends_with(".gif") => match self.animation(file) {
                    Some(image) => shown.message(4, &image),
                    None => continue,
                },
                Value::Array(list) => match histogram(list) {
                    Some(histogram) => shown.message(5, &histogram),
                    None => continue,
                },
                _ => continue,
            }
            summary.message(1, &shown);
        }
        let mut event = event_at(step);
        event.message(5, &summary);
        events.push(event);
        self.write(&events)
    }

    fn rewind(&mut self, _iteration: u64) -> Result<()> {
        self.announce_restart = true;
        Ok(())
    }

    fn keep_in(&mut self, run_dir: &Path) -> Result<Option<String>> {
        let name = self.path.file_name().unwrap_or_default().to_owned();
        let path = run_dir.join(&name);
        let Some(file) = files::write_again(&self.file, &path)? else { return Ok(None) };
        self.file = file;
        self.path = path;
        Ok(Some(name.to_string_lossy().into_owned()))
    }

    fn sync(&mut self) -> Result<()> {
        self.file.sync_data().map_err(Error::io("write", &self.path))
    }
}

/// Wraps a message in a TFRecord frame.
fn frame(content: &[u8]) -> Vec<u8> {
    let length = (content.len() as u64).to_le_bytes();
    let mut frame = length.to_vec();
    frame.extend(masked_crc(&length).to_le_bytes());
    frame.extend(content);
    frame.extend(masked_crc(content).to_le_bytes());
    frame
}

/// Returns the CRC-32C of `bytes`, masked as TFRecord files require.
fn masked_crc(bytes: &[u8]) -> u32 {
    crc32c::crc32c(bytes).rotate_right(15).wrapping_add(0xa282_ead8)
}

/// Starts an `Event` message with the current time.
fn event_at(step: u64) -> Message {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let mut event = Message::default();
    event.double(1, now.as_secs_f64());
    event.varint(2, step);
    event
}
