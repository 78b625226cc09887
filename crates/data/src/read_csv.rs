//! Reader of CSV files with a header.

use std::collections::VecDeque;
use std::fs::File;
use std::path::{Path, PathBuf};

use csv::{ErrorKind, Reader, ReaderBuilder, StringRecord};
use pavlov_tune::{Error, Result};

use crate::block::Block;
use crate::column_builder::{ColumnBuilder, Reason};
use crate::schema::{DataType, Field, Schema};
use crate::source::{BLOCK_BYTES, BLOCK_ROWS, ReadBlocks};

pub(super) struct CsvFile {
    path: PathBuf,
    reader: Reader<File>,
    header: Vec<String>,
    record: StringRecord,
}

impl CsvFile {
    pub(super) fn open(path: &Path) -> Result<Self> {
        let file = File::open(path).map_err(Error::io("open", path))?;
        let mut reader = ReaderBuilder::new().buffer_capacity(1 << 16).from_reader(file);
        let header = reader.headers().map_err(|error| explain(path, error))?;
        let header: Vec<String> = header.iter().map(|name| name.trim().to_owned()).collect();
        if let Some(name) =
            header.iter().enumerate().find_map(|(at, name)| header[..at].contains(name).then_some(name))
        {
            return Err(row(path, 1, name, "the header has it twice".into()));
        }
        Ok(CsvFile { path: path.into(), reader, header, record: StringRecord::new() })
    }

    /// Reads the next row into `record`; returns false at the end of the file.
    fn read(&mut self) -> Result<bool> {
        self.reader.read_record(&mut self.record).map_err(|error| explain(&self.path, error))
    }

    /// Infers the types of the columns that `known` lacks; returns the schema and the rows that were read for it.
    fn infer(&mut self, known: &Schema) -> Result<(Schema, VecDeque<StringRecord>)> {
        let mut guesses = vec![Guess::default(); self.header.len()];
        let mut sample = VecDeque::new();
        let mut bytes = 0;
        while sample.len() < BLOCK_ROWS && bytes < BLOCK_BYTES && self.read()? {
            for (guess, field) in guesses.iter_mut().zip(&self.record) {
                guess.see(field);
            }
            bytes += self.record.as_slice().len();
            sample.push_back(self.record.clone());
        }
        let mut fields = Vec::with_capacity(guesses.len());
        for (name, guess) in self.header.iter().zip(guesses) {
            fields.push(match known.fields.iter().find(|field| field.name == *name) {
                Some(given) => given.clone(),
                None if sample.is_empty() => continue,
                None => match guess.data_type() {
                    Some(found) => Field::from((name.as_str(), found)),
                    None => {
                        let reason = "none of the first rows has a value: give its type with a schema";
                        return Err(row(&self.path, 2, name, reason.into()));
                    }
                },
            });
        }
        Ok((Schema { fields }, sample))
    }

    /// Returns the index in the header of each column of `schema`.
    fn places(&self, schema: &Schema) -> Result<Vec<usize>> {
        let place = |field: &Field| {
            if !field.shape.is_empty() {
                let rule = "a field of CSV is a single value: give the parts columns of their own";
                return Err(Error::config(
                    "schema",
                    format!("{} of shape {:?}", field.name, field.shape),
                    rule,
                ));
            }
            self.header.iter().position(|name| *name == field.name).ok_or_else(|| {
                let reason = format!("the header does not have it; it has {}", self.header.join(", "));
                row(&self.path, 1, &field.name, reason)
            })
        };
        schema.fields.iter().map(place).collect()
    }
}

impl ReadBlocks for CsvFile {
    fn next_block(&mut self, schema: &Schema, is_complete: bool) -> Result<Option<Block>> {
        let mut places = self.places(schema)?;
        let mut schema = schema.clone();
        let mut sample = VecDeque::new();
        if !is_complete {
            (schema, sample) = self.infer(&schema)?;
            places = self.places(&schema)?;
        } else if let Some(name) = self.header.iter().find(|name| !schema.names().contains(&name.as_str())) {
            let reason =
                format!("the header has it, but the files before have {}", schema.names().join(", "));
            return Err(row(&self.path, 1, name, reason));
        }
        let mut columns: Vec<ColumnBuilder> = schema.fields.iter().map(ColumnBuilder::of).collect();
        let mut rows = 0;
        let mut bytes = 0;
        // Without a complete schema, the rows read to infer the types are the block.
        while !sample.is_empty() || (is_complete && rows < BLOCK_ROWS && bytes < BLOCK_BYTES) {
            match sample.pop_front() {
                Some(record) => self.record = record,
                None if self.read()? => {}
                None => break,
            }
            for (column, (place, field)) in columns.iter_mut().zip(places.iter().zip(&schema.fields)) {
                let pushed = push(column, &self.record[*place], field.data_type);
                pushed.and_then(|()| column.end_row()).map_err(|reason| {
                    let line = self.record.position().map_or(0, |position| position.line());
                    row(&self.path, line, &field.name, reason)
                })?;
            }
            rows += 1;
            bytes += self.record.as_slice().len();
        }
        if rows == 0 {
            return Ok(None);
        }
        let finish = |column: ColumnBuilder| {
            let name = column.name.clone();
            let column = column.finish().map_err(|reason| row(&self.path, 1, &name, reason))?;
            Ok((name, column))
        };
        Block::new(columns.into_iter().map(finish).collect::<Result<Vec<_>>>()?).map(Some)
    }
}

fn push(column: &mut ColumnBuilder, field: &str, data_type: DataType) -> Result<(), Reason> {
    let value = field.trim();
    match data_type {
        DataType::Text => column.push_text(field, 0),
        _ if value.is_empty() => column.push_missing(0),
        DataType::Float => match value.parse() {
            Ok(value) => column.push_float(value, 0),
            Err(_) => Err(column.refusal(format!("{value:?}"))),
        },
        DataType::Int => match value.parse() {
            Ok(value) => column.push_int(value, 0),
            Err(_) => Err(column.refusal(format!("{value:?}"))),
        },
        DataType::Bool => match truth(value) {
            Some(value) => column.push_bool(value, 0),
            None => Err(column.refusal(format!("{value:?}"))),
        },
    }
}

fn truth(value: &str) -> Option<bool> {
    if value.eq_ignore_ascii_case("true") {
        Some(true)
    } else {
        value.eq_ignore_ascii_case("false").then_some(false)
    }
}

/// Counts of a column's values by the types that they can be parsed as.
#[derive(Clone, Copy, Default)]
struct Guess {
    values: usize,
    missing: usize,
    ints: usize,
    floats: usize,
    bools: usize,
}

impl Guess {
    fn see(&mut self, field: &str) {
        let value = field.trim();
        if value.is_empty() {
            self.missing += 1;
            return;
        }
        self.values += 1;
        let is_int = value.parse::<i64>().is_ok();
        let is_too_long = !is_int && value.trim_start_matches(['+', '-']).bytes().all(|c| c.is_ascii_digit());
        self.ints += usize::from(is_int);
        self.floats += usize::from(is_int || (!is_too_long && value.parse::<f64>().is_ok()));
        self.bools += usize::from(truth(value).is_some());
    }

    /// Returns the column's type; `None` if there was no value.
    fn data_type(self) -> Option<DataType> {
        Some(match self.values {
            0 => return None,
            all if self.ints == all && self.missing == 0 => DataType::Int,
            all if self.floats == all => DataType::Float,
            all if self.bools == all => DataType::Bool,
            _ => DataType::Text,
        })
    }
}

fn row(path: &Path, line: u64, column: &str, reason: Reason) -> Error {
    Error::Row { place: format!("{}:{line}", path.display()), column: column.into(), reason }
}

fn explain(path: &Path, error: csv::Error) -> Error {
    let line = error.position().map_or(1, |position| position.line());
    let reason = match error.into_kind() {
        ErrorKind::Io(error) => return Error::io("read", path)(error),
        ErrorKind::UnequalLengths { expected_len, len, .. } => {
            format!("it has {len} fields, but the header has {expected_len}")
        }
        ErrorKind::Utf8 { err, .. } => format!("it is not UTF-8: {err}"),
        other => format!("it is no CSV: {other:?}"),
    };
    row(path, line, "", reason)
}
