//! Schedulers: what is refused, what is chosen otherwise than in Ray, and numbers from papers and hand arithmetic.
//!
//! That every decision is Ray's is a unit test, `src/schedulers/golden.rs`.

use std::fs;

use pavlov_tune::schedulers::{
    Answer, AsyncHyperBandConfig, AsyncHyperBandScheduler, Decision, DistributeResources,
    DistributeResourcesToTopJob, FifoScheduler, HyperBandConfig, HyperBandScheduler, MedianStoppingConfig,
    MedianStoppingRule, Order, PbtConfig, PbtReplayConfig, PolicyStep, PopulationBasedTraining,
    PopulationBasedTrainingReplay, ResourceChangingScheduler, TrialScheduler, from_config,
};
use pavlov_tune::{Bundle, Config, Metrics, Objective, Resources, Result, Trial, TrialStatus};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use serde_json::{Value, json};

use crate::counter::object;

/// A scheduler and its trials, which all run; the metric `score` is to be high.
struct Sweep<S> {
    scheduler: S,
    trials: Vec<Trial>,
}

impl<S: TrialScheduler> Sweep<S> {
    fn new(mut scheduler: S, trials: usize) -> Self {
        scheduler.set_search_properties(Some(&Objective::maximize("score"))).unwrap();
        scheduler.set_total_resources(&Bundle::from([("CPU".into(), 8.0)]));
        let mut sweep = Self { scheduler, trials: Vec::new() };
        for _ in 0..trials {
            sweep.add(json!({})).unwrap();
        }
        sweep
    }

    fn add(&mut self, config: Value) -> Result<()> {
        let number = self.trials.len();
        let mut trial = Trial {
            trial_id: format!("t{number}"),
            config: object(config),
            experiment_tag: number.to_string(),
            status: TrialStatus::Running,
            stopped_early: false,
            resources: Resources::cpus_gpus(1.0, 0.0)?,
            last_result: None,
            earlier_config: None,
        };
        self.scheduler.on_trial_add(&mut trial)?;
        self.trials.push(trial);
        Ok(())
    }

    fn try_report(&mut self, trial: usize, result: Value) -> Result<(Decision, Vec<Order>)> {
        let result: Metrics = object(result);
        let reporting = self.trials[trial].clone();
        let answer = self.scheduler.on_trial_result(&reporting, &result, &self.trials)?;
        let Answer { decision, orders } = answer;
        self.trials[trial].last_result = Some(result);
        match decision {
            Decision::Pause => self.trials[trial].status = TrialStatus::Paused,
            Decision::Stop => self.trials[trial].status = TrialStatus::Terminated,
            Decision::Continue | Decision::Noop => {}
        }
        Ok((decision, orders))
    }

    fn report(&mut self, trial: usize, time: u64, score: impl Into<Value>) -> (Decision, Vec<Order>) {
        self.try_report(trial, json!({"training_iteration": time, "score": score.into()})).unwrap()
    }

    fn complete(&mut self, trial: usize) -> Vec<Order> {
        let ended = self.trials[trial].clone();
        let result = ended.last_result.clone().unwrap_or_default();
        let orders = self.scheduler.on_trial_complete(&ended, &result, &self.trials).unwrap();
        self.trials[trial].status = TrialStatus::Terminated;
        orders
    }
}

fn asha(max_t: f64, grace_period: f64, reduction_factor: f64) -> AsyncHyperBandConfig {
    AsyncHyperBandConfig { max_t, grace_period, reduction_factor, ..Default::default() }
}

fn pbt(config: Value) -> PopulationBasedTraining {
    let defaults = json!({
        "time_attr": "training_iteration",
        "perturbation_interval": 2,
        "hyperparam_mutations": {"lr": {"uniform": [0.0, 1.0]}},
    });
    let mut merged: Config = object(defaults);
    merged.extend(object::<Config>(config));
    PopulationBasedTraining::new(serde_json::from_value(Value::from(merged)).unwrap()).unwrap()
}

fn error<T>(result: Result<T>) -> String {
    result.err().expect("an error").to_string()
}

#[test]
fn asha_has_the_rungs_of_its_formula() {
    let rungs = |config| {
        let text = AsyncHyperBandScheduler::new(config).unwrap().debug_string();
        let (_, rungs) = text.split_once("stopped; ").unwrap();
        rungs.replace(": 0 seen", "").replace("rung ", "")
    };
    assert_eq!(rungs(asha(100.0, 1.0, 4.0)), "1; 4; 16; 64");
    assert_eq!(rungs(asha(100.0, 10.0, 4.0)), "10; 40");
    let two = AsyncHyperBandConfig { brackets: 2, ..asha(81.0, 1.0, 3.0) };
    assert_eq!(rungs(two), "1; 3; 9; 27; 81; 3; 9; 27; 81");
    // Ray computes int(2.9999999999999996 + 1) rungs here and loses the first.
    assert_eq!(rungs(asha(1000.0, 1.0, 10.0)), "1; 10; 100; 1000");
}

#[test]
fn asha_cuts_at_the_quantile_that_lies_between_neighbours() {
    for (scores, factor, cutoff) in [(8, 4.0, "6.2500"), (3, 3.0, "2.3333")] {
        let mut sweep = Sweep::new(AsyncHyperBandScheduler::new(asha(100.0, 1.0, factor)).unwrap(), scores);
        for trial in 0..scores {
            sweep.report(trial, 1, trial + 1);
        }
        let text = sweep.scheduler.debug_string();
        let rung = format!("rung 1: {scores} seen, at least {cutoff} goes on; ");
        assert!(text.contains(&rung), "{text}");
    }
}

#[test]
fn asha_never_stops_a_trial_that_is_best_at_every_rung() {
    for seed in 0..50 {
        let mut rng = StdRng::seed_from_u64(seed);
        let config = AsyncHyperBandConfig { brackets: rng.random_range(1..4), seed, ..asha(60.0, 1.0, 2.0) };
        let mut sweep = Sweep::new(AsyncHyperBandScheduler::new(config).unwrap(), 12);
        let best = rng.random_range(0..12);
        for time in 1..60 {
            for trial in 0..12 {
                if sweep.trials[trial].status == TrialStatus::Running {
                    let score = if trial == best { 100.0 } else { rng.random_range(0.0..100.0) };
                    sweep.report(trial, time, score);
                }
            }
        }
        assert_eq!(sweep.trials[best].status, TrialStatus::Running, "seed {seed}");
        let ended = sweep.trials.iter().filter(|trial| trial.status == TrialStatus::Terminated).count();
        assert!(ended >= 4, "seed {seed}: only {ended} ended");
        assert_eq!(sweep.report(best, 60, 100.0).0, Decision::Stop, "max_t");
    }
}

#[test]
fn a_result_without_metric_goes_on_with_asha_and_null_passes_a_rung_uncounted() {
    let mut sweep = Sweep::new(AsyncHyperBandScheduler::new(asha(100.0, 1.0, 4.0)).unwrap(), 3);
    sweep.report(0, 1, 5);
    assert_eq!(sweep.try_report(1, json!({"training_iteration": 1})).unwrap().0, Decision::Continue);
    assert_eq!(sweep.report(1, 1, Value::Null).0, Decision::Continue);
    assert_eq!(sweep.report(1, 2, 0).0, Decision::Continue, "the rung is behind it");
    assert_eq!(sweep.report(2, 1, 4).0, Decision::Stop, "only 5 counts");
}

/// Sizes and first milestones as in the table of the HyperBand paper's example, max_t 81 and factor 3.
#[test]
fn hyperband_fills_brackets_from_the_one_with_the_fewest_trials_and_bohb_the_other_way() {
    let sizes = |text: String| {
        let brackets =
            text.split_once("; ").unwrap().1.split(" | ").map(|b| b.split_once(',').unwrap().0.to_owned());
        brackets.collect::<Vec<_>>()
    };
    let mut expected = ["5 of 5 to 81", "8 of 8 to 27", "15 of 15 to 9", "34 of 34 to 3", "81 of 81 to 1"];
    let hyperband = Sweep::new(HyperBandScheduler::new(HyperBandConfig::default()).unwrap(), 143);
    assert_eq!(sizes(hyperband.scheduler.debug_string()), expected);
    let bohb = Sweep::new(HyperBandScheduler::for_bohb(HyperBandConfig::default()).unwrap(), 143);
    expected.reverse();
    assert_eq!(sizes(bohb.scheduler.debug_string()), expected);
}

#[test]
fn at_a_milestone_of_hyperband_a_missing_metric_is_an_error_and_null_is_the_worst() {
    let config = HyperBandConfig { max_t: 9.0, ..Default::default() };
    // Three trials are in bracket 0; the next five in bracket 1, which goes to 3 and keeps two.
    let mut sweep = Sweep::new(HyperBandScheduler::new(config).unwrap(), 8);
    let early = sweep.try_report(3, json!({"training_iteration": 1})).unwrap();
    assert_eq!(early.0, Decision::Continue);
    let message = error(sweep.try_report(3, json!({"training_iteration": 3, "scores": 1})));
    assert_eq!(
        message,
        "the result of trial t3 has no `score`, the metric of HyperBandScheduler; nearest: `scores`"
    );
    let message = error(sweep.try_report(3, json!({"score": 3})));
    assert!(
        message.contains("has no `training_iteration`, the time_attr of HyperBandScheduler"),
        "{message}"
    );
    for (trial, score) in [(3, json!(-2)), (4, Value::Null), (5, json!(-1)), (6, Value::Null)] {
        assert_eq!(sweep.report(trial, 3, score), (Decision::Pause, vec![]));
    }
    let (decision, orders) = sweep.report(7, 3, -3);
    assert_eq!(decision, Decision::Stop);
    let expected = [Order::Stop("t4".into()), Order::Stop("t6".into())];
    assert_eq!(orders[..2], expected);
    assert_eq!(orders[2..], [Order::Unpause("t3".into()), Order::Unpause("t5".into())]);
}

#[test]
fn trials_that_are_all_past_the_next_milestone_of_hyperband_are_halved_again_when_nothing_runs() {
    let config = HyperBandConfig { max_t: 9.0, ..Default::default() };
    // Trials 8 to 16 are in bracket 2: nine to 1, three to 3, one to 9.
    let mut sweep = Sweep::new(HyperBandScheduler::new(config).unwrap(), 17);
    for trial in 8..16 {
        assert_eq!(sweep.report(trial, 5, trial), (Decision::Pause, vec![]));
    }
    let (decision, orders) = sweep.report(16, 5, 16);
    let stopped = |trials: std::ops::Range<u64>| {
        trials.map(|trial| Order::Stop(format!("t{trial}"))).collect::<Vec<_>>()
    };
    assert_eq!((decision, orders), (Decision::Pause, stopped(8..14)));
    sweep.trials[8..14].iter_mut().for_each(|trial| trial.status = TrialStatus::Terminated);
    let orders = sweep.scheduler.on_idle(&sweep.trials).unwrap();
    assert_eq!(orders, [stopped(14..16), vec![Order::Unpause("t16".into())]].concat());
}

#[test]
fn a_trial_that_hyperband_has_had_as_failed_runs_if_it_is_tried_again() {
    let mut sweep = Sweep::new(HyperBandScheduler::new(HyperBandConfig::default()).unwrap(), 2);
    sweep.trials[0].status = TrialStatus::Error;
    let failed = sweep.trials[0].clone();
    sweep.scheduler.on_trial_error(&failed, &sweep.trials).unwrap();
    sweep.trials[0].status = TrialStatus::Pending;
    assert_eq!(sweep.scheduler.choose_trial_to_run(&sweep.trials, &|_| true), Some(0));
    sweep.trials[0].status = TrialStatus::Running;
    assert_eq!(sweep.report(0, 81, 0), (Decision::Continue, vec![]));
}

#[test]
fn an_empty_bracket_of_hyperband_is_not_halved() {
    let config = HyperBandConfig { max_t: 9.0, ..Default::default() };
    let mut sweep = Sweep::new(HyperBandScheduler::for_bohb(config).unwrap(), 1);
    assert_eq!(sweep.complete(0), []);
    sweep.add(json!({})).unwrap();
    assert!(sweep.scheduler.debug_string().contains("1 of 9 to 1,"), "{}", sweep.scheduler.debug_string());
}

#[test]
fn the_median_rule_ignores_null_and_stops_a_trial_that_had_nothing_else() {
    let config = MedianStoppingConfig {
        time_attr: "training_iteration".into(),
        grace_period: 1.0,
        min_samples_required: 2,
        ..Default::default()
    };
    let mut sweep = Sweep::new(MedianStoppingRule::new(config).unwrap(), 4);
    sweep.report(0, 1, 2);
    sweep.report(1, 1, 4);
    // Means 2 and 4, median 3.
    sweep.report(2, 1, Value::Null);
    assert_eq!(sweep.trials[2].status, TrialStatus::Terminated);
    assert_eq!(sweep.report(3, 1, 3).0, Decision::Continue, "as good as the median; null is no mean");
}

/// Counts of the specification's appendix B.12: n living trials, and how many are saved.
#[test]
fn the_best_part_of_a_population_is_rounded_up_but_at_most_half() {
    for (n, fraction, expected) in
        [(1, 0.25, 0), (2, 0.25, 1), (4, 0.25, 1), (5, 0.25, 2), (8, 0.25, 2), (10, 0.25, 3), (3, 0.5, 1)]
    {
        let mut sweep = Sweep::new(pbt(json!({"synch": true, "quantile_fraction": fraction})), n);
        let mut orders = Vec::new();
        for trial in 0..n {
            assert_eq!(orders, [], "all wait for the last");
            orders = sweep.report(trial, 2, trial).1;
        }
        let saved: Vec<&Order> = orders.iter().filter(|order| matches!(order, Order::Save(_))).collect();
        let best: Vec<Order> = (n - expected..n).map(|trial| Order::Save(format!("t{trial}"))).collect();
        assert_eq!(saved, best.iter().collect::<Vec<_>>(), "{n} trials");
        let exploited = orders.iter().filter(|order| matches!(order, Order::Exploit { .. })).count();
        assert_eq!(exploited, expected, "{n} trials");
    }
}

#[test]
fn a_synchronous_population_goes_on_when_the_last_trial_ends_before_the_point_where_all_wait() {
    let mut sweep = Sweep::new(pbt(json!({"synch": true})), 3);
    sweep.report(0, 2, 0);
    sweep.report(1, 2, 1);
    let choose = |sweep: &Sweep<PopulationBasedTraining>| {
        sweep.scheduler.choose_trial_to_run(&sweep.trials, &|_| true)
    };
    assert_eq!(choose(&sweep), None, "both wait for t2");
    let orders = sweep.complete(2);
    assert_eq!(orders[0], Order::Save("t1".into()));
    assert!(
        matches!(&orders[1], Order::Exploit { trial_id, source, .. } if trial_id == "t0" && source == "t1")
    );
    assert_eq!(choose(&sweep), Some(0));
}

/// The settings that t0 gets from t1, which has `config`.
fn explored(scheduler: PopulationBasedTraining, config: Value) -> Result<Config> {
    let mut sweep = Sweep::new(scheduler, 0);
    sweep.add(config.clone())?;
    sweep.add(config)?;
    sweep.report(1, 2, 1);
    // t1 was alone when it was looked at, so it is not saved yet.
    assert_eq!(sweep.report(0, 2, 0), (Decision::Continue, vec![]));
    sweep.report(1, 4, 1);
    match sweep.try_report(0, json!({"training_iteration": 4, "score": 0}))?.1.pop() {
        Some(Order::Exploit { config, .. }) => Ok(config),
        other => panic!("{other:?}"),
    }
}

#[test]
fn numbers_are_multiplied_by_a_factor_whole_ones_stay_whole_and_lists_go_to_a_neighbour() {
    let mut rates = Vec::new();
    let mut sizes = Vec::new();
    let mut layers = Vec::new();
    for seed in 0..40 {
        let mutations = json!({
            "lr": {"uniform": [0.0, 20.0]},
            "size": {"randint": [1, 100]},
            "layers": [1, 2.0, 3, 4],
        });
        let settings = json!({"resample_probability": 0, "hyperparam_mutations": mutations, "seed": seed});
        let config = explored(pbt(settings), json!({"lr": 10.0, "size": 16, "layers": 2})).unwrap();
        rates.push(config["lr"].as_f64().unwrap());
        sizes.push(config["size"].as_i64().unwrap());
        layers.push(config["layers"].as_i64().unwrap());
    }
    // 16 * 1.2 = 19.2 and 16 * 0.8 = 12.8.
    for (expected, found) in
        [([8.0, 12.0], rates), ([13.0, 19.0], to_f64(sizes)), ([1.0, 3.0], to_f64(layers))]
    {
        let mut found = found;
        found.sort_by(f64::total_cmp);
        found.dedup();
        assert_eq!(found, expected);
    }
}

fn to_f64(numbers: Vec<i64>) -> Vec<f64> {
    numbers.into_iter().map(|number| number as f64).collect()
}

#[test]
fn settings_are_resampled_from_their_domain_or_function_and_the_custom_function_has_the_last_word() {
    let scheduler = pbt(json!({"resample_probability": 1}))
        .sample_from("model.width", |u| json!(if u < 0.5 { "narrow" } else { "wide" }))
        .custom_explore_fn(|mut config| {
            config.insert("seen".into(), json!(true));
            Ok(config)
        });
    let config = explored(scheduler, json!({"lr": 50.0, "model": {"width": "odd", "depth": 2}})).unwrap();
    assert!((0.0..1.0).contains(&config["lr"].as_f64().unwrap()), "{config:?}");
    assert!(["narrow", "wide"].contains(&config["model"]["width"].as_str().unwrap()), "{config:?}");
    assert_eq!((&config["model"]["depth"], &config["seen"]), (&json!(2), &json!(true)));
}

#[test]
fn a_population_completes_the_settings_of_its_trials_at_any_depth() {
    let mutations = json!({"lr": {"uniform": [0.0, 1.0]}, "model": {"act": ["relu"], "width": ["wide"]}});
    let population = || pbt(json!({"hyperparam_mutations": mutations}));
    let mut sweep = Sweep::new(population(), 0);
    sweep.add(json!({"lr": 7, "model": {"act": "tanh"}})).unwrap();
    assert_eq!(sweep.trials[0].config, object(json!({"lr": 7, "model": {"act": "tanh", "width": "wide"}})));
    // Ray 2.60 fails here with `KeyError: 'width'`.
    let config = explored(population(), json!({"lr": 7, "model": {"act": "tanh"}})).unwrap();
    assert_eq!(config["model"], json!({"act": "relu", "width": "wide"}));
}

#[test]
fn the_same_seed_explores_the_same_and_another_one_does_not() {
    let explore = |seed: u64| explored(pbt(json!({"seed": seed})), json!({"lr": 1.0})).unwrap();
    let all: Vec<Config> = (0..10).map(explore).collect();
    assert_eq!(all, (0..10).map(explore).collect::<Vec<_>>());
    assert!(all.iter().any(|config| *config != all[0]));
}

#[test]
fn a_setting_that_no_factor_applies_to_is_refused_with_the_way_out() {
    let scheduler = pbt(json!({"resample_probability": 0}));
    let message = error(explored(scheduler, json!({"lr": "high"})));
    assert!(message.starts_with("`lr` is \"high\"") && message.contains("as a list"), "{message}");
    let mutations = |value: Value| json!({"type": "PBT", "hyperparam_mutations": {"act": value}});
    for (value, rule) in [
        (json!({"choice": ["relu", {"uniform": [0, 1]}]}), "a list of the values"),
        (json!({"grid_search": [1, 2]}), "nothing is searched here"),
        (json!({"loguniform": [0, 1]}), "above 0"),
        (json!([]), "at least one value"),
        (json!(3), "it must be a list of values, a domain"),
    ] {
        let message = error(from_config(&object(mutations(value)), 0));
        assert!(message.contains("hyperparam_mutations.act") && message.contains(rule), "{message}");
    }
}

#[test]
fn a_population_refuses_results_without_time_or_metric_unless_told_otherwise() {
    let mut strict = Sweep::new(pbt(json!({})), 1);
    let message = error(strict.try_report(0, json!({"training_iteration": 1, "sore": 1})));
    assert_eq!(
        message,
        "the result of trial t0 has no `score`, the metric of PopulationBasedTraining; nearest: `sore`"
    );
    assert!(error(strict.try_report(0, json!({"score": 1}))).contains("require_attrs = false"));
    let mut lenient = Sweep::new(pbt(json!({"require_attrs": false})), 1);
    assert_eq!(lenient.try_report(0, json!({"score": 1})).unwrap().0, Decision::Continue);
}

fn step(tag: &str, source_tag: &str, at: u64, lr: f64, new_lr: f64) -> PolicyStep {
    PolicyStep {
        tag: tag.into(),
        source_tag: source_tag.into(),
        iteration: at,
        source_iteration: at,
        source_config: object(json!({"lr": lr})),
        new_config: object(json!({"lr": new_lr})),
    }
}

#[test]
fn a_replay_follows_the_history_that_led_to_a_trial() {
    let dir = tempfile::tempdir().unwrap();
    // t1 took over t0 at 2; t2 took over t1 at 4. What t2 did at 3 was overwritten.
    step("1", "0", 2, 0.1, 0.2).append(dir.path(), "t1", "t0").unwrap();
    step("2", "0", 3, 0.1, 0.9).append(dir.path(), "t2", "t0").unwrap();
    step("2", "1", 4, 0.2, 0.3).append(dir.path(), "t2", "t1").unwrap();
    let lines = |name: &str| fs::read_to_string(dir.path().join(name)).unwrap().lines().count();
    assert_eq!((lines("pbt_global.txt"), lines("pbt_policy_t2.txt")), (3, 2));

    let policy_file = dir.path().join("pbt_policy_t2.txt");
    let replay = PopulationBasedTrainingReplay::new(PbtReplayConfig { policy_file }).unwrap();
    let mut sweep = Sweep::new(replay, 1);
    assert_eq!(sweep.trials[0].config, object(json!({"lr": 0.1})));
    assert_eq!(sweep.report(0, 1, 0), (Decision::Continue, vec![]));
    let (decision, orders) = sweep.report(0, 2, 0);
    assert_eq!(decision, Decision::Noop);
    let exploit = Order::Exploit {
        trial_id: "t0".into(),
        source: "t0".into(),
        config: object(json!({"lr": 0.2})),
        experiment_tag: "replay_pbt_policy_t2.txt@perturbed[lr=0.2000]".into(),
        log: None,
    };
    assert_eq!(orders, [Order::Save("t0".into()), exploit]);
    assert_eq!(sweep.report(0, 3, 0).0, Decision::Continue);
    assert_eq!(sweep.report(0, 5, 0).0, Decision::Noop);
    assert_eq!(sweep.report(0, 6, 0).0, Decision::Continue);
    assert!(error(sweep.add(json!({}))).contains("`num_samples`"));
}

#[test]
fn a_history_that_is_none_is_refused_with_its_line() {
    let dir = tempfile::tempdir().unwrap();
    let policy_file = dir.path().join("policy.txt");
    let new = || PopulationBasedTrainingReplay::new(PbtReplayConfig { policy_file: policy_file.clone() });
    assert!(error(new()).contains("cannot read"));
    fs::write(&policy_file, "[\"1\", \"0\", 2, 2, {}, {}]\n{}\n").unwrap();
    assert!(error(new()).contains("line 2 is no step of a policy log"));
    fs::write(&policy_file, "").unwrap();
    assert!(error(Sweep::new(new().unwrap(), 0).add(json!({}))).contains("no steps"));
}

#[test]
fn a_trial_that_was_paused_for_its_resources_runs_again_under_hyperband_too() {
    let base = Box::new(HyperBandScheduler::new(HyperBandConfig::default()).unwrap());
    let scheduler = ResourceChangingScheduler::new(base, Box::new(DistributeResources::default()));
    let mut sweep = Sweep::new(scheduler, 2);
    let (decision, orders) = sweep.report(0, 1, 1);
    assert_eq!(decision, Decision::Noop);
    // Eight CPUs for two trials.
    let four = Resources::cpus_gpus(4.0, 0.0).unwrap();
    assert_eq!(orders, [Order::SetResources("t0".into(), four.clone())]);
    sweep.trials[0].status = TrialStatus::Paused;
    sweep.trials[0].resources = four;
    assert_eq!(sweep.scheduler.choose_trial_to_run(&sweep.trials, &|_| true), Some(0));
    assert_eq!(sweep.scheduler.choose_trial_to_run(&sweep.trials, &|_| false), None);
}

#[test]
fn a_trial_without_results_is_not_the_best() {
    let allocation = Box::new(DistributeResourcesToTopJob::default());
    let mut sweep = Sweep::new(ResourceChangingScheduler::new(Box::new(FifoScheduler), allocation), 3);
    for (trial, score) in [(0, 1), (1, 0)] {
        sweep.trials[trial].last_result = Some(object(json!({"score": score})));
    }
    // Ray gives nothing to t0 here: with mode max it takes t2, which has reported nothing, for the best.
    let expected = Order::SetResources("t0".into(), Resources::cpus_gpus(6.0, 0.0).unwrap());
    assert_eq!(sweep.report(0, 1, 1), (Decision::Noop, vec![expected]));
}

#[test]
fn trials_that_start_with_different_resources_cannot_share_what_is_free() {
    let allocation = Box::new(DistributeResourcesToTopJob::default());
    let scheduler = ResourceChangingScheduler::new(Box::new(FifoScheduler), allocation);
    let mut sweep = Sweep::new(scheduler, 1);
    let mut other = sweep.trials[0].clone();
    other.resources = Resources::cpus_gpus(2.0, 0.0).unwrap();
    assert!(error(sweep.scheduler.on_trial_add(&mut other)).contains("all trials must start with the same"));
}

#[test]
fn every_scheduler_has_its_name_in_a_sweep_file() {
    let dir = tempfile::tempdir().unwrap();
    let policy_file = dir.path().join("policy.txt");
    fs::write(&policy_file, "").unwrap();
    let built = [
        ("type = 'fifo'".to_owned(), "FIFO"),
        ("type = 'ASHA'\ngrace_period = 5".to_owned(), "AsyncHyperBand"),
        ("type = 'async_hyperband'\nmetric = 'x'\nmode = 'min'".to_owned(), "AsyncHyperBand"),
        ("type = 'hyperband'\nmax_t = 9".to_owned(), "HyperBand"),
        ("type = 'hb_bohb'".to_owned(), "HyperBandForBOHB"),
        ("type = 'median_stopping_rule'\nhard_stop = false".to_owned(), "MedianStoppingRule"),
        ("type = 'PBT'\n[hyperparam_mutations]\nlr = { loguniform = [1e-4, 1e-2] }\nact = ['relu', 'tanh']".to_owned(),
         "PopulationBasedTraining"),
        (format!("type = 'pbt_replay'\npolicy_file = '{}'", policy_file.display()), "PopulationBasedTrainingReplay"),
        ("type = 'resource_changing'\n[base_scheduler]\ntype = 'ASHA'\nmax_t = 10".to_owned(),
         "ResourceChangingScheduler: AsyncHyperBand"),
    ];
    for (text, expected) in built {
        let config: Config = toml::from_str(&text).unwrap();
        let scheduler = from_config(&config, 0).unwrap_or_else(|error| panic!("{text}: {error}"));
        assert!(scheduler.debug_string().starts_with(expected), "{text}");
    }
}

#[test]
fn unknown_names_and_settings_are_refused_with_the_nearest() {
    for (config, expected) in [
        (
            json!({"type": "ASHO"}),
            r#"`scheduler.type` is "ASHO", but there is no such scheduler; nearest: ASHA"#,
        ),
        (json!({"type": "simplex"}), r#"`scheduler.type` is "simplex", but it must be one of FIFO, ASHA"#),
        (json!({"grace_period": 5}), "`scheduler.type` is missing: write one of FIFO, ASHA"),
        (
            json!({"type": "ASHA", "grace_perid": 5}),
            "unknown setting `scheduler.grace_perid` (from the sweep); nearest: `grace_period`",
        ),
        (json!({"type": "ASHA", "max_t": "long"}), r#"`scheduler.max_t` is "long", but it must be a number"#),
        (json!({"type": "FIFO", "max_t": 5}), "unknown setting `scheduler.max_t` (from the sweep)"),
        (
            json!({"type": "resource_changing", "base_scheduler": {"type": "ASHA", "max": 5}}),
            "unknown setting `scheduler.base_scheduler.max`",
        ),
    ] {
        let message = error(from_config(&object(config), 0));
        assert!(message.starts_with(expected), "{message}");
    }
}

#[test]
fn settings_out_of_range_are_refused_with_the_rule() {
    for (config, expected) in [
        (json!({"type": "ASHA", "max_t": 0}), "max_t` is 0, but it must be above 0"),
        (
            json!({"type": "ASHA", "max_t": 5, "grace_period": 6}),
            "grace_period` is 6, but it must be at most",
        ),
        (json!({"type": "ASHA", "reduction_factor": 1}), "reduction_factor` is 1, but it must be above 1"),
        (json!({"type": "ASHA", "brackets": 0}), "brackets` is 0, but it must be 1 or more"),
        (json!({"type": "HyperBand", "max_t": 0.5}), "max_t` is 0.5, but it must be 1 or more"),
        (
            json!({"type": "PBT", "quantile_fraction": 0.6}),
            "quantile_fraction` is 0.6, but it must be in 0..=0.5",
        ),
        (json!({"type": "PBT", "perturbation_interval": 0}), "perturbation_interval` is 0, but"),
        (json!({"type": "PBT", "perturbation_factors": []}), "perturbation_factors` is [], but"),
        (
            json!({"type": "MedianStopping", "grace_period": -1}),
            "grace_period` is -1, but it must be 0 or more",
        ),
    ] {
        let message = error(from_config(&object(config), 0));
        assert!(message.contains(expected), "{message}");
    }
}

#[test]
fn an_objective_is_given_once_to_the_scheduler_or_to_the_sweep() {
    let set = |config: Value, sweep: Option<&Objective>| {
        let mut config: Config = object(config);
        config.insert("type".into(), json!("ASHA"));
        let mut scheduler = from_config(&config, 0)?;
        scheduler.set_search_properties(sweep)?;
        Ok(scheduler.objective().cloned())
    };
    let low = Objective::minimize("x");
    let high = Objective::maximize("x");
    assert_eq!(set(json!({"metric": "x", "mode": "min"}), None).unwrap().as_ref(), Some(&low));
    assert_eq!(set(json!({}), Some(&high)).unwrap().as_ref(), Some(&high));
    let bare = Some(Objective::maximize("_metric"));
    assert_eq!(set(json!({"mode": "max"}), None).unwrap(), bare, "a trainable that reports bare numbers");
    assert!(error(set(json!({}), None)).contains("`AsyncHyperBandScheduler.metric` is missing: "));
    let halved = error(set(json!({"metric": "x"}), None));
    assert!(halved.contains("metric` is \"x\", but it needs a `mode` beside it"), "{halved}");
    let twice = error(set(json!({"metric": "x", "mode": "max"}), Some(&high)));
    assert!(twice.contains("give it in one place"), "{twice}");
    let mut idle = PopulationBasedTraining::new(PbtConfig::default()).unwrap();
    assert!(error(idle.set_search_properties(Some(&high))).contains("hyperparam_mutations"));
}

/// One scheduler of every kind with a metric, by its name in sweep files, and whether it works with a searcher.
fn every_kind() -> Vec<(Box<dyn TrialScheduler>, bool)> {
    let mutations = json!({"lr": {"uniform": [0.0, 1.0]}});
    let changing = |base: Value| json!({"type": "resource_changing", "base_scheduler": base});
    let pbt = json!({"type": "PBT", "hyperparam_mutations": mutations});
    let kinds = [
        (json!({"type": "ASHA"}), true),
        (json!({"type": "HyperBand"}), true),
        (json!({"type": "hb_bohb"}), true),
        (json!({"type": "MedianStopping"}), true),
        (pbt.clone(), false),
        (changing(json!({"type": "ASHA"})), true),
        (changing(pbt), false),
    ];
    kinds.map(|(config, with_searchers)| (from_config(&object(config), 0).unwrap(), with_searchers)).into()
}

#[test]
fn every_scheduler_that_compares_trials_has_the_objective_of_the_sweep() {
    let high = Objective::maximize("score");
    for (mut scheduler, _) in every_kind() {
        scheduler.set_search_properties(Some(&high)).unwrap();
        assert_eq!(scheduler.objective(), Some(&high), "{}", scheduler.debug_string());
    }
}

#[test]
fn schedulers_that_change_settings_during_a_trial_do_not_work_with_searchers() {
    for (scheduler, expected) in every_kind() {
        assert_eq!(scheduler.works_with_searchers(), expected, "{}", scheduler.debug_string());
    }
}

#[test]
fn the_bounds_of_settings_are_allowed_themselves() {
    let asha = AsyncHyperBandScheduler::new(asha(10.0, 10.0, 4.0)).unwrap();
    assert_eq!(asha.debug_string(), "AsyncHyperBand: 0 stopped; rung 10: 0 seen");
    let hyperband = |max_t, reduction_factor| {
        HyperBandScheduler::new(HyperBandConfig { max_t, reduction_factor, ..Default::default() })
    };
    hyperband(1.0, 3.0).unwrap();
    for factor in [1.0, f64::INFINITY] {
        let message = error(hyperband(81.0, factor));
        assert!(message.contains("reduction_factor` is") && message.contains("must be above 1"), "{message}");
    }
}

#[test]
fn asha_does_not_compare_with_a_trial_that_was_removed_and_reports_once_more() {
    let mut sweep = Sweep::new(AsyncHyperBandScheduler::new(asha(100.0, 1.0, 4.0)).unwrap(), 2);
    sweep.report(0, 1, 5);
    let removed = sweep.trials[1].clone();
    sweep.scheduler.on_trial_remove(&removed, &sweep.trials).unwrap();
    assert_eq!(sweep.report(1, 1, 1).0, Decision::Continue);
    assert!(sweep.scheduler.debug_string().contains("rung 1: 1 seen"), "{}", sweep.scheduler.debug_string());
}

#[test]
fn a_trial_that_had_only_null_is_no_sample_of_the_median_rule() {
    let config = MedianStoppingConfig {
        grace_period: 1.0,
        min_samples_required: 2,
        hard_stop: true,
        ..MedianStoppingConfig::default()
    };
    let config = MedianStoppingConfig { time_attr: "training_iteration".into(), ..config };
    let mut sweep = Sweep::new(MedianStoppingRule::new(config).unwrap(), 3);
    sweep.report(1, 3, Value::Null);
    sweep.report(2, 3, 10);
    // One sample, t2, is too few to be stopped by.
    assert_eq!(sweep.report(0, 3, 1).0, Decision::Continue);
}

#[test]
fn the_distribution_of_a_nested_setting_replaces_the_one_above_it_and_keeps_its_neighbours() {
    let scheduler =
        pbt(json!({"resample_probability": 1, "hyperparam_mutations": {"model": {"width": [1, 2]}}}));
    let scheduler = scheduler.sample_from("model.depth", |_| json!(7));
    let config = explored(scheduler, json!({"model": {"width": 1, "depth": 3}})).unwrap();
    assert_eq!(config["model"]["depth"], 7);
    assert!([1, 2].contains(&config["model"]["width"].as_i64().unwrap()), "{config:?}");
}

/// A scheduler that answers each event with an order to stop the trial of that event's name.
struct Telling;

impl TrialScheduler for Telling {
    fn on_trial_result(&mut self, _: &Trial, _: &Metrics, _: &[Trial]) -> Result<Answer> {
        Ok(Decision::Continue.into())
    }
    fn on_trial_complete(&mut self, _: &Trial, _: &Metrics, _: &[Trial]) -> Result<Vec<Order>> {
        Ok(vec![Order::Stop("complete".into())])
    }
    fn on_trial_error(&mut self, _: &Trial, _: &[Trial]) -> Result<Vec<Order>> {
        Ok(vec![Order::Stop("error".into())])
    }
    fn on_trial_remove(&mut self, _: &Trial, _: &[Trial]) -> Result<Vec<Order>> {
        Ok(vec![Order::Stop("remove".into())])
    }
    fn on_idle(&mut self, _: &[Trial]) -> Result<Vec<Order>> {
        Ok(vec![Order::Stop("idle".into())])
    }
    fn debug_string(&self) -> String {
        "Telling".into()
    }
}

#[test]
fn the_orders_of_the_base_scheduler_reach_the_sweep_when_resources_change() {
    let scheduler =
        ResourceChangingScheduler::new(Box::new(Telling), Box::new(DistributeResources::default()));
    let mut sweep = Sweep::new(scheduler, 1);
    let trial = sweep.trials[0].clone();
    let orders = [
        sweep.complete(0),
        sweep.scheduler.on_trial_error(&trial, &sweep.trials).unwrap(),
        sweep.scheduler.on_trial_remove(&trial, &sweep.trials).unwrap(),
        sweep.scheduler.on_idle(&sweep.trials).unwrap(),
    ];
    let expected = ["complete", "error", "remove", "idle"].map(|name| vec![Order::Stop(name.into())]);
    assert_eq!(orders, expected);
}
