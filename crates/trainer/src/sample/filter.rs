//! Normalisation of observations by their running mean and standard deviation, synchronised between workers.

use crate::base::{DEFAULT_POLICY, PolicyId};
use pavlov_learn::base::{Error, Result, State};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

/// Running mean and variance of observations by Welford's algorithm; two statistics are merged by the parallel formula
/// (Chan et al. 1979).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RunningStat {
    count: u64,
    mean: Vec<f64>,
    /// Sum of squared deviations from the mean, by component.
    sum_of_squares: Vec<f64>,
    /// Number of observations in which a component belonged to an agent that was not there, by component; empty if there
    /// was none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    absent: Vec<u64>,
}

impl RunningStat {
    /// Makes the statistic of no observations; `width` is the number of components.
    pub fn new(width: usize) -> Self {
        Self { count: 0, mean: vec![0.0; width], sum_of_squares: vec![0.0; width], absent: Vec::new() }
    }

    /// Adds one observation.
    pub fn push(&mut self, row: &[f32]) {
        self.count += 1;
        let n = self.count as f64;
        for ((mean, squares), &x) in self.mean.iter_mut().zip(&mut self.sum_of_squares).zip(row) {
            let delta = f64::from(x) - *mean;
            *mean += delta / n;
            *squares += delta * (f64::from(x) - *mean);
        }
    }

    /// Adds one observation without the components `absent`, which belong to agents that are not there.
    pub fn push_without(&mut self, row: &[f32], absent: &[Range<usize>]) {
        if absent.is_empty() && self.absent.is_empty() {
            return self.push(row);
        }
        self.count += 1;
        self.absent.resize(self.mean.len(), 0);
        absent.iter().for_each(|part| self.absent[part.clone()].iter_mut().for_each(|count| *count += 1));
        for (i, &x) in row.iter().enumerate().filter(|(i, _)| !absent.iter().any(|part| part.contains(i))) {
            let delta = f64::from(x) - self.mean[i];
            self.mean[i] += delta / self.count_of(i) as f64;
            self.sum_of_squares[i] += delta * (f64::from(x) - self.mean[i]);
        }
    }

    /// Number of observations that had component `i`.
    fn count_of(&self, i: usize) -> u64 {
        self.count - self.absent.get(i).copied().unwrap_or_default()
    }

    /// Merges the observations of `other` into this statistic.
    pub fn update(&mut self, other: &RunningStat) {
        if other.count == 0 {
            return;
        }
        for i in 0..self.mean.len() {
            let a = self.count_of(i) as f64;
            let b = other.count_of(i) as f64;
            if b == 0.0 {
                continue;
            }
            let delta = other.mean[i] - self.mean[i];
            self.mean[i] += delta * b / (a + b);
            self.sum_of_squares[i] += other.sum_of_squares[i] + delta * delta * a * b / (a + b);
        }
        self.count += other.count;
        if !other.absent.is_empty() {
            self.absent.resize(self.mean.len(), 0);
            self.absent.iter_mut().zip(&other.absent).for_each(|(count, more)| *count += more);
        }
    }

    /// Number of observations that were added.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Mean of each component.
    pub fn mean(&self) -> &[f64] {
        &self.mean
    }

    /// Sample variance of component `i` (divisor n - 1); after a single observation the square of its mean, as in Ray.
    pub fn variance(&self, i: usize) -> f64 {
        let count = self.count_of(i);
        if count > 1 { self.sum_of_squares[i] / (count - 1) as f64 } else { self.mean[i] * self.mean[i] }
    }

    /// Whether the statistics are finite and those of `width` components.
    pub(crate) fn is_sound(&self, width: usize) -> bool {
        let Self { mean, sum_of_squares, absent, count } = self;
        let is_finite = mean.iter().chain(sum_of_squares).all(|x| x.is_finite());
        let counted =
            absent.iter().all(|absent| absent <= count) && (absent.is_empty() || absent.len() == width);
        is_finite && counted && mean.len() == width && sum_of_squares.len() == width
    }

    fn normalise(&self, row: &mut [f32]) {
        for (i, x) in row.iter_mut().enumerate() {
            let std = self.variance(i).sqrt();
            *x = ((f64::from(*x) - self.mean[i]) / (std + 1e-6)) as f32;
        }
    }
}

/// Statistics of each policy's observation filter, by policy id.
pub type FilterStats = BTreeMap<PolicyId, RunningStat>;

/// Normalises observations; keeps statistics of all observations, and of those since the last synchronisation.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct MeanStdFilter {
    /// Statistics of all observations.
    running: RunningStat,
    /// Statistics of the observations since the last synchronisation.
    buffer: RunningStat,
}

impl MeanStdFilter {
    /// Makes an empty filter for observations of `width` components.
    pub fn new(width: usize) -> Self {
        Self { running: RunningStat::new(width), buffer: RunningStat::new(width) }
    }

    /// Normalises rows in place: subtracts the mean and divides by the standard deviation. With `update` each row is
    /// first added to the statistics.
    pub fn apply(&mut self, rows: &mut [f32], update: bool) {
        for row in rows.chunks_exact_mut(self.running.mean.len().max(1)) {
            if update {
                self.running.push(row);
                self.buffer.push(row);
            }
            self.running.normalise(row);
        }
    }

    /// Normalises one row as [`apply`](Self::apply) does. The statistics leave out the components `absent`, which belong to
    /// agents that are not there.
    pub(crate) fn apply_one(&mut self, row: &mut [f32], absent: &[Range<usize>], update: bool) {
        if update {
            self.running.push_without(row, absent);
            self.buffer.push_without(row, absent);
        }
        self.running.normalise(row);
    }

    /// Normalises rows in place, as [`apply`](Self::apply) does without `update`.
    pub(crate) fn normalise(&self, rows: &mut [f32]) {
        rows.chunks_exact_mut(self.running.mean.len().max(1)).for_each(|row| self.running.normalise(row));
    }

    /// Returns the statistics of the observations that were added by [`apply`](Self::apply) since the last call.
    pub fn flush(&mut self) -> RunningStat {
        let width = self.running.mean.len();
        std::mem::replace(&mut self.buffer, RunningStat::new(width))
    }

    /// Adds the statistics of observations that another worker has seen.
    pub fn merge(&mut self, seen: &RunningStat) {
        self.running.update(seen);
    }

    /// Statistics of all observations.
    pub fn running(&self) -> &RunningStat {
        &self.running
    }

    /// Replaces the statistics by those of another filter of the same width.
    ///
    /// # Errors
    /// Returns [`Error::State`] if the number of components differs.
    pub fn set_running(&mut self, running: &RunningStat) -> Result<()> {
        if running.mean.len() != self.running.mean.len() {
            let reason = format!(
                "it is {} wide, but observations are {}",
                running.mean.len(),
                self.running.mean.len()
            );
            return Err(Error::state("the observation filter", reason));
        }
        self.running.clone_from(running);
        Ok(())
    }
}

/// Reads from a checkpoint the filters of those `policies` that have one. Older versions saved one filter, which
/// belongs to the only policy of the run.
pub(crate) fn saved_filters<'a>(
    run: &State,
    policies: impl Iterator<Item = &'a PolicyId>,
) -> Result<BTreeMap<PolicyId, MeanStdFilter>> {
    let ids: BTreeSet<&PolicyId> = policies.collect();
    let mut saved = if run.has("filters") { run.get("filters")? } else { BTreeMap::new() };
    if let Some(filter) = run.get::<Option<MeanStdFilter>>("filter")? {
        let only = ids.first().filter(|_| ids.len() == 1).map_or(DEFAULT_POLICY, |id| id.as_str());
        saved.insert(only.to_owned(), filter);
    }
    saved.retain(|id, _| ids.contains(id));
    Ok(saved)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_one_filter_of_an_older_checkpoint_belongs_to_its_only_policy() -> Result<()> {
        let mut filter = MeanStdFilter::new(1);
        filter.apply(&mut [3.0], true);
        let mut old = State::default();
        let mut new = State::default();
        old.set("filter", &filter)?;
        new.set("filter", &filter)?;
        new.set("filters", &BTreeMap::from([("main", MeanStdFilter::new(1))]))?;
        let of = |run: &State, ids: &[&str]| {
            let ids: Vec<PolicyId> = ids.iter().map(|&id| id.to_owned()).collect();
            saved_filters(run, ids.iter())
        };
        for only in [DEFAULT_POLICY, "main"] {
            assert_eq!(of(&old, &[only])?, [(only.to_owned(), filter.clone())].into());
        }
        let both = of(&new, &[DEFAULT_POLICY, "main", "added"])?;
        let wanted = [(DEFAULT_POLICY.to_owned(), filter), ("main".to_owned(), MeanStdFilter::new(1))];
        assert_eq!(both, wanted.into());
        Ok(())
    }
}
