//! The tree-structured Parzen estimator.

use serde::{Deserialize, Serialize};

use super::parzen::{Observation, Parzen};
use super::proposals::Proposals;
use super::random::unit;
use super::{SearchSpace, Searcher, Suggestion};
use crate::base::metric::Comparison;
use crate::base::{Config, Error, Metrics, Objective, Result};

/// Settings of [`TpeSearch`].
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct TpeConfig {
    /// Number of results, of trials or of points with known rewards, before the model is used. Until then, draws are spread
    /// over the space.
    pub n_initial_points: usize,
    /// Fraction of the results that count as good, in (0, 1]. Higher values explore longer.
    pub gamma: f64,
    /// Number of candidates drawn from the density of the good results; the best one is used. Higher values are greedier.
    pub n_ei_candidates: usize,
    /// Whether the draws before the model is used come from a scrambled Sobol sequence instead of a random generator.
    pub sobol: bool,
    /// Settings of the first trials, one entry per trial. Settings left out of an entry are drawn.
    pub points_to_evaluate: Vec<Config>,
    /// Known metric of each of `points_to_evaluate`. If given, the model learns from these points, and they are not run.
    pub evaluated_rewards: Vec<f64>,
    /// Seed of the draws. The same seed gives the same trials for the same results.
    pub seed: u64,
}

impl Default for TpeConfig {
    fn default() -> Self {
        Self {
            n_initial_points: 10,
            gamma: 0.15,
            n_ei_candidates: 16,
            sobol: false,
            points_to_evaluate: Vec::new(),
            evaluated_rewards: Vec::new(),
            seed: 0,
        }
    }
}

/// Tree-structured Parzen estimator (TPE): draws where good results are dense and bad ones are not.
///
/// Bergstra et al., "Algorithms for Hyper-Parameter Optimization" (2011), with one joint density over all parameters, as in
/// Optuna. The model works on the quantiles of the domains, so log-scaled, integer and stepped domains are modelled on the
/// scale on which they are drawn. A parameter inside a `choice` learns from the trials that had it. Values of closures are
/// computed and not modelled. Failed trials and trials whose metric is still `null` are left out.
///
/// A trial's settings depend on the seed, on its number, and on the set of results available when it was suggested; the
/// order of those results makes no difference. With one trial at a time, or in batches
/// ([`ConcurrencyLimiter`](super::ConcurrencyLimiter)), a sweep is therefore exactly reproducible.
pub struct TpeSearch {
    settings: TpeConfig,
    comparison: Comparison,
    proposals: Proposals,
    /// Quantiles and losses of the points with known rewards.
    known: Vec<(Vec<f64>, f64)>,
    /// Loss of each trial by its number, `None` until it has one; lower is better.
    losses: Vec<Option<f64>>,
}

impl TpeSearch {
    /// Creates a searcher that has seen no results yet.
    pub fn new(settings: TpeConfig) -> Self {
        Self {
            comparison: Comparison::new("TPE", None),
            proposals: Proposals::new("TPE", settings.seed),
            known: Vec::new(),
            losses: Vec::new(),
            settings,
        }
    }
}

impl Searcher for TpeSearch {
    fn set_search_properties(&mut self, objective: Option<&Objective>, space: &SearchSpace) -> Result<()> {
        let TpeConfig { gamma, n_ei_candidates, .. } = self.settings;
        if !(gamma > 0.0 && gamma <= 1.0) {
            return Err(Error::config("gamma", gamma, "it must be above 0 and at most 1"));
        }
        if n_ei_candidates == 0 {
            return Err(Error::config("n_ei_candidates", 0, "it must be 1 or more"));
        }
        self.comparison.set(objective)?;
        self.proposals.set_space(space)?;
        let points = &self.settings.points_to_evaluate;
        let rewards = &self.settings.evaluated_rewards;
        if !rewards.is_empty() && rewards.len() != points.len() {
            let rule =
                format!("it must be one for each of the {} points_to_evaluate, or absent", points.len());
            return Err(Error::config("evaluated_rewards", format!("{} numbers", rewards.len()), rule));
        }
        let mode = self.comparison.get()?.mode;
        for (point, reward) in points.iter().zip(rewards) {
            self.known.push((self.proposals.quantiles_of(point)?, -mode.score(*reward)));
        }
        Ok(())
    }

    fn suggest(&mut self, trial_id: &str) -> Result<Suggestion> {
        let number = self.proposals.next_number();
        let TpeConfig { seed, gamma, n_ei_candidates: candidates, .. } = self.settings;
        let point = if self.settings.evaluated_rewards.is_empty() {
            self.settings.points_to_evaluate.get(number)
        } else {
            None
        };
        let known = self.known.iter().map(|(quantiles, loss)| Observation { quantiles, loss: *loss });
        let of_trial = |(number, loss): (usize, &Option<f64>)| {
            Some(Observation { quantiles: self.proposals.quantiles(number), loss: (*loss)? })
        };
        let observations: Vec<Observation<'_>> =
            known.chain(self.losses.iter().enumerate().filter_map(of_trial)).collect();
        let kinds = self.proposals.kinds();
        let quantiles: Vec<f64> = if observations.len() < self.settings.n_initial_points {
            (0..kinds.len()).map(|parameter| spread(seed, number, parameter, self.settings.sobol)).collect()
        } else {
            Parzen { gamma, candidates, seed }.suggest(kinds, number, &observations)
        };
        let suggestion = self.proposals.suggest(trial_id, point, &mut |parameter| quantiles[parameter])?;
        self.losses.push(None);
        Ok(suggestion)
    }

    fn on_trial_complete(&mut self, trial_id: &str, result: Option<&Metrics>) -> Result<()> {
        let (Some(number), Some(result)) = (self.proposals.number(trial_id), result) else { return Ok(()) };
        match self.comparison.score(result)? {
            None => return Err(self.comparison.missing(result, trial_id)),
            Some(score) if score.is_nan() => {}
            Some(score) => self.losses[number] = Some(-score),
        }
        Ok(())
    }
}

/// Returns the quantile of a parameter for a trial drawn without the model: from a Sobol sequence, or uniform at random.
fn spread(seed: u64, number: usize, parameter: usize, sobol: bool) -> f64 {
    if sobol && parameter < sobol_burley::NUM_DIMENSIONS as usize && number < 1 << 16 {
        f64::from(sobol_burley::sample(number as u32, parameter as u32, seed as u32))
    } else {
        unit(seed, number as u64, parameter)
    }
}

impl std::fmt::Debug for TpeSearch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TpeSearch")
            .field("settings", &self.settings)
            .field("losses", &self.losses)
            .finish_non_exhaustive()
    }
}
