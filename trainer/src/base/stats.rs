//! Statistics of learning steps.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};
use tch::Tensor;

/// Returns a copy of the name that lives as long as the program, one copy per name. A program has few names, so none
/// is freed.
pub(crate) fn interned(name: &str) -> &'static str {
    static NAMES: Mutex<BTreeSet<&'static str>> = Mutex::new(BTreeSet::new());
    let mut names = NAMES.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(known) = names.get(name) {
        return known;
    }
    let name: &'static str = name.to_owned().leak();
    names.insert(name);
    name
}

/// Named statistics. Numbers on a GPU stay there until a result is made, so that no minibatch waits for a transfer.
#[derive(Debug, Default)]
pub struct Stats {
    names: Vec<&'static str>,
    values: StatValues,
}

#[derive(Debug)]
enum StatValues {
    Host(Vec<f64>),
    /// The values as a tensor `[names]`, perhaps on a GPU, that was not read yet.
    Unread(Tensor),
}

impl Default for StatValues {
    fn default() -> Self {
        Self::Host(Vec::new())
    }
}

impl Stats {
    /// Makes statistics from names and values.
    pub fn new(named: impl IntoIterator<Item = (&'static str, f64)>) -> Self {
        let (names, values) = named.into_iter().unzip();
        Self { names, values: StatValues::Host(values) }
    }

    /// Makes statistics from names and a tensor `[names]` that is read when a result is made.
    pub fn unread(names: Vec<&'static str>, values: Tensor) -> Self {
        Self { names, values: StatValues::Unread(values) }
    }

    /// The names of the statistics.
    pub fn names(&self) -> &[&'static str] {
        &self.names
    }

    /// Adds a statistic with its name and value.
    pub fn push(&mut self, name: &'static str, value: f64) {
        self.names.push(name);
        match &mut self.values {
            StatValues::Host(values) => values.push(value),
            StatValues::Unread(values) => {
                let value = Tensor::from_slice(&[value]).to_kind(values.kind()).to_device(values.device());
                *values = Tensor::cat(&[&*values, &value], 0);
            }
        }
    }

    /// Adds a statistic that is a tensor of one number.
    pub fn push_unread(&mut self, name: &'static str, value: &Tensor) {
        match &mut self.values {
            StatValues::Host(_) => self.push(name, value.double_value(&[])),
            StatValues::Unread(values) => {
                *values = Tensor::cat(&[&*values, &value.view(1)], 0);
                self.names.push(name);
            }
        }
    }

    /// Reads a statistic by name, and waits for the GPU if it is there; `None` if no statistic has this name.
    pub fn read(&self, name: &str) -> Option<f64> {
        let i = self.names.iter().position(|n| *n == name)?;
        Some(match &self.values {
            StatValues::Host(values) => values[i],
            StatValues::Unread(values) => values.double_value(&[i as i64]),
        })
    }

    /// Reads all statistics, in the order of their names, and waits for the GPU if they are there.
    pub fn values(&self) -> Vec<f64> {
        match &self.values {
            StatValues::Host(values) => values.clone(),
            StatValues::Unread(values) => {
                Vec::try_from(values.to_kind(tch::Kind::Double)).unwrap_or_default()
            }
        }
    }

    /// The values as a tensor `[names]`; `None` if they are numbers in the main memory already.
    pub(crate) fn tensor(&self) -> Option<&Tensor> {
        match &self.values {
            StatValues::Host(_) => None,
            StatValues::Unread(values) => Some(values),
        }
    }
}
