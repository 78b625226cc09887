//! Line numbers of the keys of a TOML file, for error messages.

use std::collections::BTreeMap;
use std::error::Error as StdError;

use toml::de::{DeArray, DeTable, DeValue};

use super::exit::usage;
use crate::{trainer, tune};

/// Line number of each dotted key of a settings file.
#[derive(Clone, Debug, Default)]
pub(super) struct Lines {
    file: String,
    lines: BTreeMap<String, usize>,
    /// Tables of the file in which a setting is looked up; `""` is the top level.
    tables: &'static [&'static str],
}

impl Lines {
    /// Finds the lines of the keys in `text`, the content of `file`; text that is not TOML has none.
    pub(super) fn of(file: &str, text: &str) -> Self {
        let mut lines = BTreeMap::new();
        if let Ok(table) = DeTable::parse(text) {
            record(&mut lines, text, table.get_ref(), "");
        }
        Self { file: file.into(), lines, tables: &["", "config"] }
    }

    /// Returns the lines of the same file, with settings looked up in `tables`.
    pub(super) fn within(&self, tables: &'static [&'static str]) -> Self {
        Self { tables, ..self.clone() }
    }

    /// Removes the line of a key whose value comes from another layer.
    pub(super) fn forget(&mut self, key: &str) {
        for table in self.tables {
            self.lines.remove(&join(table, key));
        }
    }

    /// Converts the error; each refused setting that the file has gets the file and the line in front of its message.
    pub(super) fn place<E: StdError + Send + Sync + 'static>(&self, error: E) -> anyhow::Error {
        let texts: Option<Vec<String>> = match refusals(&error) {
            Some(all) => Some(
                all.iter().map(|error| self.line_of(error).unwrap_or_else(|| error.to_string())).collect(),
            ),
            None => self.line_of(&error).map(|text| vec![text]),
        };
        match texts {
            None => error.into(),
            Some(texts) if texts.len() == 1 => usage(texts.concat()),
            Some(texts) => usage(format!("{} settings are refused:\n  {}", texts.len(), texts.join("\n  "))),
        }
    }

    fn line_of(&self, error: &(dyn StdError + 'static)) -> Option<String> {
        // An item of a list has the line of the list.
        let key = key(error)?.split('[').next()?;
        // Errors about a scheduler's settings begin with its class: `AsyncHyperBandScheduler.reduction_factor`.
        let is_of_class = key.starts_with(|first: char| first.is_ascii_uppercase());
        let key = key.split_once('.').filter(|_| is_of_class).map_or(key, |(_, setting)| setting);
        let line = self.tables.iter().find_map(|table| self.lines.get(&join(table, key)))?;
        Some(format!("{}, line {line}: {error}", self.file))
    }
}

fn join(table: &str, key: &str) -> String {
    if table.is_empty() { key.to_owned() } else { format!("{table}.{key}") }
}

fn record(lines: &mut BTreeMap<String, usize>, text: &str, table: &DeTable<'_>, prefix: &str) {
    for (name, value) in table {
        let key = join(prefix, name.get_ref());
        match value.get_ref() {
            DeValue::Table(inner) => record(lines, text, inner, &key),
            DeValue::Array(items) => record_items(lines, text, items, &key),
            _ => {}
        }
        let before = text.get(..name.span().start).unwrap_or_default();
        lines.insert(key, before.matches('\n').count() + 1);
    }
}

/// Records the keys that only one table of a list has, because an error does not say which table it is about.
fn record_items(lines: &mut BTreeMap<String, usize>, text: &str, items: &DeArray<'_>, prefix: &str) {
    let mut found: BTreeMap<String, Vec<usize>> = BTreeMap::new();
    for item in items {
        if let DeValue::Table(inner) = item.get_ref() {
            let mut of_item = BTreeMap::new();
            record(&mut of_item, text, inner, prefix);
            of_item.into_iter().for_each(|(key, line)| found.entry(key).or_default().push(line));
        }
    }
    lines.extend(found.into_iter().filter(|(_, lines)| lines.len() == 1).map(|(key, lines)| (key, lines[0])));
}

/// Returns the errors that `error` combines; `None` if it is a single error.
fn refusals<'a>(error: &'a (dyn StdError + 'static)) -> Option<&'a [tune::Error]> {
    match (error.downcast_ref(), error.downcast_ref()) {
        (Some(tune::Error::Refusals(all)), _) => Some(all),
        (_, Some(trainer::Error::Tune(tune::Error::Refusals(all)))) => Some(all),
        _ => None,
    }
}

/// Returns the setting that an error is about.
fn key<'a>(error: &'a (dyn StdError + 'static)) -> Option<&'a str> {
    match error.downcast_ref() {
        Some(
            tune::Error::Config { key, .. }
            | tune::Error::Missing { key, .. }
            | tune::Error::UnknownKey { key, .. },
        ) => return Some(key),
        Some(tune::Error::Trainable { source }) => return self::key(source.as_ref()),
        _ => {}
    }
    match error.downcast_ref()? {
        trainer::Error::Config { key, .. } => Some(key),
        trainer::Error::Tune(inner) => self::key(inner),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_refusal_of_a_file_has_its_line() {
        let text = "lr = -1\n\n[model]\nfcnet_hiddens = [0]\n";
        let lines = Lines::of("mine.toml", text);
        let refuse = |key: &str| tune::Error::config(key, "bad", "it must be good");
        let one = lines.place(trainer::Error::Tune(refuse("lr"))).to_string();
        assert_eq!(one, "mine.toml, line 1: `lr` is bad, but it must be good");
        let all = tune::Error::Refusals(vec![refuse("model.fcnet_hiddens"), refuse("gamma")]);
        assert_eq!(
            lines.place(all).to_string(),
            "2 settings are refused:\n  mine.toml, line 4: `model.fcnet_hiddens` is bad, but it must be good\n  \
             `gamma` is bad, but it must be good"
        );
        let layout = Lines::of("preset.toml", "algorithm = \"PPO\"\n[config]\nlr = -1\n");
        let placed = layout.place(trainer::Error::config("lr", -1, "it must be above 0")).to_string();
        assert!(placed.starts_with("preset.toml, line 3: `lr`"), "{placed}");
        let sweep = Lines::of("sweep.toml", "seed = 1\n[space]\nseed = -1\n").within(&["space"]);
        let placed = sweep.place(refuse("seed")).to_string();
        assert!(placed.starts_with("sweep.toml, line 3: `seed`"), "{placed}");
    }

    #[test]
    fn a_refusal_of_a_scheduler_or_a_stopper_has_its_line_in_the_sweep_file() {
        let text =
            "[scheduler]\nmax_t = 0\n[[stoppers]]\ntype = \"A\"\nmax_iter = -1\n[[stoppers]]\ntype = \"B\"\n";
        let sweep = Lines::of("sweep.toml", text).within(&["", "scheduler"]);
        let placed = |key: &str| sweep.place(tune::Error::config(key, "bad", "it must be good")).to_string();
        assert!(placed("AsyncHyperBandScheduler.max_t").starts_with("sweep.toml, line 2: "));
        assert!(placed("stoppers.max_iter").starts_with("sweep.toml, line 5: "));
        assert!(placed("stoppers.type").starts_with("`stoppers.type`"), "two tables have one");
    }
}
