//! Event files, read back by TensorBoard's own reader.

use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::Command;

use pavlov_tune::loggers::{Logger, TensorBoardLogger};
use serde_json::{Value, json};

use crate::counter::object;

const READER: &str = r#"
import json, sys
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
events = EventAccumulator(sys.argv[1], size_guidance={"scalars": 0})
events.Reload()
print(json.dumps({tag: [[e.step, e.value] for e in events.Scalars(tag)] for tag in events.Tags()["scalars"]}))
"#;

const HPARAMS_READER: &str = r#"
import json, sys
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.plugins.hparams.plugin_data_pb2 import HParamsPluginData
events = EventAccumulator(sys.argv[1])
events.Reload()
content = events.PluginTagToContent("hparams")["_hparams_/session_start_info"]
hparams = HParamsPluginData.FromString(content).session_start_info.hparams
print(json.dumps({name: getattr(value, value.WhichOneof("kind")) for name, value in hparams.items()}))
"#;

/// `{tag: [[step, value], ...]}` as TensorBoard understands the files in `dir`; `None` where it is not installed.
fn read_back(dir: &Path) -> Option<Value> {
    read_with(READER, dir)
}

fn read_with(reader: &str, dir: &Path) -> Option<Value> {
    let Some(python) = std::env::var_os("PAVLOV_TEST_PYTHON") else {
        // Not `eprintln!`: the test harness would swallow it.
        let note = b"skipped: set PAVLOV_TEST_PYTHON to a Python that has tensorboard\n";
        std::io::stderr().write_all(note).unwrap();
        return None;
    };
    let output = Command::new(&python).args(["-c", reader]).arg(dir).output();
    let output = output.unwrap_or_else(|error| panic!("PAVLOV_TEST_PYTHON={}: {error}", python.display()));
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Some(serde_json::from_slice(&output.stdout).unwrap())
}

#[test]
fn tensorboard_reads_the_scalars_in_groups_at_their_steps() {
    let home = tempfile::tempdir().unwrap();
    let mut logger = TensorBoardLogger::open(home.path()).unwrap();
    for (iteration, reward) in [(1, Some(21.5)), (2, None), (3, Some(-3e-7))] {
        let result = json!({
            "episode_reward_mean": reward, "info": {"learner": {"kl": 0.25 * iteration as f64}}, "done": false,
            "timesteps_total": 300 * iteration, "training_iteration": iteration, "pid": 7, "config": {"lr": 1},
            "timestamp": 5, "time_total_s": 9.0, "date": "today", "hist": [1.0],
        });
        logger.on_result(&object(result)).unwrap();
    }
    logger.close().unwrap();
    let Some(read) = read_back(home.path()) else { return };
    let small = f64::from(-3e-7_f32);
    assert_eq!(
        read,
        json!({
            "rollout/episode_reward_mean": [[300, 21.5], [900, small]],
            "train/kl": [[300, 0.25], [600, 0.5], [900, 0.75]],
            "time/timesteps_total": [[300, 300.0], [600, 600.0], [900, 900.0]],
        })
    );
}

#[test]
fn without_timesteps_the_step_is_the_iteration() {
    let home = tempfile::tempdir().unwrap();
    let mut logger = TensorBoardLogger::open(home.path()).unwrap();
    logger.on_result(&object(json!({"a": 1, "timesteps_total": null, "training_iteration": 4}))).unwrap();
    let Some(read) = read_back(home.path()) else { return };
    assert_eq!(read, json!({"a": [[4, 1.0]]}));
}

#[test]
fn a_restart_opens_a_new_file_and_tensorboard_forgets_what_came_after() {
    let home = tempfile::tempdir().unwrap();
    let result = |iteration: u64, a: f64| object(json!({"a": a, "training_iteration": iteration}));
    let mut killed = TensorBoardLogger::open(home.path()).unwrap();
    (1..=5).for_each(|i| killed.on_result(&result(i, 1.0)).unwrap());
    let mut resumed = TensorBoardLogger::open(home.path()).unwrap();
    resumed.rewind(2).unwrap();
    (3..=4).for_each(|i| resumed.on_result(&result(i, 2.0)).unwrap());
    assert_eq!(fs::read_dir(home.path()).unwrap().count(), 2);
    let Some(read) = read_back(home.path()) else { return };
    assert_eq!(read, json!({"a": [[1, 1.0], [2, 1.0], [3, 2.0], [4, 2.0]]}));
}

#[test]
fn tensorboard_reads_the_drawn_settings_of_a_sweeps_trials() {
    let home = tempfile::tempdir().unwrap();
    let grid = crate::sweeps::tuner(crate::sweeps::counters(), home.path(), 1).fit().unwrap();
    let Some(read) = read_with(HPARAMS_READER, &grid[1].path) else { return };
    assert_eq!(read, json!({"by": 3.0, "lr": grid[1].config["lr"]}));
    let mut logger = TensorBoardLogger::open(&home.path().join("sweep")).unwrap();
    logger.hparams(&object(json!({"relu": true, "act": "tanh", "hiddens": [64, 64]}))).unwrap();
    let Some(read) = read_with(HPARAMS_READER, &home.path().join("sweep")) else { return };
    assert_eq!(read, json!({"relu": true, "act": "tanh", "hiddens": "[64,64]"}));
}
