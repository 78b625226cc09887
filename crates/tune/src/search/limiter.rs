//! A searcher that limits how many of its trials run at the same time.

use super::{SearchSpace, Searcher, Suggestion};
use crate::base::{Error, Metrics, Objective, Result};

/// Wraps a searcher and suggests no trial while `max_concurrent` of its trials are unfinished.
///
/// Useful for searchers that learn from results: the fewer trials run at once, the more results each suggestion is based on.
/// Trials that a scheduler has paused count as unfinished, so with HyperBand limit the sweep's `max_concurrent_trials`
/// instead.
#[derive(Debug)]
pub struct ConcurrencyLimiter<S> {
    /// The wrapped searcher.
    pub searcher: S,
    /// Maximum number of unfinished trials, 1 or more.
    pub max_concurrent: usize,
    /// Whether the wrapped searcher gets results only once all trials of a batch have ended. It gets them in the order of
    /// the suggestions, so the order in which trials end makes no difference.
    pub batch: bool,
    live: Vec<OpenTrial>,
}

#[derive(Debug)]
struct OpenTrial {
    trial_id: String,
    /// Outcome of the trial: outer `None` while it runs, inner `None` if it failed, otherwise its last result.
    ended: Option<Option<Metrics>>,
}

impl<S: Searcher> ConcurrencyLimiter<S> {
    /// Limits `searcher` to `max_concurrent` unfinished trials.
    pub fn new(searcher: S, max_concurrent: usize, batch: bool) -> Self {
        Self { searcher, max_concurrent, batch, live: Vec::new() }
    }
}

impl<S: Searcher> Searcher for ConcurrencyLimiter<S> {
    fn set_search_properties(&mut self, objective: Option<&Objective>, space: &SearchSpace) -> Result<()> {
        if self.max_concurrent == 0 {
            return Err(Error::config("max_concurrent", 0, "it must be 1 or more"));
        }
        self.searcher.set_search_properties(objective, space)
    }

    fn total_samples(&self, num_samples: Option<u64>) -> Option<u64> {
        self.searcher.total_samples(num_samples)
    }

    fn suggest(&mut self, trial_id: &str) -> Result<Suggestion> {
        if self.live.len() >= self.max_concurrent {
            return Ok(Suggestion::Wait);
        }
        let suggestion = self.searcher.suggest(trial_id)?;
        if let Suggestion::Trial { .. } = suggestion {
            self.live.push(OpenTrial { trial_id: trial_id.to_owned(), ended: None });
        }
        Ok(suggestion)
    }

    fn on_trial_result(&mut self, trial_id: &str, result: &Metrics) -> Result<()> {
        self.searcher.on_trial_result(trial_id, result)
    }

    fn on_trial_complete(&mut self, trial_id: &str, result: Option<&Metrics>) -> Result<()> {
        let Some(index) = self.live.iter().position(|live| live.trial_id == trial_id) else { return Ok(()) };
        if !self.batch {
            self.live.remove(index);
            return self.searcher.on_trial_complete(trial_id, result);
        }
        self.live[index].ended = Some(result.cloned());
        if self.live.iter().all(|live| live.ended.is_some()) {
            for live in self.live.drain(..) {
                self.searcher.on_trial_complete(&live.trial_id, live.ended.flatten().as_ref())?;
            }
        }
        Ok(())
    }
}
