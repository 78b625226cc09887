//! Batches of a dataset as tensors.

use pavlov::prelude::*;
use pavlov::torch::{Device, Kind, Tensor};
use pavlov::tune;
use pavlov::{Dtypes, TorchBatch};
use serde_json::json;

fn rows() -> Dataset {
    let row = |i: i64| json!({"x": i as f64 + 0.5, "image": [[i, 0], [0, -i]], "flag": i == 1});
    Dataset::from_items((0..3).map(row)).unwrap()
}

fn batches(dataset: &Dataset, dtypes: impl Into<Dtypes>) -> tune::Result<Vec<TorchBatch>> {
    let options = IterBatches { batch_size: 2, ..IterBatches::default() };
    dataset.iter_torch_batches(options, dtypes, Device::Cpu)?.collect()
}

#[test]
fn batches_of_tensors_have_the_rows_of_the_dataset() {
    let batches = batches(&rows(), Dtypes::default()).unwrap();
    assert_eq!(batches.len(), 2);
    assert_eq!(batches[0]["x"], Tensor::from_slice(&[0.5, 1.5]));
    assert_eq!(batches[1]["x"], Tensor::from_slice(&[2.5]));
    assert_eq!(batches[0]["image"], Tensor::from_slice(&[0_i64, 0, 0, 0, 1, 0, 0, -1]).view([2, 2, 2]));
    assert_eq!(batches[0]["flag"], Tensor::from_slice(&[false, true]));
    let kinds: Vec<Kind> = batches[0].iter().map(|(_, tensor)| tensor.kind()).collect();
    assert_eq!(kinds, [Kind::Bool, Kind::Int64, Kind::Double]);
}

#[test]
fn dtypes_are_for_all_columns_or_by_name() {
    let all = batches(&rows(), Kind::Float).unwrap();
    assert!(all[0].iter().all(|(_, tensor)| tensor.kind() == Kind::Float));
    assert_eq!(all[0]["flag"], Tensor::from_slice(&[0.0_f32, 1.0]));
    let some = batches(&rows(), [("x", Kind::Half), ("image", Kind::Uint8)]).unwrap();
    let kinds: Vec<Kind> = some[0].iter().map(|(_, tensor)| tensor.kind()).collect();
    assert_eq!(kinds, [Kind::Bool, Kind::Uint8, Kind::Half]);
}

#[test]
fn columns_that_no_tensor_holds_are_refused() {
    let message = batches(&rows(), [("y", Kind::Float)]).unwrap_err().to_string();
    assert_eq!(message, "no column `y` in this batch; it has x, image, flag");
    let text = Dataset::from_items([json!({"name": "a", "x": 1})]).unwrap();
    assert_eq!(
        batches(&text, Kind::Float).unwrap_err().to_string(),
        "column `name`: it is text, which no tensor holds: make numbers of it with `map_batches`, or leave it out with \
         `select_columns`"
    );
    let numbers = batches(&text.select_columns(["x"]), Kind::Float).unwrap();
    assert_eq!(numbers[0]["x"], Tensor::from_slice(&[1.0_f32]));
    assert!(numbers[0].get("name").is_none());
}
