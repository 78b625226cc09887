//! Search spaces and the searchers that draw from them.

mod by_name;
mod model;
mod space;
mod variants;
mod wrappers;

use pavlov_tune::search::{SearchSpace, Searcher, Suggestion};
use pavlov_tune::{Config, Metrics, Objective};
use serde_json::{Value, json};

use crate::counter::object;

type Drawn = Vec<(String, Value)>;

/// `searcher` after it was told of `space`, minimising `loss`.
fn ready<S: Searcher>(mut searcher: S, space: impl Into<SearchSpace>) -> S {
    searcher.set_search_properties(Some(&Objective::minimize("loss")), &space.into()).unwrap();
    searcher
}

/// The next trial; it must be one.
fn trial(searcher: &mut impl Searcher, id: &str) -> (Config, Drawn) {
    match searcher.suggest(id).unwrap() {
        Suggestion::Trial { config, drawn } => (config, drawn),
        other => panic!("{other:?} instead of a trial"),
    }
}

fn loss(value: f64) -> Metrics {
    object(json!({ "loss": value }))
}
