//! Layers over defaults, assignments, and the typed decode.

use std::collections::BTreeMap;

use pavlov_tune::config::{Layer, assign, decode, nearest, overlay, parse_assignment};
use pavlov_tune::{Config, Error};
use serde::Deserialize;
use serde_json::json;

use crate::counter::object;

fn defaults() -> Config {
    object(json!({
        "lr": 5e-5,
        "num_workers": 0,
        "train_batch_size": 4000,
        "model": {"fcnet_hiddens": [256, 256], "vf_share_layers": false},
        "exploration_config": {"type": "EpsilonGreedy", "final_epsilon": 0.02},
        "env_config": {},
        "seed": null,
    }))
}

fn layer(origin: &str, values: serde_json::Value) -> Layer {
    Layer { origin: origin.into(), values: object(values) }
}

fn refusal(values: serde_json::Value) -> String {
    overlay(&defaults(), vec![layer("run.toml", values)], &["env_config"]).unwrap_err().to_string()
}

#[test]
fn later_layers_win_key_by_key_and_each_key_knows_its_origin() {
    let layers = vec![
        layer("preset", json!({"lr": 1e-3, "model": {"fcnet_hiddens": [64, 64]}})),
        layer("--set", json!({"lr": 1, "seed": 0, "env_config": {"size": {"x": 5}}})),
    ];
    let resolved = overlay(&defaults(), layers, &["env_config"]).unwrap();
    assert_eq!(
        resolved.config,
        object(json!({
            "lr": 1,
            "num_workers": 0,
            "train_batch_size": 4000,
            "model": {"fcnet_hiddens": [64, 64], "vf_share_layers": false},
            "exploration_config": {"type": "EpsilonGreedy", "final_epsilon": 0.02},
            "env_config": {"size": {"x": 5}},
            "seed": 0,
        }))
    );
    let expected = [
        ("env_config.size.x", "--set"),
        ("exploration_config.final_epsilon", "default"),
        ("exploration_config.type", "default"),
        ("lr", "--set"),
        ("model.fcnet_hiddens", "preset"),
        ("model.vf_share_layers", "default"),
        ("num_workers", "default"),
        ("seed", "--set"),
        ("train_batch_size", "default"),
    ];
    let expected: BTreeMap<String, String> =
        expected.into_iter().map(|(key, origin)| (key.into(), origin.into())).collect();
    let mut origins = resolved.origins;
    // An empty object is a value of its own until something is in it.
    assert_eq!(origins.remove("env_config").as_deref(), Some("default"));
    assert_eq!(origins, expected);
}

#[test]
fn an_unknown_key_is_refused_with_its_origin_and_the_nearest_one() {
    assert_eq!(
        refusal(json!({"num_worker": 2})),
        "unknown setting `num_worker` (from run.toml); nearest: `num_workers`"
    );
    assert_eq!(
        refusal(json!({"model": {"fcnet_hidens": [8]}})),
        "unknown setting `model.fcnet_hidens` (from run.toml); nearest: `model.fcnet_hiddens`"
    );
    assert_eq!(
        refusal(json!({"vf_share_layers": true})),
        "unknown setting `vf_share_layers` (from run.toml); nearest: `model.vf_share_layers`"
    );
    assert_eq!(
        refusal(json!({"model": {"banana": 1}})),
        "unknown setting `model.banana` (from run.toml); settings there: model.fcnet_hiddens, model.vf_share_layers"
    );
}

#[test]
fn new_keys_are_welcome_only_below_open_ones() {
    let values = || vec![layer("x", json!({"env_config": {"gravity": 9.8}}))];
    assert!(overlay(&defaults(), values(), &["env_config"]).is_ok());
    assert_eq!(
        overlay(&defaults(), values(), &["env"]).unwrap_err().to_string(),
        "unknown setting `env_config.gravity` (from x); no settings are expected there"
    );
}

#[test]
fn an_object_whose_type_changes_is_replaced_whole() {
    let replaced = json!({"type": "GaussianNoise", "stddev": 0.1});
    let resolved =
        overlay(&defaults(), vec![layer("x", json!({"exploration_config": replaced}))], &[]).unwrap();
    assert_eq!(resolved.config["exploration_config"], replaced);
    assert!(!resolved.origins.contains_key("exploration_config.final_epsilon"));
    let kept = json!({"exploration_config": {"type": "EpsilonGreedy", "final_epsilon": 0.1}});
    let resolved = overlay(&defaults(), vec![layer("x", kept)], &[]).unwrap();
    assert_eq!(resolved.config["exploration_config"], json!({"type": "EpsilonGreedy", "final_epsilon": 0.1}));
}

#[derive(Debug, PartialEq, Deserialize)]
struct Settings {
    lr: f64,
    workers: usize,
    model: Model,
    mode: Mode,
}

#[derive(Debug, PartialEq, Deserialize)]
struct Model {
    hiddens: Vec<u32>,
}

#[derive(Debug, PartialEq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Mode {
    Fast,
    Slow,
}

#[test]
fn decode_takes_whole_numbers_for_floats() {
    let config = object(json!({"lr": 1, "workers": 2, "model": {"hiddens": [64]}, "mode": "fast"}));
    let settings: Settings = decode(&config).unwrap();
    assert_eq!(
        settings,
        Settings { lr: 1.0, workers: 2, model: Model { hiddens: vec![64] }, mode: Mode::Fast }
    );
}

#[test]
fn decode_names_the_key_the_value_and_the_rule() {
    let good = json!({"lr": 1, "workers": 2, "model": {"hiddens": [64]}, "mode": "fast"});
    for (path, bad, message) in [
        (vec!["lr"], json!("fast"), "`lr` is \"fast\", but it must be a number"),
        (vec!["workers"], json!(-1), "`workers` is -1, but it must be a whole number, 0 or more"),
        (
            vec!["model", "hiddens"],
            json!([64, "x"]),
            "`model.hiddens[1]` is \"x\", but it must be a whole number, 0 or more",
        ),
        (vec!["model"], json!({}), "`model.hiddens` is missing: it has no default, so give it a value"),
        (vec!["mode"], json!("fats"), "`mode` is \"fats\", but it must be `fast` or `slow`"),
        (vec!["model"], json!(3), "`model` is 3, but it must be an object with settings"),
    ] {
        let mut config: Config = object(good.clone());
        let path: Vec<String> = path.into_iter().map(String::from).collect();
        assign(&mut config, &path, bad);
        assert_eq!(decode::<Settings>(&config).unwrap_err().to_string(), message);
    }
}

#[test]
fn assignments_are_toml_values_or_else_text() {
    for (text, path, value) in [
        ("lr=3e-4", vec!["lr"], json!(3e-4)),
        ("num_workers = 2", vec!["num_workers"], json!(2)),
        ("model.fcnet_hiddens=[64, 64]", vec!["model", "fcnet_hiddens"], json!([64, 64])),
        ("a.b.c=true", vec!["a", "b", "c"], json!(true)),
        ("env=CartPole-v1", vec!["env"], json!("CartPole-v1")),
        ("name=\"3\"", vec!["name"], json!("3")),
        ("seed=null", vec!["seed"], json!(null)),
        ("x={type = \"Gaussian\", n = 1}", vec!["x"], json!({"type": "Gaussian", "n": 1})),
        ("expression=a=b", vec!["expression"], json!("a=b")),
        ("empty=", vec!["empty"], json!("")),
        ("steps=150_000", vec!["steps"], json!(150_000)),
        ("day=2022-01-31", vec!["day"], json!("2022-01-31")),
    ] {
        let (parsed, parsed_value) = parse_assignment(text).unwrap();
        assert_eq!(
            (parsed.iter().map(String::as_str).collect::<Vec<_>>(), parsed_value),
            (path, value),
            "{text}"
        );
    }
}

#[test]
fn bad_assignments_are_shown_with_the_remedy() {
    for (text, message) in [
        ("lr", "cannot read `lr` as a setting: write it as key=value, e.g. lr=3e-4"),
        (
            "model..x=1",
            "cannot read `model..x=1` as a setting: a key must not be empty; nested ones are written \
             model.fcnet_hiddens=[64, 64]",
        ),
        ("lr=nan", "cannot read `lr=nan` as a setting: settings cannot be nan or inf"),
    ] {
        let error = parse_assignment(text).unwrap_err();
        assert!(matches!(error, Error::Assignment { .. }));
        assert_eq!(error.to_string(), message);
    }
}

#[test]
fn nearest_allows_a_third_of_the_letters_to_differ() {
    let known = ["gamma", "lambda", "lr"];
    assert_eq!(nearest("gama", known), Some("gamma"));
    assert_eq!(nearest("lamdba", known), Some("lambda"));
    assert_eq!(nearest("LR", known), Some("lr"));
    assert_eq!(nearest("horizon", known), None);
}
