//! Decides which checkpoints of a run are kept and which are deleted.

use std::path::Path;

use super::{Metadata, Written, list, metadata, name, read_manifest, write};
use crate::base::{Objective, Result, metric};

/// Returns the iterations in `ranked`, which has the best first, after the first `keep`, without those that are needed.
pub(crate) fn beyond(
    ranked: impl IntoIterator<Item = u64>,
    keep: usize,
    is_needed: impl Fn(u64) -> bool,
) -> Vec<u64> {
    ranked.into_iter().skip(keep).filter(|iteration| !is_needed(*iteration)).collect()
}

/// Retention rule: keeps the newest `keep` checkpoints, and the best one in addition.
#[derive(Clone, Debug)]
pub(crate) struct Retention {
    keep: Option<usize>,
    /// Objective by which the best checkpoint is chosen.
    objective: Objective,
}

/// The properties of one checkpoint by which [`Retention`] decides.
#[derive(Clone, Debug)]
pub(crate) struct Kept {
    pub(crate) iteration: u64,
    /// Sort key by age, from the checkpoint's manifest.
    written: Written,
    /// Score of the checkpoint's last result, higher is better; `None` if the result has no such number.
    score: Option<f64>,
}

impl Retention {
    /// Makes the rule; `min-` before `score_attr` means that lower is better, and `keep: None` keeps every checkpoint.
    pub(crate) fn new(keep: Option<usize>, score_attr: &str) -> Self {
        let objective = match score_attr.strip_prefix("min-") {
            Some(metric) => Objective::minimize(metric),
            None => Objective::maximize(score_attr),
        };
        Retention { keep, objective }
    }

    /// Deletes the surplus checkpoints of `run_dir`. `newest` was just written and is always kept. Damaged checkpoints
    /// are neither deleted nor counted. The directory is read again, so a resumed run follows the same rule.
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

    /// Whether the number of checkpoints is limited; if not, none is ever deleted.
    pub(crate) fn has_limit(&self) -> bool {
        self.keep.is_some()
    }

    /// Extracts from a checkpoint's metadata what this rule needs; `iteration` is the one in the checkpoint's name.
    pub(crate) fn judge(&self, iteration: u64, written: Written, metadata: &Metadata) -> Kept {
        let score = metadata.last_result.as_ref().and_then(|result| self.objective.finite_score(result));
        Kept { iteration, written, score }
    }

    /// Returns the iterations of the checkpoints to delete.
    pub(crate) fn surplus(&self, mut kept: Vec<Kept>, newest: Option<u64>) -> Vec<u64> {
        let Some(keep) = self.keep else { return Vec::new() };
        let key = |kept: &Kept| (Some(kept.iteration) == newest, kept.written.clone(), kept.iteration);
        kept.sort_by_key(|kept| std::cmp::Reverse(key(kept)));
        let best = metric::best(kept.iter().map(|kept| kept.score));
        if best.is_none() {
            tracing::warn!(
                "no checkpoint is kept as the best: no result has a number for `{}`",
                self.objective.metric
            );
        }
        let best = best.map(|best| kept[best].iteration);
        beyond(kept.iter().map(|kept| kept.iteration), keep, |iteration| Some(iteration) == best)
    }
}
