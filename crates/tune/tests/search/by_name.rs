//! Searchers as a sweep file describes them.

use pavlov_tune::Objective;
use pavlov_tune::search::{Suggestion, from_config};
use serde_json::{Value, json};

use crate::counter::object;

fn space() -> Value {
    json!({"x": {"uniform": [0, 1]}})
}

fn refusal(settings: Value) -> String {
    from_config(&object(settings), 0).map(drop).unwrap_err().to_string()
}

/// The first draws of the searcher that `settings` describe.
fn draws(settings: Value, seed: u64) -> Vec<Suggestion> {
    let mut searcher = from_config(&object(settings), seed).unwrap();
    searcher.set_search_properties(Some(&Objective::minimize("loss")), &space().into()).unwrap();
    (0..3).map(|index| searcher.suggest(&index.to_string()).unwrap()).collect()
}

#[test]
fn every_name_and_its_other_spellings_make_a_searcher() {
    for names in [
        &["random", "variant_generator", "BasicVariant", "grid"][..],
        &["TPE", "tpe", "hyperopt", "optuna", "OptunaSearch"],
        &["BOHB", "TuneBOHB"],
    ] {
        let first = draws(json!({"type": names[0]}), 7);
        for name in names {
            assert_eq!(draws(json!({ "type": name }), 7), first, "{name}");
        }
    }
}

#[test]
fn the_seed_of_the_sweep_is_for_searchers_without_their_own() {
    let with_own = draws(json!({"type": "TPE", "seed": 3}), 7);
    assert_eq!(with_own, draws(json!({"type": "TPE"}), 3));
    assert_eq!(with_own, draws(json!({"type": "hyperopt", "random_state_seed": 3}), 7));
    assert_ne!(with_own, draws(json!({"type": "TPE"}), 7));
}

#[test]
fn any_searcher_can_be_limited_and_repeated() {
    let limited = draws(json!({"type": "TPE", "max_concurrent": 2}), 0);
    assert_eq!(limited[2], Suggestion::Wait);
    let repeated = draws(json!({"type": "TPE", "repeat": 2, "index_key": "seed"}), 0);
    let Suggestion::Trial { config, .. } = &repeated[1] else { panic!("{:?}", repeated[1]) };
    assert_eq!(config["seed"], 1);
    let repeated = draws(json!({"type": "TPE", "repeat": 2}), 0);
    assert!(repeated[0] == repeated[1] && repeated[1] != repeated[2]);
}

#[test]
fn what_is_wrong_is_named_with_the_nearest() {
    for (settings, message) in [
        (json!({}), "`search.type` is missing: write one of random, TPE, BOHB"),
        (
            json!({"type": "ranodm"}),
            "`search.type` is \"ranodm\", but there is no such searcher; nearest: random",
        ),
        (
            json!({"type": "BayesOptSearch"}),
            "`search.type` is \"BayesOptSearch\", but that is a Gaussian process, which is not here; there are random, TPE, \
             BOHB. TPE is the nearest",
        ),
        (
            json!({"type": "TPE", "n_inital_points": 5}),
            "unknown setting `search.n_inital_points` (from the sweep); nearest: `n_initial_points`",
        ),
        (
            json!({"type": "TPE", "max_concurent": 4}),
            "unknown setting `search.max_concurent` (from the sweep); nearest: `max_concurrent`",
        ),
        (json!({"type": "TPE", "gamma": "much"}), "`search.gamma` is \"much\", but it must be a number"),
        (
            json!({"type": "BOHB", "max_concurrent": 4}),
            "`search.max_concurrent` is 4, but trials that HyperBand has paused would count: limit the sweep's \
             `max_concurrent_trials`",
        ),
        (
            json!({"type": "TPE", "batch": true}),
            "`search.batch` is true, but it needs `max_concurrent`, the size of a batch",
        ),
    ] {
        assert_eq!(refusal(settings), message);
    }
}
