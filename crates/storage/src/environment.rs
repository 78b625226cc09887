//! Settings from environment variables.

use std::collections::BTreeMap;

/// Environment variables that are set and not empty, by name.
#[derive(Debug)]
pub(crate) struct Environment(BTreeMap<String, String>);

impl Environment {
    pub(crate) fn new(variables: impl IntoIterator<Item = (String, String)>) -> Self {
        Environment(variables.into_iter().filter(|(_, value)| !value.is_empty()).collect())
    }

    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    /// Iterates over the variables that begin with `prefix`; names are in lower case, as object_store's builders need them.
    pub(crate) fn settings(&self, prefix: &str) -> impl Iterator<Item = (String, &str)> {
        let named = self.0.iter().filter(move |(name, _)| name.starts_with(prefix));
        named.map(|(name, value)| (name.to_ascii_lowercase(), value.as_str()))
    }
}
