//! Reader of Parquet files, row by row.

use std::fs::File;
use std::path::{Path, PathBuf};

use parquet::errors::ParquetError;
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::Field;
use parquet::record::reader::RowIter;
use pavlov_tune::{Error, Result};

use crate::block::Block;
use crate::block_builder::BlockBuilder;
use crate::column_builder::{ColumnBuilder, Reason};
use crate::schema::Schema;
use crate::source::{BLOCK_BYTES, BLOCK_ROWS, ReadBlocks};

pub(super) struct ParquetFile {
    path: PathBuf,
    rows: RowIter<'static>,
    /// The number of the row read last, counted from 1.
    number: u64,
    rows_per_block: usize,
}

impl ParquetFile {
    pub(super) fn open(path: &Path) -> Result<Self> {
        let file = File::open(path).map_err(Error::io("open", path))?;
        let foreign = |error: ParquetError| Error::Dataset { reason: format!("{}: {error}", path.display()) };
        let reader = SerializedFileReader::new(file).map_err(foreign)?;
        let metadata = reader.metadata();
        let bytes: i64 = metadata.row_groups().iter().map(|group| group.total_byte_size()).sum();
        let row_bytes = bytes / metadata.file_metadata().num_rows().max(1);
        let rows_per_block = (BLOCK_BYTES / row_bytes.max(1) as usize).clamp(1, BLOCK_ROWS);
        Ok(ParquetFile { path: path.into(), rows: reader.into_iter(), number: 0, rows_per_block })
    }
}

impl ReadBlocks for ParquetFile {
    fn next_block(&mut self, schema: &Schema, is_complete: bool) -> Result<Option<Block>> {
        let mut block = BlockBuilder::new(schema, is_complete);
        while block.rows() < self.rows_per_block {
            let Some(row) = self.rows.next() else { break };
            self.number += 1;
            let place = || format!("{}, row {}", self.path.display(), self.number);
            let row = row.map_err(|error| Error::Row {
                place: place(),
                column: String::new(),
                reason: error.to_string(),
            })?;
            block.push_fields(row.get_column_iter(), |column, field| push(column, field, 0), place)?;
        }
        if block.rows() == 0 {
            return Ok(None);
        }
        block.finish(|| format!("{}, row {}", self.path.display(), self.number)).map(Some)
    }
}

/// Appends `field`, found inside `depth` nested lists, to `column`.
fn push(column: &mut ColumnBuilder, field: &Field, depth: usize) -> Result<(), Reason> {
    match field {
        Field::Null => column.push_missing(depth),
        Field::Bool(value) => column.push_bool(*value, depth),
        Field::Byte(value) => column.push_int((*value).into(), depth),
        Field::Short(value) => column.push_int((*value).into(), depth),
        Field::Int(value) => column.push_int((*value).into(), depth),
        Field::Long(value) => column.push_int(*value, depth),
        Field::UByte(value) => column.push_int((*value).into(), depth),
        Field::UShort(value) => column.push_int((*value).into(), depth),
        Field::UInt(value) => column.push_int((*value).into(), depth),
        Field::ULong(value) => column.push_unsigned(*value, depth),
        Field::Float16(value) => column.push_float((*value).into(), depth),
        Field::Float(value) => column.push_float((*value).into(), depth),
        Field::Double(value) => column.push_float(*value, depth),
        Field::Str(value) => column.push_text(value, depth),
        Field::ListInternal(list) => {
            for value in list.elements() {
                push(column, value, depth + 1)?;
            }
            column.end_array(list.len(), depth)
        }
        other => Err(format!(
            "the value is {other}, but it must be a number, a truth value, a text or a list: write it as one of them"
        )),
    }
}
