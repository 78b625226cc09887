//! Datasets stored in files: JSON lines, CSV and Parquet.

use std::collections::VecDeque;
use std::fmt;
use std::path::{Path, PathBuf};

use pavlov_tune::{Error, Result};

use crate::block::Block;
use crate::read_csv::CsvFile;
use crate::read_json::JsonFile;
#[cfg(feature = "parquet")]
use crate::read_parquet::ParquetFile;
use crate::schema::Schema;
use crate::source::{Blocks, Datasource, ReadBlocks};

/// Paths of files, directories and glob patterns; made from one path or from several.
#[derive(Clone, Debug)]
pub struct Paths(Vec<PathBuf>);

macro_rules! paths_from {
    ($($path:ty),*) => {$(
        impl From<$path> for Paths {
            fn from(path: $path) -> Self {
                Paths(vec![path.into()])
            }
        }
    )*};
}

paths_from!(&str, String, &Path, &PathBuf, PathBuf);

impl<P: Into<PathBuf>> From<Vec<P>> for Paths {
    fn from(paths: Vec<P>) -> Self {
        Paths(paths.into_iter().map(Into::into).collect())
    }
}

impl<P: Into<PathBuf>, const N: usize> From<[P; N]> for Paths {
    fn from(paths: [P; N]) -> Self {
        Paths(paths.into_iter().map(Into::into).collect())
    }
}

/// Data source of the rows of some files, which are read lazily and block by block.
///
/// A path names a file, a directory or a pattern with `*`, `?`, `[...]`. A directory stands for the files with the format's
/// extension in it and in its subdirectories, without names that begin with `.` or `_`. Files of a directory or a pattern
/// are read in sorted order.
///
/// The first block of the first file decides the columns, and their types where no schema gives them: a column of whole
/// numbers is float if a float or a missing value is in that block. A later value that does not fit is an error that names
/// file, line and column.
#[derive(Clone)]
pub struct Files {
    format: Format,
    paths: Paths,
    types: Schema,
}

#[derive(Clone, Copy, Debug)]
enum Format {
    Json,
    Csv,
    #[cfg(feature = "parquet")]
    Parquet,
}

impl Files {
    /// Reads files of one JSON object per line (JSONL; `.json`, `.jsonl`, `.ndjson`); empty lines are skipped.
    ///
    /// Values are numbers, truth values, texts, or arrays of numbers or truth values; all rows of a column have one shape.
    /// `null` or a missing key is NaN in a float column and an error in other columns.
    pub fn json(paths: impl Into<Paths>) -> Self {
        Files { format: Format::Json, paths: paths.into(), types: Schema::default() }
    }

    /// Reads CSV files (`.csv`) with a header and comma-separated values.
    ///
    /// If all values of a column in the first block (at most 4,096 rows) are int, float or bool (`true`, `false`), so is
    /// the column, else it is text; whole numbers beyond 64 bits are text. An empty field is NaN in a float column, the
    /// empty text in a text column, and an error in other columns.
    pub fn csv(paths: impl Into<Paths>) -> Self {
        Files { format: Format::Csv, paths: paths.into(), types: Schema::default() }
    }

    /// Reads Parquet files (`.parquet`), uncompressed or compressed with snappy.
    ///
    /// Values are numbers, truth values, texts, or lists of numbers or truth values; all rows of a column have one shape.
    /// `null` is NaN in a float column and an error in other columns.
    #[cfg(feature = "parquet")]
    pub fn parquet(paths: impl Into<Paths>) -> Self {
        Files { format: Format::Parquet, paths: paths.into(), types: Schema::default() }
    }

    /// Sets the types of the columns in `types`. The types of other columns are inferred from the first block.
    ///
    /// ```
    /// use pavlov_data::{DataType, Dataset, Files, Schema};
    ///
    /// let types = Schema::new([("price", DataType::Float), ("zip_code", DataType::Text)]);
    /// let houses = Dataset::from_source(Files::csv("houses.csv").with_schema(types));
    /// ```
    pub fn with_schema(self, types: Schema) -> Self {
        Files { types, ..self }
    }
}

impl Format {
    fn extensions(self) -> &'static [&'static str] {
        match self {
            Format::Json => &["json", "jsonl", "ndjson"],
            Format::Csv => &["csv"],
            #[cfg(feature = "parquet")]
            Format::Parquet => &["parquet"],
        }
    }

    fn open(self, path: &Path) -> Result<Box<dyn ReadBlocks>> {
        Ok(match self {
            Format::Json => Box::new(JsonFile::open(path)?),
            Format::Csv => Box::new(CsvFile::open(path)?),
            #[cfg(feature = "parquet")]
            Format::Parquet => Box::new(ParquetFile::open(path)?),
        })
    }
}

impl Datasource for Files {
    fn blocks(&self) -> Result<Blocks> {
        let mut files = VecDeque::new();
        for path in &self.paths.0 {
            files.extend(expand(path, self.format.extensions())?);
        }
        let Files { format, types, .. } = self.clone();
        Ok(Box::new(FileBlocks { format, files, open: None, schema: types, is_complete: false }))
    }
}

impl fmt::Debug for Files {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} {:?}", self.format, self.paths.0)
    }
}

struct FileBlocks {
    format: Format,
    files: VecDeque<PathBuf>,
    open: Option<Box<dyn ReadBlocks>>,
    schema: Schema,
    is_complete: bool,
}

impl FileBlocks {
    fn block(&mut self) -> Result<Option<Block>> {
        loop {
            let file = match &mut self.open {
                Some(file) => file,
                closed => match self.files.pop_front() {
                    Some(next) => closed.insert(self.format.open(&next)?),
                    None => return Ok(None),
                },
            };
            match file.next_block(&self.schema, self.is_complete)? {
                Some(block) => {
                    if !self.is_complete {
                        self.schema = block.schema();
                        self.is_complete = true;
                    }
                    return Ok(Some(block));
                }
                None => self.open = None,
            }
        }
    }
}

impl Iterator for FileBlocks {
    type Item = Result<Block>;

    fn next(&mut self) -> Option<Self::Item> {
        self.block().transpose()
    }
}

/// Returns the files that a user's path stands for: a file, the files of a directory, or the matches of a pattern.
fn expand(path: &Path, extensions: &[&str]) -> Result<Vec<PathBuf>> {
    let no_match = |what: String| Error::Dataset { reason: format!("{} {what}", path.display()) };
    if path.is_dir() {
        let mut files = vec![];
        walk(path, extensions, &mut files)?;
        if files.is_empty() {
            return Err(no_match(format!("has no files that end in .{}", extensions.join(", ."))));
        }
        return Ok(files);
    }
    let text = path.to_string_lossy();
    if path.exists() || !text.contains(['*', '?', '[']) {
        return Ok(vec![path.to_path_buf()]);
    }
    let found = glob::glob(&text).map_err(|error| no_match(format!("is no pattern: {error}")))?;
    let unread = |error: glob::GlobError| {
        let path = error.path().to_path_buf();
        Error::io("read", &path)(error.into())
    };
    let found = found.map(|file| file.map_err(unread));
    let files = found.filter(|file| file.as_ref().map_or(true, |file| file.is_file()));
    match files.collect::<Result<Vec<_>>>()? {
        files if files.is_empty() => Err(no_match("matches no file".into())),
        files => Ok(files),
    }
}

fn walk(directory: &Path, extensions: &[&str], files: &mut Vec<PathBuf>) -> Result<()> {
    let entries = std::fs::read_dir(directory).map_err(Error::io("read", directory))?;
    let entries = entries.map(|entry| Ok(entry.map_err(Error::io("read", directory))?.path()));
    let mut entries: Vec<PathBuf> = entries.collect::<Result<_>>()?;
    entries.sort();
    for entry in entries {
        let name = entry.file_name().unwrap_or_default().to_string_lossy();
        let extension = entry.extension().unwrap_or_default().to_string_lossy();
        if name.starts_with(['.', '_']) {
            continue;
        }
        if entry.is_dir() {
            walk(&entry, extensions, files)?;
        } else if extensions.contains(&&*extension) {
            files.push(entry);
        }
    }
    Ok(())
}
