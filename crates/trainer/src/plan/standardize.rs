//! `standardize`: scales a column to mean 0 and standard deviation 1 over the whole batch (Ray's StandardizeFields).

use crate::experience::TrainBatch;
use pavlov_learn::base::{Array, Result};
use pavlov_learn::experience::{Column, SampleBatch};
use pavlov_learn::kernels;

/// Returns a step that applies [`standardized`] to the rows of each policy.
pub fn standardize(column: Column) -> impl FnMut(TrainBatch) -> Result<TrainBatch> + Send {
    move |mut batch| {
        for rows in batch.policies.values_mut().filter(|rows| rows.rows() > 0) {
            *rows = standardized(rows, column)?;
        }
        Ok(batch)
    }
}

/// Returns `batch` with the column replaced by `(x - mean) / max(1e-4, std)`; `std` is the population standard
/// deviation.
///
/// # Errors
/// Returns [`Error::MissingColumn`](crate::Error::MissingColumn) if the batch has no such column.
pub fn standardized(batch: &SampleBatch, column: Column) -> Result<SampleBatch> {
    scaled(batch, column, |squares, n| (squares / n).sqrt().max(1e-4))
}

/// Returns `batch` with the column replaced by `(x - mean) / (std + 1e-8)`; `std` is the sample standard deviation, of
/// which the divisor is the number of rows less 1. This is what PyTorch's `std` computes, and so Stable-Baselines3 and
/// CleanRL. A batch of one row stays as it is.
///
/// # Errors
/// Returns [`Error::MissingColumn`](crate::Error::MissingColumn) if the batch has no such column.
pub fn standardized_by_sample(batch: &SampleBatch, column: Column) -> Result<SampleBatch> {
    if batch.rows() == 1 {
        return Ok(batch.slice(0, 1));
    }
    scaled(batch, column, |squares, n| (squares / (n - 1.0)).sqrt() + 1e-8)
}

/// Returns `batch` with the mean subtracted from the column, and the rest divided by what `scale` makes of the sum of
/// its squares and the number of its scalars.
fn scaled(batch: &SampleBatch, column: Column, scale: impl Fn(f64, f64) -> f64) -> Result<SampleBatch> {
    let (mut x, shape) = batch.to_f32(column)?;
    let n = x.len() as f64;
    let mean = (kernels::sum(&x, |x| x) / n) as f32;
    let std = scale(kernels::sum(&x, |x| (x - mean) * (x - mean)), n) as f32;
    x.iter_mut().for_each(|x| *x = (*x - mean) / std);
    Ok(batch.slice(0, batch.rows()).with(column, Array::from_vec(x, &shape)))
}
