//! Some rows, column by column.

use ndarray::ArrayD;

/// Values of one column; the first axis is the row.
#[derive(Clone, Debug, PartialEq)]
pub enum Column {
    /// Real numbers.
    Float(ArrayD<f64>),
    /// Whole numbers.
    Int(ArrayD<i64>),
    /// Truth values.
    Bool(ArrayD<bool>),
    /// Texts, one per row.
    Text(Vec<String>),
}

/// Some rows of a dataset: columns of equal length, in the order of the schema.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Block {
    /// Names and values.
    pub columns: Vec<(String, Column)>,
}
