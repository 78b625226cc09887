//! The reports of learning steps, by policy. Their tensors are read only when the result of an iteration is made.

use crate::base::PolicyId;
use crate::policy::Learned;
use pavlov_learn::base::{Array, Stats};
use std::collections::BTreeMap;

/// The reports of one or more learning steps, by policy.
#[derive(Debug, Default)]
pub struct LearnerInfo {
    policies: BTreeMap<PolicyId, PolicyInfo>,
}

/// The reports of one policy's learning steps.
#[derive(Debug, Default)]
pub struct PolicyInfo {
    steps: Vec<Stats>,
    custom: Vec<BTreeMap<String, f64>>,
    td_error: Option<Array>,
    rows: u64,
    stops: bool,
}

impl LearnerInfo {
    fn entry(&mut self, id: &str) -> &mut PolicyInfo {
        if !self.policies.contains_key(id) {
            self.policies.insert(id.to_owned(), PolicyInfo::default());
        }
        self.policies.get_mut(id).expect("just added")
    }

    /// Adds the report of one learning step of a policy, and the statistics from the hook `on_learn_on_batch`.
    pub fn add(&mut self, id: &str, learned: Learned, custom: BTreeMap<String, f64>) {
        let info = self.entry(id);
        info.steps.push(learned.stats);
        info.stops |= learned.stop;
        if !custom.is_empty() {
            info.custom.push(custom);
        }
        if learned.td_errors.is_some() {
            info.td_error = learned.td_errors;
        }
    }

    /// Counts `rows` rows of a policy's training batch.
    pub fn trained(&mut self, id: &str, rows: usize) {
        self.entry(id).rows += rows as u64;
    }

    /// Adds the reports of another `LearnerInfo`.
    pub fn merge(&mut self, other: LearnerInfo) {
        for (id, more) in other.policies {
            let info = self.entry(&id);
            info.steps.extend(more.steps);
            info.custom.extend(more.custom);
            info.td_error = more.td_error.or(info.td_error.take());
            info.rows += more.rows;
            info.stops |= more.stops;
        }
    }

    /// Whether the policy `id` asked in one of its steps to learn no more from this training batch, as with `target_kl`; see
    /// [`Learned::stop`].
    pub fn stops(&self, id: &str) -> bool {
        self.policies.get(id).is_some_and(|info| info.stops)
    }

    /// Whether no policy has learned.
    pub fn is_empty(&self) -> bool {
        self.policies().next().is_none()
    }

    /// The policies that learned, and their reports.
    pub fn policies(&self) -> impl Iterator<Item = (&str, &PolicyInfo)> {
        self.policies.iter().filter(|(_, info)| !info.steps.is_empty()).map(|(id, info)| (id.as_str(), info))
    }
}

impl PolicyInfo {
    /// Number of rows that the policy had in training batches.
    pub fn rows(&self) -> u64 {
        self.rows
    }

    /// Mean of each statistic over the steps that reported it. Waits for the device, because it reads the tensors. A
    /// statistic that is not defined in some steps is a mean over the others; it is not a number without others.
    pub fn means(&self) -> BTreeMap<String, f64> {
        let mut means = self.means_of_all();
        for name in self.steps.first().map_or(&[][..], Stats::may_be_undefined) {
            if means.get(*name).is_some_and(|mean| mean.is_nan()) {
                let known =
                    self.steps.iter().filter_map(|step| step.read(name).filter(|value| !value.is_nan()));
                let (sum, count) = known.fold((0.0, 0.0), |(sum, count), value| (sum + value, count + 1.0));
                means.insert((*name).to_owned(), sum / count);
            }
        }
        means
    }

    /// Whether the statistic `name` is not a number where it is not defined, which is no fault.
    pub(crate) fn may_be_undefined(&self, name: &str) -> bool {
        self.steps.first().is_some_and(|step| step.may_be_undefined().contains(&name))
    }

    fn means_of_all(&self) -> BTreeMap<String, f64> {
        let Some(first) = self.steps.first() else { return BTreeMap::new() };
        let alike = |step: &Stats| step.names() == first.names();
        let are_alike = self.steps.iter().all(alike);
        if let Some(means) = are_alike.then(|| Stats::means_of_unread(&self.steps)).flatten() {
            return first.names().iter().map(|name| (*name).to_owned()).zip(means).collect();
        }
        let mut sums: BTreeMap<&str, (f64, f64)> = BTreeMap::new();
        for step in &self.steps {
            for (name, value) in step.names().iter().zip(step.values()) {
                let (sum, n) = sums.entry(name).or_default();
                *sum += value;
                *n += 1.0;
            }
        }
        sums.into_iter().map(|(name, (sum, n))| (name.to_owned(), sum / n)).collect()
    }

    /// Means of the statistics that the hook `on_learn_on_batch` reported.
    pub fn custom_means(&self) -> BTreeMap<String, f64> {
        let mut sums: BTreeMap<String, (f64, f64)> = BTreeMap::new();
        for (name, value) in self.custom.iter().flatten() {
            let sum = sums.entry(name.clone()).or_default();
            *sum = (sum.0 + value, sum.1 + 1.0);
        }
        sums.into_iter().map(|(name, (sum, n))| (name, sum / n)).collect()
    }

    /// Mean temporal-difference error of the last batch for which the policy reported errors; `None` without one.
    pub fn mean_td_error(&self) -> Option<f64> {
        let errors = self.td_error.as_ref()?.to_f32();
        Some(errors.iter().map(|&error| f64::from(error)).sum::<f64>() / errors.len() as f64)
    }
}
