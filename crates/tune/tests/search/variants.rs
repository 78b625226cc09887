//! Random and grid search, beside what Ray makes of the same spaces.

use std::collections::HashSet;

use pavlov_tune::search::{BasicVariantConfig, BasicVariantGenerator, Searcher, experiment_tag, uniform};
use serde_json::{Value, json};

use super::{ready, trial};
use crate::counter::object;

fn random(settings: Value) -> BasicVariantGenerator {
    BasicVariantGenerator::new(serde_json::from_value::<BasicVariantConfig>(settings).unwrap())
}

/// Recorded by `record_ray_variants.py`.
fn recorded() -> Vec<Value> {
    serde_json::from_str(include_str!("../fixtures/ray_variants.json")).unwrap()
}

#[test]
fn trials_and_their_order_are_those_of_ray() {
    for case in recorded() {
        let mut searcher = ready(random(case["settings"].clone()), case["space"].clone());
        assert_eq!(
            searcher.total_samples(case["num_samples"].as_u64()),
            case["total"].as_u64(),
            "{}",
            case["name"]
        );
        for expected in case["trials"].as_array().unwrap() {
            let (config, _) = trial(&mut searcher, "");
            assert_eq!(Value::from(config), expected["config"], "{}", case["name"]);
        }
    }
}

#[test]
fn tags_are_those_of_ray_but_show_points_to_evaluate_too() {
    for case in recorded() {
        let has_points = case["settings"].get("points_to_evaluate").is_some();
        let mut searcher = ready(random(case["settings"].clone()), case["space"].clone());
        for (number, expected) in (0..).zip(case["trials"].as_array().unwrap()) {
            let tag = experiment_tag(number, &trial(&mut searcher, "").1);
            if !has_points {
                assert_eq!(tag, expected["tag"].as_str().unwrap(), "{}", case["name"]);
            }
        }
    }
    let settings = json!({"points_to_evaluate": [{"a": 2}]});
    let mut searcher = ready(random(settings), json!({"a": {"grid_search": [1, 2]}, "b": {"choice": [7]}}));
    assert_eq!(experiment_tag(0, &trial(&mut searcher, "").1), "0_a=2,b=7");
}

#[test]
fn a_trial_depends_on_its_number_and_the_seed_alone() {
    let space = || json!({"lr": uniform(0.0, 1.0)});
    let draws = |seed: u64| -> Vec<Value> {
        let mut searcher = ready(random(json!({ "seed": seed })), space());
        (0..5).map(|_| trial(&mut searcher, "").0["lr"].clone()).collect()
    };
    assert_eq!(draws(3), draws(3));
    assert_ne!(draws(3), draws(4));
    let distinct: HashSet<String> = draws(3).iter().map(Value::to_string).collect();
    assert_eq!(distinct.len(), 5);
    // Another setting beside it, drawn later, does not change it.
    let mut wider =
        ready(random(json!({"seed": 3})), json!({"lr": uniform(0.0, 1.0), "z": uniform(0.0, 1.0)}));
    assert_eq!(trial(&mut wider, "").0["lr"], draws(3)[0]);
}

#[test]
fn draws_are_held_over_the_grid_only_when_asked() {
    let space = || json!({"grid": {"grid_search": [1, 2, 3]}, "lr": uniform(0.0, 1.0)});
    let distinct = |constant: bool| {
        let mut searcher = ready(random(json!({ "constant_grid_search": constant })), space());
        let draws: HashSet<String> = (0..6).map(|_| trial(&mut searcher, "").0["lr"].to_string()).collect();
        draws.len()
    };
    assert_eq!(distinct(true), 2, "one per sample");
    assert_eq!(distinct(false), 6, "one per trial");
}

#[test]
fn a_grid_of_a_million_million_points_is_enumerated_as_trials_start() {
    let axis = json!({"grid_search": (0..1000).collect::<Vec<_>>()});
    let mut searcher = ready(random(json!({})), json!({"a": axis, "b": axis, "c": axis, "d": axis}));
    assert_eq!(searcher.total_samples(Some(1)), Some(1_000_000_000_000));
    assert_eq!(searcher.total_samples(None), None);
    let last = (0..1001).map(|_| trial(&mut searcher, "").0).last().unwrap();
    assert_eq!(last, object(json!({"a": 0, "b": 1, "c": 0, "d": 0})));
}

#[test]
fn a_point_with_a_key_that_the_space_lacks_is_refused() {
    let settings = json!({"points_to_evaluate": [{"model": {"actvation": "relu"}}]});
    let mut searcher =
        ready(random(settings), json!({"model": {"activation": {"choice": ["relu", "tanh"]}}}));
    assert_eq!(
        searcher.suggest("").unwrap_err().to_string(),
        "unknown setting `model.actvation` (from points_to_evaluate); nearest: `model.activation`"
    );
}

#[test]
fn values_that_a_point_sets_in_a_list_or_in_a_choice_count_as_drawn() {
    let settings = json!({"points_to_evaluate": [{"layers": [0.25, 7], "kind": {"b": 0.5}}]});
    let space = json!({
        "layers": [uniform(0.0, 1.0), 7],
        "kind": {"choice": [{"a": uniform(0.0, 1.0)}, {"b": uniform(0.0, 1.0)}]},
    });
    let (config, drawn) = trial(&mut ready(random(settings), space), "");
    assert_eq!(config, object(json!({"layers": [0.25, 7], "kind": {"b": 0.5}})));
    let mut paths: Vec<&str> = drawn.iter().map(|(path, _)| &**path).collect();
    paths.sort_unstable();
    assert_eq!(paths, ["kind", "kind.b", "layers.0"]);
}
