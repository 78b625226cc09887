//! Event files, read back as their format says, and by TensorBoard's own reader where there is one.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
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

const HISTOGRAM_READER: &str = r#"
import json, sys
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
events = EventAccumulator(sys.argv[1], size_guidance={"histograms": 0})
events.Reload()
shown = lambda h: [h.num, h.min, h.max, h.sum, h.sum_squares, list(h.bucket_limit), list(h.bucket)]
tags = events.Tags()["histograms"]
print(json.dumps({tag: [[e.step, *shown(e.histogram_value)] for e in events.Histograms(tag)] for tag in tags}))
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

/// `{tag: [[step, value], ...]}` of the event files in `dir`. TensorBoard must understand them so too, where it is
/// installed.
fn read_back(dir: &Path) -> Value {
    let mut scalars: BTreeMap<String, Vec<(i64, f32)>> = BTreeMap::new();
    for event in events(dir) {
        let step = event.number(2) as i64;
        if event.message(7).is_some() {
            // A restart: what was read for this step and later is forgotten.
            scalars.values_mut().for_each(|points| points.retain(|(at, _)| *at < step));
        }
        for value in event.message(5).iter().flat_map(|summary| summary.messages(1)) {
            if let Some(Field::Fixed32(bits)) = value.field(2) {
                scalars.entry(value.text(1)).or_default().push((step, f32::from_bits(*bits)));
            }
        }
    }
    scalars.retain(|_, points| !points.is_empty());
    let read = json!(scalars);
    if let Some(tensorboards) = read_with(READER, dir) {
        assert_eq!(tensorboards, read);
    }
    read
}

/// The settings of a trial in `dir`'s event files. TensorBoard must understand them so too, where it is installed.
fn read_hparams(dir: &Path) -> Value {
    let named = |event: &Message| {
        let summary = event.message(5)?;
        let value = summary.messages(1).into_iter().find(|v| v.text(1) == "_hparams_/session_start_info")?;
        let plugin = value.message(9)?.message(1)?;
        assert_eq!(plugin.text(1), "hparams");
        plugin.message(2)?.message(3)
    };
    let session = events(dir).iter().find_map(named).expect("the settings of a trial");
    let kind = |value: Message| match (value.field(2), value.field(4)) {
        (Some(Field::Fixed64(bits)), _) => json!(f64::from_bits(*bits)),
        (_, Some(Field::Number(flag))) => json!(*flag == 1),
        _ => json!(value.text(3)),
    };
    let entries = session.messages(1).into_iter();
    let entries = entries.map(|entry| (entry.text(1), kind(entry.message(2).expect("a value"))));
    let read = Value::Object(entries.collect());
    if let Some(tensorboards) = read_with(HPARAMS_READER, dir) {
        assert_eq!(tensorboards, read);
    }
    read
}

/// A protobuf message: its fields by their numbers.
struct Message(Vec<(u64, Field)>);

enum Field {
    Number(u64),
    Fixed64(u64),
    Fixed32(u32),
    Bytes(Vec<u8>),
}

impl Message {
    fn parse(mut bytes: &[u8]) -> Self {
        let mut fields = Vec::new();
        while !bytes.is_empty() {
            let key = number(&mut bytes);
            let field = match key & 7 {
                0 => Field::Number(number(&mut bytes)),
                1 => Field::Fixed64(u64::from_le_bytes(take(&mut bytes, 8).try_into().unwrap())),
                2 => {
                    let length = number(&mut bytes) as usize;
                    Field::Bytes(take(&mut bytes, length).to_vec())
                }
                5 => Field::Fixed32(u32::from_le_bytes(take(&mut bytes, 4).try_into().unwrap())),
                other => panic!("no wire type {other}"),
            };
            fields.push((key >> 3, field));
        }
        Self(fields)
    }

    fn field(&self, number: u64) -> Option<&Field> {
        self.0.iter().find(|(own, _)| *own == number).map(|(_, field)| field)
    }

    fn number(&self, number: u64) -> u64 {
        match self.field(number) {
            Some(Field::Number(value)) => *value,
            _ => 0,
        }
    }

    fn double(&self, number: u64) -> f64 {
        match self.field(number) {
            Some(Field::Fixed64(bits)) => f64::from_bits(*bits),
            _ => 0.0,
        }
    }

    fn doubles(&self, number: u64) -> Vec<f64> {
        let Some(Field::Bytes(bytes)) = self.field(number) else { return Vec::new() };
        bytes.chunks_exact(8).map(|eight| f64::from_le_bytes(eight.try_into().unwrap())).collect()
    }

    fn text(&self, number: u64) -> String {
        match self.field(number) {
            Some(Field::Bytes(bytes)) => String::from_utf8(bytes.clone()).unwrap(),
            _ => String::new(),
        }
    }

    fn messages(&self, number: u64) -> Vec<Message> {
        let bytes = self.0.iter().filter(|(own, _)| *own == number).filter_map(|(_, field)| match field {
            Field::Bytes(bytes) => Some(Message::parse(bytes)),
            _ => None,
        });
        bytes.collect()
    }

    fn message(&self, number: u64) -> Option<Message> {
        self.messages(number).into_iter().next()
    }
}

fn take<'a>(bytes: &mut &'a [u8], length: usize) -> &'a [u8] {
    let (taken, rest) = bytes.split_at(length);
    *bytes = rest;
    taken
}

fn number(bytes: &mut &[u8]) -> u64 {
    let mut number = 0;
    for shift in (0..).step_by(7) {
        let byte = take(bytes, 1)[0];
        number |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            break;
        }
    }
    number
}

/// The events of all files in `dir`, the oldest file first; the frame of each must be whole.
fn events(dir: &Path) -> Vec<Message> {
    let is_event_file = |path: &PathBuf| path.to_string_lossy().contains("tfevents");
    let mut files: Vec<PathBuf> =
        fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()).filter(is_event_file).collect();
    files.sort();
    let masked = |bytes: &[u8]| crc32c::crc32c(bytes).rotate_right(15).wrapping_add(0xa282_ead8);
    let mut events = Vec::new();
    for file in files {
        let text = fs::read(&file).unwrap();
        let mut rest = text.as_slice();
        while !rest.is_empty() {
            let length = take(&mut rest, 8);
            assert_eq!(take(&mut rest, 4), masked(length).to_le_bytes());
            let content = take(&mut rest, u64::from_le_bytes(length.try_into().unwrap()) as usize);
            assert_eq!(take(&mut rest, 4), masked(content).to_le_bytes());
            events.push(Message::parse(content));
        }
    }
    events
}

/// What TensorBoard's own reader says; `None` where it is not installed.
fn read_with(reader: &str, dir: &Path) -> Option<Value> {
    let python = std::env::var_os("PAVLOV_TEST_PYTHON")?;
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
    let read = read_back(home.path());
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
fn lists_of_numbers_are_histograms_with_one_bar_per_number_and_at_most_thirty() {
    let home = tempfile::tempdir().unwrap();
    let mut logger = TensorBoardLogger::open(home.path()).unwrap();
    let ramp: Vec<f64> = (0..=60).map(f64::from).collect();
    let result = json!({
        "hist_stats": {"episode_reward": [1.0, 2, 9.0], "same": [4.0, 4.0], "ramp": ramp, "none": [], "mixed": [1, "a"]},
        "training_iteration": 4,
    });
    logger.on_result(&object(result)).unwrap();
    logger.close().unwrap();
    // num, min, max, sum, sum of squares, upper bounds of the bars, numbers in each bar.
    let read: BTreeMap<String, Vec<Vec<Value>>> = events(home.path())
        .iter()
        .flat_map(|event| event.message(5).into_iter().flat_map(|summary| summary.messages(1)))
        .filter_map(|value| Some((value.text(1), value.message(5)?)))
        .map(|(tag, histogram)| {
            let of = |at: u64| json!(histogram.double(at));
            let row = vec![
                json!(4),
                of(3),
                of(1),
                of(2),
                of(4),
                of(5),
                json!(histogram.doubles(6)),
                json!(histogram.doubles(7)),
            ];
            (tag, vec![row])
        })
        .collect();
    let [reward, same, ramp] =
        ["episode_reward", "same", "ramp"].map(|name| &read[&format!("rollout/hist_stats/{name}")][0]);
    assert_eq!(read.len(), 3, "{read:?}");
    let third = |part: f64| 1.0 + 8.0 / 3.0 * part;
    assert_eq!(
        json!(reward),
        json!([4, 3.0, 1.0, 9.0, 12.0, 86.0, [third(1.0), third(2.0), 9.0], [2.0, 0.0, 1.0]])
    );
    assert_eq!(json!(same), json!([4, 2.0, 4.0, 4.0, 8.0, 32.0, [4.0], [2.0]]));
    assert_eq!(ramp[7], json!([vec![2.0; 29], vec![3.0]].concat()));
    if let Some(tensorboards) = read_with(HISTOGRAM_READER, home.path()) {
        assert_eq!(tensorboards, json!(read));
    }
}

#[test]
fn without_timesteps_the_step_is_the_iteration() {
    let home = tempfile::tempdir().unwrap();
    let mut logger = TensorBoardLogger::open(home.path()).unwrap();
    logger.on_result(&object(json!({"a": 1, "timesteps_total": null, "training_iteration": 4}))).unwrap();
    let read = read_back(home.path());
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
    let read = read_back(home.path());
    assert_eq!(read, json!({"a": [[1, 1.0], [2, 1.0], [3, 2.0], [4, 2.0]]}));
}

#[test]
fn tensorboard_reads_the_drawn_settings_of_a_sweeps_trials() {
    let home = tempfile::tempdir().unwrap();
    let grid = crate::sweeps::tuner(crate::sweeps::counters(), home.path(), 1).fit().unwrap();
    let read = read_hparams(&grid[1].path);
    assert_eq!(read, json!({"by": 3.0, "lr": grid[1].config["lr"]}));
    let mut logger = TensorBoardLogger::open(&home.path().join("sweep")).unwrap();
    logger.hparams(&object(json!({"relu": true, "act": "tanh", "hiddens": [64, 64]}))).unwrap();
    let read = read_hparams(&home.path().join("sweep"));
    assert_eq!(read, json!({"relu": true, "act": "tanh", "hiddens": "[64,64]"}));
}
