//! Batches of a [`Dataset`] as libtorch tensors.

use pavlov_data::{Batches, Block, Column, Dataset, IterBatches};
use pavlov_trainer::{Error, Result};
use pavlov_tune as tune;
use std::collections::BTreeMap;
use std::ops::Index;
use tch::{Device, Kind, Tensor};

/// Reads a [`Dataset`] as batches of tensors. Do not implement this trait.
pub trait DatasetExt {
    /// Returns the batches of [`Dataset::iter_batches`], with each column as a tensor on `device` of shape
    /// `[batch_size, ...]`; `...` is the shape of a row's value.
    ///
    /// `dtypes` is one type for all columns, or types by column name; other columns keep the dataset's type:
    /// `Double`, `Int64` or `Bool`. Rows are prefetched; the tensors of a batch are made by the call of `next`.
    ///
    /// ```no_run
    /// use pavlov::DatasetExt;
    /// use pavlov::data::{Dataset, IterBatches};
    /// use pavlov::torch::{Device, Kind};
    ///
    /// let options = IterBatches { batch_size: 2, ..IterBatches::default() };
    /// for batch in Dataset::range(10).iter_torch_batches(options, Kind::Float, Device::Cpu)? {
    ///     println!("{:?}", batch?["id"].size());
    /// }
    /// # Ok::<(), pavlov_tune::Error>(())
    /// ```
    ///
    /// # Errors
    /// Fails whenever [`Dataset::iter_batches`] does. The iterator fails on a text column, on a type for a column
    /// that does not exist, and when libtorch cannot make a tensor.
    fn iter_torch_batches(
        &self,
        options: IterBatches,
        dtypes: impl Into<Dtypes>,
        device: Device,
    ) -> tune::Result<TorchBatches>;
}

impl DatasetExt for Dataset {
    fn iter_torch_batches(
        &self,
        options: IterBatches,
        dtypes: impl Into<Dtypes>,
        device: Device,
    ) -> tune::Result<TorchBatches> {
        Ok(TorchBatches { batches: self.iter_batches(options)?, dtypes: dtypes.into(), device })
    }
}

/// Types of a batch's tensors: one for all columns, or by column name; the default keeps the types of the dataset.
#[derive(Clone, Debug, Default)]
pub struct Dtypes {
    all: Option<Kind>,
    by_name: BTreeMap<String, Kind>,
}

impl From<Kind> for Dtypes {
    fn from(all: Kind) -> Self {
        Dtypes { all: Some(all), by_name: BTreeMap::new() }
    }
}

impl<N: Into<String>, const C: usize> From<[(N, Kind); C]> for Dtypes {
    fn from(by_name: [(N, Kind); C]) -> Self {
        Dtypes { all: None, by_name: by_name.into_iter().map(|(name, kind)| (name.into(), kind)).collect() }
    }
}

/// The columns of a batch as tensors, by name: `&batch["x"]`.
#[derive(Debug)]
pub struct TorchBatch {
    tensors: BTreeMap<String, Tensor>,
}

impl TorchBatch {
    /// Returns the tensor of the column `name`; `None` if there is no such column.
    pub fn get(&self, name: &str) -> Option<&Tensor> {
        self.tensors.get(name)
    }

    /// Iterates over the names and tensors of all columns, sorted by name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Tensor)> {
        self.tensors.iter().map(|(name, tensor)| (name.as_str(), tensor))
    }
}

/// # Panics
/// Panics if there is no such column; the message lists the columns that exist.
impl Index<&str> for TorchBatch {
    type Output = Tensor;

    fn index(&self, name: &str) -> &Tensor {
        self.get(name).unwrap_or_else(|| {
            let have: Vec<&str> = self.tensors.keys().map(String::as_str).collect();
            panic!("no column `{name}` in this batch; it has {}", have.join(", "))
        })
    }
}

/// Iterator over the batches of a dataset as tensors; see [`DatasetExt`].
#[derive(Debug)]
#[must_use = "batches are made when they are asked for"]
pub struct TorchBatches {
    batches: Batches,
    dtypes: Dtypes,
    device: Device,
}

impl TorchBatches {
    fn tensors(&self, batch: &Block) -> Result<TorchBatch> {
        if let Some(wanted) = self.dtypes.by_name.keys().find(|name| batch.column(name).is_err()) {
            let have = batch.columns().map(|(name, _)| name).collect::<Vec<_>>().join(", ");
            return Err(Error::MissingColumn { wanted: wanted.clone(), have });
        }
        let mut tensors = BTreeMap::new();
        for (name, column) in batch.columns() {
            let tensor = tensor(name, column)?;
            let kind = self.dtypes.by_name.get(name).copied().or(self.dtypes.all).unwrap_or(tensor.kind());
            tensors.insert(name.to_owned(), tensor.f_to_kind(kind)?.f_to_device(self.device)?);
        }
        Ok(TorchBatch { tensors })
    }
}

impl Iterator for TorchBatches {
    type Item = tune::Result<TorchBatch>;

    fn next(&mut self) -> Option<Self::Item> {
        let batch = self.batches.next()?;
        Some(batch.and_then(|batch| self.tensors(&batch).map_err(tune::Error::from)))
    }
}

fn tensor(name: &str, column: &Column) -> Result<Tensor> {
    Ok(match column {
        Column::Float(values) => values.as_standard_layout().try_into()?,
        Column::Int(values) => values.as_standard_layout().try_into()?,
        Column::Bool(values) => values.as_standard_layout().try_into()?,
        Column::Text(_) => {
            return Err(Error::State {
                what: format!("column `{name}`"),
                reason: "it is text, which no tensor holds: make numbers of it with `map_batches`, or leave it out with \
                         `select_columns`"
                    .into(),
            });
        }
    })
}
