//! Blocks of rows, stored column by column.

use ndarray::{Array, ArrayD, ArrayViewD, Axis, CowArray, Dimension, ErrorKind, IxDyn, ShapeError, Slice};
use pavlov_tune::{Error, Result};
use serde_json::Value;

use crate::schema::{DataType, Field, Schema};

/// One row as a JSON object; a NaN is written as `null`.
pub type Row = serde_json::Map<String, Value>;

/// Values of one column of a block; the first axis is the row.
#[derive(Clone, Debug, PartialEq)]
pub enum Column {
    /// Column of real numbers `[rows, ...]`; a NaN is a missing value.
    Float(ArrayD<f64>),
    /// Column of whole numbers `[rows, ...]`.
    Int(ArrayD<i64>),
    /// Column of truth values `[rows, ...]`.
    Bool(ArrayD<bool>),
    /// Column of texts, one per row.
    Text(Vec<String>),
}

impl Column {
    /// Returns the number of rows.
    pub fn num_rows(&self) -> usize {
        match self {
            Column::Float(values) => values.shape().first().copied().unwrap_or(0),
            Column::Int(values) => values.shape().first().copied().unwrap_or(0),
            Column::Bool(values) => values.shape().first().copied().unwrap_or(0),
            Column::Text(values) => values.len(),
        }
    }

    /// Returns the type of the column's values.
    pub fn data_type(&self) -> DataType {
        match self {
            Column::Float(_) => DataType::Float,
            Column::Int(_) => DataType::Int,
            Column::Bool(_) => DataType::Bool,
            Column::Text(_) => DataType::Text,
        }
    }

    /// Returns the shape of one row's value; it is empty for a single value.
    pub fn shape(&self) -> &[usize] {
        let whole = match self {
            Column::Float(values) => values.shape(),
            Column::Int(values) => values.shape(),
            Column::Bool(values) => values.shape(),
            Column::Text(_) => &[],
        };
        whole.get(1..).unwrap_or_default()
    }

    fn has_rows(&self) -> bool {
        match self {
            Column::Float(values) => values.ndim() > 0,
            Column::Int(values) => values.ndim() > 0,
            Column::Bool(values) => values.ndim() > 0,
            Column::Text(_) => true,
        }
    }

    /// Copies `count` rows: `start`, `start + step`, and so on.
    fn slice(&self, start: usize, step: usize, count: usize) -> Column {
        match self {
            Column::Float(values) => Column::Float(strided(values, start, step, count)),
            Column::Int(values) => Column::Int(strided(values, start, step, count)),
            Column::Bool(values) => Column::Bool(strided(values, start, step, count)),
            Column::Text(texts) => {
                Column::Text(texts.iter().skip(start).step_by(step).take(count).cloned().collect())
            }
        }
    }

    /// Copies the rows with the indices `rows`, in that order.
    fn take(&self, rows: &[usize]) -> Column {
        match self {
            Column::Float(values) => Column::Float(values.select(Axis(0), rows)),
            Column::Int(values) => Column::Int(values.select(Axis(0), rows)),
            Column::Bool(values) => Column::Bool(values.select(Axis(0), rows)),
            Column::Text(texts) => Column::Text(rows.iter().map(|&row| texts[row].clone()).collect()),
        }
    }

    fn append(&mut self, more: Column) -> Result<(), ShapeError> {
        match (self, more) {
            (Column::Float(values), Column::Float(more)) => values.append(Axis(0), more.view()),
            (Column::Int(values), Column::Int(more)) => values.append(Axis(0), more.view()),
            (Column::Bool(values), Column::Bool(more)) => values.append(Axis(0), more.view()),
            (Column::Text(texts), Column::Text(more)) => {
                texts.extend(more);
                Ok(())
            }
            _ => Err(ShapeError::from_kind(ErrorKind::IncompatibleLayout)),
        }
    }

    fn value(&self, row: usize) -> Value {
        match self {
            Column::Float(values) => nested(values.index_axis(Axis(0), row)),
            Column::Int(values) => nested(values.index_axis(Axis(0), row)),
            Column::Bool(values) => nested(values.index_axis(Axis(0), row)),
            Column::Text(texts) => texts[row].as_str().into(),
        }
    }
}

fn strided<T: Clone>(values: &ArrayD<T>, start: usize, step: usize, count: usize) -> ArrayD<T> {
    let slice = match count {
        0 => Slice::new(0, Some(0), 1),
        1 => Slice::new(start as isize, Some(start as isize + 1), 1),
        _ => Slice::new(start as isize, Some((start + (count - 1) * step + 1) as isize), step as isize),
    };
    values.slice_axis(Axis(0), slice).as_standard_layout().into_owned()
}

fn nested<T: Clone + Into<Value>>(value: ArrayViewD<'_, T>) -> Value {
    match value.first() {
        Some(single) if value.ndim() == 0 => single.clone().into(),
        _ => value.axis_iter(Axis(0)).map(nested).collect(),
    }
}

macro_rules! column_from {
    ($($element:ty => $variant:ident as $stored:ty),*) => {$(
        impl<D: Dimension> From<Array<$element, D>> for Column {
            fn from(values: Array<$element, D>) -> Self {
                Column::$variant(values.into_dyn().mapv_into_any(<$stored>::from))
            }
        }
        impl From<Vec<$element>> for Column {
            fn from(values: Vec<$element>) -> Self {
                Array::from(values).into()
            }
        }
    )*};
}

column_from!(f64 => Float as f64, f32 => Float as f64, i64 => Int as i64, i32 => Int as i64, u8 => Int as i64, bool => Bool as bool);

impl From<Vec<String>> for Column {
    fn from(texts: Vec<String>) -> Self {
        Column::Text(texts)
    }
}

impl From<Vec<&str>> for Column {
    fn from(texts: Vec<&str>) -> Self {
        Column::Text(texts.into_iter().map(str::to_owned).collect())
    }
}

/// Some rows of a dataset, as columns of equal length in the order of the schema. A batch is a block.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Block {
    columns: Vec<(String, Column)>,
}

impl Block {
    /// Makes a block of columns, each given as its name and its values.
    ///
    /// # Errors
    /// Returns [`Error::Dataset`] if columns differ in length, if two columns have the same name, or if an array has no axis
    /// of rows.
    pub fn new(columns: impl IntoIterator<Item = (impl Into<String>, impl Into<Column>)>) -> Result<Self> {
        let columns: Vec<(String, Column)> =
            columns.into_iter().map(|(name, column)| (name.into(), column.into())).collect();
        for (index, (name, column)) in columns.iter().enumerate() {
            let first = &columns[0].0;
            let expected = columns[0].1.num_rows();
            if column.num_rows() != expected {
                let rows = column.num_rows();
                let reason = format!("column `{name}` has {rows} rows, but column `{first}` has {expected}");
                return Err(Error::Dataset { reason });
            }
            if columns[..index].iter().any(|(other, _)| other == name) {
                return Err(Error::Dataset { reason: format!("there are two columns `{name}`") });
            }
            if !column.has_rows() {
                let reason = format!("column `{name}` is a single value, but it must have an axis of rows");
                return Err(Error::Dataset { reason });
            }
        }
        Ok(Block { columns })
    }

    /// Returns the number of rows.
    pub fn num_rows(&self) -> usize {
        self.columns.first().map_or(0, |(_, column)| column.num_rows())
    }

    /// Returns the names, types and shapes of the columns.
    pub fn schema(&self) -> Schema {
        let field = |(name, column): &(String, Column)| Field {
            name: name.clone(),
            data_type: column.data_type(),
            shape: column.shape().to_vec(),
        };
        Schema { fields: self.columns.iter().map(field).collect() }
    }

    /// Iterates over the columns in order, each as its name and its values.
    pub fn columns(&self) -> impl Iterator<Item = (&str, &Column)> {
        self.columns.iter().map(|(name, column)| (name.as_str(), column))
    }

    /// Returns the column `name`.
    ///
    /// # Errors
    /// Returns [`Error::Dataset`], which lists the existing columns, if there is no column `name`.
    pub fn column(&self, name: &str) -> Result<&Column> {
        match self.columns.iter().find(|(known, _)| known == name) {
            Some((_, column)) => Ok(column),
            None => Err(Error::Dataset { reason: missing(name, &self.schema()) }),
        }
    }

    /// Returns the numbers of a float column, or of an int column converted to floats: `[rows, ...]`.
    ///
    /// # Errors
    /// Returns [`Error::Dataset`] if there is no such column, or if it holds no numbers.
    pub fn float(&self, name: &str) -> Result<CowArray<'_, f64, IxDyn>> {
        match self.column(name)? {
            Column::Float(values) => Ok(values.view().into()),
            Column::Int(values) => Ok(values.mapv(|value| value as f64).into()),
            column => Err(other_type(name, column, "float")),
        }
    }

    /// Returns the numbers of an int column: `[rows, ...]`.
    ///
    /// # Errors
    /// Returns [`Error::Dataset`] if there is no such column, or if it has another type.
    pub fn int(&self, name: &str) -> Result<&ArrayD<i64>> {
        match self.column(name)? {
            Column::Int(values) => Ok(values),
            column => Err(other_type(name, column, "int")),
        }
    }

    /// Returns the truth values of a bool column: `[rows, ...]`.
    ///
    /// # Errors
    /// Returns [`Error::Dataset`] if there is no such column, or if it has another type.
    pub fn bool(&self, name: &str) -> Result<&ArrayD<bool>> {
        match self.column(name)? {
            Column::Bool(values) => Ok(values),
            column => Err(other_type(name, column, "bool")),
        }
    }

    /// Returns the texts of a text column, one per row.
    ///
    /// # Errors
    /// Returns [`Error::Dataset`] if there is no such column, or if it has another type.
    pub fn text(&self, name: &str) -> Result<&[String]> {
        match self.column(name)? {
            Column::Text(values) => Ok(values),
            column => Err(other_type(name, column, "text")),
        }
    }

    /// Adds the column `name` to the block; an existing column `name` is replaced.
    ///
    /// # Errors
    /// Returns [`Error::Dataset`] if the column differs from the others in its number of rows, or has no axis of rows.
    pub fn with_column(mut self, name: &str, column: impl Into<Column>) -> Result<Self> {
        let column = column.into();
        match self.columns.iter_mut().find(|(known, _)| known == name) {
            Some((_, old)) => *old = column,
            None => self.columns.push((name.into(), column)),
        }
        Block::new(self.columns)
    }

    /// Copies only the columns `names`, in that order.
    ///
    /// # Errors
    /// Returns [`Error::Dataset`] if one of the columns does not exist or is named twice.
    pub fn select(&self, names: &[impl AsRef<str>]) -> Result<Self> {
        let chosen = names.iter().map(|name| Ok((name.as_ref(), self.column(name.as_ref())?.clone())));
        Block::new(chosen.collect::<Result<Vec<_>>>()?)
    }

    /// Iterates over the rows as JSON objects.
    pub fn rows(&self) -> impl Iterator<Item = Row> {
        let row =
            |index| self.columns().map(|(name, column)| (name.to_owned(), column.value(index))).collect();
        (0..self.num_rows()).map(row)
    }

    /// Copies `count` rows: `start`, `start + step`, and so on.
    pub(super) fn slice(&self, start: usize, step: usize, count: usize) -> Block {
        self.each(|column| column.slice(start, step, count))
    }

    /// Copies the rows with the indices `rows`, in that order.
    pub(super) fn take(&self, rows: &[usize]) -> Block {
        self.each(|column| column.take(rows))
    }

    fn each(&self, of: impl Fn(&Column) -> Column) -> Block {
        Block { columns: self.columns.iter().map(|(name, column)| (name.clone(), of(column))).collect() }
    }

    /// Joins the rows of all `parts` into one block, part after part.
    ///
    /// # Errors
    /// Returns [`Error::Dataset`] if the schemas of the parts differ, or the error of the first part that is an error.
    pub(super) fn concat(parts: impl IntoIterator<Item = Result<Block>>) -> Result<Block> {
        let mut parts = parts.into_iter();
        let mut all = parts.next().transpose()?.unwrap_or_default();
        let schema = all.schema();
        for part in parts {
            let part = part?;
            if part.schema() != schema {
                return Err(Error::Dataset { reason: differing(&schema, &part.schema()) });
            }
            for ((_, column), (_, more)) in all.columns.iter_mut().zip(part.columns) {
                column.append(more).map_err(Error::other)?;
            }
        }
        Ok(all)
    }
}

/// Returns the error message for rows whose schema `other` differs from the schema `first` of earlier rows.
pub(super) fn differing(first: &Schema, other: &Schema) -> String {
    format!("its rows change from ({first}) to ({other}): give them the same columns, types and shapes")
}

fn missing(name: &str, schema: &Schema) -> String {
    format!("there is no column `{name}`; the columns are {}", schema.names().join(", "))
}

fn other_type(name: &str, column: &Column, asked: &str) -> Error {
    let reason = format!("column `{name}` is {}, but {asked} is asked for", column.data_type());
    Error::Dataset { reason }
}
