//! The result of a translation, and its report.

use std::path::Path;

use serde_json::Value;

use crate::cli::exit::usage;
use crate::tune::Config;
use crate::tune::config::{assign, read_settings};

/// Settings translated from another library's file.
#[derive(Debug, Default)]
pub(in crate::cli) struct Translation {
    pub(in crate::cli) env: Option<String>,
    pub(in crate::cli) config: Config,
    pub(in crate::cli) stop: Config,
    /// Lines of the report for the translated settings: `key -> path=value`.
    pub(super) became: Vec<String>,
    /// Lines of the report for the settings that pavlov does not have, each with the reason.
    pub(super) no_place: Vec<String>,
}

impl Translation {
    /// Returns the report of the translation as text.
    pub(in crate::cli) fn report(&self, origin: &str) -> String {
        let lines = |lines: &[String]| lines.iter().map(|line| format!("\n  {line}")).collect::<String>();
        let no_place = if self.no_place.is_empty() {
            String::new()
        } else {
            format!("\nwithout a place here:{}", lines(&self.no_place))
        };
        format!("translated from {origin}:{}{no_place}", lines(&self.became))
    }

    pub(super) fn set(&mut self, path: &str, value: impl Into<Value>) {
        let path: Vec<String> = path.split('.').map(String::from).collect();
        assign(&mut self.config, &path, value.into());
    }

    /// Translates the other library's setting `key` to pavlov's setting `path`.
    pub(super) fn takes(&mut self, key: &str, path: &str, value: impl Into<Value>) {
        let value = value.into();
        self.became.push(format!("{key} -> {path}={value}"));
        self.set(path, value);
    }

    pub(super) fn leaves(&mut self, key: &str, value: &Value, why: &str) {
        self.no_place.push(format!("{key}: {value} ({why})"));
    }
}

/// Reads a file of settings.
pub(super) fn read(path: &Path) -> anyhow::Result<String> {
    read_settings(path).map_err(|error| usage(error.to_string()))
}
