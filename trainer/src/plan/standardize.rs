//! `standardize`: a column to mean 0 and standard deviation 1 over the whole batch (Ray's StandardizeFields).

use crate::{
    batch::{Column, SampleBatch},
    error::Result,
};

/// `(x - mean) / max(1e-4, std)`, population standard deviation.
pub fn standardize(column: Column) -> impl FnMut(SampleBatch) -> Result<SampleBatch> + Send {
    move |mut batch| {
        let _guard = tch::no_grad_guard();
        let x = batch.get(column)?;
        let standardized = (x - x.mean(None)) / x.std(false).clamp_min(1e-4);
        batch.set(column, standardized);
        Ok(batch)
    }
}
