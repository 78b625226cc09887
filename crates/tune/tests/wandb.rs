//! Offline runs of Weights & Biases, read back by the reader of wandb itself where it is installed.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use pavlov_tune::TrialContext;
use pavlov_tune::loggers::{Logger, WandbLogger};
use serde_json::{Value, json};

use crate::counter::object;

/// Reads the frames as LevelDB's log has them, and the records with the classes of wandb: the run, its history, the number of
/// records, whether it has ended.
const READER: &str = r#"
import json, struct, sys, zlib
from wandb.proto import wandb_internal_pb2 as pb
data = open(sys.argv[1], "rb").read()
assert struct.unpack("<4sHB", data[:7]) == (b":W&B", 0xBEE1, 0)
at, part, records = 7, b"", []
while at + 7 <= len(data):
    left = 32768 - at % 32768
    if left < 7:
        at += left
        continue
    crc, length, kind = struct.unpack("<IHB", data[at:at + 7])
    piece = data[at + 7:at + 7 + length]
    assert crc == zlib.crc32(bytes([kind]) + piece), at
    part += piece
    at += 7 + length
    if kind in (1, 4):
        record = pb.Record()
        record.ParseFromString(part)
        records.append(record)
        part = b""
assert at == len(data) and part == b""
assert [r.num for r in records] == list(range(1, len(records) + 1)), [r.num for r in records]
items = lambda items: {"/".join(i.nested_key) or i.key: json.loads(i.value_json) for i in items}
kinds = [r.WhichOneof("record_type") for r in records]
run = records[1].run
history = [items(r.history.item) for r in records if r.WhichOneof("record_type") == "history"]
assert [h["_step"] for h in history] == [r.history.step.num for r in records if r.WhichOneof("record_type") == "history"]
summary = [items(r.summary.update) for r in records if r.WhichOneof("record_type") == "summary"][-1]
print(json.dumps({"kinds": kinds, "id": run.run_id, "project": run.project, "name": run.display_name, "summary": summary["train/kl"],
    "config": items(run.config.update), "steps": [h["_step"] for h in history], "kl": [h["train/kl"] for h in history],
    "own": history[0]["rollout/custom_metrics/leaning_mean"]}))
"#;

fn trial(home: &Path) -> TrialContext {
    let logdir = home.join("first");
    fs::create_dir_all(&logdir).unwrap();
    TrialContext { trial_id: "default".into(), trial_name: "default".into(), trial_resources: None, logdir }
}

/// A logger that is ready, as a process makes it that begins or continues the run.
fn logger(home: &Path) -> WandbLogger {
    let mut logger = WandbLogger::new("pole");
    // Settings that are longer than a block of the file.
    let config = json!({"lr": 0.001, "model": {"fcnet_hiddens": [8, 8]}, "long": "x".repeat(70_000)});
    logger.setup(&object(config), &trial(home)).unwrap();
    logger
}

fn log(logger: &mut WandbLogger, iteration: u64) {
    let learner = json!({"default_policy": {"learner_stats": {"kl": 0.25 * iteration as f64}}});
    let result = json!({"training_iteration": iteration, "timesteps_total": 100 * iteration, "info": {"learner": learner},
        "custom_metrics": {"leaning_mean": 0.5}, "text": "no number", "none": null});
    logger.on_result(&object(result)).unwrap();
}

/// The file of the only run.
fn file(home: &Path) -> PathBuf {
    let only = |dir: PathBuf, end: &str| -> PathBuf {
        let all = fs::read_dir(&dir).unwrap().map(|entry| entry.unwrap().path());
        let all: Vec<PathBuf> = all.filter(|path| path.to_str().unwrap().ends_with(end)).collect();
        assert_eq!(all.len(), 1, "{all:?}");
        all[0].clone()
    };
    only(only(home.join("first/wandb"), ""), ".wandb")
}

#[test]
fn a_run_that_goes_on_has_the_file_of_a_run_without_the_break() {
    let home = tempfile::tempdir().unwrap();
    let mut first = logger(home.path());
    log(&mut first, 1);
    log(&mut first, 2);
    let at_two = fs::read(file(home.path())).unwrap();
    log(&mut first, 3);
    // Killed in the middle of a record.
    drop(first);
    let path = file(home.path());
    let killed = fs::read(&path).unwrap();
    fs::write(&path, &killed[..killed.len() - 3]).unwrap();
    let mut second = logger(home.path());
    second.rewind(2).unwrap();
    assert!(fs::read(file(home.path())).unwrap() == at_two);
    log(&mut second, 3);
    second.close().unwrap();
    let ended = fs::read(file(home.path())).unwrap();
    assert!(ended.starts_with(&at_two) && ended.len() > at_two.len());
    // A run that ended is extended: what said its end is gone.
    let third = logger(home.path());
    let extended = fs::read(file(home.path())).unwrap();
    assert!(ended.starts_with(&extended) && extended.len() < ended.len());
    drop(third);
    // A run that begins again has its own results only.
    let mut fourth = logger(home.path());
    log(&mut fourth, 1);
    assert!(fs::read(file(home.path())).unwrap().len() < at_two.len());
}

#[test]
fn an_id_that_a_stranger_wrote_names_no_other_folder() {
    let home = tempfile::tempdir().unwrap();
    let id = json!({"run_id": "../../aa", "started_ms": 1});
    fs::write(trial(home.path()).logdir.join("wandb.json"), id.to_string()).unwrap();
    log(&mut logger(home.path()), 1);
    assert!(!file(home.path()).to_str().unwrap().contains(".."));
}

#[test]
fn a_run_that_failed_ends_with_exit_code_1() {
    // Record 18 { 1 exit_code, 2 runtime }, at the end of the file.
    for (has_failed, end) in [(true, &[0x92, 1, 4, 8, 1, 0x10][..]), (false, &[0x92, 1, 2, 0x10])] {
        let home = tempfile::tempdir().unwrap();
        let mut logger = logger(home.path());
        log(&mut logger, 1);
        if has_failed {
            logger.failed();
        }
        logger.close().unwrap();
        let written = fs::read(file(home.path())).unwrap();
        assert!(written[..written.len() - 1].ends_with(end), "{:?}", &written[written.len() - 10..]);
    }
}

#[test]
#[ignore = "needs wandb: PAVLOV_TEST_WANDB names a Python with it"]
fn wandb_reads_the_run() {
    let python = std::env::var_os("PAVLOV_TEST_WANDB").expect("a Python with wandb");
    let home = tempfile::tempdir().unwrap();
    let mut first = logger(home.path());
    (1..=200).for_each(|iteration| log(&mut first, iteration));
    drop(first);
    let mut second = logger(home.path());
    second.rewind(100).unwrap();
    (101..=150).for_each(|iteration| log(&mut second, iteration));
    second.close().unwrap();
    let output = Command::new(python).args(["-c", READER]).arg(file(home.path())).output().expect("Python");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let read: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let kinds: Vec<&str> =
        read["kinds"].as_array().unwrap().iter().map(|kind| kind.as_str().unwrap()).collect();
    assert_eq!(kinds[..4], ["header", "run", "history", "summary"]);
    assert_eq!((kinds.len(), kinds[kinds.len() - 1]), (2 + 2 * 150 + 1, "exit"));
    assert!(file(home.path()).ends_with(format!("run-{}.wandb", read["id"].as_str().unwrap())));
    assert_eq!(
        (&read["project"], &read["name"], &read["own"]),
        (&json!("pole"), &json!("first"), &json!(0.5))
    );
    assert_eq!(read["config"]["model"], json!({"fcnet_hiddens": [8, 8]}));
    assert_eq!(read["config"]["long"].as_str().map(str::len), Some(70_000));
    assert_eq!(read["steps"], json!((1..=150).collect::<Vec<u64>>()));
    assert_eq!((&read["kl"][149], &read["summary"]), (&json!(37.5), &json!(37.5)));
}
