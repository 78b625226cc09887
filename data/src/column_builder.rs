//! A column that grows value by value, and finds out its type and shape on the way.

use ndarray::{ArrayD, IxDyn};

use crate::block::Column;
use crate::schema::{DataType, Field};

/// What is wrong with a value: reads on after "column `x`: ".
pub(super) type Reason = String;

/// A column under construction.
///
/// Without a field it takes its type from the values: whole numbers become floats where a float or a missing value is
/// among them. Its shape is that of the first row.
#[derive(Debug)]
pub(super) struct ColumnBuilder {
    pub(super) name: String,
    /// Whole rows.
    pub(super) rows: usize,
    values: Values,
    /// Whether the type was given or found in an earlier block.
    is_fixed: bool,
    shape: Option<Vec<usize>>,
    /// Lengths of the arrays of the row at hand, by depth; all are at 0 before it.
    lengths: Vec<Option<usize>>,
    /// At which depth its single values are.
    depth: Option<usize>,
}

#[derive(Debug)]
enum Values {
    /// Nothing but this many missing values.
    Unknown(usize),
    Float(Vec<f64>),
    Int(Vec<i64>),
    Bool(Vec<bool>),
    Text(Vec<String>),
}

impl ColumnBuilder {
    /// Of a type to be found; `missing` rows before had no such column.
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

    /// A single value of the row at hand, inside `depth` arrays.
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

    /// A missing value: NaN in a column of floats, an error in any other.
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

    /// An array of `length` values inside `depth` others is through.
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

    /// The row's value is whole.
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

    /// # Errors
    /// Fails if no row has a value.
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

    /// Whole numbers and nothing become floats, unless the type is fixed.
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

    /// What to say of a value of another type.
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
