//! Searchers that learn.

use pavlov_tune::search::{
    SearchSpace, Searcher, TpeConfig, TpeSearch, TuneBohb, TuneBohbConfig, choice, grid_search, loguniform,
    randint, uniform,
};
use pavlov_tune::{Config, Metrics, Objective};
use serde_json::{Value, json};

use super::{loss, ready, trial};
use crate::counter::object;

fn tpe(settings: Value) -> TpeSearch {
    TpeSearch::new(serde_json::from_value::<TpeConfig>(settings).unwrap())
}

fn bohb(settings: Value) -> TuneBohb {
    TuneBohb::new(serde_json::from_value::<TuneBohbConfig>(settings).unwrap())
}

fn number(config: &Config, key: &str) -> f64 {
    config[key].as_f64().unwrap()
}

/// Runs `trials`, the loss of each by `objective`; the settings of all.
fn run(searcher: &mut impl Searcher, trials: usize, objective: impl Fn(&Config) -> f64) -> Vec<Config> {
    let run_one = |index: usize| {
        let id = index.to_string();
        let (config, _) = trial(searcher, &id);
        searcher.on_trial_complete(&id, Some(&loss(objective(&config)))).unwrap();
        config
    };
    (0..trials).map(run_one).collect()
}

fn mixed() -> SearchSpace {
    json!({
        "lr": loguniform(1e-5, 1e-1),
        "epochs": randint(1, 31),
        "activation": choice(["tanh", "relu", "elu"]),
    })
    .into()
}

/// 0 at lr 1e-3, 10 epochs, relu.
fn bowl(config: &Config) -> f64 {
    (number(config, "lr").log10() + 3.0).powi(2)
        + ((number(config, "epochs") - 10.0) / 10.0).powi(2)
        + if config["activation"] == "relu" { 0.0 } else { 0.5 }
}

/// At random a draw has a loss below 0.25 with probability 1/3 (relu) x pi/4 x (1 decade x 10 epochs) / (4 x 30) = 0.02,
/// so four of twenty have one in less than a thousandth of all runs.
#[test]
fn tpe_gathers_where_results_are_good() {
    for seed in 0..3 {
        let configs = run(&mut ready(tpe(json!({ "seed": seed })), mixed()), 60, bowl);
        let good = configs[40..].iter().filter(|config| bowl(config) < 0.25).count();
        assert!(good >= 4, "seed {seed}: {good} of the last 20 trials are good");
    }
}

#[test]
fn a_branch_learns_from_its_own_trials() {
    let space = json!({"optimizer": choice([
        json!({"type": "adam", "beta": uniform(0.0, 1.0)}),
        json!({"type": "sgd", "momentum": uniform(0.0, 1.0)}),
    ])});
    let objective = |config: &Config| match config["optimizer"]["momentum"].as_f64() {
        Some(momentum) => (momentum - 0.8).abs(),
        None => 1.0,
    };
    let configs = run(&mut ready(tpe(json!({})), space), 50, objective);
    let close = configs[30..].iter().filter(|config| objective(config) < 0.1).count();
    // At random, one in ten: seven or more of twenty in 0.2 % of all runs.
    assert!(close >= 7, "{close} of the last 20 trials are close");
}

#[test]
fn the_order_in_which_trials_end_changes_nothing() {
    let suggested_after = |order: &[usize]| {
        let mut searcher = ready(tpe(json!({"n_initial_points": 4})), mixed());
        let configs: Vec<Config> = (0..12).map(|index| trial(&mut searcher, &index.to_string()).0).collect();
        for index in order {
            let result = loss(bowl(&configs[*index]));
            searcher.on_trial_complete(&index.to_string(), Some(&result)).unwrap();
        }
        trial(&mut searcher, "next").0
    };
    let forward: Vec<usize> = (0..12).collect();
    let backward: Vec<usize> = (0..12).rev().collect();
    assert_eq!(suggested_after(&forward), suggested_after(&backward));
    assert_ne!(suggested_after(&forward), suggested_after(&forward[..4]), "but the results do");
}

#[test]
fn failed_trials_and_those_without_a_number_teach_nothing() {
    let suggested = |tell: bool| {
        let mut searcher = ready(tpe(json!({"n_initial_points": 2})), mixed());
        for index in 0..6 {
            let id = index.to_string();
            let (config, _) = trial(&mut searcher, &id);
            match index % 3 {
                0 => searcher.on_trial_complete(&id, Some(&loss(bowl(&config)))).unwrap(),
                1 if tell => searcher.on_trial_complete(&id, None).unwrap(),
                2 if tell => searcher.on_trial_complete(&id, Some(&object(json!({"loss": null})))).unwrap(),
                _ => {}
            }
        }
        trial(&mut searcher, "next").0
    };
    assert_eq!(suggested(true), suggested(false));
}

#[test]
fn points_come_first_and_known_ones_are_not_run() {
    let points = json!([{"lr": 1e-3, "epochs": 10, "activation": "relu"}, {"lr": 1e-4}]);
    let mut searcher = ready(tpe(json!({"points_to_evaluate": points})), mixed());
    assert_eq!(trial(&mut searcher, "0").0, object(points[0].clone()));
    let second = trial(&mut searcher, "1").0;
    assert_eq!(second["lr"], 1e-4);
    assert!((1..31).contains(&second["epochs"].as_i64().unwrap()));

    // Ten known points, good ones near lr 1e-3: the model has them before the first trial.
    let known: Vec<Value> = (0..20)
        .map(|index| json!({"lr": 10_f64.powf(-4.9 + 0.19 * f64::from(index)), "epochs": 10, "activation": "relu"}))
        .collect();
    let rewards: Vec<f64> = known.iter().map(|point| bowl(&object(point.clone()))).collect();
    let settings = json!({"points_to_evaluate": known, "evaluated_rewards": rewards});
    let (config, _) = trial(&mut ready(tpe(settings), mixed()), "0");
    assert!(!known.contains(&Value::from(config.clone())));
    assert!((number(&config, "lr").log10() + 3.0).abs() < 1.0, "{config:?}");
}

#[test]
fn what_tpe_cannot_search_is_refused() {
    let refusal = |settings: Value, metric: Option<&str>, space: Value| {
        let objective = metric.map(Objective::minimize);
        tpe(settings).set_search_properties(objective.as_ref(), &space.into()).unwrap_err().to_string()
    };
    let space = || json!({"lr": uniform(0.0, 1.0)});
    for (refusal, rule) in [
        (refusal(json!({}), Some("loss"), json!({"a": {"b": grid_search([1])}})), "`a.b` is a grid_search"),
        (refusal(json!({}), None, space()), "metric"),
        (refusal(json!({"gamma": 0.0}), Some("loss"), space()), "above 0 and at most 1"),
        (refusal(json!({"n_ei_candidates": 0}), Some("loss"), space()), "1 or more"),
        (
            refusal(
                json!({"points_to_evaluate": [{"lr": 0.5}], "evaluated_rewards": [1, 2]}),
                Some("loss"),
                space(),
            ),
            "one for each of the 1 points_to_evaluate",
        ),
        (
            refusal(json!({"points_to_evaluate": [{}], "evaluated_rewards": [1]}), Some("loss"), space()),
            "must set every parameter",
        ),
    ] {
        assert!(refusal.contains(rule), "{refusal}");
    }
    let mut searcher = ready(tpe(json!({})), space());
    trial(&mut searcher, "0");
    let result = object(json!({"los": 1}));
    let missing = searcher.on_trial_complete("0", Some(&result)).unwrap_err().to_string();
    assert!(missing.contains("`loss`") && missing.contains("`los`"), "{missing}");
}

fn at(budget: u64, value: f64) -> Metrics {
    object(json!({"training_iteration": budget, "loss": value}))
}

/// Low losses at budget 1 are at low x, at budget 9 at high x: the model must follow the larger budget as soon as
/// enough trials have reached it.
#[test]
fn bohb_learns_at_the_largest_budget_that_enough_trials_reached() {
    let late = |reached: usize| {
        let settings = json!({"random_fraction": 0.0, "min_points_in_model": 6});
        let mut searcher = ready(bohb(settings), json!({"x": uniform(0.0, 1.0)}));
        let mut all: Vec<(String, f64)> = Vec::new();
        for index in 0..30 {
            let id = index.to_string();
            all.push((id.clone(), number(&trial(&mut searcher, &id).0, "x")));
        }
        for (id, x) in &all {
            searcher.on_trial_result(id, &at(1, *x)).unwrap();
        }
        for (id, x) in &all[..reached] {
            searcher.on_trial_result(id, &at(9, 1.0 - *x)).unwrap();
        }
        let next: Vec<f64> =
            (0..20).map(|index| number(&trial(&mut searcher, &format!("next {index}")).0, "x")).collect();
        next.iter().sum::<f64>() / next.len() as f64
    };
    assert!(late(5) < 0.4, "five trials are too few: {}", late(5));
    assert!(late(30) > 0.6, "{}", late(30));
}

#[test]
fn bohb_says_what_a_result_lacks() {
    let mut searcher = ready(bohb(json!({})), json!({"x": uniform(0.0, 1.0)}));
    trial(&mut searcher, "0");
    let refusal = searcher.on_trial_result("0", &loss(1.0)).unwrap_err().to_string();
    assert!(refusal.contains("`training_iteration`") && refusal.contains("the budget of BOHB"), "{refusal}");
}

#[test]
fn the_first_sixteen_points_of_tpe_lie_one_in_each_sixteenth() {
    let sixteenths = |sobol: bool| {
        let settings = json!({"sobol": sobol, "n_initial_points": 16, "seed": 3});
        let mut searcher = ready(tpe(settings), json!({"a": uniform(0.0, 1.0), "b": uniform(0.0, 1.0)}));
        let configs: Vec<Config> = (0..16).map(|index| trial(&mut searcher, &index.to_string()).0).collect();
        ["a", "b"].map(|key| {
            let places = configs.iter().map(|config| (16.0 * number(config, key)) as u64);
            places.collect::<std::collections::BTreeSet<u64>>().len()
        })
    };
    // Sobol's sequence is a net in base 2 in each dimension; sixteen random points leave sixteenths empty.
    assert_eq!(sixteenths(true), [16, 16]);
    assert!(sixteenths(false).iter().all(|filled| *filled < 16));
}

#[test]
fn more_parameters_than_sobols_sequence_has_dimensions_are_drawn() {
    let space: Config = (0..300).map(|index| (format!("p{index}"), uniform(0.0, 1.0).into())).collect();
    let mut searcher = ready(tpe(json!({})), Value::from(space));
    let (config, _) = trial(&mut searcher, "0");
    assert_eq!(config.len(), 300);
    assert_ne!(config["p255"], config["p299"]);
}

#[test]
fn tpe_asks_its_model_from_the_given_number_of_results_on() {
    let sixth = |n_initial_points: usize| {
        let settings = json!({"n_initial_points": n_initial_points, "seed": 1, "gamma": 1.0});
        run(&mut ready(tpe(settings), mixed()), 6, bowl).pop().unwrap()
    };
    assert_ne!(sixth(5), sixth(6));
    assert_eq!(sixth(6), sixth(60));
}
