//! [`Dataset`], the type through which users read and transform rows; `split.rs` divides it.

use std::fmt;
use std::io::{ErrorKind, Write};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use pavlov_tune::{Error, Result};
use serde::Serialize;

use crate::batches::{Batches, IterBatches};
use crate::block::{Block, Column, Row};
use crate::block_builder::BlockBuilder;
use crate::files::{Files, Paths};
use crate::schema::Schema;
use crate::source::{BLOCK_ROWS, Blocks, Datasource, Rows, checked};
use crate::transform::{MapBatches, MapRows, RandomShuffle, Union, in_memory};

/// A lazily read dataset of rows with named columns. Cloning is cheap; `Debug` shows the source, not the rows.
#[derive(Clone)]
pub struct Dataset {
    pub(crate) source: Arc<dyn Datasource>,
}

impl Dataset {
    /// Makes a dataset of the rows of `source`.
    pub fn from_source(source: impl Datasource + 'static) -> Self {
        Dataset { source: Arc::new(source) }
    }

    /// Makes a dataset in memory of items that serialize as JSON objects; any other item is a row with the column `item`.
    ///
    /// Values are numbers, truth values, texts, or arrays of numbers or truth values; all rows of a column have one shape. A
    /// column of whole numbers is float if it holds a float or a missing value; a missing value is NaN.
    ///
    /// # Errors
    /// Returns [`Error::Row`] if a value does not fit its column, or if a column has no value in any row. Fails if an item
    /// cannot be serialized.
    pub fn from_items(items: impl IntoIterator<Item = impl Serialize>) -> Result<Self> {
        let mut rows = BlockBuilder::new(&Schema::default(), false);
        for (item, number) in items.into_iter().zip(1_u64..) {
            rows.push_item(item, || format!("row {number}"))?;
        }
        Ok(Dataset::from_source(Rows::new(rows.finish(|| "rows in memory".into())?)))
    }

    /// Makes a dataset in memory of columns, each given as its name and its values.
    ///
    /// # Errors
    /// Returns [`Error::Dataset`] if columns differ in length, if two columns have the same name, or if an array has no axis
    /// of rows.
    pub fn from_columns(
        columns: impl IntoIterator<Item = (impl Into<String>, impl Into<Column>)>,
    ) -> Result<Self> {
        Ok(Dataset::from_source(Rows::new(Block::new(columns)?)))
    }

    /// Makes a dataset in memory of the rows of `blocks`, one block after the other.
    ///
    /// # Errors
    /// Returns [`Error::Dataset`] if the blocks differ in their columns, types or shapes.
    pub fn from_blocks(blocks: impl IntoIterator<Item = Block>) -> Result<Self> {
        Ok(Dataset::from_source(Rows::new(Block::concat(blocks.into_iter().map(Ok))?)))
    }

    /// Makes a dataset of the rows of JSONL files: see [`Files::json`]. The files are opened when they are read.
    pub fn read_json(paths: impl Into<Paths>) -> Self {
        Dataset::from_source(Files::json(paths))
    }

    /// Makes a dataset of the rows of CSV files: see [`Files::csv`]. The files are opened when they are read.
    pub fn read_csv(paths: impl Into<Paths>) -> Self {
        Dataset::from_source(Files::csv(paths))
    }

    /// Makes a dataset of the rows of Parquet files: see [`Files::parquet`]. The files are opened when they are read.
    #[cfg(feature = "parquet")]
    pub fn read_parquet(paths: impl Into<Paths>) -> Self {
        Dataset::from_source(Files::parquet(paths))
    }

    /// Makes a dataset with one int column `id` that counts from 0 to `n - 1`.
    pub fn range(n: usize) -> Self {
        Dataset::from_source(Range { n })
    }

    /// Makes a lazy dataset: `make` is called when the dataset is first read, and its result is kept.
    pub fn from_fn(make: impl Fn() -> Result<Dataset> + Send + Sync + 'static) -> Self {
        Dataset::from_source(LazyDataset { make, dataset: Mutex::default() })
    }

    /// Iterates over the rows in non-empty blocks, from the first row to the last.
    ///
    /// # Errors
    /// Fails if the source cannot be found or opened. A row that cannot be read, or a block whose schema differs from the
    /// first block's, is an error of the iterator, which then ends.
    pub fn blocks(&self) -> Result<Blocks> {
        checked(&*self.source)
    }

    /// Iterates over the rows in batches of equal size: see [`IterBatches`].
    ///
    /// # Errors
    /// Returns [`Error::Config`] if `batch_size` or the shuffle's `buffer_size` is 0, or if `prefetch_batches` is above
    /// 10000. Fails if the prefetch thread cannot be started. A row that cannot be read is an error of the iterator.
    pub fn iter_batches(&self, options: IterBatches) -> Result<Batches> {
        Batches::new(self.source.clone(), options)
    }

    /// Iterates over the rows as JSON objects.
    ///
    /// # Errors
    /// Fails if the source cannot be found or opened. A row that cannot be read is an error of the iterator.
    pub fn iter_rows(&self) -> Result<impl Iterator<Item = Result<Row>> + Send> {
        let rows = |block: Result<Block>| {
            let (rows, error) = match block {
                Ok(block) => (block.rows().collect::<Vec<_>>(), None),
                Err(error) => (vec![], Some(Err(error))),
            };
            rows.into_iter().map(Ok).chain(error)
        };
        Ok(self.blocks()?.flat_map(rows))
    }

    /// Reads the first `n` rows.
    ///
    /// # Errors
    /// Fails if the source cannot be opened, or if one of the rows cannot be read.
    pub fn take(&self, n: usize) -> Result<Vec<Row>> {
        self.limit(n).iter_rows()?.collect()
    }

    /// Prints the first `n` rows as JSON.
    ///
    /// # Errors
    /// Fails if the source cannot be opened, if one of the rows cannot be read, or if writing to standard output fails. A
    /// closed pipe is not an error.
    pub fn show(&self, n: usize) -> Result<()> {
        let mut out = std::io::stdout().lock();
        for row in self.take(n)? {
            match writeln!(out, "{}", serde_json::Value::from(row)) {
                Err(error) if error.kind() == ErrorKind::BrokenPipe => break,
                written => written.map_err(Error::io("write", Path::new("standard output")))?,
            }
        }
        Ok(())
    }

    /// Counts the rows; rows that are not in memory are read for it.
    ///
    /// # Errors
    /// Fails if the source cannot be opened, or if a row cannot be read.
    pub fn count(&self) -> Result<usize> {
        match self.source.in_memory()? {
            Some(rows) => Ok(rows.len()),
            None => self.blocks()?.map(|block| Ok(block?.num_rows())).sum(),
        }
    }

    /// Returns the schema of the first block; it has no columns if there are no rows.
    ///
    /// # Errors
    /// Fails if the source cannot be opened, or if its first rows cannot be read.
    pub fn schema(&self) -> Result<Schema> {
        let first = self.blocks()?.next().transpose()?;
        Ok(first.map(|block| block.schema()).unwrap_or_default())
    }

    /// Returns the names of the columns, in order.
    ///
    /// # Errors
    /// Fails if the source cannot be opened, or if its first rows cannot be read.
    pub fn columns(&self) -> Result<Vec<String>> {
        Ok(self.schema()?.fields.into_iter().map(|field| field.name).collect())
    }

    /// Computes the mean of a column of numbers without its missing values; `None` if there are no values.
    ///
    /// # Errors
    /// Returns [`Error::Dataset`] if there is no such column, or if it holds no numbers. Fails if the source cannot be
    /// opened, or if a row cannot be read.
    pub fn mean(&self, column: &str) -> Result<Option<f64>> {
        let (count, mean, _) = self.moments(column)?;
        Ok((count > 0.0).then_some(mean))
    }

    /// Computes the standard deviation of a column of numbers (divisor n - 1, as in Ray) without its missing values; `None`
    /// if there are fewer than two values.
    ///
    /// # Errors
    /// Returns [`Error::Dataset`] if there is no such column, or if it holds no numbers. Fails if the source cannot be
    /// opened, or if a row cannot be read.
    pub fn std(&self, column: &str) -> Result<Option<f64>> {
        let (count, _, squares) = self.moments(column)?;
        Ok((count > 1.0).then(|| (squares / (count - 1.0)).sqrt()))
    }

    /// Returns the number of values, their mean and the sum of squared deviations from it, by Welford's recurrence.
    fn moments(&self, column: &str) -> Result<(f64, f64, f64)> {
        let mut count = 0.0;
        let mut mean = 0.0;
        let mut squares = 0.0;
        for block in self.blocks()? {
            let block = block?;
            for value in block.float(column)?.iter().filter(|value| !value.is_nan()) {
                count += 1.0;
                let distance = value - mean;
                mean += distance / count;
                squares += distance * (value - mean);
            }
        }
        Ok((count, mean, squares))
    }

    /// Reads all rows into memory at once.
    ///
    /// # Errors
    /// Fails if the source cannot be opened, or if a row cannot be read.
    pub fn materialize(&self) -> Result<Self> {
        Ok(Dataset::from_source(in_memory(&*self.source)?))
    }

    /// Makes a lazy dataset of the blocks that `function` returns, called with each block; blocks may have any number of
    /// rows.
    pub fn map_batches(&self, function: impl Fn(Block) -> Result<Block> + Send + Sync + 'static) -> Self {
        Dataset::from_source(MapBatches { of: self.source.clone(), function: Arc::new(function) })
    }

    /// Makes a lazy dataset of the items that `function` returns, called with each row. Items become rows as in
    /// [`from_items`](Self::from_items). The first block decides the types, as when a file is read.
    pub fn map<T: Serialize>(&self, function: impl Fn(Row) -> Result<T> + Send + Sync + 'static) -> Self {
        Dataset::from_source(MapRows { of: self.source.clone(), function: Arc::new(function) })
    }

    /// Makes a lazy dataset of the rows for which `keep` returns true.
    pub fn filter(&self, keep: impl Fn(&Row) -> bool + Send + Sync + 'static) -> Self {
        self.map_batches(move |block| {
            let rows = block.rows().enumerate();
            let kept: Vec<usize> = rows.filter(|(_, row)| keep(row)).map(|(index, _)| index).collect();
            Ok(block.take(&kept))
        })
    }

    /// Makes a lazy dataset of only the columns `names`, in that order.
    pub fn select_columns(&self, names: impl IntoIterator<Item = impl Into<String>>) -> Self {
        let names: Vec<String> = names.into_iter().map(Into::into).collect();
        self.map_batches(move |block| block.select(&names))
    }

    /// Makes a lazy dataset of the first `n` rows.
    pub fn limit(&self, n: usize) -> Self {
        self.part(0, 1, Some(n))
    }

    /// Makes a lazy dataset of this dataset's rows followed by the rows of `other`, which must have the same columns.
    pub fn union(&self, other: &Dataset) -> Self {
        Dataset::from_source(Union { parts: [self.source.clone(), other.source.clone()] })
    }

    /// Makes a dataset of all rows in a random order, which is the same in each pass.
    ///
    /// Each pass reads all rows into memory, unless they are there already. To shuffle rows that stream, or to use another
    /// order in each epoch, see [`Shuffle`](super::Shuffle).
    pub fn random_shuffle(&self, seed: u64) -> Self {
        Dataset::from_source(RandomShuffle { of: self.source.clone(), seed })
    }
}

impl fmt::Debug for Dataset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Dataset({:?})", self.source)
    }
}

/// Data source of [`Dataset::range`]: the int column `id` that counts from 0 to `n - 1`.
#[derive(Debug)]
struct Range {
    n: usize,
}

impl Datasource for Range {
    fn blocks(&self) -> Result<Blocks> {
        let n = self.n;
        let block = move |first: usize| {
            let ids: Vec<i64> = (first..n.min(first + BLOCK_ROWS)).map(|id| id as i64).collect();
            Block::new([("id", ids)])
        };
        Ok(Box::new((0..n).step_by(BLOCK_ROWS).map(block)))
    }
}

/// Data source of [`Dataset::from_fn`]: a dataset that `make` returns at the first read.
struct LazyDataset<F> {
    make: F,
    dataset: Mutex<Option<Dataset>>,
}

impl<F: Fn() -> Result<Dataset>> LazyDataset<F> {
    fn source(&self) -> Result<Arc<dyn Datasource>> {
        let mut dataset = self.dataset.lock().unwrap_or_else(PoisonError::into_inner);
        let made = match dataset.take() {
            Some(made) => made,
            None => (self.make)()?,
        };
        Ok(dataset.insert(made).source.clone())
    }
}

impl<F: Fn() -> Result<Dataset> + Send + Sync> Datasource for LazyDataset<F> {
    fn blocks(&self) -> Result<Blocks> {
        self.source()?.blocks()
    }

    fn in_memory(&self) -> Result<Option<Rows>> {
        self.source()?.in_memory()
    }
}

impl<F> fmt::Debug for LazyDataset<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("made when it is first read")
    }
}
