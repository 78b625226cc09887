//! Sweeps from elsewhere: a directory is data, and nothing in it leads out of it.

use std::fs;
use std::path::{Path, PathBuf};

use pavlov_tune::Restore;
use serde_json::Value;

use crate::sweeps::{counters, tuner};

/// A finished sweep.
fn sweep(home: &Path) -> PathBuf {
    tuner(counters(), home, 1).fit().unwrap().experiment_path().to_path_buf()
}

fn refusal(home: &Path, dir: &Path) -> String {
    tuner(counters(), home, 1).restore(dir, Restore::default()).unwrap_err().to_string()
}

fn header(journal: &str) -> Value {
    serde_json::from_str(journal.lines().next().unwrap()).unwrap()
}

#[test]
fn a_journal_that_names_a_place_outside_of_its_directory_is_refused() {
    for (id, place) in [("../outside", "../outside"), ("/tmp/outside", "/tmp/outside"), ("a/b", "a/b")] {
        let home = tempfile::tempdir().unwrap();
        let dir = sweep(home.path());
        let path = dir.join("journal.jsonl");
        let journal = fs::read_to_string(&path).unwrap();
        let prefix = header(&journal)["prefix"].as_str().unwrap().to_string();
        // New trials would get the prefix; a trial that is there has it in its id.
        for changed in [
            journal.replacen(&format!(r#""prefix":"{prefix}""#), &format!(r#""prefix":"{id}""#), 1),
            journal.replace(&format!(r#""{prefix}_00000""#), &format!(r#""{id}_00000""#)),
        ] {
            assert_ne!(changed, journal);
            fs::write(&path, changed).unwrap();
            let message = refusal(home.path(), &dir);
            assert!(message.contains(&format!("the trial \"{place}_00000\", which leads out")), "{message}");
        }
    }
}

#[test]
fn a_journal_with_an_endless_line_is_refused_and_stays_as_it_is() {
    let home = tempfile::tempdir().unwrap();
    let dir = sweep(home.path());
    let path = dir.join("journal.jsonl");
    let lines = fs::read_to_string(&path).unwrap().lines().count();
    let length = 300_000_000;
    fs::OpenOptions::new().write(true).open(&path).unwrap().set_len(length).unwrap();
    let message = refusal(home.path(), &dir);
    let expected = format!(
        "journal.jsonl, line {}: a line has 268435457 bytes or more, but pavlov reads 268435456 at most; cut the file off \
         before this line, or put a copy of it in its place",
        lines + 1
    );
    assert!(message.ends_with(&expected), "{message}");
    assert_eq!(fs::metadata(&path).unwrap().len(), length);
}

#[test]
fn a_trial_directory_that_is_a_symbolic_link_is_refused() {
    let home = tempfile::tempdir().unwrap();
    let dir = sweep(home.path());
    let prefix = header(&fs::read_to_string(dir.join("journal.jsonl")).unwrap())["prefix"].clone();
    let trial = dir.join(format!("{}_00000", prefix.as_str().unwrap()));
    fs::rename(&trial, home.path().join("moved")).unwrap();
    std::os::unix::fs::symlink(home.path().join("moved"), &trial).unwrap();
    let message = refusal(home.path(), &dir);
    assert!(
        message.contains("_00000 in it is a symbolic link; put the trial's directory itself"),
        "{message}"
    );
}

#[test]
fn a_storage_that_a_directory_names_is_used_only_where_that_sweep_is_worked_on() {
    let home = tempfile::tempdir().unwrap();
    let dir = sweep(home.path());
    let place = home.path().join("bucket");
    let url = format!("file://{}/sweep", place.display());
    fs::write(dir.join(".storage"), &url).unwrap();
    let message = refusal(home.path(), &dir);
    assert!(
        message.contains(&format!("it names {url} as its storage, but that sweep is worked on in")),
        "{message}"
    );
    assert!(!place.exists());
}
