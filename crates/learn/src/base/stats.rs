//! Statistics of learning steps.

use crate::base::unread::Unread;
use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

/// Returns a copy of the name that lives as long as the program, one copy per name. A program has few names, so none
/// is freed.
pub fn interned(name: &str) -> &'static str {
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
    pub(super) names: Vec<&'static str>,
    pub(super) values: StatValues,
    /// Names of the statistics that are not a number where they are not defined, such as the share of no variance.
    undefined: Vec<&'static str>,
}

#[derive(Debug)]
pub(super) enum StatValues {
    Host(Vec<f64>),
    /// Values in libtorch's memory, perhaps on a GPU, that were not read yet.
    Unread(Unread),
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
        Self { names, values: StatValues::Host(values), undefined: Vec::new() }
    }

    /// Declares that the statistics `names` are not a number where they are not defined, which is no fault.
    pub(crate) fn undefined(mut self, names: impl IntoIterator<Item = &'static str>) -> Self {
        self.undefined.extend(names);
        self
    }

    /// The names of the statistics that are not a number where they are not defined.
    pub fn may_be_undefined(&self) -> &[&'static str] {
        &self.undefined
    }

    /// The names of the statistics.
    #[inline]
    pub fn names(&self) -> &[&'static str] {
        &self.names
    }

    /// Adds a statistic with its name and value.
    pub fn push(&mut self, name: &'static str, value: f64) {
        self.names.push(name);
        match &mut self.values {
            StatValues::Host(values) => values.push(value),
            StatValues::Unread(values) => values.push(value),
        }
    }

    /// Adds the statistics of `other` after these; none of them waits for a GPU.
    pub(crate) fn extend(&mut self, other: Self) {
        self.undefined.extend(other.undefined);
        match (&mut self.values, other.values) {
            (StatValues::Unread(values), StatValues::Unread(more)) => {
                self.names.extend(other.names);
                values.append(&more);
            }
            (_, values) => {
                let other = Self { names: other.names, values, undefined: Vec::new() };
                let all = other.values();
                other.names.into_iter().zip(all).for_each(|(name, value)| self.push(name, value));
            }
        }
    }

    /// Reads a statistic by name, and waits for the GPU if it is there; `None` if no statistic has this name.
    pub fn read(&self, name: &str) -> Option<f64> {
        let i = self.names.iter().position(|n| *n == name)?;
        Some(match &self.values {
            StatValues::Host(values) => values[i],
            StatValues::Unread(values) => values.one(i),
        })
    }

    /// Reads all statistics, in the order of their names, and waits for the GPU if they are there.
    pub fn values(&self) -> Vec<f64> {
        match &self.values {
            StatValues::Host(values) => values.clone(),
            StatValues::Unread(values) => values.all(),
        }
    }

    /// The mean of each statistic over `all`, which have the same names, with one transfer from a GPU; `None` if the numbers
    /// of any are in the main memory already, or if `all` is empty.
    pub fn means_of_unread(all: &[Self]) -> Option<Vec<f64>> {
        let unread: Option<Vec<&Unread>> = all.iter().map(Self::not_read).collect();
        unread.filter(|unread| !unread.is_empty()).map(|unread| Unread::means(&unread))
    }

    /// The values that were not read yet; `None` if they are numbers in the main memory already.
    fn not_read(&self) -> Option<&Unread> {
        match &self.values {
            StatValues::Host(_) => None,
            StatValues::Unread(values) => Some(values),
        }
    }
}
