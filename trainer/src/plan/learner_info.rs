//! What learning reported, unread until a result is made.

use crate::policy::{Learned, Stats};
use std::collections::BTreeMap;
use tch::Tensor;

/// The reports of a number of learning steps.
#[derive(Debug, Default)]
pub struct LearnerInfo {
    steps: Vec<Stats>,
    custom: Vec<BTreeMap<String, f64>>,
    td_error: Option<Tensor>,
    rows: u64,
    stop: bool,
}

impl LearnerInfo {
    /// Adds the report of one learning step.
    pub fn add(&mut self, learned: Learned, custom: BTreeMap<String, f64>) {
        self.stop = learned.stop;
        self.steps.push(learned.stats);
        if !custom.is_empty() {
            self.custom.push(custom);
        }
        if learned.td_errors.is_some() {
            self.td_error = learned.td_errors;
        }
    }

    /// Counts the rows of a training batch.
    pub fn trained(&mut self, rows: usize) {
        self.rows += rows as u64;
    }

    /// Adds another's reports.
    pub fn merge(&mut self, other: LearnerInfo) {
        self.steps.extend(other.steps);
        self.custom.extend(other.custom);
        self.td_error = other.td_error.or(self.td_error.take());
        self.rows += other.rows;
    }

    /// Nothing was learned.
    pub fn is_empty(&self) -> bool {
        self.steps.is_empty()
    }

    /// The policy wants no further passes over this batch.
    pub fn stop(&self) -> bool {
        self.stop
    }

    /// Rows of training batches.
    pub fn rows(&self) -> u64 {
        self.rows
    }

    /// Reads the statistics: the mean of each over the steps. This is where the host waits for them.
    pub fn means(&self) -> BTreeMap<String, f64> {
        let Some(first) = self.steps.first() else { return BTreeMap::new() };
        let unread: Option<Vec<&Tensor>> = self.steps.iter().map(Stats::tensor).collect();
        let means = match unread {
            Some(unread) => {
                let means = Tensor::stack(&unread, 0).mean_dim(0, false, tch::Kind::Double);
                Vec::try_from(means).unwrap_or_default()
            }
            None => {
                let mut sums = vec![0.0; first.names().len()];
                for step in &self.steps {
                    sums.iter_mut().zip(step.values()).for_each(|(sum, value)| *sum += value);
                }
                sums.iter().map(|sum| sum / self.steps.len() as f64).collect::<Vec<f64>>()
            }
        };
        first.names().iter().map(|name| (*name).to_owned()).zip(means).collect()
    }

    /// Means of what `on_learn_on_batch` reported.
    pub fn custom_means(&self) -> BTreeMap<String, f64> {
        let mut sums: BTreeMap<String, (f64, f64)> = BTreeMap::new();
        for (name, value) in self.custom.iter().flatten() {
            let sum = sums.entry(name.clone()).or_default();
            *sum = (sum.0 + value, sum.1 + 1.0);
        }
        sums.into_iter().map(|(name, (sum, n))| (name, sum / n)).collect()
    }

    /// The mean error of the last replayed batch.
    pub fn mean_td_error(&self) -> Option<f64> {
        self.td_error.as_ref().map(|t| t.mean(tch::Kind::Double).double_value(&[]))
    }
}
