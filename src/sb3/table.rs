//! The table of arguments: which class has which, of what kind they are, and what they become.

use std::sync::LazyLock;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::values::{activation, equal, is_schedule, number, shown, temperature};
use crate::tune::Config;
use crate::tune::config::nearest;

/// The table as JSON text.
pub const TABLE: &str = include_str!("arguments.json");

pub(super) static PARSED: LazyLock<Table> = LazyLock::new(|| serde_json::from_str(TABLE).expect("a table"));

/// Classes, their arguments, and the keys of `policy_kwargs`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Table {
    pub(super) classes: Vec<Class>,
    arguments: Vec<Argument>,
    pub(super) policy_kwargs: Vec<Argument>,
}

/// A class of Stable-Baselines3 or sb3-contrib, or one that is named as theirs.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Class {
    /// Its name there.
    pub name: String,
    /// The algorithm's name here.
    pub algorithm: String,
    /// The preset with its defaults.
    pub preset: Option<String>,
    /// Its arguments in their order, with their defaults.
    arguments: Config,
    /// Arguments of other classes that it has here, by keyword.
    #[serde(default)]
    keywords: Config,
}

/// A row of the table: an argument of some classes.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Argument {
    pub(super) name: String,
    /// The classes that this row is about. Empty: all that have the argument.
    #[serde(default)]
    pub(super) of: Vec<String>,
    pub(super) kind: Kind,
    pub(super) at_least: Option<f64>,
    pub(super) at_most: Option<f64>,
    #[serde(default)]
    pub(super) or_none: bool,
    /// The settings that are made of it.
    #[serde(default)]
    pub(super) becomes: Vec<String>,
    /// The values that ask for nothing that is not here, if others do.
    pub(super) only: Option<Vec<Value>>,
    /// Why others are refused, and the way out.
    #[serde(default)]
    pub(super) why: String,
    /// Why it cannot be assigned to a model.
    #[serde(rename = "fixed")]
    _fixed: Option<String>,
    /// Whether only recurrent policies have it.
    #[serde(default)]
    pub(super) recurrent: bool,
    #[serde(rename = "help")]
    _help: String,
}

#[derive(Clone, Copy, Debug, Deserialize, PartialEq)]
#[serde(rename_all = "lowercase")]
pub(super) enum Kind {
    Activation,
    Any,
    /// A number or `"auto"`.
    Auto,
    Dictionary,
    Flag,
    /// A number of steps, also as a pair with a unit.
    Frequency,
    /// Numbers of units, also in a dictionary.
    Layers,
    Noise,
    Number,
    Path,
    /// A number or a function of the progress that remains.
    Schedule,
    /// A number, `"auto"` or `"auto_0.1"`.
    Temperature,
    Whole,
}

/// An argument that is refused.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Refused {
    /// Its name; that of a key of `policy_kwargs` is `policy_kwargs.` and the key.
    pub argument: String,
    /// The whole sentence.
    pub sentence: String,
    /// The rule and the way out alone.
    pub why: String,
}

impl Class {
    /// Returns the class with this name.
    #[must_use]
    pub fn named(name: &str) -> Option<&'static Class> {
        PARSED.classes.iter().find(|class| class.name == name)
    }

    /// Returns the arguments that are given, and the defaults of the others.
    pub(super) fn filled(&self, given: &Config) -> Config {
        let defaults = self.arguments.iter().chain(&self.keywords);
        defaults.map(|(name, default)| (name.clone(), given.get(name).unwrap_or(default).clone())).collect()
    }

    pub(super) fn has(&self, name: &str) -> bool {
        self.arguments.contains_key(name) || self.keywords.contains_key(name)
    }

    fn row(&self, rows: &'static [Argument], name: &str) -> Option<&'static Argument> {
        rows.iter().find(|row| row.name == name && (row.of.is_empty() || row.of.contains(&self.name)))
    }

    pub(super) fn argument(&self, name: &str) -> Option<&'static Argument> {
        self.has(name).then(|| self.row(&PARSED.arguments, name)).flatten()
    }

    /// Returns a key of `policy_kwargs`.
    pub(super) fn policy_argument(&self, name: &str, is_recurrent: bool) -> Option<&'static Argument> {
        self.row(&PARSED.policy_kwargs, name).filter(|row| !row.recurrent || is_recurrent)
    }

    /// Refuses an argument: "`name` of the class is value, but why".
    pub(super) fn refuses(&self, argument: &str, value: &Value, why: impl Into<String>) -> Refused {
        let why = why.into();
        let (name, shown) = (argument.trim_start_matches("policy_kwargs."), shown(value));
        let sentence = format!("`{name}` of {} is {shown}, but {why}", self.name);
        Refused { argument: argument.into(), sentence, why }
    }

    fn refuses_unknown(&self, argument: &str, known: &[&str]) -> Refused {
        let near = nearest(argument, known.iter().copied());
        let hint = near.map(|near| format!("; nearest: `{near}`")).unwrap_or_default();
        let way = "pavlov's own settings go into `settings={..}`";
        Refused {
            argument: argument.into(),
            sentence: format!("{} has no argument `{argument}`{hint}; {way}", self.name),
            why: format!("there is no such argument{hint}"),
        }
    }

    /// Whether an argument has the only value that it may have here, which changes nothing.
    #[must_use]
    pub fn asks_for_nothing(&self, name: &str, value: &Value) -> bool {
        let only = self.argument(name).and_then(|row| row.only.as_ref());
        only.is_some_and(|only| only.iter().any(|fine| equal(fine, value)))
    }

    /// Checks the names and the kinds of arguments; returns those that are refused.
    #[must_use]
    pub fn check(&self, given: &Config) -> Vec<Refused> {
        let known: Vec<&str> =
            self.arguments.keys().chain(self.keywords.keys()).map(String::as_str).collect();
        let checked = given.iter().filter_map(|(name, value)| match self.argument(name) {
            None => Some(self.refuses_unknown(name, &known)),
            Some(row) => row.refuses(self, name, value),
        });
        checked.collect()
    }
}

impl Argument {
    /// Returns why a value is refused; `name` is as the user knows it.
    pub(super) fn refuses(&self, class: &Class, name: &str, value: &Value) -> Option<Refused> {
        if let Some(only) = &self.only {
            return (!only.iter().any(|fine| equal(fine, value)))
                .then(|| class.refuses(name, value, &self.why));
        }
        if self.or_none && value.is_null() {
            return None;
        }
        let (value, rule) = self.breaks(value)?;
        Some(class.refuses(name, value, format!("it must be {rule}")))
    }
}

impl Argument {
    /// Returns the part of a value that breaks the rule of its kind, and the rule; `None` if it is fine.
    pub(super) fn breaks<'a>(&self, value: &'a Value) -> Option<(&'a Value, String)> {
        let or_none = if self.or_none { ", or None" } else { "" };
        match self.kind {
            Kind::Any => None,
            Kind::Noise => value
                .get("noise")
                .is_none()
                .then(|| (value, format!("NormalActionNoise or OrnsteinUhlenbeckActionNoise{or_none}"))),
            Kind::Flag => (!value.is_boolean()).then(|| (value, "True or False".into())),
            Kind::Whole => self.breaks_whole(value),
            Kind::Frequency => self.breaks_whole(value.get(0).unwrap_or(value)),
            Kind::Number if is_schedule(value) => {
                Some((value, "a number: this setting has no schedule".into()))
            }
            Kind::Number => self.breaks_number(value, &format!("a number{or_none}")),
            Kind::Schedule if is_schedule(value) => None,
            Kind::Schedule => {
                self.breaks_number(value, "a number or a function of the progress that remains")
            }
            Kind::Auto if *value == "auto" => None,
            Kind::Auto => self.breaks_number(value, "a number or 'auto'"),
            Kind::Temperature => breaks_temperature(value),
            Kind::Dictionary => (!value.is_object()).then(|| (value, "a dictionary".into())),
            Kind::Path => (!value.is_string()).then(|| (value, "the path of a directory".into())),
            Kind::Activation => activation(value)
                .is_none()
                .then(|| (value, "ReLU, Tanh, ELU or SiLU, as a class or by name".into())),
            // What the layers are of depends on the class.
            Kind::Layers => None,
        }
    }

    fn breaks_whole<'a>(&self, value: &'a Value) -> Option<(&'a Value, String)> {
        // 1e6 is whole, too.
        let is_whole = number(value).is_some_and(|number| number.fract() == 0.0);
        let is_enough = self.at_least.is_none_or(|least| number(value).is_some_and(|number| number >= least));
        let least = self.at_least.map(|least| format!(", {least} or more")).unwrap_or_default();
        (!is_whole || !is_enough).then(|| (value, format!("a whole number{least}")))
    }

    fn breaks_number<'a>(&self, value: &'a Value, kind: &str) -> Option<(&'a Value, String)> {
        let Some(number) = number(value) else { return Some((value, kind.into())) };
        let least = self.at_least.unwrap_or(f64::NEG_INFINITY);
        let rule = match self.at_most {
            Some(most) if !(least..=most).contains(&number) => format!("in {least}..={most}"),
            None if number < least => format!("at least {least}"),
            _ => return None,
        };
        Some((value, rule))
    }
}

fn breaks_temperature(value: &Value) -> Option<(&Value, String)> {
    let is_fine = number(value).is_some() || temperature(value).is_some();
    (!is_fine).then(|| (value, "a number, 'auto', or 'auto_0.1' with a first value above 0".into()))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::registry;

    #[test]
    fn every_argument_of_a_class_has_one_row_and_every_row_is_of_an_argument() {
        let mut used = BTreeSet::new();
        for class in &PARSED.classes {
            for name in class.arguments.keys().chain(class.keywords.keys()) {
                let rows: Vec<usize> = (0..PARSED.arguments.len())
                    .filter(|at| {
                        let row = &PARSED.arguments[*at];
                        row.name == *name && (row.of.is_empty() || row.of.contains(&class.name))
                    })
                    .collect();
                assert_eq!(rows.len(), 1, "{name} of {}", class.name);
                used.extend(rows);
            }
            assert_eq!(class.check(&class.filled(&Config::new())), [], "{}: its own defaults", class.name);
        }
        assert_eq!(used.len(), PARSED.arguments.len(), "a row that no class has");
        for row in PARSED.arguments.iter().chain(&PARSED.policy_kwargs) {
            for name in &row.of {
                assert!(Class::named(name).is_some(), "{}: no class {name}", row.name);
            }
            assert_eq!(row.only.is_some(), !row.why.is_empty(), "{}", row.name);
        }
    }

    #[test]
    fn what_arguments_become_are_settings_of_the_algorithm() {
        for class in &PARSED.classes {
            let entry = registry::algorithm(&class.algorithm).unwrap();
            let defaults = entry.default_config().unwrap();
            let rows =
                PARSED.arguments.iter().filter(|row| class.has(&row.name)).chain(&PARSED.policy_kwargs);
            for row in rows.filter(|row| row.of.is_empty() || row.of.contains(&class.name)) {
                for path in &row.becomes {
                    let first = path.split('.').next().unwrap();
                    assert!(defaults.contains_key(first), "{} of {}: {path}", row.name, class.name);
                }
            }
        }
    }
}
