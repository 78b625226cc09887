//! Parquet files, written here.

use std::fs::File;
use std::path::Path;
use std::sync::Arc;

use parquet::basic::Compression;
use parquet::data_type::{BoolType, ByteArrayType, DoubleType, Int32Type, Int64Type};
use parquet::file::properties::WriterProperties;
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::schema::parser::parse_message_type;
use pavlov_data::Dataset;
use tempfile::tempdir;

use super::{all, problem};

const SCHEMA: &str = "message rows {
    required int64 id;
    optional double x;
    required boolean flag;
    required binary name (STRING);
    required group pair (LIST) { repeated group list { required int32 element; } }
}";

type Group<'a> = SerializedRowGroupWriter<'a, File>;

fn write(path: &Path, schema: &str, columns: impl FnOnce(&mut Group<'_>)) {
    let schema = Arc::new(parse_message_type(schema).unwrap());
    let snappy = Arc::new(WriterProperties::builder().set_compression(Compression::SNAPPY).build());
    let mut file = SerializedFileWriter::new(File::create(path).unwrap(), schema, snappy).unwrap();
    let mut group = file.next_row_group().unwrap();
    columns(&mut group);
    group.close().unwrap();
    file.close().unwrap();
}

/// `levels`: which values are there, and which begin a list.
fn column<T: parquet::data_type::DataType>(
    group: &mut Group<'_>,
    values: &[T::T],
    levels: (Option<&[i16]>, Option<&[i16]>),
) {
    let mut column = group.next_column().unwrap().unwrap();
    column.typed::<T>().write_batch(values, levels.0, levels.1).unwrap();
    column.close().unwrap();
}

#[test]
fn parquet_becomes_columns() {
    let home = tempdir().unwrap();
    write(&home.path().join("a.parquet"), SCHEMA, |group| {
        column::<Int64Type>(group, &[1, 2], (None, None));
        column::<DoubleType>(group, &[3.0], (Some(&[0, 1]), None));
        column::<BoolType>(group, &[true, false], (None, None));
        column::<ByteArrayType>(group, &["a".into(), "b".into()], (None, None));
        column::<Int32Type>(group, &[1, 2, 3, 4], (Some(&[1; 4]), Some(&[0, 1, 0, 1])));
    });
    let dataset = Dataset::read_parquet(home.path());
    assert_eq!(
        dataset.schema().unwrap().to_string(),
        "id: int, x: float, flag: bool, name: text, pair: int[2]"
    );
    let block = dataset.blocks().unwrap().next().unwrap().unwrap();
    let x = block.float("x").unwrap();
    assert_eq!((x[0].is_nan(), x[1]), (true, 3.0));
    assert_eq!(block.bool("flag").unwrap().as_slice().unwrap(), [true, false]);
    assert_eq!(block.text("name").unwrap(), ["a", "b"]);
    assert_eq!(block.int("pair").unwrap().as_slice().unwrap(), [1, 2, 3, 4]);
}

#[test]
fn parquet_is_read_in_blocks() {
    let home = tempdir().unwrap();
    let ids: Vec<i64> = (0..10_000).collect();
    write(&home.path().join("a.parquet"), "message rows { required int64 id; }", |group| {
        column::<Int64Type>(group, &ids, (None, None));
    });
    let dataset = Dataset::read_parquet(home.path().join("a.parquet"));
    let blocks: Vec<usize> = dataset.blocks().unwrap().map(|block| block.unwrap().num_rows()).collect();
    assert_eq!(blocks, [4096, 4096, 1808]);
    assert_eq!(all(&dataset), ids);
}

#[test]
fn bad_rows_of_parquet_are_told_with_file_row_and_column() {
    let home = tempdir().unwrap();
    let path = home.path().join("a.parquet");
    let refused = || problem(&Dataset::read_parquet(&path)).replace(&path.display().to_string(), "a.parquet");
    write(&path, "message rows { optional boolean flag; }", |group| {
        column::<BoolType>(group, &[true], (Some(&[1, 0]), None));
    });
    assert_eq!(
        refused(),
        "a.parquet, row 2, column `flag`: the value is missing, but the column is bool: only a float column may miss values"
    );
    write(&path, "message rows { required int32 day (DATE); }", |group| {
        column::<Int32Type>(group, &[0], (None, None));
    });
    assert_eq!(
        refused(),
        "a.parquet, row 1, column `day`: the value is 1970-01-01, but it must be a number, a truth value, a text or a \
         list: write it as one of them"
    );
    std::fs::write(&path, "no parquet").unwrap();
    assert!(refused().starts_with("dataset: a.parquet: "), "{}", refused());
}
