//! A translation on its way, and what it leads to.

use serde_json::Value;

use super::table::{Class, Refused};
use super::values::number;
use crate::tune::Config;
use crate::tune::config::assign;

/// First and last step of a run, between which the progress that remains falls from 1 to 0.
pub type Span = (u64, u64);

/// Steps of a run whose length is unknown yet.
pub(super) const ANY_SPAN: Span = (0, 100_000);

/// What a class with its arguments is here.
#[derive(Clone, Debug, Default)]
pub struct Translated {
    /// The settings, over those of the preset with its defaults.
    pub config: Config,
    /// What each argument became, in the order of the arguments.
    pub became: Vec<Became>,
    /// The arguments that are refused.
    pub refused: Vec<Refused>,
}

/// What became of an argument.
#[derive(Clone, Debug, PartialEq)]
pub struct Became {
    /// The argument, or several of them.
    pub argument: String,
    /// The setting.
    pub path: String,
    /// Its value.
    pub value: Value,
}

impl Translated {
    pub(super) fn set(&mut self, argument: &str, path: &str, value: impl Into<Value>) {
        let value = value.into();
        let parts: Vec<String> = path.split('.').map(String::from).collect();
        assign(&mut self.config, &parts, value.clone());
        self.became.push(Became { argument: argument.into(), path: path.into(), value });
    }
}

/// A translation on its way.
pub(super) struct Work<'a> {
    pub(super) class: &'a Class,
    pub(super) all: Config,
    pub(super) copies: u64,
    pub(super) span: Span,
    pub(super) to: Translated,
}

impl Work<'_> {
    pub(super) fn refuse(&mut self, name: &str, why: impl Into<String>) {
        let value = self.all.get(name).cloned().unwrap_or_default();
        self.refuse_value(name, &value, why);
    }

    pub(super) fn refuse_value(&mut self, name: &str, value: &Value, why: impl Into<String>) {
        self.to.refused.push(self.class.refuses(name, value, why));
    }

    pub(super) fn number(&self, name: &str) -> Option<f64> {
        self.all.get(name).and_then(number)
    }

    /// Returns a whole number, or 0 where there is none.
    pub(super) fn whole_number(&self, name: &str) -> u64 {
        self.number(name).map_or(0, |number| number as u64)
    }

    /// Returns the rows of a rollout.
    pub(super) fn rows(&self) -> u64 {
        self.whole_number("n_steps") * self.copies
    }

    /// Whether the class is one of these.
    pub(super) fn is_one_of(&self, names: &[&str]) -> bool {
        names.contains(&self.class.name.as_str())
    }

    /// Whether actions explore by gSDE.
    pub(super) fn uses_sde(&self) -> bool {
        self.all.get("use_sde") == Some(&true.into())
    }

    pub(super) fn is_on_policy(&self) -> bool {
        !self.class.has("buffer_size")
    }
}
