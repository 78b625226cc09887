//! Searchers around searchers, on one that records what it is told.

use std::sync::{Arc, Mutex};

use pavlov_tune::search::{ConcurrencyLimiter, Repeater, SearchSpace, Searcher, Suggestion, TRIAL_INDEX};
use pavlov_tune::{Config, Metrics, Objective, Result};
use serde_json::json;

use super::{loss, ready, trial};
use crate::counter::object;

/// The trials that ended and their losses.
type Log = Arc<Mutex<Vec<(String, Option<f64>)>>>;

/// Suggests `n` = 0, 1, 2, ...; notes what it is told.
#[derive(Default)]
struct Recorder {
    suggested: u64,
    told: Log,
    /// Results of trials that run, and the number of searches that it was told to begin.
    heard: Log,
}

impl Searcher for Recorder {
    fn set_search_properties(&mut self, _: Option<&Objective>, _: &SearchSpace) -> Result<()> {
        self.heard.lock().unwrap().push(("a search".into(), None));
        Ok(())
    }

    fn on_trial_result(&mut self, trial_id: &str, result: &Metrics) -> Result<()> {
        self.heard.lock().unwrap().push((trial_id.to_owned(), result["loss"].as_f64()));
        Ok(())
    }

    fn suggest(&mut self, _: &str) -> Result<Suggestion> {
        let config = object(json!({"n": self.suggested}));
        self.suggested += 1;
        Ok(Suggestion::Trial { config, drawn: Vec::new() })
    }

    fn on_trial_complete(&mut self, trial_id: &str, result: Option<&Metrics>) -> Result<()> {
        let loss = result.and_then(|result| result["loss"].as_f64());
        self.told.lock().unwrap().push((trial_id.to_owned(), loss));
        Ok(())
    }
}

fn recorder() -> (Recorder, Log) {
    let recorder = Recorder::default();
    let told = recorder.told.clone();
    (recorder, told)
}

fn told(told: &Log) -> Vec<(String, Option<f64>)> {
    std::mem::take(&mut *told.lock().unwrap())
}

fn entry(id: &str, loss: f64) -> (String, Option<f64>) {
    (id.to_owned(), Some(loss))
}

#[test]
fn a_limited_searcher_waits_until_one_of_its_trials_ends() {
    let (inner, log) = recorder();
    let mut searcher = ready(ConcurrencyLimiter::new(inner, 2, false), json!({}));
    trial(&mut searcher, "a");
    trial(&mut searcher, "b");
    assert_eq!(searcher.suggest("c").unwrap(), Suggestion::Wait);
    searcher.on_trial_complete("stranger", None).unwrap();
    assert_eq!(searcher.suggest("c").unwrap(), Suggestion::Wait);
    searcher.on_trial_complete("b", Some(&loss(1.0))).unwrap();
    assert_eq!(told(&log), [entry("b", 1.0)]);
    assert_eq!(trial(&mut searcher, "c").0, object(json!({"n": 2})), "waiting asks for nothing");
}

#[test]
fn a_limited_searcher_hears_of_its_search_and_of_every_result() {
    let (inner, _) = recorder();
    let heard = inner.heard.clone();
    let mut searcher = ready(ConcurrencyLimiter::new(inner, 1, true), json!({}));
    trial(&mut searcher, "a");
    searcher.on_trial_result("a", &loss(3.0)).unwrap();
    assert_eq!(told(&heard), [("a search".to_owned(), None), entry("a", 3.0)]);
    let repeats = ConcurrencyLimiter::new(Repeater::new(recorder().0, 5, None), 2, false);
    assert_eq!(repeats.total_samples(Some(17)), Some(15));
}

#[test]
fn a_batch_is_told_whole_and_in_the_order_of_the_suggestions() {
    let (inner, log) = recorder();
    let mut searcher = ready(ConcurrencyLimiter::new(inner, 2, true), json!({}));
    trial(&mut searcher, "a");
    trial(&mut searcher, "b");
    searcher.on_trial_complete("b", Some(&loss(2.0))).unwrap();
    assert_eq!(searcher.suggest("c").unwrap(), Suggestion::Wait);
    assert_eq!(told(&log), []);
    searcher.on_trial_complete("a", None).unwrap();
    assert_eq!(told(&log), [("a".to_owned(), None), entry("b", 2.0)]);
    trial(&mut searcher, "c");
}

#[test]
fn repeats_share_their_settings_and_teach_their_mean() {
    let (inner, log) = recorder();
    let mut searcher = ready(Repeater::new(inner, 3, Some(TRIAL_INDEX.into())), json!({}));
    let configs: Vec<Config> = ["a", "b", "c", "d"].iter().map(|id| trial(&mut searcher, id).0).collect();
    let expected =
        [(0, 0), (0, 1), (0, 2), (1, 0)].map(|(n, index)| object(json!({"n": n, TRIAL_INDEX: index})));
    assert_eq!(configs, expected);
    searcher.on_trial_complete("c", Some(&loss(5.0))).unwrap();
    searcher.on_trial_complete("a", Some(&loss(2.0))).unwrap();
    searcher.on_trial_complete("a", Some(&loss(9.0))).unwrap();
    assert_eq!(told(&log), []);
    searcher.on_trial_complete("b", None).unwrap();
    assert_eq!(told(&log), [entry("a", 3.5)], "the mean of those that did not fail");
}

#[test]
fn a_suggestion_whose_repeats_all_fail_has_failed() {
    let (inner, log) = recorder();
    let mut searcher = ready(Repeater::new(inner, 2, None), json!({}));
    assert_eq!(trial(&mut searcher, "a").0, trial(&mut searcher, "b").0);
    searcher.on_trial_complete("a", Some(&object(json!({"loss": null})))).unwrap();
    searcher.on_trial_complete("b", None).unwrap();
    assert_eq!(told(&log), [("a".to_owned(), None)]);
}

#[test]
fn num_samples_counts_repeats() {
    let searcher = Repeater::new(recorder().0, 5, None);
    assert_eq!(
        [15, 17, 3].map(|samples| searcher.total_samples(Some(samples))),
        [Some(15), Some(15), Some(5)]
    );
    assert_eq!(searcher.total_samples(None), None);
}
