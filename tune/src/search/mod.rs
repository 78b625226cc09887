//! Who draws the settings of the next trial.
//!
//! A searcher is a function of its settings, its seed and the calls that it has seen. So nobody saves its state: a
//! resumed sweep makes a new one and repeats the calls from the journal.

mod space;

pub use space::SearchSpace;

use crate::{Config, Metrics, Mode, Result};

/// An answer to "what next?".
#[derive(Clone, Debug, PartialEq)]
pub enum Suggestion {
    /// Run this.
    Trial {
        /// Every setting has a value.
        config: Config,
        /// The drawn settings by path, in the order of the space: what a trial's tag and the progress table show.
        drawn: Vec<(String, serde_json::Value)>,
    },
    /// Nothing before more results are in.
    Wait,
    /// Nothing any more.
    Finished,
}

/// Ask and tell: suggests settings, learns from results.
pub trait Searcher: Send {
    /// The metric, mode and search space of the sweep. Called once, first.
    ///
    /// # Errors
    /// A space that this searcher cannot search, or a metric that it needs and nobody gave.
    fn set_search_properties(
        &mut self,
        metric: Option<&str>,
        mode: Option<Mode>,
        space: &SearchSpace,
    ) -> Result<()>;

    /// Settings for the trial `trial_id`.
    ///
    /// # Errors
    /// A draw that failed, of a user's closure for example.
    fn suggest(&mut self, trial_id: &str) -> Result<Suggestion>;

    /// A trial that goes on reported.
    ///
    /// # Errors
    /// A result without what this searcher needs.
    fn on_trial_result(&mut self, trial_id: &str, result: &Metrics) -> Result<()> {
        let _ = (trial_id, result);
        Ok(())
    }

    /// A trial ended with its last result; `None`: it failed.
    ///
    /// # Errors
    /// A result without what this searcher needs.
    fn on_trial_complete(&mut self, trial_id: &str, result: Option<&Metrics>) -> Result<()> {
        let _ = (trial_id, result);
        Ok(())
    }
}
