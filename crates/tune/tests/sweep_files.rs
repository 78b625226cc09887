//! Sweeps from TOML.

use pavlov_tune::schedulers::{self, Answer, Decision, TrialScheduler};
use pavlov_tune::search::{self, SearchSpace, Searcher, Suggestion};
use pavlov_tune::stoppers::{self, FunctionStopper};
use pavlov_tune::{Metrics, Objective, Result, SweepFile, TrainableFactory, Trial, TrialResult};
use serde_json::json;

use crate::counter::{Counter, object};

const FILE: &str = r#"
algorithm = "counter"
metric = "total"
mode = "max"
num_samples = 2
seed = 5
[stop]
training_iteration = 9
[space]
by = { grid_search = [1, 2] }
lr = { loguniform = [1e-4, 1e-2] }
[scheduler]
type = "ASHA"
grace_period = 2
max_t = 9
reduction_factor = 3
[checkpoint]
checkpoint_frequency = 1
num_to_keep = 2
"#;

#[test]
fn a_sweep_file_is_a_sweep_and_each_of_its_trials_can_be_had_alone() {
    let home = tempfile::tempdir().unwrap();
    let file = SweepFile::parse(FILE, "sweep.toml").unwrap();
    let counters = TrainableFactory::new("counter", |_| Ok(Counter::default()));
    let tuner = file.tuner(counters, Some(home.path().into())).unwrap();
    let grid = tuner.fit().unwrap();
    assert_eq!((grid.len(), grid.num_terminated()), (4, 4));
    for (number, result) in grid.iter().enumerate() {
        assert_eq!(file.trial(number as u64).unwrap(), result.config);
        assert!(result.checkpoints.len() <= 3);
    }
    assert_eq!(grid.best().unwrap().config["by"], json!(2));
    let message = file.trial(4).unwrap_err().to_string();
    assert_eq!(message, "`trial` is 4, but it must be below 4, the trials of the sweep");
}

#[test]
fn a_file_without_limits_is_written_as_it_was_read() {
    let text = FILE.replace("num_samples = 2", "num_samples = -1");
    let text = text.replace("checkpoint_frequency = 1", "checkpoint_frequency = 0");
    let file = SweepFile::parse(&(text + "[failure]\nmax_failures = -1\n"), "sweep.toml").unwrap();
    assert_eq!((file.num_samples, file.failure.max_failures), (None, None));
    assert_eq!(file.checkpoint.checkpoint_frequency, None);
    let written = toml::to_string(&file).unwrap();
    let lines = [
        "metric = \"total\"",
        "mode = \"max\"",
        "num_samples = -1",
        "max_failures = -1",
        "checkpoint_frequency = 0",
    ];
    for line in lines {
        assert!(written.lines().any(|written| written == line), "{line}: {written}");
    }
    let again = SweepFile::parse(&written, "sweep.toml").unwrap();
    assert_eq!(format!("{again:?}"), format!("{file:?}"));
}

#[test]
fn numbers_that_cannot_be_are_refused_with_their_key() {
    for (changed, expected) in [
        (
            "loguniform = [1e-4, inf]",
            "`space.lr.loguniform` is inf, but it must be a finite number (sweep.toml)",
        ),
        (
            "loguniform = [nan, 1e-2]",
            "`space.lr.loguniform` is NaN, but it must be a finite number (sweep.toml)",
        ),
    ] {
        let text = FILE.replace("loguniform = [1e-4, 1e-2]", changed);
        assert_eq!(SweepFile::parse(&text, "sweep.toml").unwrap_err().to_string(), expected);
    }
    let home = tempfile::tempdir().unwrap();
    let file = SweepFile::parse(&format!("{FILE}\n[total_resources]\nGPU = 1e18\n"), "sweep.toml").unwrap();
    let counters = TrainableFactory::new("counter", |_| Ok(Counter::default()));
    let message = file.tuner(counters, Some(home.path().into())).unwrap().fit().unwrap_err().to_string();
    let expected =
        "`total_resources.GPU` is 1000000000000000000, but it must be at most 1024, the GPUs of one machine";
    assert_eq!(message, expected);
}

#[test]
fn what_a_sweep_file_cannot_say_is_told_with_the_nearest_name() {
    let message = |from: &str, to: &str| {
        let file = SweepFile::parse(&FILE.replace(from, to), "sweep.toml");
        let counters = TrainableFactory::new("counter", |_| Ok(Counter::default()));
        match file.and_then(|file| file.tuner(counters, None)) {
            Ok(_) => "fine".to_string(),
            Err(error) => error.to_string(),
        }
    };
    assert_eq!(
        message("num_samples", "num_sample"),
        "unknown setting `num_sample` (from sweep.toml); nearest: `num_samples`"
    );
    assert_eq!(
        message("algorithm =", "run ="),
        "`run` is \"counter\", but in a sweep file its name is `algorithm`"
    );
    assert!(
        message("num_to_keep", "keep").starts_with("unknown setting `checkpoint.keep` (from sweep.toml)")
    );
    let halved = message("mode = \"max\"\n", "");
    assert!(halved.starts_with("`metric` is \"total\", but it needs a `mode` beside it"), "{halved}");
    assert_eq!(
        message(
            "num_to_keep = 2",
            "checkpoint_score_attribute = \"total\"\ncheckpoint_score_order = \"low\""
        ),
        "`checkpoint.checkpoint_score_order` is \"low\", but it must be `min` or `max`"
    );
    assert_eq!(message("\"max\"", "\"best\""), "`mode` is \"best\", but it must be `min` or `max`");
    assert!(message("ASHA", "ASAH").contains("ASHA"));
    assert_eq!(
        message("algorithm = \"counter\"", ""),
        "`algorithm` is missing: write the name of what to train, such as \"PPO\""
    );
}

/// Suggests `by` in steps of 5.
struct Counting {
    next: u64,
}

impl Searcher for Counting {
    fn set_search_properties(&mut self, _: Option<&Objective>, _: &SearchSpace) -> Result<()> {
        Ok(())
    }
    fn suggest(&mut self, _: &str) -> Result<Suggestion> {
        self.next += 5;
        Ok(Suggestion::Trial { config: object(json!({"by": self.next - 5})), drawn: Vec::new() })
    }
}

/// Stops every trial at its `after`th result.
struct StopAfter(u64);

impl TrialScheduler for StopAfter {
    fn on_trial_result(&mut self, _: &Trial, result: &Metrics, _: &[Trial]) -> Result<Answer> {
        let is_last = result["training_iteration"].as_u64() >= Some(self.0);
        Ok(if is_last { Decision::Stop } else { Decision::Continue }.into())
    }
    fn debug_string(&self) -> String {
        "StopAfter".into()
    }
}

#[test]
fn a_sweep_file_names_the_schedulers_searchers_and_stoppers_that_a_program_registered() {
    search::register("Counting", |settings, seed| {
        Ok(Box::new(Counting { next: settings["first"].as_u64().unwrap() + seed }))
    });
    schedulers::register("StopAfter", |settings, _| {
        Ok(Box::new(StopAfter(settings["results"].as_u64().unwrap())))
    });
    stoppers::register("Enough", |settings| {
        let total = settings["total"].as_u64();
        let is_enough = move |_: &str, result: &Metrics| result["total"].as_u64() >= total;
        Ok(Box::new(FunctionStopper::new(is_enough)))
    });
    let file = r#"
        algorithm = "counter"
        num_samples = 3
        seed = 5
        [scheduler]
        type = "stopafter"
        results = 4
        [search]
        type = "Counting"
        first = 1
        repeat = 1
        [[stoppers]]
        type = "Enough"
        total = 30
        [[stoppers]]
        type = "MaximumIteration"
        max_iter = 9
    "#;
    let home = tempfile::tempdir().unwrap();
    let file = SweepFile::parse(file, "sweep.toml").unwrap();
    let counters = TrainableFactory::new("counter", |_| Ok(Counter::default()));
    let tuner = file.tuner(counters, Some(home.path().into())).unwrap();
    let grid = tuner.fit().unwrap();
    let ends = |result: &TrialResult| {
        let metrics = result.metrics.as_ref().unwrap();
        json!([result.config["by"], metrics["training_iteration"], metrics["total"]])
    };
    // The scheduler stops the first trial, the stopper stops the others.
    assert_eq!(
        grid.iter().map(ends).collect::<Vec<_>>(),
        [json!([6, 4, 24]), json!([11, 3, 33]), json!([16, 2, 32])]
    );
    let message = |file: &str| {
        let file = SweepFile::parse(&format!("algorithm = \"counter\"\n{file}"), "sweep.toml").unwrap();
        let counters = TrainableFactory::new("counter", |_| Ok(Counter::default()));
        file.tuner(counters, None).map(drop).unwrap_err().to_string()
    };
    assert!(message("scheduler = { type = 'StopsAfter' }").ends_with("nearest: StopAfter"));
    assert!(message("search = { type = 'Countin' }").ends_with("nearest: Counting"));
    assert_eq!(
        message("stoppers = [{ type = 'xyz' }]"),
        "`stoppers.type` is \"xyz\", but it must be one of MaximumIteration, Timeout, TrialPlateau, ExperimentPlateau, \
         Enough"
    );
    assert_eq!(
        message("stoppers = [{ type = 'Timeout', timeout = -1.0 }]"),
        "`stoppers.timeout` is -1, but it must be seconds, 0 or more"
    );
}

#[test]
fn a_name_that_leads_out_of_the_storage_path_is_refused_with_the_file_though_another_may_be_given() {
    for name in ["../x", "/tmp/x", ".hidden", ""] {
        let text = format!("algorithm = \"counter\"\nname = \"{name}\"");
        let message = SweepFile::parse(&text, "sweep.toml").unwrap_err().to_string();
        assert!(message.contains("but it names one directory"), "{message}");
    }
    SweepFile::parse("algorithm = \"counter\"\nname = \"first\"", "sweep.toml").unwrap();
}
