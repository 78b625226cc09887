//! A searcher that runs each suggestion several times.

use std::collections::HashMap;

use serde_json::Value;

use super::{SearchSpace, Searcher, Suggestion};
use crate::base::{Config, Error, Metrics, Objective, Result, metric};

/// The `index_key` that Ray uses.
pub const TRIAL_INDEX: &str = "__trial_index__";

/// Runs each suggestion of a searcher `repeat` times and reports the mean metric to it, for results that vary with the seed.
///
/// Repeats that fail, or whose metric is missing or `null`, do not count. If no repeat counts, the suggestion has failed.
/// The sweep's `num_samples` counts trials, repeats included. A scheduler that stops trials early makes the means
/// incomparable.
#[derive(Debug)]
pub struct Repeater<S> {
    /// The wrapped searcher.
    pub searcher: S,
    /// Number of trials per suggestion, 1 or more.
    pub repeat: usize,
    /// Setting that receives the number of the repeat, from 0, for example `seed`. The trainable must know this setting.
    /// With `None`, all repeats have the same settings.
    pub index_key: Option<String>,
    metric: Option<String>,
    groups: Vec<Group>,
    /// Index of each trial's group in `groups`, by trial id.
    group_of: HashMap<String, usize>,
}

#[derive(Debug)]
struct Group {
    /// Id of the trial under which the wrapped searcher knows the group.
    primary: String,
    config: Config,
    drawn: Vec<(String, Value)>,
    asked: usize,
    ended: usize,
    /// Score of each repeat, by its number, so that the order in which repeats end makes no difference.
    scores: Vec<Option<f64>>,
    index_of: HashMap<String, usize>,
}

impl<S: Searcher> Repeater<S> {
    /// Wraps `searcher` so that each of its suggestions runs `repeat` times.
    pub fn new(searcher: S, repeat: usize, index_key: Option<String>) -> Self {
        Self { searcher, repeat, index_key, metric: None, groups: Vec::new(), group_of: HashMap::new() }
    }
}

impl<S: Searcher> Searcher for Repeater<S> {
    fn set_search_properties(&mut self, objective: Option<&Objective>, space: &SearchSpace) -> Result<()> {
        if self.repeat == 0 {
            return Err(Error::config("repeat", 0, "it must be 1 or more"));
        }
        self.metric = objective.map(|objective| objective.metric.clone());
        self.searcher.set_search_properties(objective, space)
    }

    fn total_samples(&self, num_samples: Option<u64>) -> Option<u64> {
        let trials = num_samples?;
        let repeat = (self.repeat as u64).max(1);
        if trials % repeat != 0 {
            tracing::warn!(
                "`num_samples` is {trials}, which counts repeats and is no multiple of `repeat` = {repeat}"
            );
        }
        Some(self.searcher.total_samples(Some((trials / repeat).max(1)))?.saturating_mul(repeat))
    }

    fn suggest(&mut self, trial_id: &str) -> Result<Suggestion> {
        if self.groups.last().is_none_or(|group| group.asked == self.repeat) {
            match self.searcher.suggest(trial_id)? {
                Suggestion::Trial { config, drawn } => self.groups.push(Group {
                    primary: trial_id.to_owned(),
                    config,
                    drawn,
                    asked: 0,
                    ended: 0,
                    scores: vec![None; self.repeat],
                    index_of: HashMap::new(),
                }),
                other => return Ok(other),
            }
        }
        let number = self.groups.len() - 1;
        let group = &mut self.groups[number];
        let mut config = group.config.clone();
        let mut drawn = group.drawn.clone();
        if let Some(key) = &self.index_key {
            config.insert(key.clone(), group.asked.into());
            drawn.retain(|(path, _)| path != key);
            drawn.push((key.clone(), group.asked.into()));
        }
        group.index_of.insert(trial_id.to_owned(), group.asked);
        group.asked += 1;
        self.group_of.insert(trial_id.to_owned(), number);
        Ok(Suggestion::Trial { config, drawn })
    }

    fn on_trial_complete(&mut self, trial_id: &str, result: Option<&Metrics>) -> Result<()> {
        let Some(group) = self.group_of.remove(trial_id).map(|number| &mut self.groups[number]) else {
            return Ok(());
        };
        let score = match (&self.metric, result) {
            (Some(key), Some(result)) => metric::number(result, key)?.filter(|score| !score.is_nan()),
            _ => None,
        };
        if let Some(index) = group.index_of.get(trial_id) {
            group.scores[*index] = score;
        }
        group.ended += 1;
        if group.ended < self.repeat {
            return Ok(());
        }
        let scores: Vec<f64> = group.scores.iter().flatten().copied().collect();
        let mean = scores.iter().sum::<f64>() / scores.len() as f64;
        let result = self.metric.as_ref().filter(|_| !scores.is_empty()).map(|key| {
            let mut result = Metrics::new();
            result.insert(key.clone(), mean.into());
            result
        });
        self.searcher.on_trial_complete(&group.primary, result.as_ref())
    }
}
