//! Searchers draw the settings of the next trial.
//!
//! A [`SearchSpace`] is settings in which some values are [`Domain`]s. A [`Searcher`] draws from it.
//!
//! A searcher is a function of its settings, its seed and the calls that it has seen. So its state is not saved: a
//! resumed sweep makes a new one and repeats the calls from the journal.

mod bohb;
mod by_name;
mod domain;
mod limiter;
mod parzen;
mod proposals;
mod quantile;
mod random;
mod repeater;
mod space;
mod tag;
mod template;
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

use crate::{Config, Metrics, Objective, Result};

/// An answer to "what next?".
#[derive(Clone, Debug, PartialEq)]
pub enum Suggestion {
    /// A trial to run.
    Trial {
        /// Every setting has a value.
        config: Config,
        /// The drawn settings by path, in the order of the space: what a trial's tag and the progress table show.
        drawn: Vec<(String, serde_json::Value)>,
    },
    /// Nothing yet: more results must be in first.
    Wait,
    /// Nothing any more: the search is over.
    Finished,
}

/// Suggests the settings of trials and learns from their results.
pub trait Searcher: Send {
    /// Tells the objective and search space of the sweep. Called once, first.
    ///
    /// # Errors
    /// Returns [`Error::Config`](crate::Error::Config) if this searcher cannot search the space, if its own settings
    /// are out of range, and [`Error::Missing`](crate::Error::Missing) if it needs an objective and the sweep has none. Returns
    /// [`Error::UnknownKey`](crate::Error::UnknownKey) if a point with a known reward sets what the space has not.
    fn set_search_properties(&mut self, objective: Option<&Objective>, space: &SearchSpace) -> Result<()>;

    /// How many trials a sweep of `num_samples` samples has (`None`: no end). The sweep asks for so many and no more,
    /// so a searcher need not count. A grid has its points in each sample.
    fn total_samples(&self, num_samples: Option<u64>) -> Option<u64> {
        num_samples
    }

    /// Suggests settings for the trial `trial_id`.
    ///
    /// # Errors
    /// Returns what a closure of the space returns, [`Error::Config`](crate::Error::Config) if closures wait for each
    /// other, and [`Error::UnknownKey`](crate::Error::UnknownKey) if a point to evaluate sets what the space has not.
    /// The error ends the sweep.
    fn suggest(&mut self, trial_id: &str) -> Result<Suggestion>;

    /// A trial that goes on reported.
    ///
    /// # Errors
    /// Returns [`Error::MissingMetric`](crate::Error::MissingMetric) if the result lacks what this searcher needs, and
    /// [`Error::Metric`](crate::Error::Metric) if that is no number. The error ends the sweep.
    fn on_trial_result(&mut self, trial_id: &str, result: &Metrics) -> Result<()> {
        let _ = (trial_id, result);
        Ok(())
    }

    /// A trial ended with its last result; `None`: it failed.
    ///
    /// # Errors
    /// Returns [`Error::MissingMetric`](crate::Error::MissingMetric) if the result lacks what this searcher needs, and
    /// [`Error::Metric`](crate::Error::Metric) if that is no number. The error ends the sweep.
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
