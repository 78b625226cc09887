//! What is written for MLflow: its SQLite file, and the folders of its earlier versions.

use std::fs;
use std::path::Path;

use pavlov_tune::TrialContext;
use pavlov_tune::loggers::Logger;
use serde_json::json;

use crate::counter::object;

#[cfg(feature = "sqlite")]
mod database;
mod folder;

fn trial(home: &Path) -> TrialContext {
    let logdir = home.join("first run");
    fs::create_dir_all(&logdir).unwrap();
    TrialContext { trial_id: "default".into(), trial_name: "default".into(), trial_resources: None, logdir }
}

/// The logger after its setup.
fn ready<L: Logger>(mut logger: L, home: &Path) -> L {
    let config = json!({"lr": 0.001, "model": {"fcnet_hiddens": [8, 8]}, "env": "CartPole-v1"});
    logger.setup(&object(config), &trial(home)).unwrap();
    logger
}

fn log(logger: &mut impl Logger, iteration: u64) {
    let result = json!({"training_iteration": iteration, "timesteps_total": 100 * iteration, "config": {"lr": 1},
        "episode_reward_mean": 1.5 * iteration as f64, "info": {"learner": {"default_policy": {"learner_stats": {"kl": 0.25}}}},
        "custom_metrics": {"leaning_mean": 0.5}, "odd name!": 1.0, "a": 1, "b": null});
    logger.on_result(&object(result)).unwrap();
}
