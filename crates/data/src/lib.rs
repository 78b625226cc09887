//! Datasets of rows in memory or in files, with the names of Ray Data. Rows are read in blocks, so a dataset may be larger
//! than memory.
//!
//! ```
//! use pavlov_data::{Dataset, IterBatches, Shuffle};
//! use serde_json::json;
//!
//! let squares = Dataset::from_items((0..10).map(|x| json!({"x": x, "y": x * x})))?;
//! for epoch in 0..3 {
//!     let shuffle = Some(Shuffle { seed: 1, epoch, ..Shuffle::default() });
//!     for batch in squares.iter_batches(IterBatches { batch_size: 4, shuffle, ..IterBatches::default() })? {
//!         let batch = batch?;
//!         assert_eq!(batch.float("y")?, batch.float("x")?.mapv(|x| x * x));
//!     }
//! }
//! # Ok::<(), pavlov_tune::Error>(())
//! ```
//!
//! Errors are those of [`pavlov_tune`], so that a training loop passes them on with `?`. This crate does not need libtorch.

mod batches;
mod block;
mod block_builder;
mod column_builder;
mod dataset;
mod files;
mod part;
mod read_csv;
mod read_json;

#[cfg(feature = "parquet")]
mod read_parquet;
mod schema;
mod shuffle;
mod source;
mod split;
mod transform;

pub use batches::{Batches, IterBatches, Shuffle};
pub use block::{Block, Column, Row};
pub use dataset::Dataset;
pub use files::{Files, Paths};
pub use schema::{DataType, Field, Schema};
pub use source::{Blocks, Datasource, Rows};

/// The programs of the README, compiled by `cargo test --doc`.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
