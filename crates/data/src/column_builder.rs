//! Builds a column value by value and infers its type and shape.

use ndarray::{ArrayD, IxDyn};

use crate::block::Column;
use crate::schema::{DataType, Field};

/// Reason why a value is refused; messages show it after "column `x`: ".
pub(super) type Reason = String;

/// A column under construction.
///
/// If no type is given, the type is inferred from the values: whole numbers become floats if a float or a missing value is
/// among them. The shape of the first row's value is the shape of all.
#[derive(Debug)]
pub(super) struct ColumnBuilder {
    pub(super) name: String,
    /// Number of complete rows.
    pub(super) rows: usize,
    values: Values,
    /// Whether the type was given or was inferred from an earlier block.
    is_fixed: bool,
    shape: Option<Vec<usize>>,
    /// Lengths of the current row's arrays, indexed by depth; empty between rows.
    lengths: Vec<Option<usize>>,
    /// Number of arrays around each single value of the current row; `None` before its first value.
    depth: Option<usize>,
}

#[derive(Debug)]
enum Values {
    /// No type is known yet: all values so far, this many, are missing.
    Unknown(usize),
    Float(Vec<f64>),
    Int(Vec<i64>),
    Bool(Vec<bool>),
    Text(Vec<String>),
}

impl ColumnBuilder {
    /// Starts a column whose type is inferred; the column is missing in the `missing` rows before.
    pub(super) fn inferring(name: &str, missing: usize) -> Self {
        ColumnBuilder {
            name: name.into(),
            rows: missing,
            values: Values::Unknown(missing),
            is_fixed: false,
            shape: (missing > 0).then(Vec::new),
            lengths: vec![],
            depth: None,
        }
    }

    pub(super) fn of(field: &Field) -> Self {
        let values = match field.data_type {
            DataType::Float => Values::Float(vec![]),
            DataType::Int => Values::Int(vec![]),
            DataType::Bool => Values::Bool(vec![]),
            DataType::Text => Values::Text(vec![]),
        };
        let shape = Some(field.shape.clone());
        ColumnBuilder { values, is_fixed: true, shape, ..ColumnBuilder::inferring(&field.name, 0) }
    }

    /// Appends a single value of the current row, found inside `depth` nested arrays.
    pub(super) fn push_float(&mut self, value: f64, depth: usize) -> Result<(), Reason> {
        self.at_depth(depth)?;
        self.become_floats();
        match &mut self.values {
            Values::Float(values) => values.push(value),
            _ => return Err(self.refusal(value)),
        }
        Ok(())
    }

    pub(super) fn push_int(&mut self, value: i64, depth: usize) -> Result<(), Reason> {
        self.at_depth(depth)?;
        if let Values::Unknown(0) = self.values {
            self.values = Values::Int(vec![]);
        }
        match &mut self.values {
            Values::Int(values) => values.push(value),
            Values::Float(_) | Values::Unknown(_) => {
                self.become_floats();
                if let Values::Float(values) = &mut self.values {
                    values.push(value as f64);
                }
            }
            _ => return Err(self.refusal(value)),
        }
        Ok(())
    }

    pub(super) fn push_unsigned(&mut self, value: u64, depth: usize) -> Result<(), Reason> {
        match i64::try_from(value) {
            Ok(value) => self.push_int(value, depth),
            Err(_) => Err(format!("the value is {value}, but whole numbers end at {}", i64::MAX)),
        }
    }

    pub(super) fn push_bool(&mut self, value: bool, depth: usize) -> Result<(), Reason> {
        self.at_depth(depth)?;
        if let Values::Unknown(0) = self.values {
            self.values = Values::Bool(vec![]);
        }
        match &mut self.values {
            Values::Bool(values) => values.push(value),
            _ => return Err(self.refusal(value)),
        }
        Ok(())
    }

    pub(super) fn push_text(&mut self, value: &str, depth: usize) -> Result<(), Reason> {
        self.at_depth(depth)?;
        if depth > 0 {
            return Err(format!("{value:?} stands in an array, but arrays are of numbers or truth values"));
        }
        if let Values::Unknown(0) = self.values {
            self.values = Values::Text(vec![]);
        }
        match &mut self.values {
            Values::Text(values) => values.push(value.into()),
            _ => return Err(self.refusal(format!("{value:?}"))),
        }
        Ok(())
    }

    /// Appends a missing value: NaN in a float column, an error in any other.
    pub(super) fn push_missing(&mut self, depth: usize) -> Result<(), Reason> {
        self.at_depth(depth)?;
        if let Values::Unknown(rows) = &mut self.values {
            *rows += 1;
            return Ok(());
        }
        self.become_floats();
        match &mut self.values {
            Values::Float(values) => values.push(f64::NAN),
            _ => {
                let data_type = self.data_type();
                return Err(format!(
                    "the value is missing, but the column is {data_type}: only a float column may miss values"
                ));
            }
        }
        Ok(())
    }

    /// Ends an array of `length` values that is nested in `depth` other arrays.
    pub(super) fn end_array(&mut self, length: usize, depth: usize) -> Result<(), Reason> {
        if self.lengths.len() <= depth {
            self.lengths.resize(depth + 1, None);
        }
        match self.lengths[depth].replace(length) {
            Some(other) if other != length => Err(format!(
                "its arrays have {other} and {length} values, but they must be of equal length: pad them"
            )),
            _ => Ok(()),
        }
    }

    /// Ends the row's value and checks that its shape is that of the rows before.
    pub(super) fn end_row(&mut self) -> Result<(), Reason> {
        let found = self.lengths.iter().map(|length| length.unwrap_or(0));
        match &self.shape {
            Some(shape) if shape.iter().copied().eq(found.clone()) => {}
            Some(shape) => {
                return Err(format!(
                    "the value has the shape {:?}, but the rows before or the schema have {shape:?}: all rows need one shape",
                    found.collect::<Vec<_>>()
                ));
            }
            None => self.shape = Some(found.collect()),
        }
        self.lengths.clear();
        self.depth = None;
        self.rows += 1;
        Ok(())
    }

    /// Returns the column of all rows.
    ///
    /// # Errors
    /// Fails if the type is unknown because no row has a value.
    pub(super) fn finish(self) -> Result<Column, Reason> {
        let shape: Vec<usize> = [self.rows].into_iter().chain(self.shape.unwrap_or_default()).collect();
        let array = IxDyn(&shape);
        let column = match self.values {
            Values::Float(values) => ArrayD::from_shape_vec(array, values).map(Column::Float),
            Values::Int(values) => ArrayD::from_shape_vec(array, values).map(Column::Int),
            Values::Bool(values) => ArrayD::from_shape_vec(array, values).map(Column::Bool),
            Values::Text(values) => Ok(Column::Text(values)),
            Values::Unknown(_) => {
                return Err("none of the first rows has a value: give its type with a schema".into());
            }
        };
        column.map_err(|error| error.to_string())
    }

    /// Converts whole numbers and missing values to floats, unless the type is fixed.
    fn become_floats(&mut self) {
        match &self.values {
            Values::Unknown(missing) => self.values = Values::Float(vec![f64::NAN; *missing]),
            Values::Int(values) if !self.is_fixed => {
                self.values = Values::Float(values.iter().map(|&value| value as f64).collect());
            }
            _ => {}
        }
    }

    fn at_depth(&mut self, depth: usize) -> Result<(), Reason> {
        match self.depth.replace(depth) {
            Some(other) if other != depth => {
                Err("the array holds both single values and arrays, but all rows need one shape".into())
            }
            _ => Ok(()),
        }
    }

    fn data_type(&self) -> &'static str {
        match self.values {
            Values::Unknown(_) => "without a value in its first rows",
            Values::Float(_) => "float",
            Values::Int(_) => "int",
            Values::Bool(_) => "bool",
            Values::Text(_) => "text",
        }
    }

    /// Returns the reason for refusing `value`, whose type differs from the column's.
    pub(super) fn refusal(&self, value: impl std::fmt::Display) -> Reason {
        let data_type = self.data_type();
        match self.values {
            Values::Unknown(_) => format!(
                "the value is {value}, but it is missing in the rows before: only a float column may miss values"
            ),
            _ => format!("the value is {value}, but the column is {data_type}: give its type with a schema"),
        }
    }
}
