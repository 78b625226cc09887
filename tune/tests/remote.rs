//! Sweeps whose storage path is a URL.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use pavlov_tune::schedulers::{PbtConfig, PopulationBasedTraining};
use pavlov_tune::search::grid_search;
use pavlov_tune::storage::SyncConfig;
use pavlov_tune::{
    Callback, CheckpointConfig, Error, Metrics, Mode, Restore, Result, Scope, Trial, Tuner, checkpoint,
};
use serde_json::{Value, json};

use crate::child::{apart, child_home};
use crate::counter::object;
use crate::faulty;
use crate::sweeps::{assert_equal, copy_dir, counters, tuner};

/// The sweep of [`tuner`], one sample, a checkpoint after each iteration.
fn at(place: impl Into<PathBuf>) -> Tuner {
    let mut tuner = tuner(counters(), Path::new(""), 1);
    tuner.run_config.storage_path = Some(place.into());
    tuner.run_config.checkpoint_config.checkpoint_frequency = 1;
    tuner.run_config.sync_config =
        SyncConfig { sync_period: Duration::from_millis(20), sync_timeout: Duration::from_secs(20) };
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
fn journal(dir: &Path) -> Vec<Value> {
    let mut pieces: Vec<PathBuf> =
        fs::read_dir(dir.join("journal")).into_iter().flatten().map(|entry| entry.unwrap().path()).collect();
    pieces.sort();
    let text: String = pieces.iter().map(|piece| fs::read_to_string(piece).unwrap()).collect();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// What a reader may rely on at any moment: each checkpoint with a manifest is whole, and the newest one that the journal
/// tells of for a trial is there, or a later one is.
fn audit(dir: &Path, when: &str) {
    let mut whole = BTreeMap::<String, u64>::new();
    for trial in fs::read_dir(dir).into_iter().flatten().map(|entry| entry.unwrap().path()) {
        for (iteration, checkpoint) in checkpoint::list(&trial).unwrap_or_default() {
            if checkpoint.join("manifest.json").exists() {
                let url = format!("file://{}", checkpoint.display());
                checkpoint::fetch(Path::new(&url)).unwrap_or_else(|error| panic!("{when}: {error}"));
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
            let lowest = trial.get_best_checkpoint("total", Mode::Min).unwrap();
            assert_eq!(lowest.as_ref(), Some(&first));
            let fetched = checkpoint::fetch(&first).unwrap();
            assert_eq!(checkpoint::metadata(&fetched).unwrap().iteration, 1);
            for name in ["result.json", "progress.csv", "params.json"] {
                let files = [trial.path.join(name), there.join(&trial.trial_id).join(name)];
                let [here, there] = files.map(|path| fs::read(path).unwrap());
                assert_eq!(here, there, "{name}");
            }
        }
        let best = grid.get_best_result(None, None, Scope::All).unwrap();
        assert_eq!(best.config["by"], 3);
        assert!(!there.join("driver.json").exists());
        let local = fs::read_to_string(grid.experiment_path().join("journal.jsonl")).unwrap();
        assert_eq!(journal(&there).len(), local.lines().count());
    }

    fn a_sweep_restored_from_any_moment_of_its_storage_alone_ends_as_if_undisturbed() {
        let undisturbed = at(child_home().join("local")).fit().unwrap();
        let copies = Arc::new(AtomicUsize::new(0));
        let count = copies.clone();
        watch(move |dir, _| {
            if dir.join("journal").exists() {
                copy_dir(dir, &bucket().join(format!("copy{}", count.fetch_add(1, Ordering::SeqCst))));
            }
        });
        at(faulty::url(&bucket())).fit().unwrap();
        faulty::look_away();
        let copies = copies.load(Ordering::SeqCst);
        assert!(copies > 50, "{copies}");
        for number in (0..copies).step_by(7) {
            let url = format!("{}/copy{number}", faulty::url(&bucket()));
            let _ = fs::remove_file(bucket().join(format!("copy{number}/driver.json")));
            Tuner::can_restore(&url).unwrap();
            let restored = at("").restore(&url, Restore::default()).unwrap();
            assert_equal(&restored, &undisturbed, &format!("copy {number} of {copies}"));
        }
    }
}
