//! Asynchronous successive halving (ASHA).

use std::collections::{HashMap, HashSet};

use serde::{Deserialize, Serialize};

use super::draws::Draws;
use super::{Answer, Decision, Order, TrialScheduler, positive};
use crate::base::metric::{self, Comparison, number};
use crate::base::{Error, Metrics, Mode, Objective, Result, Trial};

/// Name of the scheduler in error messages.
const NAME: &str = "AsyncHyperBandScheduler";

/// Settings of [`AsyncHyperBandScheduler`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct AsyncHyperBandConfig {
    /// Key of the results that measures progress, e.g. `training_iteration`; its value must grow with every result.
    pub time_attr: String,
    /// Objective by which trials are compared; `None` means the sweep's. Sweep files write it as `metric` and `mode`.
    #[serde(flatten, with = "metric::pair")]
    pub objective: Option<Objective>,
    /// Maximum length of a trial, in units of `time_attr`.
    pub max_t: f64,
    /// Position of the first rung, in units of `time_attr`; no trial is stopped before it.
    pub grace_period: f64,
    /// Reduction factor (eta): at a rung the best `1 / reduction_factor` of the trials continue, and each rung is at
    /// `reduction_factor` times the time of the one before. Must be above 1.
    pub reduction_factor: f64,
    /// Number of brackets. Each one starts one rung later than the one before; trials are assigned to brackets at
    /// random.
    pub brackets: usize,
    /// Whether trials are stopped at `max_t`.
    pub stop_last_trials: bool,
    /// Seed of the random assignment of trials to brackets.
    pub seed: u64,
}

impl Default for AsyncHyperBandConfig {
    fn default() -> Self {
        Self {
            time_attr: "training_iteration".into(),
            objective: None,
            max_t: 100.0,
            grace_period: 1.0,
            reduction_factor: 4.0,
            brackets: 1,
            stop_last_trials: true,
            seed: 0,
        }
    }
}

/// ASHA: at each rung, a trial is stopped unless it is among the best `1 / reduction_factor` of the trials that have
/// reached the rung so far.
///
/// This is the algorithm of [Li et al. 2018, A System for Massively Parallel Hyperparameter
/// Tuning](https://arxiv.org/abs/1810.05934) in Ray Tune's form: a trial is compared with those that reached the rung
/// before it, and never waits. The rungs of bracket `s` are at `grace_period * reduction_factor^(k + s)`, up to
/// `max_t`. A result below the `1 - 1 / reduction_factor` quantile (with linear interpolation) of the scores at its
/// rung stops the trial. A result counts only at the highest rung that it has reached, so a trial that reports rarely
/// skips rungs. A result that lacks the metric or the time is ignored, and the trial continues. A trial whose metric is
/// `null` passes the rung without being compared or counted.
///
/// Ray computes the number of rungs with a logarithm, and rounding sometimes loses the rung at `max_t` (e.g. 1000 with
/// factor 10). Here that rung always exists. It matters only without `stop_last_trials`.
#[derive(Debug)]
pub struct AsyncHyperBandScheduler {
    config: AsyncHyperBandConfig,
    comparison: Comparison,
    brackets: Vec<Bracket>,
    /// Index of each trial's bracket, by trial id.
    trials: HashMap<String, usize>,
    draws: Draws,
    num_stopped: usize,
}

impl AsyncHyperBandScheduler {
    /// Makes a scheduler that has seen no results yet.
    ///
    /// # Errors
    /// Returns [`Error::Config`] if a setting is out of range.
    pub fn new(config: AsyncHyperBandConfig) -> Result<Self> {
        let AsyncHyperBandConfig { max_t, grace_period, reduction_factor, brackets, .. } = config;
        positive(NAME, "max_t", max_t)?;
        positive(NAME, "grace_period", grace_period)?;
        let refuse =
            |key: &str, value: String, rule: &str| Err(Error::config(format!("{NAME}.{key}"), value, rule));
        if grace_period > max_t {
            let rule = format!("it must be at most `max_t`, {max_t}");
            return refuse("grace_period", grace_period.to_string(), &rule);
        }
        if !(reduction_factor > 1.0 && reduction_factor.is_finite()) {
            return refuse("reduction_factor", reduction_factor.to_string(), "it must be above 1");
        }
        if brackets == 0 {
            return refuse("brackets", "0".into(), "it must be 1 or more");
        }
        Ok(Self {
            comparison: Comparison::new(NAME, config.objective.clone()),
            brackets: (0..brackets).map(|s| Bracket::new(&config, s)).collect(),
            trials: HashMap::new(),
            draws: Draws::new(config.seed),
            num_stopped: 0,
            config,
        })
    }

    /// Returns the time and the score of a result; `None` if it lacks one of them.
    fn measure(&self, result: &Metrics) -> Result<Option<(f64, f64)>> {
        let time = number(result, &self.config.time_attr)?.filter(|time| !time.is_nan());
        Ok(time.zip(self.comparison.score(result)?))
    }

    /// Returns the bracket of a trial.
    fn bracket(&mut self, trial_id: &str) -> Option<&mut Bracket> {
        self.trials.get(trial_id).map(|&bracket| &mut self.brackets[bracket])
    }
}

impl TrialScheduler for AsyncHyperBandScheduler {
    fn set_search_properties(&mut self, objective: Option<&Objective>) -> Result<()> {
        self.comparison.set(objective)
    }

    fn objective(&self) -> Option<&Objective> {
        self.comparison.objective()
    }

    fn on_trial_add(&mut self, trial: &mut Trial) -> Result<()> {
        let weights: Vec<f64> =
            self.brackets.iter().map(|bracket| (bracket.rungs.len() as f64).exp()).collect();
        let bracket = self.draws.weighted(&weights);
        self.trials.insert(trial.trial_id.clone(), bracket);
        Ok(())
    }

    fn on_trial_result(&mut self, trial: &Trial, result: &Metrics, _: &[Trial]) -> Result<Answer> {
        let Some((time, score)) = self.measure(result)? else { return Ok(Decision::Continue.into()) };
        let goes_on = if time >= self.config.max_t && self.config.stop_last_trials {
            false
        } else {
            self.bracket(&trial.trial_id)
                .is_none_or(|bracket| bracket.on_result(&trial.trial_id, time, score))
        };
        if goes_on {
            return Ok(Decision::Continue.into());
        }
        self.num_stopped += 1;
        Ok(Decision::Stop.into())
    }

    /// Counts the last result at its rung, so that later trials are compared with it.
    fn on_trial_complete(&mut self, trial: &Trial, result: &Metrics, _: &[Trial]) -> Result<Vec<Order>> {
        if let Some((time, score)) = self.measure(result)? {
            if let Some(bracket) = self.bracket(&trial.trial_id) {
                bracket.on_result(&trial.trial_id, time, score);
            }
            self.trials.remove(&trial.trial_id);
        }
        Ok(Vec::new())
    }

    fn on_trial_remove(&mut self, trial: &Trial, _: &[Trial]) -> Result<Vec<Order>> {
        self.trials.remove(&trial.trial_id);
        Ok(Vec::new())
    }

    fn debug_string(&self) -> String {
        let (bound, sign) = match self.comparison.objective() {
            Some(Objective { mode: Mode::Min, .. }) => ("at most", -1.0),
            _ => ("at least", 1.0),
        };
        let rungs = self.brackets.iter().flat_map(|bracket| bracket.rungs.iter().rev()).map(|rung| {
            let seen = format!("rung {}: {} seen", rung.milestone, rung.trials.len());
            rung.cutoff.map_or(seen.clone(), |cutoff| format!("{seen}, {bound} {:.4} goes on", sign * cutoff))
        });
        let rungs = rungs.collect::<Vec<_>>().join("; ");
        format!("AsyncHyperBand: {} stopped; {rungs}", self.num_stopped)
    }
}

/// One bracket: rungs at which its trials are compared.
#[derive(Debug)]
struct Bracket {
    /// Rungs, the highest first.
    rungs: Vec<Rung>,
    stop_last_trials: bool,
    quantile: f64,
}

/// One rung: the scores of the trials that have reached it.
#[derive(Debug)]
struct Rung {
    milestone: f64,
    trials: HashSet<String>,
    /// Scores in ascending order.
    scores: Vec<f64>,
    cutoff: Option<f64>,
}

impl Bracket {
    /// Makes bracket number `s`, without its first `s` rungs.
    fn new(config: &AsyncHyperBandConfig, s: usize) -> Self {
        let factor = config.reduction_factor;
        let milestones = (s..).map(|k| config.grace_period * factor.powf(k as f64));
        let mut rungs: Vec<Rung> = milestones
            .take_while(|milestone| *milestone <= config.max_t)
            .map(|milestone| Rung { milestone, trials: HashSet::new(), scores: Vec::new(), cutoff: None })
            .collect();
        rungs.reverse();
        // Ray passes a percentage to numpy, which divides it by 100; the same arithmetic gives the same rounding.
        let quantile = (1.0 - 1.0 / factor) * 100.0 / 100.0;
        Self { rungs, stop_last_trials: config.stop_last_trials, quantile }
    }

    /// Records a result at the highest rung that it has reached; returns whether the trial continues.
    fn on_result(&mut self, trial_id: &str, time: f64, score: f64) -> bool {
        for rung in self.rungs.iter_mut().filter(|rung| time >= rung.milestone) {
            if rung.trials.contains(trial_id) {
                if self.stop_last_trials {
                    continue;
                }
                return true;
            }
            let goes_on = rung.cutoff.is_none_or(|cutoff| score.is_nan() || score >= cutoff);
            rung.trials.insert(trial_id.to_string());
            if !score.is_nan() {
                let place = rung.scores.partition_point(|other| *other < score);
                rung.scores.insert(place, score);
                rung.cutoff = Some(quantile(&rung.scores, self.quantile));
            }
            return goes_on;
        }
        true
    }
}

/// Returns a quantile of `sorted` (ascending, not empty) with linear interpolation, rounded like numpy's.
fn quantile(sorted: &[f64], quantile: f64) -> f64 {
    let place = (sorted.len() - 1) as f64 * quantile;
    let below = place.floor();
    let weight = place - below;
    let low = sorted[below as usize];
    let high = sorted[(below as usize + 1).min(sorted.len() - 1)];
    let step = high - low;
    if weight < 0.5 { low + step * weight } else { high - step * (1.0 - weight) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quantile_has_the_last_digit_of_numpys_percentile() {
        // `numpy.percentile(scores, (1 - 1 / factor) * 100)` of numpy 2, which is what Ray calls.
        for (scores, factor, expected) in [
            (&[-33.50983192585346, 26.706569831581575][..], 4.0, 11.652469392222816),
            (
                &[
                    -75.81613505794272,
                    -61.83923882970082,
                    -54.99443145542304,
                    5.925525661678648,
                    61.35544752509148,
                    67.69527580564511,
                ],
                3.0,
                24.402166282816292,
            ),
            (
                &[
                    -87.72637493633981,
                    -75.55579463446583,
                    -55.839365426698826,
                    8.196144517060347,
                    62.31028256166741,
                    94.39807811627495,
                ],
                2.0,
                -23.821610454819236,
            ),
            (&[3.0], 4.0, 3.0),
        ] {
            assert_eq!(quantile(scores, (1.0 - 1.0 / factor) * 100.0 / 100.0), expected, "{scores:?}");
        }
    }
}
