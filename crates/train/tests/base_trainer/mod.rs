//! BaseTrainer: what a loop is given, what is refused, sweeps over it, failures and restores.

use std::path::Path;

use pavlov_data::Dataset;
use pavlov_train::{BaseTrainer, ScalingConfig, TrainContext, Training};
use pavlov_tune::schedulers::{
    AsyncHyperBandConfig, AsyncHyperBandScheduler, DistributeResources, FifoScheduler,
    ResourceChangingScheduler,
};
use pavlov_tune::search::grid_search;
use pavlov_tune::session::{self, Checkpoint};
use pavlov_tune::{Bundle, Config, Error, Objective, Result, RunConfig, TrialStatus, Tuner};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

pub(crate) mod linear;
mod restoring;
mod scaling;

use linear::Linear;
pub(crate) use linear::data;

pub(crate) fn run_config(home: &Path) -> RunConfig {
    RunConfig { name: Some("training".into()), storage_path: Some(home.into()), ..RunConfig::default() }
}

fn cpus(n: f64) -> Bundle {
    Bundle::from([("CPU".into(), n)])
}

/// Reports once what it was given.
#[derive(Clone, Serialize, Deserialize)]
struct Tell {
    lr: f64,
    model: Model,
    labels: serde_json::Map<String, Value>,
    #[serde(skip)]
    calls: Vec<String>,
}

#[derive(Clone, Serialize, Deserialize)]
struct Model {
    hiddens: Vec<u32>,
}

fn tell() -> Tell {
    let labels = serde_json::Map::new();
    Tell { lr: 0.1, model: Model { hiddens: vec![8] }, labels, calls: vec!["lost".into()] }
}

impl BaseTrainer for Tell {
    const SCALING_CONFIG_ALLOWED_KEYS: &'static [&'static str] =
        &["trainer_resources", "num_workers", "use_gpu", "resources_per_worker"];
    const OPEN_KEYS: &'static [&'static str] = &["labels"];

    fn setup(&mut self, context: &TrainContext) -> Result<()> {
        self.calls.push(format!("setup {:?}", context.datasets.keys()));
        Ok(())
    }
    fn preprocess_datasets(&mut self, context: &mut TrainContext) -> Result<()> {
        self.calls.push(format!("preprocess {}", context.dataset("train")?.count()?));
        let halved = context.dataset("train")?.limit(5);
        context.datasets.insert("train".into(), halved);
        Ok(())
    }
    fn training_loop(&mut self, context: &TrainContext) -> Result<()> {
        self.calls.push(format!("loop {}", context.dataset("train")?.count()?));
        assert_eq!(context.metadata, session::get_metadata());
        assert_eq!(context.checkpoint, session::get_checkpoint());
        let told = json!({
            "calls": self.calls, "lr": self.lr, "hiddens": self.model.hiddens, "labels": self.labels,
            "scaling_config": context.scaling_config, "metadata": context.metadata,
            "checkpoint": context.checkpoint.as_ref().map(Checkpoint::to_dict).transpose()?,
        });
        session::report(told, Some(Checkpoint::from_dict(json!({"state": 1}))))
    }
}

fn training(home: &Path) -> Training<Tell> {
    tell().training().run_config(run_config(home)).datasets([("train", data())]).total_resources(cpus(8.0))
}

#[test]
fn setup_preprocessing_and_loop_run_in_this_order_on_a_trainer_made_of_the_settings() {
    let home = tempfile::tempdir().unwrap();
    let result = training(home.path()).fit().unwrap();
    let metrics = result.metrics.as_ref().unwrap();
    assert_eq!(metrics["calls"], json!([r#"setup ["train"]"#, "preprocess 10", "loop 5"]));
    assert_eq!((&metrics["lr"], &metrics["checkpoint"]), (&json!(0.1), &Value::Null));
    assert_eq!((result.status, result.error.as_deref()), (TrialStatus::Terminated, None));
    let scaling = json!({
        "trainer_resources": null, "num_workers": null, "workers": null, "placement_strategy": null, "use_gpu": false,
        "resources_per_worker": null,
    });
    let config = json!({"lr": 0.1, "model": {"hiddens": [8]}, "labels": {}, "scaling_config": scaling});
    assert_eq!(json!(result.config), config);
    assert_eq!(result.history().unwrap()[0]["config"], config);
    let [(path, saved)] = &result.best_checkpoints().unwrap()[..] else { panic!("one checkpoint") };
    assert_eq!((Some(path), &saved["lr"]), (result.checkpoint.as_ref(), &json!(0.1)));
    assert_eq!(pavlov_tune::checkpoint::verify(path, Some("Tell")).unwrap().kind, "Tell");
}

#[test]
fn metadata_is_in_the_context_and_in_every_checkpoint_where_its_own_keys_win() {
    struct Own;
    impl Serialize for Own {
        fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
            serializer.serialize_unit()
        }
    }
    impl<'de> Deserialize<'de> for Own {
        fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
            <()>::deserialize(deserializer).map(|()| Own)
        }
    }
    impl BaseTrainer for Own {
        fn training_loop(&mut self, _: &TrainContext) -> Result<()> {
            let own = Config::from_iter([("epoch".to_string(), 3.into())]);
            let json = Checkpoint::from_dict(json!({"x": 1})).with_metadata(own);
            session::report(json!({"told": session::get_metadata()}), Some(json))?;
            let files = tempfile::tempdir().unwrap();
            std::fs::write(files.path().join("weights"), "abc").unwrap();
            session::report(json!({"told": 2}), Some(Checkpoint::from_directory(files.path())))
        }
    }
    let home = tempfile::tempdir().unwrap();
    let metadata = json!({"epoch": 0, "classes": ["cat", "dog"]});
    let result = Own.training().run_config(run_config(home.path())).metadata(metadata.clone()).fit().unwrap();
    assert_eq!(result.history().unwrap()[0]["told"], metadata);
    let read = |i: usize| {
        let checkpoint = Checkpoint::from_directory(&result.checkpoints[i].1);
        (json!(checkpoint.get_metadata().unwrap()), checkpoint.to_dict().ok())
    };
    assert_eq!(read(0), (json!({"epoch": 3, "classes": ["cat", "dog"]}), Some(json!({"x": 1}))));
    assert_eq!(read(1), (metadata, None));
    assert_eq!(session::get_metadata(), Config::new());
}

#[test]
fn a_trial_goes_on_from_the_given_checkpoint_until_it_has_its_own() {
    let home = tempfile::tempdir().unwrap();
    let reference = Linear::new().training().run_config(run_config(&home.path().join("whole")));
    let reference = reference.datasets([("train", data())]).fit().unwrap();
    let early = &reference.checkpoints[3].1;
    let mut config = run_config(home.path());
    config.failure_config.max_failures = Some(1);
    let result = Linear { fails_at: Some(7), ..Linear::new() }
        .training()
        .run_config(config)
        .datasets([("train", data())])
        .resume_from_checkpoint(Checkpoint::from_directory(early))
        .fit()
        .unwrap();
    let epochs = |history: Vec<pavlov_tune::Metrics>| -> Vec<Value> {
        history.iter().map(|result| json!([result["epoch"], result["loss"]])).collect()
    };
    // Epochs 5 and 6, a failure, then from the trial's own checkpoint of epoch 6.
    assert_eq!(epochs(result.history().unwrap()), epochs(reference.history().unwrap())[4..]);
    let failures = std::fs::read_to_string(result.path.join("error.txt")).unwrap();
    assert_eq!(failures.lines().count(), 1, "{failures}");
}

#[test]
fn what_cannot_be_is_refused_with_its_name_value_and_rule() {
    let home = tempfile::tempdir().unwrap();
    let message = |change: fn(Training<Tell>) -> Training<Tell>| {
        change(training(home.path())).fit().unwrap_err().to_string()
    };
    assert_eq!(
        message(|training| training.metadata(json!([1, 2]))),
        "`metadata` is [1,2], but it must be a JSON object"
    );
    assert_eq!(
        message(|training| training.resume_from_checkpoint(Checkpoint::from_directory("/nowhere"))),
        "checkpoint /nowhere: there is no such directory"
    );
    assert_eq!(
        message(|mut training| {
            training.trainer.lr = f64::NAN;
            training
        }),
        "`lr` is null, but it must be a number"
    );
    assert_eq!(
        message(|training| {
            let bundle = Bundle::from([("GPU".into(), 1.0)]);
            let scaling = ScalingConfig { resources_per_worker: Some(bundle), ..ScalingConfig::workers(2) };
            training.scaling_config(scaling)
        }),
        "`scaling_config.resources_per_worker.GPU` is 1, but `use_gpu` is false: set it, or leave `GPU` out"
    );
    assert_eq!(
        message(|training| {
            let bundle = Bundle::from([("GPU".into(), 0.0)]);
            let scaling = ScalingConfig {
                use_gpu: true,
                resources_per_worker: Some(bundle),
                ..ScalingConfig::workers(2)
            };
            training.scaling_config(scaling)
        }),
        "`scaling_config.resources_per_worker.GPU` is 0, but `use_gpu` is true: set it to false, or give each a GPU"
    );
    assert_eq!(
        message(|training| training.run_config({
            let mut config = RunConfig::default();
            config.checkpoint_config.checkpoint_frequency = Some(2);
            config
        })),
        "`checkpoint_frequency` is 2, but a function or training loop saves when it reports a checkpoint: leave it out"
    );
    let linear = Linear::new().training().scaling_config(ScalingConfig::workers(2));
    assert_eq!(
        linear.as_trainable().unwrap_err().to_string(),
        "`scaling_config.num_workers` is 2, but Linear does not use it; it uses trainer_resources"
    );
}

#[test]
fn what_the_machine_can_never_give_is_refused_with_the_way_out() {
    let home = tempfile::tempdir().unwrap();
    let scaling = ScalingConfig { use_gpu: true, ..ScalingConfig::workers(1) };
    let message = training(home.path()).scaling_config(scaling).fit().unwrap_err().to_string();
    assert!(message.starts_with(r#"resource request [{"CPU": 1.0}, {"GPU": 1.0}]: trial "#), "{message}");
    let end = r#"can never run: the sweep has {"CPU": 8.0} altogether; `scaling_config` says what it needs"#;
    assert!(message.ends_with(end), "{message}");
    // It has begun, and goes on with less.
    let restored = Tell::restore(home.path().join("training")).unwrap();
    let result =
        restored.datasets([("train", data())]).scaling_config(ScalingConfig::default()).fit().unwrap();
    assert_eq!(result.status, TrialStatus::Terminated);
}

#[test]
fn settings_that_are_no_object_or_have_the_trainings_own_name_are_refused() {
    #[derive(Serialize, Deserialize)]
    struct Pair(f64, f64);
    impl BaseTrainer for Pair {
        fn training_loop(&mut self, _: &TrainContext) -> Result<()> {
            Ok(())
        }
    }
    #[derive(Serialize, Deserialize)]
    struct Taken {
        scaling_config: u32,
    }
    impl BaseTrainer for Taken {
        fn training_loop(&mut self, _: &TrainContext) -> Result<()> {
            Ok(())
        }
    }
    assert_eq!(
        Pair(1.0, 2.0).training().as_trainable().unwrap_err().to_string(),
        "`Pair` is [1.0,2.0], but settings must be a struct with named fields"
    );
    assert_eq!(
        Taken { scaling_config: 1 }.training().as_trainable().unwrap_err().to_string(),
        "`scaling_config` is 1, but `Taken` must not have a setting of that name: it is the training's"
    );
}

#[test]
fn a_tuner_lays_drawn_settings_over_the_trainers_and_draws_its_scaling_too() {
    let home = tempfile::tempdir().unwrap();
    let space = json!({
        "lr": grid_search([0.5, 0.25]),
        "labels": {"new": 1},
        "scaling_config": {"num_workers": grid_search([1, 3])},
    });
    let mut tuner = Tuner::new(training(home.path()).as_trainable().unwrap()).space(space);
    tuner.run_config = run_config(home.path());
    tuner.tune_config.total_resources = Some(cpus(8.0));
    let grid = tuner.fit().unwrap();
    assert_eq!(grid.errors().collect::<Vec<_>>(), []);
    let told: Vec<Value> = grid
        .iter()
        .map(|trial| trial.metrics.as_ref().unwrap())
        .map(|told| {
            json!([told["lr"], told["scaling_config"]["num_workers"], told["labels"], told["hiddens"]])
        })
        .collect();
    let labels = json!({"new": 1});
    assert_eq!(
        json!(told),
        json!([[0.5, 1, labels, [8]], [0.25, 1, labels, [8]], [0.5, 3, labels, [8]], [0.25, 3, labels, [8]]])
    );
    for (space, message) in [
        (json!({"lrr": 1}), "unknown setting `lrr` (from the settings of the trial); nearest: `lr`"),
        (json!({"lr": "high"}), "`lr` is \"high\", but it must be a number"),
        (
            json!({"scaling_config": {"topology": "1x1"}}),
            "unknown setting `scaling_config.topology` (from the settings of the trial); settings there: \
             scaling_config.trainer_resources, scaling_config.num_workers, scaling_config.workers, \
             scaling_config.placement_strategy, scaling_config.use_gpu, scaling_config.resources_per_worker",
        ),
    ] {
        let mut tuner = Tuner::new(training(home.path()).as_trainable().unwrap()).space(space);
        let fresh = tempfile::tempdir().unwrap();
        tuner.run_config = run_config(fresh.path());
        assert_eq!(tuner.fit().unwrap_err().to_string(), message);
    }
}

#[test]
fn a_scheduler_that_gives_more_workers_is_heard() {
    #[derive(Serialize, Deserialize)]
    struct Workers;
    impl BaseTrainer for Workers {
        const SCALING_CONFIG_ALLOWED_KEYS: &'static [&'static str] =
            &["trainer_resources", "num_workers", "use_gpu", "resources_per_worker"];
        fn training_loop(&mut self, context: &TrainContext) -> Result<()> {
            for i in 0..3 {
                let told = json!({"scaling": context.scaling_config});
                session::report(told, Some(Checkpoint::from_dict(json!({"i": i}))))?;
            }
            Ok(())
        }
    }
    let home = tempfile::tempdir().unwrap();
    let training = Workers.training().scaling_config(ScalingConfig::workers(1));
    let mut tuner = Tuner::new(training.as_trainable().unwrap());
    tuner.run_config = run_config(home.path());
    tuner.tune_config.total_resources = Some(cpus(4.0));
    let allocation = DistributeResources { add_bundles: true, ..DistributeResources::default() };
    let scheduler = ResourceChangingScheduler::new(Box::new(FifoScheduler), Box::new(allocation));
    tuner.tune_config.scheduler = Some(Box::new(scheduler));
    let grid = tuner.fit().unwrap();
    assert_eq!(grid.errors().collect::<Vec<_>>(), []);
    let history = grid[0].history().unwrap();
    assert_eq!(history[0]["scaling"]["num_workers"], 1);
    let last = history.last().unwrap();
    // Four CPUs: one for the trainer, one for each of three workers.
    assert_eq!(last["scaling"]["num_workers"], 3);
    assert_eq!(last["config"]["scaling_config"], last["scaling"]);
}

#[test]
fn asha_ends_what_lags_behind_and_the_best_learning_rate_wins() {
    let home = tempfile::tempdir().unwrap();
    let trainable = Linear::new().training().datasets([("train", data())]).as_trainable().unwrap();
    let mut tuner = Tuner::new(trainable).space(json!({"lr": grid_search([0.01, 0.005, 1e-4, 1e-5])}));
    tuner.run_config = run_config(home.path());
    tuner.tune_config.objective = Some(Objective::minimize("loss"));
    tuner.tune_config.max_concurrent_trials = Some(1);
    let asha = AsyncHyperBandConfig { grace_period: 2.0, max_t: 10.0, ..AsyncHyperBandConfig::default() };
    tuner.tune_config.scheduler = Some(Box::new(AsyncHyperBandScheduler::new(asha).unwrap()));
    let grid = tuner.fit().unwrap();
    let iterations: Vec<Value> =
        grid.iter().map(|trial| trial.metrics.as_ref().unwrap()["training_iteration"].clone()).collect();
    // One after the other, each worse than all before: only the first goes beyond the first rung.
    assert_eq!(json!(iterations), json!([10, 2, 2, 2]));
    assert_eq!(grid.best().unwrap().config["lr"], 0.01);
}

#[test]
fn a_loop_that_asks_for_a_dataset_that_is_not_there_hears_which_are() {
    let home = tempfile::tempdir().unwrap();
    let training = Linear::new().training().run_config(run_config(home.path()));
    let Err(Error::TrainingFailed { message, .. }) = training.datasets([("test", Dataset::range(1))]).fit()
    else {
        panic!("it trained")
    };
    assert_eq!(message, "`datasets` is [\"test\"], but the loop asks for \"train\"");
}
