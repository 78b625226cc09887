//! Which checkpoints of a run stay.

use std::path::Path;

use serde_json::Value;

use super::{list, metadata, read_manifest, write};
use crate::{Metrics, Result};

/// Keeps the newest `keep` checkpoints and, besides, the best one.
#[derive(Clone, Debug)]
pub(crate) struct Retention {
    keep: Option<usize>,
    attribute: String,
    sign: f64,
}

impl Retention {
    pub(crate) fn new(keep: Option<usize>, score_attr: &str) -> Self {
        let (attribute, sign) = match score_attr.strip_prefix("min-") {
            Some(attribute) => (attribute, -1.0),
            None => (score_attr, 1.0),
        };
        Retention { keep, attribute: attribute.into(), sign }
    }

    /// Deletes what does not stay. `newest` was just written and always stays; damaged ones are left for their
    /// owner to look at, and count for nothing. Reads the directory, so a resumed run keeps to the same rule.
    pub(crate) fn apply(&self, run_dir: &Path, newest: &Path) -> Result<()> {
        let Some(keep) = self.keep else { return Ok(()) };
        let mut candidates = Vec::new();
        for (iteration, path) in list(run_dir)? {
            let (Ok(manifest), Ok(metadata)) = (read_manifest(&path), metadata(&path)) else { continue };
            let score = metadata.last_result.and_then(|result| self.score(&result));
            candidates.push(((path == newest, manifest.created, iteration), path, score));
        }
        candidates.sort_by(|a, b| b.0.cmp(&a.0));
        let scored = candidates.iter().filter_map(|(_, path, score)| Some((score.as_ref()?, path)));
        let best = scored.reduce(|best, other| if other.0 > best.0 { other } else { best });
        let best = best.map(|(_, path)| path.clone());
        if best.is_none() {
            tracing::warn!(
                "no checkpoint is kept as the best: no result has a number for `{}`",
                self.attribute
            );
        }
        for (_, path, _) in candidates.iter().skip(keep) {
            if Some(path) != best.as_ref() {
                write::remove(path)?;
            }
        }
        Ok(())
    }

    /// Higher is better.
    fn score(&self, result: &Metrics) -> Option<f64> {
        let whole = result.get(&self.attribute);
        let nested = || {
            let mut parts = self.attribute.split('/');
            let first = result.get(parts.next()?)?;
            parts.try_fold(first, |value, part| value.get(part))
        };
        whole.or_else(nested).and_then(Value::as_f64).map(|value| value * self.sign)
    }
}
