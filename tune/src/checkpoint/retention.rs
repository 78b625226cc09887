//! Which checkpoints of a run stay.

use std::path::Path;

use serde_json::Value;

use super::{Metadata, Written, list, metadata, name, read_manifest, write};
use crate::{Metrics, Result, metric};

/// Keeps the newest `keep` checkpoints and, besides, the best one.
#[derive(Clone, Debug)]
pub(crate) struct Retention {
    keep: Option<usize>,
    attribute: String,
    sign: f64,
}

/// What the rule goes by.
#[derive(Clone, Debug)]
pub(crate) struct Kept {
    pub(crate) iteration: u64,
    /// As in the manifest.
    written: Written,
    /// Higher is better.
    score: Option<f64>,
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
        if self.keep.is_none() {
            return Ok(());
        }
        let found = list(run_dir)?;
        let kept = found.iter().filter_map(|(iteration, path)| {
            Some(self.judge(*iteration, read_manifest(path).ok()?.written(), &metadata(path).ok()?))
        });
        let newest = found.iter().find(|(_, path)| path == newest).map(|(iteration, _)| *iteration);
        for iteration in self.surplus(kept.collect(), newest) {
            write::remove(&run_dir.join(name(iteration)))?;
        }
        Ok(())
    }

    /// Whether anything is ever deleted.
    pub(crate) fn has_limit(&self) -> bool {
        self.keep.is_some()
    }

    /// A checkpoint as this rule sees it; `iteration` is that of its name.
    pub(crate) fn judge(&self, iteration: u64, written: Written, metadata: &Metadata) -> Kept {
        let score = metadata.last_result.as_ref().and_then(|result| self.score(result));
        Kept { iteration, written, score }
    }

    /// The iterations of those that do not stay.
    pub(crate) fn surplus(&self, mut kept: Vec<Kept>, newest: Option<u64>) -> Vec<u64> {
        let Some(keep) = self.keep else { return Vec::new() };
        let key = |kept: &Kept| (Some(kept.iteration) == newest, kept.written.clone(), kept.iteration);
        kept.sort_by_key(|kept| std::cmp::Reverse(key(kept)));
        let best = metric::best(kept.iter().map(|kept| kept.score));
        if best.is_none() {
            tracing::warn!(
                "no checkpoint is kept as the best: no result has a number for `{}`",
                self.attribute
            );
        }
        let best = best.map(|best| kept[best].iteration);
        kept.iter()
            .skip(keep)
            .map(|kept| kept.iteration)
            .filter(|iteration| Some(*iteration) != best)
            .collect()
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
