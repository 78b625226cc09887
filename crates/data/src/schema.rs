//! Schema of a dataset: names, types and shapes of its columns.

use std::fmt;

/// The type of a column's values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DataType {
    /// Real numbers as `f64`.
    Float,
    /// Whole numbers as `i64`.
    Int,
    /// Truth values as `bool`.
    Bool,
    /// UTF-8 texts.
    Text,
}

impl fmt::Display for DataType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            DataType::Float => "float",
            DataType::Int => "int",
            DataType::Bool => "bool",
            DataType::Text => "text",
        })
    }
}

/// A column of a dataset: its name, its type and its shape.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Field {
    /// The column's name.
    pub name: String,
    /// The type of the column's values.
    pub data_type: DataType,
    /// The shape of one row's value; empty for a single value.
    pub shape: Vec<usize>,
}

impl<N: Into<String>> From<(N, DataType)> for Field {
    fn from((name, data_type): (N, DataType)) -> Self {
        Field { name: name.into(), data_type, shape: vec![] }
    }
}

impl<N: Into<String>, S: Into<Vec<usize>>> From<(N, DataType, S)> for Field {
    fn from((name, data_type, shape): (N, DataType, S)) -> Self {
        Field { name: name.into(), data_type, shape: shape.into() }
    }
}

/// The columns of a dataset, in order. A dataset without rows may have none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Schema {
    /// The columns; their names are unique.
    pub fields: Vec<Field>,
}

impl Schema {
    /// Makes a schema of columns, each given as `(name, type)`, `(name, type, shape)` or [`Field`].
    pub fn new(fields: impl IntoIterator<Item = impl Into<Field>>) -> Self {
        Schema { fields: fields.into_iter().map(Into::into).collect() }
    }

    /// Returns the names of the columns, in order.
    pub fn names(&self) -> Vec<&str> {
        self.fields.iter().map(|field| field.name.as_str()).collect()
    }

    /// Estimates the memory of a row in bytes; a text counts as 64.
    pub(super) fn row_bytes(&self) -> usize {
        let bytes = |field: &Field| match field.data_type {
            DataType::Float | DataType::Int => 8 * field.shape.iter().product::<usize>(),
            DataType::Bool => field.shape.iter().product(),
            DataType::Text => 64,
        };
        self.fields.iter().map(bytes).sum()
    }
}

impl fmt::Display for Schema {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, field) in self.fields.iter().enumerate() {
            let comma = if index == 0 { "" } else { ", " };
            write!(f, "{comma}{}: {}", field.name, field.data_type)?;
            if !field.shape.is_empty() {
                write!(f, "{:?}", field.shape)?;
            }
        }
        Ok(())
    }
}
