//! Columns of a batch as tensors. A whole column is copied to libtorch's memory, or to the GPU, once; slices and selections
//! of the batch share the copy.

use crate::base::Result;
use crate::base::torch::Still;
use crate::experience::{Column, SampleBatch, Selection};
use tch::{Device, Tensor};

/// The rows of a column that belong to the batch, on `device`.
pub(super) fn tensor(batch: &SampleBatch, column: Column, device: Device) -> Result<Tensor> {
    let source = batch.source(column)?;
    let [of_base, of_rows] = source.elsewhere;
    let make = || source.base.to_tensor().to_device(device);
    let here = |still: &Still| (still.tensor().device() == device).then(|| still.tensor().shallow_clone());
    let whole = || of_base.get_or_make(|| Still::new(make())).and_then(here).unwrap_or_else(make);
    let rows = |whole: Tensor| match source.rows {
        Selection::Range(start, len) => whole.narrow(0, *start as i64, *len as i64),
        Selection::Index(list, start, len) => {
            whole.index_select(0, &Tensor::from_slice(&list[*start..start + len]).to_device(device))
        }
    };
    let kept = of_rows.get_or_make(|| Still::new(rows(whole())));
    Ok(kept.and_then(here).unwrap_or_else(|| rows(whole())))
}
