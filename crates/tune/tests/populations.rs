//! Population based training that ends, stays in its domains, and says with which settings a score was trained.

use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use pavlov_tune::schedulers::{PbtConfig, PopulationBasedTraining};
use pavlov_tune::search::{grid_search, loguniform, randint, uniform};
use pavlov_tune::stoppers::{MaximumIterationStopper, Stopper};
use pavlov_tune::{
    Config, Error, Metrics, Objective, ResultGrid, RunConfig, Trainable, TrainableFactory, TrialContext,
    TrialStatus, TuneConfig, Tuner,
};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use serde_json::{Value, json};

use crate::counter::object;

/// Iterations of each trial.
const STOP: u64 = 6;

/// How the score of a trial changes from one iteration to the next.
#[derive(Clone, Copy, Debug)]
enum Scores {
    Equal,
    Rising,
    Falling,
    NotANumber,
    AtRandom,
}

/// Iterations of 64 steps whose score is a function of their number, and that fail at random.
struct Scored {
    scores: Scores,
    failures: f64,
    rng: StdRng,
    config: Config,
    iteration: u64,
}

impl Trainable for Scored {
    fn setup(&mut self, config: &Config, _: &TrialContext) -> pavlov_tune::Result<()> {
        self.config = config.clone();
        Ok(())
    }

    fn step(&mut self) -> pavlov_tune::Result<Metrics> {
        if self.rng.random_bool(self.failures) {
            return Err(Error::other("the simulator is gone"));
        }
        self.iteration += 1;
        let time = self.iteration as f64;
        let trial = self.config.get("trial").and_then(Value::as_f64).unwrap_or(0.0);
        let score = match self.scores {
            Scores::Equal => 0.0,
            Scores::Rising => time + trial,
            Scores::Falling => trial - time,
            Scores::NotANumber => f64::NAN,
            Scores::AtRandom => self.rng.random(),
        };
        Ok(object(json!({"score": score, "timesteps_this_iter": 64, "used": self.config})))
    }

    fn save_checkpoint(&mut self, dir: &Path) -> pavlov_tune::Result<()> {
        let path = dir.join("iteration");
        fs::write(&path, self.iteration.to_string()).map_err(Error::io("write", &path))
    }

    fn load_checkpoint(&mut self, dir: &Path) -> pavlov_tune::Result<()> {
        let path = dir.join("iteration");
        let text = fs::read_to_string(&path).map_err(Error::io("read", &path))?;
        self.iteration = text.parse().map_err(Error::other)?;
        Ok(())
    }
}

/// A sweep of `trials` trials, of which `at_once` run at once.
fn sweep(
    home: &Path,
    (scores, failures): (Scores, f64),
    trials: u64,
    at_once: usize,
    config: PbtConfig,
) -> Tuner {
    // Each attempt draws other failures, or a trial that fails once would fail for ever.
    let attempts = AtomicU64::new(0);
    let factory = TrainableFactory::new("scored", move |_| {
        let rng = StdRng::seed_from_u64(attempts.fetch_add(1, Ordering::Relaxed));
        Ok(Scored { scores, failures, rng, config: Config::new(), iteration: 0 })
    });
    let mut tuner = Tuner::new(factory).space(json!({"trial": grid_search(0..trials)}));
    tuner.tune_config = TuneConfig {
        objective: Some(Objective::maximize("score")),
        max_concurrent_trials: Some(at_once),
        total_resources: Some([("CPU".to_owned(), 8.0)].into()),
        scheduler: Some(Box::new(PopulationBasedTraining::new(config).expect("settings that fit"))),
        ..TuneConfig::default()
    };
    tuner.run_config = RunConfig {
        name: Some("sweep".into()),
        storage_path: Some(home.into()),
        stop: Some(Box::new(MaximumIterationStopper::new(STOP))),
        ..RunConfig::default()
    };
    tuner.run_config.failure_config.max_failures = None;
    tuner
}

fn every(iterations: f64) -> PbtConfig {
    PbtConfig {
        time_attr: "training_iteration".into(),
        perturbation_interval: iterations,
        hyperparam_mutations: object(json!({"gamma": uniform(0.95, 1.0)})),
        ..PbtConfig::default()
    }
}

/// Number of results that a sweep wrote down, after all its trials have ended at their stop.
fn results_of(grid: &ResultGrid) -> usize {
    // The stopper counts results, also those of iterations that a trial repeats.
    for trial in grid {
        assert!(trial.status == TrialStatus::Terminated && trial.metrics.is_some(), "{}", trial.trial_id);
    }
    let journal = fs::read_to_string(grid.experiment_path().join("journal.jsonl")).expect("a journal");
    journal.matches("\"event\":\"result\"").count()
}

#[test]
fn trials_with_equal_scores_one_at_a_time_all_end_at_their_stop() {
    let home = tempfile::tempdir().expect("a directory");
    let grid = sweep(home.path(), (Scores::Equal, 0.0), 4, 1, every(3.0)).fit().expect("an end");
    // Four trials of eight iterations, and what those repeat that copied another.
    assert!(results_of(&grid) <= 8 * 4 * STOP as usize, "{} results", results_of(&grid));
}

#[test]
fn a_hundred_generated_populations_end() {
    let mut rng = StdRng::seed_from_u64(11);
    let kinds = [Scores::Equal, Scores::Rising, Scores::Falling, Scores::NotANumber, Scores::AtRandom];
    for case in 0..100 {
        // In memory where there is such a place: so many sweeps wait for the disk for minutes.
        let memory = Path::new("/dev/shm");
        let home = if memory.is_dir() { tempfile::tempdir_in(memory) } else { tempfile::tempdir() };
        let home = home.expect("a directory");
        let scores = kinds[case % kinds.len()];
        let failures = if rng.random_bool(0.3) { 0.1 } else { 0.0 };
        let trials = rng.random_range(2..=3);
        let at_once = rng.random_range(1..=8);
        let mut config = every(rng.random_range(1..=3) as f64);
        config.synch = rng.random_bool(0.5);
        config.quantile_fraction = [0.25, 0.5][rng.random_range(0..2)];
        config.require_attrs = !matches!(scores, Scores::NotANumber);
        config.seed = case as u64;
        let what = format!("{case}: {scores:?}, {failures}, {trials} trials, {at_once} at once, {config:?}");
        let grid = sweep(home.path(), (scores, failures), trials, at_once, config).fit();
        let grid = grid.unwrap_or_else(|error| panic!("{what}: {error}"));
        let results = results_of(&grid);
        assert!(results <= 20 * (STOP * trials) as usize, "{what}: {results} results");
    }
}

#[test]
fn a_synchronous_round_whose_interval_is_no_multiple_of_an_iteration_ends_with_the_trials_that_reached_it() {
    let home = tempfile::tempdir().expect("a directory");
    let config = PbtConfig { time_attr: "timesteps_total".into(), synch: true, ..every(100.0) };
    let grid = sweep(home.path(), (Scores::Rising, 0.0), 3, 3, config).fit().expect("an end");
    assert_eq!(results_of(&grid), 3 * STOP as usize);
    assert!(
        fs::read_to_string(grid.experiment_path().join("pbt_global.txt")).is_ok_and(|log| !log.is_empty())
    );
}

#[test]
fn perturbed_values_stay_in_their_domains_unless_that_is_switched_off() {
    let values = |keep_in_domain: bool| {
        let home = tempfile::tempdir().expect("a directory");
        let mutations = json!({
            "gamma": uniform(0.95, 1.0), "lr": loguniform(1e-4, 1e-3), "layers": randint(2, 4), "size": {"choice": [1, 2, 4]},
        });
        let hyperparam_mutations = object(mutations);
        let config =
            PbtConfig { hyperparam_mutations, keep_in_domain, resample_probability: 0.0, ..every(1.0) };
        let grid = sweep(home.path(), (Scores::Rising, 0.0), 4, 1, config).fit().expect("an end");
        let histories = grid.iter().flat_map(|trial| trial.history().expect("results"));
        histories.map(|result| result["used"].clone()).collect::<Vec<_>>()
    };
    let inside = |used: &Value| {
        (0.95..=1.0).contains(&used["gamma"].as_f64().expect("a number"))
            && (1e-4..=1e-3).contains(&used["lr"].as_f64().expect("a number"))
            && [2, 3].contains(&used["layers"].as_i64().expect("a whole number"))
            && [1, 2, 4].contains(&used["size"].as_i64().expect("a whole number"))
    };
    assert!(values(true).iter().all(inside));
    assert!(!values(false).iter().all(inside));
}

/// Stops the whole sweep after so many results.
struct After {
    seen: u64,
    results: u64,
}

impl Stopper for After {
    fn should_stop(&mut self, _: &str, _: &Metrics) -> pavlov_tune::Result<bool> {
        self.seen += 1;
        Ok(false)
    }

    fn stop_all(&self, _: Duration) -> bool {
        self.seen >= self.results
    }
}

#[test]
fn a_score_stands_beside_the_settings_with_which_it_was_trained() {
    let mut just_perturbed = 0;
    for results in 8..24 {
        let home = tempfile::tempdir().expect("a directory");
        let mut tuner = sweep(home.path(), (Scores::AtRandom, 0.0), 4, 1, every(2.0));
        tuner.run_config.stop = Some(Box::new(After { seen: 0, results }));
        let grid = tuner.fit().expect("an end");
        for trial in &grid {
            let result = trial.metrics.as_ref().expect("a result");
            assert_eq!(Value::from(trial.config.clone()), result["used"], "{}", trial.experiment_tag);
            let gamma = format!("gamma={:.4}", trial.config["gamma"].as_f64().expect("a number"));
            let tag = &trial.experiment_tag;
            just_perturbed += usize::from(tag.contains("@perturbed") && !tag.contains(&gamma));
        }
        for row in grid.get_dataframe(Some(&Objective::maximize("score"))).expect("rows") {
            assert_eq!(row["config/gamma"], row["used/gamma"], "{row:?}");
        }
        let csv = fs::read_to_string(grid.experiment_path().join("results.csv")).expect("a table");
        let mut lines = csv.lines().map(|line| line.split(',').collect::<Vec<_>>());
        let head = lines.next().expect("a head");
        let place = |name: &str| head.iter().position(|column| *column == name).expect("a column");
        let [set, used] = [place("config/gamma"), place("used/gamma")];
        assert!(lines.all(|line| line[set] == line[used]), "{csv}");
    }
    assert!(just_perturbed > 0, "no sweep ended between a copy and its first result");
}
