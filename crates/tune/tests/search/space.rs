//! Domains, their JSON form, nesting, closures, and what is wrong with a space.

use std::collections::BTreeMap;

use pavlov_tune::search::{
    BasicVariantConfig, BasicVariantGenerator, Domain, SearchSpace, Searcher, choice, grid_search,
    lograndint, loguniform, qlograndint, qloguniform, qrandint, qrandn, quniform, randint, randn, uniform,
};
use pavlov_tune::{Config, Result};
use serde_json::{Value, json};

use super::{ready, trial};
use crate::counter::object;

fn random() -> BasicVariantGenerator {
    BasicVariantGenerator::new(BasicVariantConfig::default())
}

fn first(space: impl Into<SearchSpace>) -> Config {
    trial(&mut ready(random(), space), "").0
}

fn refusal(space: impl Into<SearchSpace>) -> String {
    let mut searcher = random();
    let set = searcher.set_search_properties(None, &space.into());
    set.and_then(|()| searcher.suggest("").map(drop)).unwrap_err().to_string()
}

#[test]
fn the_functions_write_what_a_file_would() {
    let pairs = [
        (uniform(0.5, 1.0), json!({"uniform": [0.5, 1.0]})),
        (quniform(0.0, 1.0, 0.25), json!({"quniform": [0.0, 1.0, 0.25]})),
        (loguniform(1e-4, 1e-1), json!({"loguniform": [1e-4, 1e-1]})),
        (qloguniform(0.1, 1.0, 0.1), json!({"qloguniform": [0.1, 1.0, 0.1]})),
        (randn(1.0, 2.0), json!({"randn": [1.0, 2.0]})),
        (qrandn(1.0, 2.0, 0.5), json!({"qrandn": [1.0, 2.0, 0.5]})),
        (randint(1, 5), json!({"randint": [1, 5]})),
        (qrandint(0, 10, 5), json!({"qrandint": [0, 10, 5]})),
        (lograndint(1, 100), json!({"lograndint": [1, 100]})),
        (qlograndint(10, 100, 10), json!({"qlograndint": [10, 100, 10]})),
        (choice(["a", "b"]), json!({"choice": ["a", "b"]})),
        (grid_search([1, 2]), json!({"grid_search": [1, 2]})),
    ];
    for (domain, form) in pairs {
        assert_eq!(json!(domain), form);
        assert_eq!(Domain::parse("x", &form).unwrap(), Some(domain));
    }
    assert_eq!(Domain::parse("x", &json!({"randn": []})).unwrap(), Some(randn(0.0, 1.0)));
    assert_eq!(Domain::parse("x", &json!({"loguniform": [1, 8, 2]})).unwrap(), Some(loguniform(1.0, 8.0)));
}

#[test]
fn a_toml_file_is_the_same_space() {
    let file = "lr = { loguniform = [1e-4, 1e-2] }\n[model]\nlayers = { choice = [[64, 64], [256]] }";
    let tree: Config = toml::from_str(file).unwrap();
    let same = json!({
        "lr": loguniform(1e-4, 1e-2),
        "model": {"layers": choice([vec![64, 64], vec![256]])},
    });
    assert_eq!(SearchSpace::from(tree).as_json(), &same);
}

/// Hand arithmetic on the definitions: the value at the quantile is the inverse of the cumulative distribution.
#[test]
fn values_lie_at_their_quantiles() {
    let at = |domain: Domain, u: f64| domain.at(u).as_f64().unwrap();
    assert_eq!(at(uniform(2.0, 4.0), 0.25), 2.5);
    assert_eq!(at(quniform(0.0, 1.0, 0.1), 0.32), 0.3);
    assert_eq!([0.0, 0.049, 0.051, 0.96].map(|u| at(quniform(0.0, 1.0, 0.1), u)), [0.0, 0.0, 0.1, 1.0]);
    assert!((at(loguniform(1e-4, 1e-2), 0.5) - 1e-3).abs() < 1e-15);
    assert_eq!([0.0, 0.19, 0.2, 0.99].map(|u| at(randint(0, 5), u)), [0.0, 0.0, 1.0, 4.0]);
    assert_eq!([0.0, 0.34, 0.99].map(|u| at(qrandint(1, 30, 10), u)), [10.0, 20.0, 30.0]);
    assert_eq!([0.0, 0.5, 0.51].map(|u| at(qrandint(1, 2, 1), u)), [1.0, 2.0, 2.0]);
    assert_eq!([-7, -5].map(|low| at(qrandint(low, 4, 5), 0.0)), [-5.0, -5.0]);
    // 1, 10, 100 are a third of the way apart from 1 to 1000.
    assert_eq!([0.0, 0.334, 0.667, 0.9999].map(|u| at(lograndint(1, 1000), u)), [1.0, 10.0, 100.0, 999.0]);
    assert_eq!(at(qlograndint(10, 100, 10), 0.0), 10.0);
    assert_eq!(at(qlograndint(10, 100, 10), 0.9999), 100.0);
    assert_eq!(choice(["a", "b"]).at(0.5), json!("b"));
    // Python 3.11, statistics.NormalDist().inv_cdf
    let normal = [
        (0.001, -3.090232306167813),
        (0.01, -2.3263478740408408),
        (0.3, -0.5244005127080407),
        (0.9, 1.2815515655446008),
        (0.99999, 4.26489079392384),
    ];
    for (u, z) in normal {
        assert!((at(randn(10.0, 2.0), u) - (10.0 + 2.0 * z)).abs() < 1e-7, "{u}");
    }
    assert_eq!(at(qrandn(0.0, 1.0, 0.5), 0.9), 1.5);
}

#[test]
fn upper_bounds_are_not_drawn_except_by_steps() {
    let last = 1.0_f64.next_down();
    for domain in [uniform(0.1, 0.3), loguniform(0.1, 0.3)] {
        assert!(domain.at(last).as_f64().unwrap() < 0.3);
    }
    assert_eq!(randint(0, 3).at(last), json!(2));
    assert_eq!(lograndint(1, 3).at(last), json!(2));
    assert_eq!(quniform(0.1, 0.3, 0.1).at(last), json!(0.3));
}

#[test]
fn only_the_chosen_branch_is_drawn() {
    let space = json!({"optimizer": {"choice": [
        {"type": "adam"},
        {"type": "sgd", "momentum": uniform(0.5, 0.9), "nesterov": choice([true, false])},
    ]}});
    let mut searcher = ready(random(), space);
    let mut seen = BTreeMap::new();
    for _ in 0..40 {
        let (config, drawn) = trial(&mut searcher, "");
        let optimizer = config["optimizer"].as_object().unwrap();
        let paths: Vec<String> = drawn.into_iter().map(|(path, _)| path).collect();
        *seen.entry(optimizer["type"].to_string()).or_insert(0) += 1;
        if optimizer["type"] == "adam" {
            assert_eq!(paths, ["optimizer"]);
        } else {
            assert_eq!(paths, ["optimizer", "optimizer.momentum", "optimizer.nesterov"]);
            assert!(optimizer["momentum"].is_f64() && optimizer["nesterov"].is_boolean());
        }
    }
    assert_eq!(seen.len(), 2, "{seen:?}");
}

#[test]
fn a_literal_is_left_as_it_is() {
    let config = first(json!({
        "a": {"literal": {"choice": [1, 2]}},
        "b": {"literal": {"literal": {"uniform": [0, 1]}}},
        "c": {"literal": [{"grid_search": []}]},
    }));
    let expected = json!({
        "a": {"choice": [1, 2]},
        "b": {"literal": {"uniform": [0, 1]}},
        "c": [{"grid_search": []}],
    });
    assert_eq!(config, object(expected));
}

#[test]
fn closures_read_draws_and_each_other_in_any_order() {
    let space = SearchSpace::from(json!({"lr": {"choice": [0.5]}, "model": {"depth": {"choice": [3]}}}))
        .sample_from("lr_end", |config, _| Ok(json!(config.number("lr_mid")? / 2.0)))
        .sample_from("lr_mid", |config, _| Ok(json!(config.number("lr")? / 2.0)))
        .sample_from("model.width", |config, _| Ok(json!(config.number("model.depth")? * 10.0)));
    let config = first(space);
    let expected = json!({"lr": 0.5, "model": {"depth": 3, "width": 30.0}, "lr_end": 0.125, "lr_mid": 0.25});
    assert_eq!(config, object(expected));
}

#[test]
fn closures_draw_the_same_numbers_for_the_same_trial() {
    let space = || {
        SearchSpace::from(json!({}))
            .sample_from("a", |_, random| random.sample(&uniform(0.0, 1.0)))
            .sample_from("b", |_, random| random.sample(&uniform(0.0, 1.0)))
    };
    assert_eq!(first(space()), first(space()));
    assert_ne!(first(space())["a"], first(space())["b"]);
}

#[test]
fn closures_that_wait_for_each_other_are_refused() {
    let space = SearchSpace::default()
        .sample_from("a", |config, _| config.get("b").cloned())
        .sample_from("b", |config, _| config.get("a").cloned());
    assert_eq!(
        refusal(space),
        "`a`, `b` is computed by closures, but they wait for each other (recursive dependency), the last one for `a`"
    );
}

#[test]
fn a_closure_with_a_misspelt_setting_or_place_is_told() {
    let misspelt = SearchSpace::from(json!({"model": {"depth": 3}}))
        .sample_from("x", |config, _| config.get("model.dept").cloned());
    assert_eq!(
        refusal(misspelt),
        "`model.dept` is missing: a closure reads it; nearest setting there: `depth`"
    );
    let nothing = |_: &pavlov_tune::search::Drawn<'_>,
                   _: &mut pavlov_tune::search::Random|
     -> Result<Value> { Ok(Value::Null) };
    let space = || SearchSpace::from(json!({"lr": uniform(0.0, 1.0), "list": [1]}));
    for (path, rule) in [
        ("lr", "a domain stands there already"),
        ("lr.end", "through a value that is no object or list"),
        ("list.1", "an existing item of the list"),
        ("a..b", "a name between any two dots"),
    ] {
        let refusal = refusal(space().sample_from(path, nothing));
        assert!(refusal.contains(rule), "{path}: {refusal}");
    }
}

#[test]
fn what_is_wrong_with_a_domain_names_path_value_and_rule() {
    let cases = [
        (json!({"uniform": [1, 0]}), "the lower bound must be below the upper bound"),
        (json!({"uniform": [1, 1]}), "the lower bound must be below the upper bound"),
        (json!({"uniform": [0]}), "it must be written [low, high]"),
        (json!({"uniform": ["0", 1]}), "its arguments must be numbers"),
        (json!({"uniform": [0.0, f64::NAN]}), "its arguments must be numbers"),
        (json!({"quniform": [0, 1, 0.3]}), "its bound 1 must be a multiple of q = 0.3"),
        (json!({"quniform": [0, 1, 0]}), "q must be above 0"),
        (json!({"loguniform": [0, 1]}), "the bounds must be above 0"),
        (json!({"loguniform": [-4, -1]}), "the bounds must be above 0"),
        (json!({"loguniform": [1, 2, 1]}), "the base must be a number above 0 and not 1"),
        (json!({"lograndint": [0, 5]}), "the bounds must be above 0"),
        (json!({"randint": [0.5, 5]}), "its arguments must be integers"),
        (json!({"randint": [5, 5]}), "the lower bound must be below the upper bound"),
        (json!({"qrandint": [11, 19, 10]}), "there must be a multiple of q = 10 between its bounds"),
        (json!({"randn": [0, 0]}), "the standard deviation must be above 0"),
        (json!({"choice": []}), "it needs at least one value to take"),
        (json!({"grid_search": []}), "it needs at least one value to take"),
        (json!({"choice": 3}), "`choice` takes a list"),
        (json!({"unifrom": [0, 1]}), "there is no domain `unifrom`; nearest: `uniform`"),
        (json!({"normal": [0, 1]}), "there is no domain `normal`; nearest: `randn`"),
        (json!({"choice": [{"x": {"grid_search": [1]}}]}), "a grid cannot stand inside `choice`"),
        (json!({"sample_from": "lambda: 1"}), "`sample_from` cannot be written in a file"),
        (json!({"eval": "spec.config.lr"}), "`eval` cannot be written in a file"),
    ];
    for (domain, rule) in cases {
        let refusal = refusal(json!({"model": [0, {"lr": domain}]}));
        assert!(refusal.starts_with("`model.1.lr") && refusal.contains(rule), "{domain}: {refusal}");
    }
    assert_eq!(
        refusal(json!({"lr": {"uniform": [0.1, 0.01]}})),
        "`lr` is {\"uniform\":[0.1,0.01]}, but the lower bound must be below the upper bound"
    );
    assert!(refusal(json!([1])).contains("it must be an object"));
}

#[test]
fn objects_that_resemble_no_domain_are_settings() {
    let plain =
        json!({"env_config": {"size": [1, 2]}, "exploration": {"epsilon": 0.1}, "x": {"uniforms": 3}});
    assert_eq!(first(plain.clone()), object(plain));
}
