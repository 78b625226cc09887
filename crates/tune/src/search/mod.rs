//! Search spaces, and searchers that suggest the settings of the next trial.
//!
//! A [`SearchSpace`] consists of settings in which some values are [`Domain`]s. A [`Searcher`] draws a trial's settings from
//! it.
//!
//! A searcher's suggestions depend only on its settings, its seed and the calls made to it, so its state is not saved. A
//! resumed sweep makes a new searcher and repeats the calls from the journal.

mod bohb;
mod by_name;
mod domain;
mod domain_json;
mod limiter;
mod parzen;
mod proposals;
mod quantile;
mod random;
mod repeater;
mod space;
mod tag;
mod template;
mod template_node;
mod template_walk;
mod tpe;
mod variants;

pub use self::tpe::{TpeConfig, TpeSearch};
pub use bohb::{TuneBohb, TuneBohbConfig};
pub use by_name::{from_config, register};
pub(crate) use domain::same;
pub use domain::{
    Domain, choice, grid_search, lograndint, loguniform, qlograndint, qloguniform, qrandint, qrandn,
    quniform, randint, randn, uniform,
};
pub use limiter::ConcurrencyLimiter;
pub use random::Random;
pub use repeater::{Repeater, TRIAL_INDEX};
pub use space::{Drawn, SearchSpace};
pub use tag::experiment_tag;
pub(crate) use tag::format_vars;
pub use variants::{BasicVariantConfig, BasicVariantGenerator};

use crate::base::{Config, Metrics, Objective, Result};

/// Answer of a searcher that was asked for the next trial.
#[derive(Clone, Debug, PartialEq)]
pub enum Suggestion {
    /// The settings of a trial to run.
    Trial {
        /// Settings of the trial, every domain replaced by a value.
        config: Config,
        /// Drawn values by dotted path, in the order of the search space. They appear in the trial's tag and in the progress
        /// table.
        drawn: Vec<(String, serde_json::Value)>,
    },
    /// No trial for now: the searcher needs more results first.
    Wait,
    /// No more trials: the search is over.
    Finished,
}

/// A search algorithm: suggests the settings of trials and learns from their results.
pub trait Searcher: Send {
    /// Sets the objective and the search space of the sweep. Called once, before all other methods.
    ///
    /// # Errors
    /// Returns [`Error::Config`](crate::Error::Config) if this searcher cannot search the space or its own settings are
    /// out of range, and [`Error::Missing`](crate::Error::Missing) if it needs an objective and the sweep has none.
    /// Returns [`Error::UnknownKey`](crate::Error::UnknownKey) if a point with a known reward sets a key that the space
    /// does not have.
    fn set_search_properties(&mut self, objective: Option<&Objective>, space: &SearchSpace) -> Result<()>;

    /// Returns the number of trials for `num_samples` samples; `None` means no limit. The sweep asks for at most that many
    /// trials, so a searcher need not count them. A grid search runs its whole grid once per sample.
    fn total_samples(&self, num_samples: Option<u64>) -> Option<u64> {
        num_samples
    }

    /// Suggests settings for the trial `trial_id`.
    ///
    /// # Errors
    /// Returns any error of a closure in the space, [`Error::Config`](crate::Error::Config) if closures depend on each other
    /// in a circle, and [`Error::UnknownKey`](crate::Error::UnknownKey) if a point to evaluate sets a key that the space
    /// does not have. An error ends the sweep.
    fn suggest(&mut self, trial_id: &str) -> Result<Suggestion>;

    /// Called when a trial has reported a result and continues. Does nothing by default.
    ///
    /// # Errors
    /// Returns [`Error::MissingMetric`](crate::Error::MissingMetric) if the result lacks a metric that this searcher needs,
    /// and [`Error::Metric`](crate::Error::Metric) if the metric is not a number. An error ends the sweep.
    fn on_trial_result(&mut self, trial_id: &str, result: &Metrics) -> Result<()> {
        let _ = (trial_id, result);
        Ok(())
    }

    /// Called when a trial has ended, with its last result, or with `None` if it failed. Does nothing by default.
    ///
    /// # Errors
    /// Returns [`Error::MissingMetric`](crate::Error::MissingMetric) if the result lacks a metric that this searcher needs,
    /// and [`Error::Metric`](crate::Error::Metric) if the metric is not a number. An error ends the sweep.
    fn on_trial_complete(&mut self, trial_id: &str, result: Option<&Metrics>) -> Result<()> {
        let _ = (trial_id, result);
        Ok(())
    }
}

impl<S: Searcher + ?Sized> Searcher for Box<S> {
    fn set_search_properties(&mut self, objective: Option<&Objective>, space: &SearchSpace) -> Result<()> {
        (**self).set_search_properties(objective, space)
    }

    fn total_samples(&self, num_samples: Option<u64>) -> Option<u64> {
        (**self).total_samples(num_samples)
    }

    fn suggest(&mut self, trial_id: &str) -> Result<Suggestion> {
        (**self).suggest(trial_id)
    }

    fn on_trial_result(&mut self, trial_id: &str, result: &Metrics) -> Result<()> {
        (**self).on_trial_result(trial_id, result)
    }

    fn on_trial_complete(&mut self, trial_id: &str, result: Option<&Metrics>) -> Result<()> {
        (**self).on_trial_complete(trial_id, result)
    }
}
