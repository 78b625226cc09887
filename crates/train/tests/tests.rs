//! Integration tests of training loops, in one binary.
//!
//! `base_trainer`: training loops with datasets. `collective`, `data_parallel`: workers that train together.

mod base_trainer;
#[path = "../../tune/tests/child.rs"]
mod child;
mod data_parallel;
