//! Compares every decision of our schedulers with Ray's, as recorded by `tests/record_ray_schedulers.py`.
//!
//! These are unit tests because Ray's random draws replace ours, which the public interface does not allow.

use std::path::Path;

use serde_json::{Map, Value, json};

use super::draws::recorded;
use super::*;

/// One of our schedulers, driven by the recorded calls of Ray's.
struct Replay {
    scheduler: Box<dyn TrialScheduler>,
    trials: Vec<Trial>,
    resources: Resources,
    logs: tempfile::TempDir,
}

fn scenarios() -> Vec<Value> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/ray_schedulers.jsonl");
    let text = std::fs::read_to_string(path).unwrap();
    text.lines().skip(1).map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn scenario(name: &str) -> Value {
    scenarios().into_iter().find(|scenario| scenario["name"] == name).unwrap()
}

fn object<T: From<Map<String, Value>>>(value: &Value) -> T {
    value.as_object().unwrap().clone().into()
}

fn bundles(value: &Value) -> Vec<Bundle> {
    serde_json::from_value(value.clone()).unwrap()
}

/// Makes a result from a recorded pair of time and metric; "-" stands for an absent key.
fn result(short: &Value) -> Metrics {
    let keys = ["training_iteration", "score"].into_iter().zip(short.as_array().unwrap());
    keys.filter(|(_, value)| **value != json!("-")).map(|(key, value)| (key.into(), value.clone())).collect()
}

impl Replay {
    fn new(scenario: &Value) -> Self {
        recorded::start(scenario["draws"].as_array().unwrap().clone());
        let mut settings: Config = object(&scenario["scheduler"]);
        if settings.contains_key("hyperparam_mutations") {
            settings.insert("keep_in_domain".into(), false.into());
        }
        let mut scheduler = match settings.remove("custom") {
            None => from_config(&settings, 0).unwrap(),
            Some(_) => {
                settings.remove("type");
                let config = serde_json::from_value(Value::from(settings)).unwrap();
                let pbt = PopulationBasedTraining::new(config).unwrap();
                Box::new(pbt.custom_explore_fn(|mut config| {
                    let lr = config["lr"].as_f64().unwrap().min(0.5);
                    config.insert("lr".into(), lr.into());
                    Ok(config)
                }))
            }
        };
        let mode = serde_json::from_value(scenario["mode"].clone()).unwrap();
        scheduler.set_search_properties(Some(&Objective { metric: "score".into(), mode })).unwrap();
        scheduler.set_total_resources(&serde_json::from_value(scenario["total"].clone()).unwrap());
        let resources = Resources::new(bundles(&scenario["resources"])).unwrap();
        let logs = tempfile::tempdir().unwrap();
        Self { scheduler, trials: Vec::new(), resources, logs }
    }

    /// Repeats one call of the recording and checks that our scheduler answers like Ray's.
    fn check(&mut self, event: &Value, place: &str) {
        let index = event[1].as_u64().map(|index| index as usize);
        match (event[0].as_str().unwrap(), index) {
            ("add", _) => {
                let number = self.trials.len();
                let mut trial = Trial {
                    trial_id: format!("t{number}"),
                    config: object(&event[1]),
                    experiment_tag: number.to_string(),
                    status: TrialStatus::Pending,
                    stopped_early: false,
                    resources: self.resources.clone(),
                    last_result: event.get(3).map(|score| object(&json!({"score": score}))),
                    earlier_config: None,
                };
                self.scheduler.on_trial_add(&mut trial).unwrap();
                assert_eq!(Value::from(trial.config.clone()), event[2], "{place}");
                self.trials.push(trial);
            }
            ("choose", expected) => {
                let chosen = self.scheduler.choose_trial_to_run(&self.trials, &|_| true);
                assert_eq!(chosen, expected, "{place}");
                if let Some(chosen) = chosen {
                    self.trials[chosen].status = TrialStatus::Running;
                }
            }
            ("idle", _) => {
                let orders = self.scheduler.on_idle(&self.trials).unwrap();
                self.check_orders(orders, &event[1], place);
            }
            ("result", Some(index)) => {
                let result = result(&event[2]);
                let trial = self.trials[index].clone();
                let answer = self.scheduler.on_trial_result(&trial, &result, &self.trials);
                let Answer { decision, orders } = answer.unwrap();
                let decision = format!("{decision:?}").to_uppercase();
                assert_eq!(decision, event[3], "{place}");
                self.check_orders(orders, &event[4], place);
                self.trials[index].last_result = Some(result);
                if decision == "PAUSE" {
                    self.trials[index].status = TrialStatus::Paused;
                }
            }
            ("complete", Some(index)) => {
                let result = result(&event[2]);
                self.trials[index].last_result = Some(result.clone());
                let trial = self.trials[index].clone();
                let orders = self.scheduler.on_trial_complete(&trial, &result, &self.trials).unwrap();
                self.trials[index].status = TrialStatus::Terminated;
                self.check_orders(orders, &event[3], place);
            }
            ("error", Some(index)) => {
                self.trials[index].status = TrialStatus::Error;
                let trial = self.trials[index].clone();
                let orders = self.scheduler.on_trial_error(&trial, &self.trials).unwrap();
                self.check_orders(orders, &event[2], place);
            }
            _ => panic!("{place}: {event}"),
        }
    }

    /// Executes the orders and compares them with Ray's. `Save` of a paused trial is not compared, since Ray does not
    /// ask for it.
    fn check_orders(&mut self, orders: Vec<Order>, expected: &Value, place: &str) {
        let number = |id: &str| id[1..].parse::<usize>().unwrap();
        let mut found = Vec::new();
        for order in orders {
            match order {
                Order::Stop(id) => {
                    found.push(json!(["stop", number(&id)]));
                    let trial = self.trials[number(&id)].clone();
                    let more = self.scheduler.on_trial_remove(&trial, &self.trials).unwrap();
                    assert_eq!(more, [], "{place}");
                    self.trials[number(&id)].status = TrialStatus::Terminated;
                }
                Order::Unpause(id) => {
                    found.push(json!(["unpause", number(&id)]));
                    self.trials[number(&id)].status = TrialStatus::Pending;
                }
                Order::Save(id) => {
                    if self.trials[number(&id)].status == TrialStatus::Running {
                        found.push(json!(["save", number(&id)]));
                    }
                }
                Order::Exploit { trial_id, source, config, experiment_tag, log } => {
                    if let Some(log) = log {
                        log.append(self.logs.path(), &trial_id, &source).unwrap();
                    }
                    found.push(json!([
                        "exploit",
                        number(&trial_id),
                        number(&source),
                        config,
                        experiment_tag
                    ]));
                    let trial = &mut self.trials[number(&trial_id)];
                    trial.config = config;
                    trial.experiment_tag = experiment_tag;
                    trial.status = TrialStatus::Paused;
                }
                Order::SetResources(id, resources) => {
                    let bundles: Vec<&Bundle> =
                        resources.bundles().iter().filter(|bundle| !bundle.is_empty()).collect();
                    found.push(json!(["set_resources", number(&id), bundles]));
                    let trial = &mut self.trials[number(&id)];
                    trial.status = TrialStatus::Paused;
                    trial.resources = resources;
                }
            }
        }
        assert_eq!(Value::Array(found), *expected, "{place}");
    }
}

/// Parses the lines of a log, so that differences in JSON spacing do not matter.
fn lines(text: &str) -> Vec<Value> {
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn every_decision_is_rays() {
    // In these two Ray stands still.
    let stuck = ["hyperband_stuck", "pbt_synch_late"];
    for scenario in scenarios().iter().filter(|scenario| stuck.iter().all(|name| scenario["name"] != *name)) {
        let mut replay = Replay::new(scenario);
        for (number, event) in scenario["events"].as_array().unwrap().iter().enumerate() {
            replay.check(event, &format!("{}, event {number}: {event}", scenario["name"]));
        }
        assert_eq!(recorded::finish(), 0, "{}: draws are left", scenario["name"]);
        let files = scenario["files"].as_object().unwrap();
        assert_eq!(std::fs::read_dir(replay.logs.path()).unwrap().count(), files.len());
        for (name, expected) in files {
            let found = std::fs::read_to_string(replay.logs.path().join(name)).unwrap();
            assert_eq!(lines(&found), lines(expected.as_str().unwrap()), "{}, {name}", scenario["name"]);
        }
    }
}

/// The last trial that a bracket waits for at its second milestone fails. Ray then waits forever; ours continues.
#[test]
fn a_bracket_goes_on_when_the_last_trial_that_it_waits_for_fails() {
    let scenario = scenario("hyperband_stuck");
    let (failure, before) = scenario["events"].as_array().unwrap().split_last().unwrap();
    let mut replay = Replay::new(&scenario);
    for event in before {
        replay.check(event, &event.to_string());
    }
    assert_eq!(*failure, json!(["error", 6, []]));
    replay.trials[6].status = TrialStatus::Error;
    let trial = replay.trials[6].clone();
    let orders = replay.scheduler.on_trial_error(&trial, &replay.trials).unwrap();
    assert_eq!(orders, [Order::Stop("t7".into())]);
}
