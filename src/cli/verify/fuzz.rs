//! Run folders with a thousand random damages: nothing panics, and an error names the file or the checkpoint that is damaged.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use super::rows::Rows;
use super::settings::Settings;
use super::{ends, intervals};
use crate::cli::run_dir::RunFile;
use crate::doctor;
use crate::registry;
use crate::trainer::rng::Stream;
use crate::tune::{Config, RunOptions, checkpoint, in_words};
use pavlov_report::{self as report, Known, Run, Watched};

/// A run of three iterations of a few milliseconds, with a checkpoint after each.
fn make_run(dir: &Path) {
    let settings = json!({
        "seed": 0, "num_workers": 0, "num_envs_per_worker": 2, "train_batch_size": 32, "sgd_minibatch_size": 16,
        "num_sgd_iter": 1, "model": {"fcnet_hiddens": [4]},
    });
    let Value::Object(settings) = settings else { unreachable!("an object") };
    let entry = registry::algorithm("PPO").expect("PPO");
    let options = RunOptions { logdir: Some(dir.into()), ..RunOptions::default() };
    let mut driver = entry.build("CartPole-v1".into(), settings.into(), options).expect("a driver");
    for _ in 0..3 {
        driver.train().expect("a result");
        driver.save().expect("a checkpoint");
    }
    let run = RunFile {
        pavlov: "0.1.0".into(),
        algorithm: "PPO".into(),
        env: "CartPole-v1".into(),
        stop: Config::new(),
        checkpoint_freq: 1,
        checkpoint_at_end: true,
        keep_checkpoints_num: None,
        remote_checkpoint_dir: None,
        loggers: Vec::new(),
        config: driver.get_config().clone(),
    };
    run.write(dir).expect("written");
    driver.stop().expect("stopped");
}

/// The files below `dir`, but for those of TensorBoard, which no command reads.
fn files(dir: &Path, below: &str, found: &mut Vec<String>) {
    let mut entries: Vec<_> = fs::read_dir(dir.join(below)).expect("a directory").flatten().collect();
    entries.sort_by_key(std::fs::DirEntry::file_name);
    for entry in entries {
        let name = format!("{below}{}", entry.file_name().to_string_lossy());
        if entry.path().is_dir() {
            files(dir, &format!("{name}/"), found);
        } else if !name.starts_with("events") {
            found.push(name);
        }
    }
}

fn below(random: &mut Stream, n: usize) -> usize {
    random.below(n.max(1) as u64) as usize
}

/// Bits flipped, a part cut out, doubled or put in, or a JSON value in the place of another one.
fn damaged(content: &[u8], random: &mut Stream) -> Vec<u8> {
    let mut bytes = content.to_vec();
    let (a, b) = (below(random, bytes.len()), below(random, bytes.len()));
    let (from, to) = (a.min(b), a.max(b));
    match below(random, 6) {
        0 => bytes.truncate(from),
        1 => drop(bytes.drain(from..to)),
        2 => {
            for _ in 0..=below(random, 4) {
                let at = below(random, content.len());
                bytes[at] ^= 1 << below(random, 8);
            }
        }
        3 => {
            let part = bytes[from..to.min(from + 100)].to_vec();
            drop(bytes.splice(to..to, part));
        }
        4 => drop(bytes.splice(from..from, [0xff, 0, b'"', b'{', b'\n'])),
        _ => {
            // After a colon stands a value.
            let colons: Vec<usize> = (0..bytes.len()).filter(|at| bytes[*at] == b':').collect();
            let Some(&colon) = colons.get(below(random, colons.len())) else { return bytes };
            let end = (colon..bytes.len()).find(|at| b",}\n".contains(&bytes[*at])).unwrap_or(bytes.len());
            let values = [
                "null",
                "-1",
                "1e308",
                "18446744073709551616",
                "\"\\u202e\"",
                "[]",
                "{}",
                "[[[[1]]]]",
                "true",
            ];
            let value = values[below(random, values.len())];
            drop(bytes.splice(colon + 1..end, value.bytes()));
        }
    }
    bytes
}

/// What the commands read of a run; each may refuse it.
fn read_by_all(dir: &Path) -> Vec<Result<(), String>> {
    let words = |error: &anyhow::Error| in_words(error.as_ref());
    let report = || {
        let run = Run::read(dir)?;
        let known = Known { changed: None, again: None, commands: Vec::new(), episode: None };
        report::of_run(&run, &known);
        anyhow::Ok(())
    };
    let watch = || {
        let Some(mut watched) = Watched::find(dir) else { return anyhow::Ok(()) };
        Ok(watched.refresh()?)
    };
    let doctor = || {
        doctor::examine(&doctor::read(dir)?);
        anyhow::Ok(())
    };
    let verify = || {
        let newest = checkpoint::latest(dir)?;
        // What is no JSON is replaced, with a line on standard error; that has a test of its own.
        let text = fs::read(dir.join("run.json")).unwrap_or_default();
        if serde_json::from_slice::<RunFile>(&text).is_err() {
            return anyhow::Ok(());
        }
        let run = RunFile::read(dir, newest.as_deref())?;
        let checkpoints = ends(&intervals(dir, &run)?);
        let mut rows = Rows::read(dir)?;
        Settings::read(&checkpoints)?.differences(&run, &rows, dir)?;
        rows.against_checkpoints(&checkpoints)?;
        rows.against_table(dir)?;
        rows.summary();
        anyhow::Ok(())
    };
    [report(), watch(), doctor(), verify()].map(|read| read.map_err(|error| words(&error))).into()
}

#[test]
fn a_thousand_damaged_run_folders_are_read_or_refused_by_the_name_of_what_is_damaged() {
    let home = tempfile::tempdir().expect("a directory");
    let dir = home.path().join("run");
    make_run(&dir);
    assert!(read_by_all(&dir).iter().all(Result::is_ok), "the whole run");
    let mut names = Vec::new();
    files(&dir, "", &mut names);
    let kept: Vec<Vec<u8>> = names.iter().map(|name| fs::read(dir.join(name)).expect("a file")).collect();
    let run_json = fs::read(dir.join("run.json")).expect("run.json");
    let mut random = Stream::new(0, "damage", 0);
    let mut refused = 0;
    for round in 0..1000 {
        let at = below(&mut random, names.len());
        let path = dir.join(&names[at]);
        fs::write(&path, damaged(&kept[at], &mut random)).expect("written");
        for error in read_by_all(&dir).into_iter().filter_map(Result::err) {
            refused += 1;
            let parts: Vec<&str> = names[at].split('/').collect();
            let is_named = parts.iter().any(|part| error.contains(part));
            // A whole run may also lack two checkpoints to compare.
            assert!(
                is_named || error.contains("has no two checkpoints"),
                "round {round}, {}: {error}",
                names[at]
            );
        }
        fs::write(&path, &kept[at]).expect("written");
        fs::write(dir.join("run.json"), &run_json).expect("written");
    }
    assert!(refused > 100, "only {refused} errors: the damages are too small");
}
