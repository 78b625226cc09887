//! Reader of files with one JSON object per line.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};

use pavlov_tune::{Error, Result};

use crate::block::Block;
use crate::block_builder::BlockBuilder;
use crate::schema::Schema;
use crate::source::{BLOCK_BYTES, BLOCK_ROWS, ReadBlocks};

pub(super) struct JsonFile {
    path: PathBuf,
    reader: BufReader<File>,
    /// The line read last; `number` is its number, counted from 1.
    line: Vec<u8>,
    number: u64,
}

impl JsonFile {
    pub(super) fn open(path: &Path) -> Result<Self> {
        let file = File::open(path).map_err(Error::io("open", path))?;
        let reader = BufReader::with_capacity(1 << 16, file);
        Ok(JsonFile { path: path.into(), reader, line: vec![], number: 0 })
    }
}

impl ReadBlocks for JsonFile {
    fn next_block(&mut self, schema: &Schema, is_complete: bool) -> Result<Option<Block>> {
        let mut rows = BlockBuilder::new(schema, is_complete);
        let mut bytes = 0;
        while rows.rows() < BLOCK_ROWS && bytes < BLOCK_BYTES {
            self.line.clear();
            let read = self.reader.read_until(b'\n', &mut self.line);
            if read.map_err(Error::io("read", &self.path))? == 0 {
                break;
            }
            self.number += 1;
            if self.line.trim_ascii().is_empty() {
                continue;
            }
            bytes += self.line.len();
            let place = || format!("{}:{}", self.path.display(), self.number);
            let mut json = serde_json::Deserializer::from_slice(&self.line);
            rows.push(&mut json, place, explain)?;
            if let Err(error) = json.end() {
                return Err(Error::Row { place: place(), column: String::new(), reason: explain(error) });
            }
        }
        if rows.rows() == 0 {
            return Ok(None);
        }
        rows.finish(|| format!("{}:{}", self.path.display(), self.number)).map(Some)
    }
}

/// Returns the reason for `error` without serde's "at line 1", which is wrong because each line is parsed separately.
fn explain(error: serde_json::Error) -> String {
    let text = error.to_string();
    let what = text.split(" at line ").next().unwrap_or(&text);
    let place = if error.is_data() { String::new() } else { format!(" at character {}", error.column()) };
    format!("it is no JSON object: {what}{place}; there must be one object per line")
}
