//! Stoppers against the real ones of Ray Tune, recorded by `record_ray_schedulers.py`, and where they differ.

use std::path::Path;
use std::time::Duration;

use pavlov_tune::Result;
use pavlov_tune::stoppers::{
    CombinedStopper, ExperimentPlateauConfig, ExperimentPlateauStopper, FunctionStopper,
    MaximumIterationStopper, NoopStopper, Stopper, StoppingCriteria, TimeoutStopper, TrialPlateauConfig,
    TrialPlateauStopper,
};
use serde_json::{Value, json};

use crate::counter::object;

fn recorded(name: &str, settings: &Value) -> Box<dyn Stopper> {
    let settings = settings.clone();
    match name {
        "MaximumIterationStopper" => {
            Box::new(MaximumIterationStopper::new(settings["max_iter"].as_u64().unwrap()))
        }
        "TrialPlateauStopper" => {
            Box::new(TrialPlateauStopper::new(serde_json::from_value(settings).unwrap()).unwrap())
        }
        "ExperimentPlateauStopper" => {
            Box::new(ExperimentPlateauStopper::new(serde_json::from_value(settings).unwrap()).unwrap())
        }
        other => panic!("{other}"),
    }
}

#[test]
fn every_answer_is_rays() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/ray_stoppers.jsonl");
    let text = std::fs::read_to_string(path).unwrap();
    let mut stopped = 0;
    let mut went_on = 0;
    for case in text.lines().skip(1).map(|line| serde_json::from_str::<Value>(line).unwrap()) {
        let mut stopper = recorded(case["stopper"].as_str().unwrap(), &case["settings"]);
        for (step, call) in case["calls"].as_array().unwrap().iter().enumerate() {
            let stop = stopper.should_stop(&format!("t{}", call[0]), &object(call[1].clone())).unwrap();
            let all = stopper.stop_all(Duration::ZERO);
            assert_eq!(
                [json!(stop), json!(all)],
                [call[2].clone(), call[3].clone()],
                "{} {}, call {step}",
                case["stopper"],
                case["settings"]
            );
            *(if stop { &mut stopped } else { &mut went_on }) += 1;
        }
    }
    assert!(stopped > 50 && went_on > 50, "{stopped} stopped, {went_on} went on");
}

fn score(value: impl Into<Value>) -> pavlov_tune::Metrics {
    object(json!({"score": value.into()}))
}

#[test]
fn every_stopper_of_a_combination_sees_every_result() {
    let config = ExperimentPlateauConfig { metric: "score".into(), top: 2, ..Default::default() };
    let mut all = CombinedStopper::new(vec![
        Box::new(FunctionStopper::new(|trial_id, _| trial_id == "t0")),
        Box::new(ExperimentPlateauStopper::new(config).unwrap()),
    ]);
    assert!(all.should_stop("t0", &score(1)).unwrap());
    assert!(!all.stop_all(Duration::ZERO));
    // Ray's second stopper would have missed the first result.
    assert!(all.should_stop("t1", &score(1)).unwrap());
    assert!(all.stop_all(Duration::ZERO));
}

#[test]
fn a_timeout_counts_the_time_that_the_sweep_has_run() {
    let stopper = TimeoutStopper::new(Duration::from_secs(60));
    assert!(!stopper.stop_all(Duration::from_secs(59)));
    assert!(stopper.stop_all(Duration::from_secs(60)));
    assert!(!NoopStopper.stop_all(Duration::MAX));
}

#[test]
fn null_is_no_plateau_and_no_result_of_a_sweep() {
    let config =
        TrialPlateauConfig { metric: "score".into(), num_results: 2, grace_period: 1, ..Default::default() };
    let mut trial = TrialPlateauStopper::new(config).unwrap();
    let answers = [json!(1), Value::Null, json!(1), json!(1)]
        .map(|value| trial.should_stop("t0", &score(value)).unwrap());
    assert_eq!(answers, [false, false, false, true]);
    let config = ExperimentPlateauConfig { metric: "score".into(), top: 2, ..Default::default() };
    let mut sweep = ExperimentPlateauStopper::new(config).unwrap();
    let answers = [Value::Null, json!(1), Value::Null, json!(1)]
        .map(|value| sweep.should_stop("t0", &score(value)).unwrap());
    assert_eq!(answers, [false, false, false, true]);
    let message = sweep.should_stop("t0", &object(json!({"scores": 1}))).unwrap_err().to_string();
    assert!(message.contains("the metric of ExperimentPlateauStopper; nearest: `scores`"), "{message}");
}

#[test]
fn settings_of_plateaus_out_of_range_are_refused() {
    let trial = |change: fn(&mut TrialPlateauConfig)| {
        let mut config = TrialPlateauConfig { metric: "score".into(), ..Default::default() };
        change(&mut config);
        TrialPlateauStopper::new(config).map(drop)
    };
    let sweep = |change: fn(&mut ExperimentPlateauConfig)| {
        let mut config = ExperimentPlateauConfig { metric: "score".into(), ..Default::default() };
        change(&mut config);
        ExperimentPlateauStopper::new(config).map(drop)
    };
    assert!(trial(|_| {}).is_ok() && sweep(|_| {}).is_ok());
    for (refused, expected) in [
        (trial(|config| config.metric.clear()), "it must name a key of the results"),
        (trial(|config| config.std = 0.0), "std` is 0, but it must be above 0"),
        (trial(|config| config.num_results = 0), "num_results` is 0"),
        (trial(|config| config.metric_threshold = Some(1.0)), "mode` is missing: "),
        (sweep(|config| config.metric.clear()), "it must name a key of the results"),
        (sweep(|config| config.std = -1.0), "std` is -1, but it must be above 0"),
        (sweep(|config| config.top = 1), "top` is 1, but it must be 2 or more"),
    ] {
        let message = refused.unwrap_err().to_string();
        assert!(message.contains(expected), "{message}");
    }
}

fn criteria(config: Value) -> StoppingCriteria {
    StoppingCriteria::new(&object(config)).unwrap()
}

#[test]
fn any_criterion_ends_a_trial_from_its_value_on_and_null_never_does() {
    let mut criteria = criteria(json!({"training_iteration": 40, "a/b": 3, "c": {"d": 0.5}}));
    let mut stop = |iteration: u64, b: Value, d: f64| {
        let result = object(json!({"training_iteration": iteration, "a": {"b": b}, "c": {"d": d}}));
        criteria.should_stop("t0", &result).unwrap()
    };
    assert!(!stop(39, json!(2.9), 0.4));
    assert!(!stop(39, Value::Null, 0.4));
    assert!(stop(39, json!(3), 0.4));
    assert!(stop(40, json!(0), 0.4));
    assert!(stop(1, json!(0), 0.5));
    let met = criteria.met(&object(json!({"training_iteration": 41}))).unwrap().unwrap();
    assert_eq!((met.key.as_str(), met.limit, met.value), ("training_iteration", 40.0, 41.0));
}

#[test]
fn a_criterion_that_no_result_carries_is_refused_at_once_with_the_nearest_key() {
    let stop = |criteria: &mut StoppingCriteria, result: Value| -> Result<bool> {
        criteria.should_stop("t0", &object(result))
    };
    let mut wrong = criteria(json!({"timestep_total": 5}));
    assert_eq!(
        stop(&mut wrong, json!({"timesteps_total": 1})).unwrap_err().to_string(),
        "the result of trial t0 has no `timestep_total`, the stop criterion; nearest: `timesteps_total`"
    );
    let mut seen = criteria(json!({"reward": 5}));
    assert!(!stop(&mut seen, json!({"reward": null})).unwrap());
    assert!(!stop(&mut seen, json!({"x": 1})).unwrap(), "an earlier result carried it");
    let mut later = criteria(json!({"evaluation/reward": 5})).later(["evaluation"]);
    assert!(!stop(&mut later, json!({"x": 1})).unwrap());
    assert!(!stop(&mut later, json!({"evaluation": {}})).unwrap());
    let message = stop(&mut later, json!({"evaluation": {"rewards": 1}})).unwrap_err().to_string();
    assert!(message.contains("nearest: `evaluation/rewards`"), "{message}");
    assert!(stop(&mut later, json!({"evaluation": {"reward": 6}})).unwrap());
}

#[test]
fn a_later_number_replaces_a_criterion_and_null_removes_it() {
    let mut criteria = criteria(json!({"a": 1, "b": {"c": 2}, "d": 3}));
    criteria.lay_over(&object(json!({"b/c": null, "a": 4}))).unwrap();
    assert_eq!(criteria.to_config(), object(json!({"d": 3.0, "a": 4.0})));
    assert_eq!((criteria.limit("a"), criteria.limit("b/c"), criteria.is_empty()), (Some(4.0), None, false));
    let message = criteria.lay_over(&object(json!({"e": "many"}))).unwrap_err().to_string();
    assert!(message.contains(r#"`stop.e` is "many", but it must be a number"#), "{message}");
}
