//! Translates settings of other libraries, and reports what became of each.

mod rllib;
mod zoo;

use std::path::Path;

use serde_json::Value;

pub(super) use self::rllib::from_rllib;
pub(super) use self::zoo::from_sb3;
use super::exit::usage;
use crate::tune::Config;
use crate::tune::config::{assign, read_settings};

/// Settings translated from another library's file.
#[derive(Debug, Default)]
pub(super) struct Translation {
    pub(super) env: Option<String>,
    pub(super) config: Config,
    pub(super) stop: Config,
    /// Lines of the report for the translated settings: `key -> path=value`.
    pub(super) became: Vec<String>,
    /// Lines of the report for the settings that pavlov does not have, each with the reason.
    no_place: Vec<String>,
}

impl Translation {
    /// Returns the report of the translation as text.
    pub(super) fn report(&self, origin: &str) -> String {
        let lines = |lines: &[String]| lines.iter().map(|line| format!("\n  {line}")).collect::<String>();
        let no_place = if self.no_place.is_empty() {
            String::new()
        } else {
            format!("\nwithout a place here:{}", lines(&self.no_place))
        };
        format!("translated from {origin}:{}{no_place}", lines(&self.became))
    }

    fn set(&mut self, path: &str, value: impl Into<Value>) {
        let path: Vec<String> = path.split('.').map(String::from).collect();
        assign(&mut self.config, &path, value.into());
    }

    /// Translates the other library's setting `key` to pavlov's setting `path`.
    fn takes(&mut self, key: &str, path: &str, value: impl Into<Value>) {
        let value = value.into();
        self.became.push(format!("{key} -> {path}={value}"));
        self.set(path, value);
    }

    fn leaves(&mut self, key: &str, value: &Value, why: &str) {
        self.no_place.push(format!("{key}: {value} ({why})"));
    }
}

/// Reads a file of settings.
fn read(path: &Path) -> anyhow::Result<String> {
    read_settings(path).map_err(|error| usage(error.to_string()))
}
