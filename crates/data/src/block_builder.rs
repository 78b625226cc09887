//! Builds a block from rows that serde can read, such as JSON lines and JSON values.

use std::fmt;

use pavlov_tune::{Error, Result};
use serde::de::{DeserializeSeed, Error as _, MapAccess, SeqAccess, Visitor};
use serde::{Deserializer, Serialize};
use serde_json::Value;

use crate::block::Block;
use crate::column_builder::{ColumnBuilder, Reason};
use crate::schema::Schema;

/// Builder of a [`Block`]: reads rows value by value straight into columns.
#[derive(Debug)]
pub(super) struct BlockBuilder {
    columns: Vec<ColumnBuilder>,
    rows: usize,
    is_fixed: bool,
    /// Column and reason of the last error; serde's error type cannot carry them.
    problem: Option<(String, Reason)>,
}

impl BlockBuilder {
    /// Starts a block whose `known` columns have the given types. Rows may add columns unless `is_fixed`.
    pub(super) fn new(known: &Schema, is_fixed: bool) -> Self {
        let columns = known.fields.iter().map(ColumnBuilder::of).collect();
        BlockBuilder { columns, rows: 0, is_fixed, problem: None }
    }

    /// Returns the number of rows added so far.
    pub(super) fn rows(&self) -> usize {
        self.rows
    }

    /// Adds a row that deserializes as an object.
    ///
    /// # Errors
    /// Returns [`Error::Row`] at `place` if a value does not fit its column, or if the row cannot be parsed; `explain` turns
    /// the parser's error into the reason.
    pub(super) fn push<'de, D: Deserializer<'de>>(
        &mut self,
        row: D,
        place: impl Fn() -> String,
        explain: impl Fn(D::Error) -> String,
    ) -> Result<()> {
        if let Err(error) = row.deserialize_map(RowVisitor { block: self }) {
            let (column, reason) = self.problem.take().unwrap_or_else(|| (String::new(), explain(error)));
            return Err(Error::Row { place: place(), column, reason });
        }
        Ok(())
    }

    /// Adds `item` as a row: an object's keys become columns, any other value becomes the column `item`.
    pub(super) fn push_item(&mut self, item: impl Serialize, place: impl Fn() -> String) -> Result<()> {
        let row = match serde_json::to_value(item).map_err(Error::other)? {
            Value::Object(row) => row,
            item => [("item".to_owned(), item)].into_iter().collect(),
        };
        self.push(Value::Object(row), place, |error| error.to_string())
    }

    /// Adds a row of named fields; `push` appends one field to its column.
    #[cfg(feature = "parquet")]
    pub(super) fn push_fields<'a, F: 'a>(
        &mut self,
        fields: impl Iterator<Item = (&'a String, &'a F)>,
        push: impl Fn(&mut ColumnBuilder, &F) -> Result<(), Reason>,
        place: impl Fn() -> String,
    ) -> Result<()> {
        let add = || {
            for (guess, (name, field)) in fields.enumerate() {
                let index = self.find(name, guess)?;
                let column = &mut self.columns[index];
                push(column, field)
                    .and_then(|()| column.end_row())
                    .map_err(|reason| (name.clone(), reason))?;
            }
            self.end_row()
        };
        add().map_err(|(column, reason)| Error::Row { place: place(), column, reason })
    }

    /// Returns the block of all rows added.
    ///
    /// # Errors
    /// Returns [`Error::Row`] at `place` if a column of unknown type has no value in any row.
    pub(super) fn finish(self, place: impl Fn() -> String) -> Result<Block> {
        let mut columns = Vec::with_capacity(self.columns.len());
        for builder in self.columns {
            let name = builder.name.clone();
            match builder.finish() {
                Ok(column) => columns.push((name, column)),
                Err(reason) => return Err(Error::Row { place: place(), column: name, reason }),
            }
        }
        Block::new(columns)
    }

    /// Returns the index of the column `name`, added if it is new; the column at index `guess` is tried first.
    fn find(&mut self, name: &str, guess: usize) -> Result<usize, (String, Reason)> {
        let stands_at = |columns: &[ColumnBuilder]| columns.iter().position(|column| column.name == name);
        let found = match self.columns.get(guess) {
            Some(column) if column.name == name => Some(guess),
            _ => stands_at(&self.columns),
        };
        match found {
            Some(index) if self.columns[index].rows > self.rows => {
                Err((name.into(), "the row has it twice".into()))
            }
            Some(index) => Ok(index),
            None if self.is_fixed => {
                let known: Vec<&str> = self.columns.iter().map(|column| column.name.as_str()).collect();
                Err((
                    name.into(),
                    format!("the first rows or the schema do not have it; they have {}", known.join(", ")),
                ))
            }
            None => {
                self.columns.push(ColumnBuilder::inferring(name, self.rows));
                Ok(self.columns.len() - 1)
            }
        }
    }

    /// Ends the row: columns that it did not name get a missing value.
    fn end_row(&mut self) -> Result<(), (String, Reason)> {
        self.rows += 1;
        for column in self.columns.iter_mut().filter(|column| column.rows < self.rows) {
            column
                .push_missing(0)
                .and_then(|()| column.end_row())
                .map_err(|reason| (column.name.clone(), reason))?;
        }
        Ok(())
    }
}

struct RowVisitor<'a> {
    block: &'a mut BlockBuilder,
}

impl<'de> Visitor<'de> for RowVisitor<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object with a value per column")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut row: A) -> Result<(), A::Error> {
        let block = self.block;
        let mut guess = 0;
        while let Some(found) = row.next_key_seed(Key { block, guess })? {
            let index = found.map_err(|problem| {
                block.problem = Some(problem);
                A::Error::custom("")
            })?;
            let column = &mut block.columns[index];
            let mut reason = None;
            let read = row.next_value_seed(Cell { column, depth: 0, reason: &mut reason });
            let ended = match (reason, read) {
                (Some(reason), _) => Err(reason),
                (None, Err(error)) => return Err(error),
                (None, Ok(())) => column.end_row(),
            };
            if let Err(reason) = ended {
                block.problem = Some((block.columns[index].name.clone(), reason));
                return Err(A::Error::custom(""));
            }
            guess = index + 1;
        }
        block.end_row().map_err(|problem| {
            block.problem = Some(problem);
            A::Error::custom("")
        })
    }
}

/// Deserializer of a key; returns the index of the key's column.
struct Key<'a> {
    block: &'a mut BlockBuilder,
    guess: usize,
}

impl<'de> DeserializeSeed<'de> for Key<'_> {
    type Value = Result<usize, (String, Reason)>;

    fn deserialize<D: Deserializer<'de>>(self, key: D) -> Result<Self::Value, D::Error> {
        key.deserialize_str(self)
    }
}

impl Visitor<'_> for Key<'_> {
    type Value = Result<usize, (String, Reason)>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the name of a column")
    }

    fn visit_str<E>(self, name: &str) -> Result<Self::Value, E> {
        Ok(self.block.find(name, self.guess))
    }
}

/// Deserializer of one column's value, or of an element inside `depth` nested arrays of that value.
struct Cell<'a> {
    column: &'a mut ColumnBuilder,
    depth: usize,
    reason: &'a mut Option<Reason>,
}

impl Cell<'_> {
    fn done<E: serde::de::Error>(reason: &mut Option<Reason>, pushed: Result<(), Reason>) -> Result<(), E> {
        pushed.map_err(|problem| {
            *reason = Some(problem);
            E::custom("")
        })
    }
}

impl<'de> DeserializeSeed<'de> for Cell<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, value: D) -> Result<(), D::Error> {
        value.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Cell<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a number, a truth value, a text, or arrays of numbers")
    }

    fn visit_bool<E: serde::de::Error>(self, value: bool) -> Result<(), E> {
        Self::done(self.reason, self.column.push_bool(value, self.depth))
    }

    fn visit_i64<E: serde::de::Error>(self, value: i64) -> Result<(), E> {
        Self::done(self.reason, self.column.push_int(value, self.depth))
    }

    fn visit_u64<E: serde::de::Error>(self, value: u64) -> Result<(), E> {
        Self::done(self.reason, self.column.push_unsigned(value, self.depth))
    }

    fn visit_f64<E: serde::de::Error>(self, value: f64) -> Result<(), E> {
        Self::done(self.reason, self.column.push_float(value, self.depth))
    }

    fn visit_str<E: serde::de::Error>(self, value: &str) -> Result<(), E> {
        Self::done(self.reason, self.column.push_text(value, self.depth))
    }

    fn visit_unit<E: serde::de::Error>(self) -> Result<(), E> {
        Self::done(self.reason, self.column.push_missing(self.depth))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut values: A) -> Result<(), A::Error> {
        let mut length = 0;
        let depth = self.depth + 1;
        while values
            .next_element_seed(Cell { column: &mut *self.column, depth, reason: &mut *self.reason })?
            .is_some()
        {
            length += 1;
        }
        Self::done(self.reason, self.column.end_array(length, self.depth))
    }

    fn visit_map<A: MapAccess<'de>>(self, _: A) -> Result<(), A::Error> {
        let reason = "the value is an object, but it must be a number, a truth value, a text or an array: \
                      give each of its parts a column"
            .to_owned();
        Self::done(self.reason, Err(reason))
    }
}
