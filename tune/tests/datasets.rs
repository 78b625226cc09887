//! Datasets: rows in memory and in files, batches, parts.

use pavlov_tune::data::{Batches, Block, DataType, Dataset, IterBatches, Rows, Schema, Shuffle};
use serde_json::json;

mod files;
mod streams;
