//! Sweeps whose storage path is a URL.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use pavlov_tune::storage::{SyncConfig, check_storage, open};
use pavlov_tune::{Callback, Metrics, Objective, Restore, Result, Scope, Trial, Tuner, checkpoint, storage};
use serde_json::{Value, json};

mod broken;
mod outages;
mod restoring;
mod runs;

use crate::apart::apart;
use crate::child::child_home;
use crate::faulty;
use crate::sweeps::{assert_equal, copy_dir, counters, population, tuner};

/// The sweep of [`tuner`], one sample, a checkpoint after each iteration.
fn at(place: impl Into<PathBuf>) -> Tuner {
    let mut tuner = tuner(counters(), Path::new(""), 1);
    tuner.run_config.storage_path = Some(place.into());
    tuner.run_config.checkpoint_config.checkpoint_frequency = Some(1);
    tuner.run_config.sync_config = SyncConfig {
        sync_period: Duration::from_millis(20),
        sync_timeout: Duration::from_secs(20),
        ..SyncConfig::default()
    };
    tuner
}

fn bucket() -> PathBuf {
    child_home().join("bucket")
}

/// Where the sweep at `url` is worked on.
fn work(url: &str) -> PathBuf {
    child_home().join("work").join(url.replacen("://", "", 1))
}

/// The journal in the pieces that are in the bucket.
fn journal_text(dir: &Path) -> String {
    let pieces = fs::read_dir(dir.join("journal")).into_iter().flatten().map(|entry| entry.unwrap().path());
    // Drivers that were killed leave hidden files.
    let is_piece = |path: &PathBuf| path.extension().is_some_and(|extension| extension == "jsonl");
    let mut pieces: Vec<PathBuf> = pieces.filter(is_piece).collect();
    pieces.sort();
    pieces.iter().map(|piece| fs::read_to_string(piece).unwrap()).collect()
}

fn journal(dir: &Path) -> Vec<Value> {
    journal_text(dir).lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// Interrupts the sweep after so many results.
fn interrupt_after(tuner: &mut Tuner, results: usize) {
    struct After(usize, Arc<std::sync::atomic::AtomicBool>);
    impl Callback for After {
        fn on_trial_result(&mut self, _: &[Trial], _: &Trial, _: &Metrics) -> Result<()> {
            self.0 -= usize::from(self.0 > 0);
            self.1.fetch_or(self.0 == 0, Ordering::SeqCst);
            Ok(())
        }
    }
    let flag = tuner.run_config.interrupt.clone();
    tuner.run_config.callbacks.push(Box::new(After(results, flag)));
}

/// What a reader may rely on at any moment: each checkpoint with a manifest is whole, and the newest one that the journal
/// tells of for a trial is there, or a later one is.
fn audit(dir: &Path, when: &str) {
    let mut whole = BTreeMap::<String, u64>::new();
    for trial in fs::read_dir(dir).into_iter().flatten().map(|entry| entry.unwrap().path()) {
        for (iteration, checkpoint) in checkpoint::list(&trial).unwrap_or_default() {
            if checkpoint.join("manifest.json").exists() {
                let url = format!("file://{}", checkpoint.display());
                storage::fetch_checkpoint(Path::new(&url)).unwrap_or_else(|error| panic!("{when}: {error}"));
                whole.insert(trial.file_name().unwrap().to_string_lossy().into(), iteration);
            }
        }
    }
    let mut told = BTreeMap::<String, u64>::new();
    for event in journal(dir) {
        if event["event"] == "saved" || event["event"] == "adopted" {
            let iteration = event["checkpoint"]["iteration"].as_u64().unwrap();
            told.insert(event["trial_id"].as_str().unwrap().into(), iteration);
        }
    }
    for (trial, iteration) in told {
        assert!(whole.get(&trial) >= Some(&iteration), "{when}: {trial} has {whole:?}, not {iteration}");
    }
}

/// Has `look` called with each state of the sweep on the storage, until it is stopped with [`faulty::look_away`].
fn watch(look: impl Fn(&Path, &str) + Send + 'static) {
    let dir = bucket().join("sweep");
    faulty::watch(move |action, path| look(&dir, &format!("after {action} {path}")));
}

apart! {
    fn a_sweep_at_a_url_is_there_whole_at_every_moment_and_keeps_here_what_it_needs() {
        let undisturbed = at(child_home().join("local")).fit().unwrap();
        watch(audit);
        let url = faulty::url(&bucket());
        let grid = at(&url).fit().unwrap();
        assert_equal(&grid, &undisturbed, "at a URL");
        let there = bucket().join("sweep");
        for trial in &grid {
            let all: Vec<u64> = trial.checkpoints.iter().map(|(iteration, _)| *iteration).collect();
            assert_eq!(all, [1, 2, 3, 4, 5]);
            let here = checkpoint::list(&trial.path).unwrap();
            assert_eq!(here, [(5, trial.path.join("checkpoint_000005"))]);
            assert_eq!(trial.checkpoint.as_ref(), Some(&here[0].1));
            let first = Path::new(&url).join("sweep").join(&trial.trial_id).join("checkpoint_000001");
            assert_eq!(trial.checkpoints[0].1, first);
            let lowest = trial.get_best_checkpoint(&Objective::minimize("total")).unwrap();
            assert_eq!(lowest.as_ref(), Some(&first));
            let fetched = storage::fetch_checkpoint(&first).unwrap();
            assert_eq!(checkpoint::metadata(&fetched).unwrap().iteration, 1);
            for name in ["result.json", "progress.csv", "params.json"] {
                let files = [trial.path.join(name), there.join(&trial.trial_id).join(name)];
                let [here, there] = files.map(|path| fs::read(path).unwrap());
                assert_eq!(here, there, "{name}");
            }
        }
        let best = grid.best_by(&Objective::maximize("total"), Scope::All).unwrap();
        assert_eq!(best.config["by"], 3);
        assert!(!there.join("driver.json").exists());
        let local = fs::read_to_string(grid.experiment_path().join("journal.jsonl")).unwrap();
        assert_eq!(journal(&there).len(), local.lines().count());
    }

    fn checkpoints_stay_here_as_well_if_that_is_asked_for() {
        let mut tuner = at(faulty::url(&bucket()));
        tuner.run_config.sync_config.keep_local_checkpoints = true;
        for trial in &tuner.fit().unwrap() {
            let here: Vec<u64> = checkpoint::list(&trial.path).unwrap().iter().map(|(n, _)| *n).collect();
            assert_eq!(here, [1, 2, 3, 4, 5]);
            let there = bucket().join("sweep").join(&trial.trial_id);
            assert_eq!(checkpoint::list(&there).unwrap().len(), 5);
        }
    }

    fn a_sweep_restored_from_any_moment_of_its_storage_alone_ends_as_if_undisturbed() {
        restore_from_moments(at, 12);
    }

    fn population_based_training_restored_from_any_moment_of_its_storage_alone_ends_as_if_undisturbed() {
        let replaced = Arc::new(AtomicUsize::new(0));
        faulty::refuse({
            let replaced = replaced.clone();
            move |action, path| {
                let is_version = path.split('/').nth(2).is_some_and(|part| part.len() == 8);
                replaced.fetch_add(usize::from(action == "put_file" && is_version), Ordering::SeqCst);
                None
            }
        });
        restore_from_moments(|place| population(at(place)), 23);
        assert!(replaced.load(Ordering::SeqCst) > 0, "no checkpoint took the place of another one");
    }

    fn files_beyond_the_best_and_the_newest_are_deleted_there_too() {
        watch(audit);
        let mut tuner = at(faulty::url(&bucket()));
        tuner.run_config.checkpoint_config.num_to_keep = Some(1);
        tuner.run_config.checkpoint_config.score = Some(Objective::minimize("total"));
        let grid = tuner.fit().unwrap();
        for trial in &grid {
            let there = checkpoint::list(&bucket().join("sweep").join(&trial.trial_id)).unwrap();
            let iterations: Vec<u64> = there.iter().map(|(iteration, _)| *iteration).collect();
            assert_eq!(iterations, [1, 5]);
            let here = checkpoint::list(&trial.path).unwrap();
            assert_eq!(here.len(), 1);
        }
    }
}

/// Runs a sweep, and takes it up from copies of what was on the storage after every `step`th change to it.
fn restore_from_moments(make: impl Fn(PathBuf) -> Tuner, step: usize) {
    let undisturbed = make(child_home().join("local")).fit().unwrap();
    let changes = Arc::new(AtomicUsize::new(0));
    let copies: Arc<Mutex<Vec<String>>> = Arc::default();
    let count = changes.clone();
    let made = copies.clone();
    watch(move |dir, when| {
        audit(dir, when);
        let change = count.fetch_add(1, Ordering::SeqCst);
        if change.is_multiple_of(step) && dir.join("journal").exists() {
            let name = format!("copy{change}");
            copy_dir(dir, &bucket().join(&name));
            made.lock().unwrap().push(name);
        }
    });
    let url = faulty::url(&bucket());
    let whole = make(PathBuf::from(&url)).fit().unwrap();
    assert_equal(&whole, &undisturbed, "at a URL");
    faulty::look_away();
    let copies = copies.lock().unwrap();
    assert!(copies.len() >= 5, "{} changes", changes.load(Ordering::SeqCst));
    for name in &*copies {
        // The driver that wrote it lives, but is done.
        let _ = fs::remove_file(bucket().join(name).join("driver.json"));
        let url = format!("{url}/{name}");
        Tuner::can_restore(&url).unwrap();
        let restored = make(PathBuf::new()).restore(&url, Restore::default()).unwrap();
        assert_equal(&restored, &undisturbed, &format!("{name} of {}", changes.load(Ordering::SeqCst)));
        audit(&bucket().join(name), name);
    }
}

#[test]
fn a_directory_keeps_the_contract_of_storage() {
    let dir = tempfile::tempdir().unwrap();
    let storage = open(&format!("file://{}/below", dir.path().display())).unwrap();
    check_storage(&*storage).unwrap();
    assert_eq!(fs::read_dir(dir.path().join("below")).unwrap().count(), 0);
    let message = open("file://below").unwrap_err().to_string();
    assert!(message.contains("three slashes"), "{message}");
    let message = open("s3://bucket").unwrap_err().to_string();
    assert!(message.contains("no storage is registered for that scheme"), "{message}");
}
