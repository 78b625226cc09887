//! The searcher of BOHB: TPE on the largest budget that enough trials have reached.

use rand::RngExt;
use serde::{Deserialize, Serialize};

use super::parzen::{Observation, Parzen};
use super::proposals::Proposals;
use super::random::{Purpose, stream, unit};
use super::{SearchSpace, Searcher, Suggestion};
use crate::base::metric::{self, Comparison};
use crate::base::{Config, Error, Metrics, Objective, Result};

/// Settings of [`TuneBohb`].
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct TuneBohbConfig {
    /// Key of the results that measures the budget spent on a trial; must be the scheduler's `time_attr`.
    pub time_attr: String,
    /// Number of trials that must have reached a budget before the model is fitted at it. `None` uses the number of
    /// parameters plus 1.
    pub min_points_in_model: Option<usize>,
    /// Percentage of the results that count as good, in (0, 100].
    pub top_n_percent: f64,
    /// Number of candidates sampled from the density of the good results, of which the best is taken.
    pub num_samples: usize,
    /// Share of the suggestions that are random even if there is a model, in \[0, 1\].
    pub random_fraction: f64,
    /// Settings, possibly incomplete, for the first trials.
    pub points_to_evaluate: Vec<Config>,
    /// Seed of the random choices: with the same seed and the same results, the trials are the same.
    pub seed: u64,
}

impl Default for TuneBohbConfig {
    fn default() -> Self {
        Self {
            time_attr: "training_iteration".into(),
            min_points_in_model: None,
            top_n_percent: 15.0,
            num_samples: 64,
            random_fraction: 1.0 / 3.0,
            points_to_evaluate: Vec::new(),
            seed: 0,
        }
    }
}

/// Searcher of BOHB, for schedulers that increase the budget of trials step by step: HyperBand for BOHB, or ASHA.
///
/// This is the algorithm of Falkner et al., "BOHB: Robust and Efficient Hyperparameter Optimization at Scale" (2018).
/// It learns from every intermediate result: the model is fitted to the metric at the largest budget that
/// `min_points_in_model` trials have reached. Ray's version learns only from results at the ends of HyperBand's rounds,
/// which the scheduler has to mark; here no marks are needed. The model is that of [`TpeSearch`](super::TpeSearch),
/// with the paper's shares of good results and of random suggestions.
///
/// A trial's settings depend only on the seed, the trial's number, and the set of results at the time of the
/// suggestion.
pub struct TuneBohb {
    settings: TuneBohbConfig,
    comparison: Comparison,
    proposals: Proposals,
    /// Budget and loss of each result, by trial number; cleared if the trial fails.
    results: Vec<Vec<(f64, f64)>>,
}

impl TuneBohb {
    /// Makes a searcher that has seen no results yet.
    pub fn new(settings: TuneBohbConfig) -> Self {
        Self {
            comparison: Comparison::new("BOHB", None),
            proposals: Proposals::new("BOHB", settings.seed),
            results: Vec::new(),
            settings,
        }
    }

    /// Returns the observations to which the model is fitted; empty if too few trials have a result.
    fn observations(&self) -> Vec<Observation<'_>> {
        let needed = self.settings.min_points_in_model.unwrap_or(self.proposals.kinds().len() + 1).max(1);
        let mut reached: Vec<f64> = self
            .results
            .iter()
            .filter_map(|results| results.iter().map(|(budget, _)| *budget).max_by(f64::total_cmp))
            .collect();
        reached.sort_by(|a, b| b.total_cmp(a));
        let Some(budget) = reached.get(needed - 1) else { return Vec::new() };
        let at_budget = |(number, results): (usize, &Vec<(f64, f64)>)| {
            let (_, loss) = results.iter().find(|(spent, _)| spent >= budget)?;
            Some(Observation { quantiles: self.proposals.quantiles(number), loss: *loss })
        };
        self.results.iter().enumerate().filter_map(at_budget).collect()
    }

    /// Stores the budget and loss of a result.
    fn learn(&mut self, trial_id: &str, result: &Metrics) -> Result<()> {
        let Some(number) = self.proposals.number(trial_id) else { return Ok(()) };
        let Some(score) = self.comparison.score(result)? else {
            return Err(self.comparison.missing(result, trial_id));
        };
        let Some(budget) = metric::number(result, &self.settings.time_attr)? else {
            return Err(metric::missing(result, &self.settings.time_attr, trial_id, "the budget of BOHB"));
        };
        let is_new = self.results[number].last().is_none_or(|(last, _)| *last < budget);
        if !score.is_nan() && is_new {
            self.results[number].push((budget, -score));
        }
        Ok(())
    }
}

impl Searcher for TuneBohb {
    fn set_search_properties(&mut self, objective: Option<&Objective>, space: &SearchSpace) -> Result<()> {
        let TuneBohbConfig { top_n_percent, num_samples, random_fraction, .. } = self.settings;
        if !(top_n_percent > 0.0 && top_n_percent <= 100.0) {
            return Err(Error::config("top_n_percent", top_n_percent, "it must be above 0 and at most 100"));
        }
        if num_samples == 0 {
            return Err(Error::config("num_samples", 0, "it must be 1 or more"));
        }
        if !(0.0..=1.0).contains(&random_fraction) {
            return Err(Error::config("random_fraction", random_fraction, "it must be in 0..=1"));
        }
        self.comparison.set(objective)?;
        self.proposals.set_space(space)
    }

    fn suggest(&mut self, trial_id: &str) -> Result<Suggestion> {
        let number = self.proposals.next_number();
        let seed = self.settings.seed;
        let point = self.settings.points_to_evaluate.get(number);
        let at_random: f64 = stream(seed, number as u64, Purpose::Interleave, 0).random();
        let observations = self.observations();
        let kinds = self.proposals.kinds();
        let quantiles: Vec<f64> = if observations.is_empty() || at_random < self.settings.random_fraction {
            (0..kinds.len()).map(|parameter| unit(seed, number as u64, parameter)).collect()
        } else {
            let gamma = self.settings.top_n_percent / 100.0;
            Parzen { gamma, candidates: self.settings.num_samples, seed }.suggest(
                kinds,
                number,
                &observations,
            )
        };
        let suggestion = self.proposals.suggest(trial_id, point, &mut |parameter| quantiles[parameter])?;
        self.results.push(Vec::new());
        Ok(suggestion)
    }

    fn on_trial_result(&mut self, trial_id: &str, result: &Metrics) -> Result<()> {
        self.learn(trial_id, result)
    }

    fn on_trial_complete(&mut self, trial_id: &str, result: Option<&Metrics>) -> Result<()> {
        match (result, self.proposals.number(trial_id)) {
            (Some(result), _) => self.learn(trial_id, result),
            (None, Some(number)) => {
                self.results[number].clear();
                Ok(())
            }
            (None, None) => Ok(()),
        }
    }
}

impl std::fmt::Debug for TuneBohb {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TuneBohb").field("settings", &self.settings).finish_non_exhaustive()
    }
}
