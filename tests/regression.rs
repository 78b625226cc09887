//! Faults that were found once and must not come back.

use pavlov::trainer::batch::read_f32;
use pavlov::trainer::{Array, Kind};

/// libtorch gives an empty tensor a null pointer, and a slice must not have one: PPO aborted when a fragment ended with
/// its last episode and there was no cut observation to value.
#[test]
fn an_empty_tensor_reads_as_no_numbers() {
    let empty = Array::zeros(Kind::F32, &[0, 4]);
    assert!(read_f32(&empty).unwrap().is_empty());
}
