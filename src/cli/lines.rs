//! Where the keys of a TOML file stand, for errors about them.

use std::collections::BTreeMap;
use std::error::Error as StdError;

use toml::de::{DeTable, DeValue};

use super::exit::usage;
use crate::{trainer, tune};

/// The line of each dotted key of a settings file.
#[derive(Debug, Default)]
pub(super) struct Lines {
    file: String,
    lines: BTreeMap<String, usize>,
}

impl Lines {
    /// Of a file with this text; none where it is not TOML.
    pub(super) fn of(file: &str, text: &str) -> Self {
        let mut lines = BTreeMap::new();
        if let Ok(table) = DeTable::parse(text) {
            record(&mut lines, text, table.get_ref(), "");
        }
        Self { file: file.into(), lines }
    }

    /// Forgets a key that another layer gives.
    pub(super) fn forget(&mut self, key: &str) {
        self.lines.remove(key);
        self.lines.remove(&format!("config.{key}"));
    }

    /// The error, with the file and the line before each refusal of a setting that stands there.
    pub(super) fn place(&self, error: trainer::Error) -> anyhow::Error {
        let texts: Option<Vec<String>> = match &error {
            trainer::Error::Tune(tune::Error::Refusals(all)) => Some(
                all.iter().map(|error| self.line_of(error).unwrap_or_else(|| error.to_string())).collect(),
            ),
            one => self.line_of(one).map(|text| vec![text]),
        };
        match texts {
            None => error.into(),
            Some(texts) if texts.len() == 1 => usage(texts.concat()),
            Some(texts) => usage(format!("{} settings are refused:\n  {}", texts.len(), texts.join("\n  "))),
        }
    }

    fn line_of(&self, error: &(dyn StdError + 'static)) -> Option<String> {
        let key = key(error)?;
        let line = self.lines.get(key).or_else(|| self.lines.get(&format!("config.{key}")))?;
        Some(format!("{}, line {line}: {error}", self.file))
    }
}

fn record(lines: &mut BTreeMap<String, usize>, text: &str, table: &DeTable<'_>, prefix: &str) {
    for (name, value) in table {
        let key = if prefix.is_empty() {
            name.get_ref().to_string()
        } else {
            format!("{prefix}.{}", name.get_ref())
        };
        if let DeValue::Table(inner) = value.get_ref() {
            record(lines, text, inner, &key);
        }
        let before = text.get(..name.span().start).unwrap_or_default();
        lines.insert(key, before.matches('\n').count() + 1);
    }
}

/// The setting that an error is about.
fn key<'a>(error: &'a (dyn StdError + 'static)) -> Option<&'a str> {
    match error.downcast_ref() {
        Some(tune::Error::Config { key, .. } | tune::Error::UnknownKey { key, .. }) => return Some(key),
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
            lines.place(all.into()).to_string(),
            "2 settings are refused:\n  mine.toml, line 4: `model.fcnet_hiddens` is bad, but it must be good\n  \
             `gamma` is bad, but it must be good"
        );
        let layout = Lines::of("preset.toml", "algorithm = \"PPO\"\n[config]\nlr = -1\n");
        let placed = layout.place(trainer::Error::config("lr", -1, "it must be above 0")).to_string();
        assert!(placed.starts_with("preset.toml, line 3: `lr`"), "{placed}");
    }
}
