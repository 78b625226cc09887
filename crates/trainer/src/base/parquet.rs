//! Writes arrays as a Parquet file, uncompressed and in one row group, which pandas, polars, DuckDB and pyarrow read.

use pavlov_learn::base::{Array, Error, Kind, Result};

/// First and last bytes of a Parquet file.
const MAGIC: &[u8] = b"PAR1";

/// Types of fields in Thrift's compact protocol, in which Parquet's headers and footer are written.
const INT32: u8 = 5;
const INT64: u8 = 6;
const BINARY: u8 = 8;
const LIST: u8 = 9;
const STRUCT: u8 = 12;

/// Returns a Parquet file of `columns`, each an array `[rows, ...]` with its name. A column of more than one axis
/// becomes a list per row; `shape` in the file's metadata gives the axes of such a row. Columns without numbers are
/// left out.
///
/// # Errors
/// Returns [`Error::State`] if a column takes 2 GiB or more, which one page of a Parquet file cannot hold.
pub(crate) fn parquet<'a>(columns: impl IntoIterator<Item = (&'a str, &'a Array)>) -> Result<Vec<u8>> {
    let columns: Vec<_> = columns.into_iter().filter(|(_, array)| array.numel() > 0).collect();
    let rows = columns.first().map_or(0, |(_, array)| array.len());
    let mut file = MAGIC.to_vec();
    let mut chunks = Vec::new();
    for (name, array) in &columns {
        let start = file.len();
        let page = page(array);
        let bytes = i32::try_from(page.len()).map_err(|_| {
            Error::state(*name, "its column takes 2 GiB or more, too much for a Parquet file")
        })?;
        file.extend(page_header(array.numel(), bytes));
        file.extend(page);
        chunks.push((start, file.len() - start));
    }
    let footer = footer(&columns, &chunks, rows);
    let length = u32::try_from(footer.len()).unwrap_or(u32::MAX);
    file.extend(footer);
    file.extend(length.to_le_bytes());
    file.extend(MAGIC);
    Ok(file)
}

/// Number of a Parquet file's physical type.
fn physical(kind: Kind) -> i64 {
    match kind {
        Kind::Bool => 0,
        Kind::U8 => 1,
        Kind::I64 => 2,
        Kind::F32 => 4,
        Kind::F64 => 5,
    }
}

/// Whether every row of the column is a list.
fn is_list(array: &Array) -> bool {
    array.shape().len() > 1
}

/// The levels of a column of lists, and its numbers.
fn page(array: &Array) -> Vec<u8> {
    let mut page = Vec::new();
    if is_list(array) {
        let width = array.numel() / array.len();
        let mut repetition = Vec::new();
        for _ in 0..array.len() {
            // A row begins with its first number; the others repeat it.
            run(&mut repetition, 1, 0);
            if width > 1 {
                run(&mut repetition, width - 1, 1);
            }
        }
        let mut definition = Vec::new();
        run(&mut definition, array.numel(), 1);
        for levels in [repetition, definition] {
            page.extend((levels.len() as u32).to_le_bytes());
            page.extend(levels);
        }
    }
    match array.kind() {
        Kind::Bool => {
            let bits = array.bytes().chunks(8);
            page.extend(bits.map(|bits| bits.iter().enumerate().fold(0, |byte, (i, bit)| byte | (bit << i))));
        }
        Kind::U8 => array.bytes().iter().for_each(|&byte| page.extend(i32::from(byte).to_le_bytes())),
        Kind::I64 | Kind::F32 | Kind::F64 => page.extend(array.bytes()),
    }
    page
}

/// Adds `count` times the level `level`, of one bit, as a run.
fn run(levels: &mut Vec<u8>, count: usize, level: u8) {
    varint(levels, (count as u64) << 1);
    levels.push(level);
}

fn varint(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

/// A struct in Thrift's compact protocol; fields are added in the order of their numbers.
#[derive(Default)]
struct Fields {
    out: Vec<u8>,
    last: u8,
}

impl Fields {
    fn begin(mut self, field: u8, kind: u8) -> Self {
        self.out.push(((field - self.last) << 4) | kind);
        self.last = field;
        self
    }

    fn integer(self, field: u8, kind: u8, number: i64) -> Self {
        let mut fields = self.begin(field, kind);
        varint(&mut fields.out, ((number << 1) ^ (number >> 63)) as u64);
        fields
    }

    fn int32(self, field: u8, number: i64) -> Self {
        self.integer(field, INT32, number)
    }

    fn int64(self, field: u8, number: usize) -> Self {
        self.integer(field, INT64, number as i64)
    }

    fn text(self, field: u8, text: &str) -> Self {
        let mut fields = self.begin(field, BINARY);
        fields.out.extend(binary(text));
        fields
    }

    fn structure(self, field: u8, inner: Self) -> Self {
        let mut fields = self.begin(field, STRUCT);
        fields.out.extend(inner.end());
        fields
    }

    fn list(self, field: u8, kind: u8, items: &[Vec<u8>]) -> Self {
        let mut fields = self.begin(field, LIST);
        if items.len() < 15 {
            fields.out.push(((items.len() as u8) << 4) | kind);
        } else {
            fields.out.push(0xf0 | kind);
            varint(&mut fields.out, items.len() as u64);
        }
        fields.out.extend(items.iter().flatten());
        fields
    }

    fn end(mut self) -> Vec<u8> {
        self.out.push(0);
        self.out
    }
}

fn binary(text: &str) -> Vec<u8> {
    let mut out = Vec::new();
    varint(&mut out, text.len() as u64);
    out.extend(text.as_bytes());
    out
}

/// The header of a page of plain numbers, with its levels as runs.
fn page_header(numbers: usize, bytes: i32) -> Vec<u8> {
    let data = Fields::default().int32(1, numbers as i64).int32(2, 0).int32(3, 3).int32(4, 3);
    Fields::default().int32(1, 0).int32(2, bytes.into()).int32(3, bytes.into()).structure(5, data).end()
}

/// The schema, the places of the columns, and the shapes of rows.
fn footer(columns: &[(&str, &Array)], chunks: &[(usize, usize)], rows: usize) -> Vec<u8> {
    let mut schema = vec![Fields::default().text(4, "rows").int32(5, columns.len() as i64).end()];
    let mut places = Vec::new();
    let mut shapes = Vec::new();
    for ((name, array), &(start, bytes)) in columns.iter().zip(chunks) {
        let required = |name: &str| {
            let leaf = Fields::default().int32(1, physical(array.kind())).int32(3, 0).text(4, name);
            // 11 declares unsigned bytes.
            if array.kind() == Kind::U8 { leaf.int32(6, 11) } else { leaf }.end()
        };
        let mut path = vec![binary(name)];
        if is_list(array) {
            // 3 declares the group a list, whose middle level is repeated.
            schema.push(Fields::default().int32(3, 0).text(4, name).int32(5, 1).int32(6, 3).end());
            schema.push(Fields::default().int32(3, 2).text(4, "list").int32(5, 1).end());
            schema.push(required("element"));
            path.extend(["list", "element"].map(binary));
            let shape = format!("{:?}", &array.shape()[1..]);
            shapes.push(Fields::default().text(1, &format!("shape:{name}")).text(2, &shape).end());
        } else {
            schema.push(required(name));
        }
        // Encodings 0 and 3: plain numbers, levels as runs.
        let meta = Fields::default()
            .int32(1, physical(array.kind()))
            .list(2, INT32, &[vec![0], vec![6]])
            .list(3, BINARY, &path)
            .int32(4, 0)
            .int64(5, array.numel())
            .int64(6, bytes)
            .int64(7, bytes)
            .int64(9, start);
        places.push(Fields::default().int64(2, start).structure(3, meta).end());
    }
    let total = chunks.iter().map(|(_, bytes)| bytes).sum();
    let group = Fields::default().list(1, STRUCT, &places).int64(2, total).int64(3, rows).end();
    let file =
        Fields::default().int32(1, 1).list(2, STRUCT, &schema).int64(3, rows).list(4, STRUCT, &[group]);
    let file = if shapes.is_empty() { file } else { file.list(5, STRUCT, &shapes) };
    file.text(6, "pavlov").end()
}
