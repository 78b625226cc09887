//! Settings of population based training.

use serde::{Deserialize, Serialize};

use crate::base::{Config, Objective, metric};

/// Settings of [`PopulationBasedTraining`](super::PopulationBasedTraining).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct PbtConfig {
    /// Key of the results that measures progress, e.g. `time_total_s`; its value must grow with every result.
    pub time_attr: String,
    /// Objective by which trials are compared; `None` means the sweep's. Sweep files write it as `metric` and `mode`.
    #[serde(flatten, with = "metric::pair")]
    pub objective: Option<Objective>,
    /// Time between two perturbation steps of a trial, in units of `time_attr`. At each step the trial may be saved or
    /// exploit another one.
    pub perturbation_interval: f64,
    /// Time before the first perturbation step of a trial, in units of `time_attr`.
    pub burn_in_period: f64,
    /// Settings that may change. The value of each is a list of values, a domain of a search space such as
    /// `{"loguniform": [1e-4, 1e-2]}`, or an object of these. A list and a `choice` are perturbed by a step to a neighbour,
    /// other domains by factors.
    ///
    /// Settings that a trial lacks at its start are sampled from here, including single keys of an object. Ray samples
    /// only objects that are missing altogether: there, a trial that lacks a single key ends the sweep with a
    /// `KeyError` at its first exploit.
    pub hyperparam_mutations: Config,
    /// Share of the trials that counts as the worst, and as the best: each of the worst copies one of the best. From 0
    /// (no exploits) to 0.5.
    pub quantile_fraction: f64,
    /// Probability, from 0 to 1, that a setting is resampled instead of perturbed.
    pub resample_probability: f64,
    /// Factors that perturb a number; it is multiplied by a randomly chosen one.
    pub perturbation_factors: Vec<f64>,
    /// Whether a perturbed number stays in the domain in which it is drawn: one beyond a bound becomes the bound. `false`
    /// lets numbers leave their domains, and perturbs those of a `choice` by factors, as Ray does.
    pub keep_in_domain: bool,
    /// Whether to write exploits to `pbt_global.txt` and `pbt_policy_<trial id>.txt`.
    pub log_config: bool,
    /// Whether a result that lacks the metric or the time is an error. Otherwise it is ignored, and the trial
    /// continues.
    pub require_attrs: bool,
    /// Whether trials wait for each other at multiples of the interval.
    pub synch: bool,
    /// Seed of the random choices: which trial is exploited, and the new settings.
    pub seed: u64,
}

impl Default for PbtConfig {
    fn default() -> Self {
        Self {
            time_attr: "time_total_s".into(),
            objective: None,
            perturbation_interval: 60.0,
            burn_in_period: 0.0,
            hyperparam_mutations: Config::new(),
            quantile_fraction: 0.25,
            resample_probability: 0.25,
            perturbation_factors: vec![1.2, 0.8],
            keep_in_domain: true,
            log_config: true,
            require_attrs: true,
            synch: false,
            seed: 0,
        }
    }
}
