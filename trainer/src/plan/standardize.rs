//! `standardize`: scales a column to mean 0 and standard deviation 1 over the whole batch (Ray's StandardizeFields).

use crate::base::{Result, host};
use crate::experience::{Column, SampleBatch, Selection, TrainBatch};
use crate::learn::kernels;
use tch::{Device, Kind, Tensor};

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
    let _guard = tch::no_grad_guard();
    let source = batch.source(column)?;
    let is_plain = source.base.device() == Device::Cpu
        && source.base.kind() == Kind::Float
        && source.base.dim() == 1
        && source.base.is_contiguous();
    let standardized = if is_plain {
        on_host(host::read(source.base), source.rows)
    } else {
        let x = batch.get(column)?;
        (x - x.mean(None)) / x.std(false).clamp_min(1e-4)
    };
    Ok(batch.slice(0, batch.rows()).with(column, standardized))
}

/// Standardizes the selected `rows` of `x` in plain memory: for a few hundred rows libtorch's calls cost ten times
/// more than the arithmetic.
fn on_host(x: &[f32], rows: &Selection) -> Tensor {
    let mut x: Vec<f32> = match rows {
        Selection::Range(start, len) => x[*start..start + len].to_vec(),
        Selection::Index(list, start, len) => {
            list[*start..start + len].iter().map(|&i| x[i as usize]).collect()
        }
    };
    let n = x.len() as f64;
    let mean = (kernels::sum(&x, |x| x) / n) as f32;
    let std = (kernels::sum(&x, |x| (x - mean) * (x - mean)) / n).sqrt().max(1e-4) as f32;
    x.iter_mut().for_each(|x| *x = (*x - mean) / std);
    Tensor::from_slice(&x)
}
