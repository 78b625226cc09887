//! Writes results as an offline run of Weights & Biases, which `wandb sync` uploads.
//!
//! ```text
//! file:    ":W&B", u16 0xBEE1, u8 0, then records in blocks of 32 KiB as LevelDB's log has them
//! piece:   u32 CRC-32 of type and content, u16 length, u8 type (1 whole, 2 first, 3 middle, 4 last), content
//! Record:  1 num, 2 history, 3 summary, 17 run, 18 exit, 21 header
//! History: 1 repeated Item, 2 Step { 1 num }; Summary and Config: 1 repeated Item
//! Item:    1 key, 2 repeated nested_key, 16 value_json
//! Run:     1 run_id, 3 project, 4 config, 8 display_name, 13 host, 17 start_time { 1 seconds, 2 nanos }
//! Exit:    1 exit_code, 2 runtime; Header: 1 VersionInfo { 1 producer, 2 min_consumer }
//! ```

use std::fs::{self, File};
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::{Map, Value, json};

use super::protobuf::{Message, Wire, field};
use super::{Logger, flatten, folder_of, tags::tag};
use crate::base::{Config, Error, Metrics, Result, files, node, read_file, replace_file};
use crate::trainable::TrialContext;

/// Name of the file in the run directory that holds the run's id, under which it is continued.
const ID: &str = "wandb.json";
/// Beginning of every file: its kind, a number, a version.
const BEGIN: [u8; 7] = [b':', b'W', b'&', b'B', 0xE1, 0xBE, 0];
const BLOCK: usize = 32 << 10;
/// Bytes before the content of a piece.
const PIECE: usize = 7;
/// Oldest reader that understands the records; the one that the records of wandb 0.31 name.
const MIN_CONSUMER: &[u8] = b"0.70.0";
/// Fields of a record.
const HISTORY: u32 = 2;
const SUMMARY: u32 = 3;
const RUN: u32 = 17;
const EXIT: u32 = 18;
const HEADER: u32 = 21;

/// Writes results as an offline run of Weights & Biases in `wandb/` of the run directory, under the names of the TensorBoard
/// tags. The step is the iteration. A run that is continued keeps its id and its file.
///
/// Nothing is sent anywhere: `wandb sync RUN/wandb/offline-run-*` uploads the run.
///
/// ```
/// use pavlov_tune::loggers::WandbLogger;
/// use pavlov_tune::{LoggerChoice, RunOptions};
///
/// let loggers = LoggerChoice::DefaultAnd(vec![Box::new(WandbLogger::new("pole"))]);
/// let options = RunOptions { loggers, ..RunOptions::default() };
/// ```
#[derive(Debug)]
pub struct WandbLogger {
    project: String,
    /// Whether the runs of one directory form a group.
    is_grouped: bool,
    run: Option<WandbRun>,
}

/// An open run.
#[derive(Debug)]
struct WandbRun {
    path: PathBuf,
    file: File,
    /// Length of the file.
    length: usize,
    /// Number of the last record.
    num: u64,
    /// Milliseconds since 1970 at which the run began.
    started: u64,
    /// Whether results of an earlier process may have to be removed.
    is_fresh: bool,
    has_failed: bool,
}

impl WandbLogger {
    /// Makes a logger; the run becomes part of the project of this name.
    pub fn new(project: impl Into<String>) -> Self {
        WandbLogger { project: project.into(), is_grouped: false, run: None }
    }

    /// Lets Weights & Biases show the trials of a sweep as one group, with the name of the sweep's directory.
    #[must_use]
    pub fn grouped(self) -> Self {
        WandbLogger { is_grouped: true, ..self }
    }
}

impl Logger for WandbLogger {
    fn setup(&mut self, config: &Config, trial: &TrialContext) -> Result<()> {
        let (id, started) = identity(&trial.logdir.join(ID))?;
        let began = node::date(&node::local(UNIX_EPOCH + std::time::Duration::from_millis(started)));
        // `2026-11-26_04-17-05` becomes `20261126_041705`, as wandb names its folders.
        let began: String = began.chars().filter(|c| *c != '-').collect();
        let dir = trial.logdir.join("wandb").join(format!("offline-run-{began}-{id}"));
        for inner in ["files", "logs"] {
            let inner = dir.join(inner);
            fs::create_dir_all(&inner).map_err(Error::io("create", &inner))?;
        }
        let path = dir.join(format!("run-{id}.wandb"));
        let kept = keep(&path, u64::MAX)?;
        let file = files::append(&path)?;
        let mut run = WandbRun {
            path,
            file,
            length: kept.length,
            num: kept.records,
            started,
            is_fresh: true,
            has_failed: false,
        };
        if kept.records == 0 {
            let group = self.is_grouped.then(|| folder_of(trial.logdir.parent())).flatten();
            run.begin(&id, (&self.project, group.as_deref()), config, trial)?;
        }
        self.run = Some(run);
        Ok(())
    }

    fn keep_in(&mut self, run_dir: &Path) -> Result<Option<String>> {
        let Some(run) = &mut self.run else { return Ok(None) };
        // `wandb/offline-run-<date>-<id>/run-<id>.wandb`
        let parts: Vec<_> = run.path.components().rev().take(3).collect();
        let inner: PathBuf = parts.into_iter().rev().collect();
        let path = run_dir.join(&inner);
        if files::is_at(&run.file, &path)? {
            return Ok(None);
        }
        for folder in ["files", "logs"] {
            let folder = path.with_file_name(folder);
            fs::create_dir_all(&folder).map_err(Error::io("create", &folder))?;
        }
        let Some(file) = files::write_again(&run.file, &path)? else { return Ok(None) };
        run.file = file;
        run.path = path;
        Ok(Some(inner.display().to_string()))
    }

    fn on_result(&mut self, result: &Metrics) -> Result<()> {
        let Some(run) = &mut self.run else { return Ok(()) };
        run.has_failed = false;
        let step = result.get("training_iteration").and_then(Value::as_u64).unwrap_or(0);
        if std::mem::take(&mut run.is_fresh) {
            run.cut(step.saturating_sub(1))?;
        }
        let mut items = Map::new();
        for (key, value) in flatten(result) {
            if let (Some(tag), true) = (tag(&key), value.is_number()) {
                items.insert(tag, value.clone());
            }
        }
        let now = now();
        items.insert("_timestamp".into(), json!(now as f64 / 1000.0));
        items.insert("_runtime".into(), json!(now.saturating_sub(run.started) as f64 / 1000.0));
        items.insert("_step".into(), json!(step));
        let mut history = Message::default();
        let mut summary = Message::default();
        for (key, value) in &items {
            let item = item(2, key, value);
            history.message(1, &item);
            summary.message(1, &item);
        }
        let mut at = Message::default();
        at.varint(1, step);
        history.message(2, &at);
        run.write(&[(HISTORY, history), (SUMMARY, summary)])
    }

    fn rewind(&mut self, iteration: u64) -> Result<()> {
        match &mut self.run {
            Some(run) => run.cut(iteration),
            None => Ok(()),
        }
    }

    fn sync(&mut self) -> Result<()> {
        match &self.run {
            Some(run) => run.file.sync_data().map_err(Error::io("write", &run.path)),
            None => Ok(()),
        }
    }

    fn failed(&mut self) {
        if let Some(run) = &mut self.run {
            run.has_failed = true;
        }
    }

    fn close(&mut self) -> Result<()> {
        let Some(mut run) = self.run.take() else { return Ok(()) };
        let mut exit = Message::default();
        if run.has_failed {
            exit.varint(1, 1);
        }
        exit.varint(2, now().saturating_sub(run.started) / 1000);
        run.write(&[(EXIT, exit)])
    }
}

impl WandbRun {
    /// Writes what stands before the first result.
    fn begin(
        &mut self,
        id: &str,
        (project, group): (&str, Option<&str>),
        config: &Config,
        trial: &TrialContext,
    ) -> Result<()> {
        self.append(&BEGIN)?;
        let mut version = Message::default();
        version.bytes(1, format!("pavlov {}", env!("CARGO_PKG_VERSION")).as_bytes());
        version.bytes(2, MIN_CONSUMER);
        let mut header = Message::default();
        header.message(1, &version);
        let mut settings = Message::default();
        settings.message(1, &item(1, "_wandb", &json!({})));
        config.iter().for_each(|(key, value)| settings.message(1, &item(1, key, value)));
        let mut start = Message::default();
        start.varint(1, self.started / 1000);
        start.varint(2, self.started % 1000 * 1_000_000);
        let name = folder_of(Some(&trial.logdir));
        let mut run = Message::default();
        run.bytes(1, id.as_bytes());
        run.bytes(3, project.as_bytes());
        run.message(4, &settings);
        if let Some(group) = group {
            run.bytes(6, group.as_bytes());
        }
        run.bytes(8, name.as_deref().unwrap_or(&trial.trial_id).as_bytes());
        run.bytes(13, node::hostname().as_bytes());
        run.message(17, &start);
        self.write(&[(HEADER, header), (RUN, run)])
    }

    /// Appends records.
    fn write(&mut self, records: &[(u32, Message)]) -> Result<()> {
        let mut bytes = Vec::new();
        for (field, content) in records {
            self.num += 1;
            let mut record = Message::default();
            record.varint(1, self.num);
            record.message(*field, content);
            frame(&mut bytes, self.length, record.bytes_of());
        }
        self.append(&bytes)
    }

    fn append(&mut self, bytes: &[u8]) -> Result<()> {
        self.file.write_all(bytes).map_err(Error::io("write", &self.path))?;
        self.length += bytes.len();
        Ok(())
    }

    /// Removes the results after `iteration`.
    fn cut(&mut self, iteration: u64) -> Result<()> {
        let kept = keep(&self.path, iteration)?;
        self.file = files::append(&self.path)?;
        (self.length, self.num) = (kept.length, kept.records);
        Ok(())
    }
}

/// What stays of a file.
struct Kept {
    length: usize,
    records: u64,
}

/// Rewrites the file without the results after `iteration`, the end of the run, and what a killed process left of a record.
fn keep(path: &Path, iteration: u64) -> Result<Kept> {
    let bytes = match read_file(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Kept { length: 0, records: 0 }),
        read => read.map_err(Error::io("read", path))?,
    };
    let mut left = if bytes.starts_with(&BEGIN) { BEGIN.to_vec() } else { Vec::new() };
    let mut count = 0;
    for record in records(&bytes) {
        let history = field(&record, HISTORY).and_then(Wire::content);
        let step = history.map(|history| {
            let step = field(history, 2).and_then(Wire::content);
            step.and_then(|step| field(step, 1)?.number()).unwrap_or(0)
        });
        if step.is_some_and(|step| step > iteration) || field(&record, EXIT).is_some() {
            break;
        }
        count += 1;
        frame(&mut left, 0, &record);
    }
    if left != bytes {
        replace_file(path, &left)?;
    }
    Ok(Kept { length: left.len(), records: count })
}

/// Appends a record in pieces to `out`, which stands behind `before` bytes of the file.
fn frame(out: &mut Vec<u8>, before: usize, mut content: &[u8]) {
    let mut is_first = true;
    loop {
        let room = BLOCK - (before + out.len()) % BLOCK;
        if room < PIECE {
            out.resize(out.len() + room, 0);
            continue;
        }
        let (piece, rest) = content.split_at(content.len().min(room - PIECE));
        let kind = match (is_first, rest.is_empty()) {
            (true, true) => 1,
            (true, false) => 2,
            (false, false) => 3,
            (false, true) => 4,
        };
        out.extend(crc(kind, piece).to_le_bytes());
        out.extend((piece.len() as u16).to_le_bytes());
        out.push(kind);
        out.extend(piece);
        if rest.is_empty() {
            return;
        }
        (content, is_first) = (rest, false);
    }
}

/// The whole records of a file, up to the first that is damaged.
fn records(bytes: &[u8]) -> Vec<Vec<u8>> {
    let mut found = Vec::new();
    let mut record = Vec::new();
    let mut at = BEGIN.len();
    while at + PIECE <= bytes.len() {
        let room = BLOCK - at % BLOCK;
        if room < PIECE {
            at += room;
            continue;
        }
        let length = usize::from(u16::from_le_bytes([bytes[at + 4], bytes[at + 5]]));
        let kind = bytes[at + 6];
        let Some(piece) = bytes.get(at + PIECE..at + PIECE + length) else { break };
        if bytes[at..at + 4] != crc(kind, piece).to_le_bytes() {
            break;
        }
        record.extend_from_slice(piece);
        if kind == 1 || kind == 4 {
            found.push(std::mem::take(&mut record));
        }
        at += PIECE + length;
    }
    found
}

/// The CRC-32 of zip and PNG, over the type and the content of a piece.
fn crc(kind: u8, content: &[u8]) -> u32 {
    const TABLE: [u32; 256] = table();
    let step = |crc: u32, byte: u8| (crc >> 8) ^ TABLE[usize::from(crc as u8 ^ byte)];
    !content.iter().fold(step(!0, kind), |crc, byte| step(crc, *byte))
}

const fn table() -> [u32; 256] {
    let mut table = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        let mut crc = byte as u32;
        let mut bit = 0;
        while bit < 8 {
            crc = (crc >> 1) ^ (0xEDB8_8320 & (crc & 1).wrapping_neg());
            bit += 1;
        }
        table[byte] = crc;
        byte += 1;
    }
    table
}

/// Makes a protobuf message of a key, in the field with the number `field`, and its value as JSON.
fn item(field: u32, key: &str, value: &Value) -> Message {
    let mut item = Message::default();
    item.bytes(field, key.as_bytes());
    item.bytes(16, value.to_string().as_bytes());
    item
}

/// Returns the id of the run and the time when it began. If the file has no valid ones, for example because another program
/// wrote it, new ones are written to it.
fn identity(path: &Path) -> Result<(String, u64)> {
    let kept: Option<Value> = read_file(path).ok().and_then(|text| serde_json::from_slice(&text).ok());
    let of_kept = |kept: &Value| {
        let id = kept["run_id"].as_str()?;
        let is_id =
            id.len() == 8 && id.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit());
        let started = kept["started_ms"].as_u64().filter(|started| *started < 1 << 43)?;
        is_id.then(|| (id.to_owned(), started))
    };
    if let Some(known) = kept.as_ref().and_then(of_kept) {
        return Ok(known);
    }
    const LETTERS: &[u8; 36] = b"abcdefghijklmnopqrstuvwxyz0123456789";
    let letter = |_| char::from(LETTERS[(rand::random::<u32>() % 36) as usize]);
    let (id, started) = ((0..8).map(letter).collect::<String>(), now());
    replace_file(path, json!({"run_id": id, "started_ms": started}).to_string().as_bytes())?;
    Ok((id, started))
}

/// Milliseconds since 1970.
fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_stands_in_the_file_as_wandb_itself_writes_it() {
        // The first 91 bytes of a file that wandb 0.31.0 wrote: the header of the file and its first record.
        let recorded = "3a572642e1be0063a31a5b4d00010801c20c0a0a086162636431323334aa013b0a390a2f302e33312e302b313566386362633538316431633563666336653331663638623438626464313363656332646432631206302e37302e30";
        let byte = |i: usize| u8::from_str_radix(&recorded[2 * i..2 * i + 2], 16).unwrap();
        let recorded: Vec<u8> = (0..recorded.len() / 2).map(byte).collect();
        let read = records(&recorded);
        assert_eq!(read.len(), 1);
        let mut written = BEGIN.to_vec();
        frame(&mut written, 0, &read[0]);
        assert_eq!(written, recorded);
    }

    #[test]
    fn records_of_any_length_are_read_back_across_the_ends_of_blocks() {
        for length in [0, 1, BLOCK - 30, BLOCK - 21, BLOCK - 20, BLOCK - 15, BLOCK - 14, BLOCK, 3 * BLOCK + 5]
        {
            let wanted: Vec<Vec<u8>> = vec![vec![1; length], vec![2; 10], vec![3; length]];
            let mut bytes = BEGIN.to_vec();
            wanted.iter().for_each(|record| frame(&mut bytes, 0, record));
            assert_eq!(records(&bytes), wanted, "{length}");
            // What a killed process left is passed over.
            bytes.pop();
            assert_eq!(records(&bytes).len(), 2, "{length}");
        }
    }
}
