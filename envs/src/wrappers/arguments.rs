//! The arguments of a wrapper that settings name.

use serde::Deserialize;
use serde_json::Value;

use crate::{AnyVectorEnv, EnvConfig, Error, Result};

/// Closure that makes the given number of copies of the inner environment.
pub(super) type Make<'a> = dyn Fn(usize) -> Result<Box<dyn AnyVectorEnv>> + 'a;

/// The arguments of a wrapper, in the order of its parameters.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Arguments {
    /// Name of the wrapper, for errors.
    pub(super) wrapper: String,
    /// Names of the parameters, with their values.
    pub(super) values: Vec<(String, Value)>,
}

impl Arguments {
    /// Decodes the argument at index `at`; the error names the parameter.
    pub(crate) fn get<T: for<'de> Deserialize<'de>>(&self, at: usize) -> Result<T> {
        let (parameter, value) = &self.values[at];
        T::deserialize(value).map_err(|error| {
            let message = format!("`{parameter}` of the wrapper is {value}: {error}");
            Error::Config { env: self.wrapper.clone(), message }
        })
    }

    /// Returns the arguments by the names of their parameters.
    pub(super) fn table(&self) -> EnvConfig {
        self.values.iter().cloned().collect()
    }
}
