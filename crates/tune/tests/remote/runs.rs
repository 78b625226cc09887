//! One run whose checkpoints are uploaded to a directory.

use std::collections::BTreeSet;

use pavlov_tune::storage::{Object, fetch_checkpoint, fetch_run};
use pavlov_tune::{Config, Driver, Resume, RunOptions};

use super::*;
use crate::counter::Counter;

#[test]
fn a_storage_keeps_the_newest_checkpoints_and_no_file_of_a_replaced_one() {
    let home = tempfile::tempdir().unwrap();
    let url = format!("file://{}/bucket/run", home.path().display());
    let driver = |name: &str| {
        let options = RunOptions {
            logdir: Some(home.path().join(name)),
            remote_checkpoint_dir: Some(url.clone()),
            resume: Resume::ByCaller,
            keep_checkpoints_num: Some(2),
            ..RunOptions::default()
        };
        Driver::with(Counter { ballast: vec![7; 100], ..Counter::default() }, Config::new(), options).unwrap()
    };
    let storage = open(&url).unwrap();
    let files = |iteration: u64| -> Vec<Object> {
        let all = storage.list("").unwrap().into_iter();
        all.filter(|object| object.path.starts_with(&checkpoint::name(iteration))).collect()
    };
    let mut first = driver("first");
    for _ in 0..4 {
        first.train().unwrap();
        first.save().unwrap();
    }
    first.stop().unwrap();
    assert_eq!([1, 2, 3, 4].map(|iteration| !files(iteration).is_empty()), [false, false, true, true]);
    let once = files(4).len();

    // Another run goes on from the third, and replaces the fourth there with one that has another content.
    let mut second = driver("second");
    let there = |iteration| format!("{url}/{}", checkpoint::name(iteration));
    second.restore(Path::new(&there(3))).unwrap();
    second.train().unwrap();
    second.save().unwrap();
    second.stop().unwrap();
    assert_eq!(files(4).len(), once, "{:?}", files(4));
    assert_eq!(files(3).len(), once);
    let mut third = driver("third");
    third.restore(Path::new(&there(4))).unwrap();
    assert_eq!(third.iteration(), 4);
}

apart! {
    fn a_run_is_fetched_where_the_storage_is_ahead_and_left_alone_where_it_is_not() {
        let url = format!("file://{}/bucket/run", child_home().display());
        let driver = || {
            let options = RunOptions {
                logdir: Some(child_home().join("first")),
                remote_checkpoint_dir: Some(url.clone()),
            resume: Resume::ByCaller,
                ..RunOptions::default()
            };
            Driver::with(Counter::default(), Config::new(), options).unwrap()
        };
        let train = |driver: &mut Driver<Counter>| {
            driver.train().unwrap();
            driver.save().unwrap();
        };
        let mut first = driver();
        train(&mut first);
        first.stop().unwrap();
        let run = fetch_run(&url).unwrap();
        let newest = |run: &Path| checkpoint::list(run).unwrap().pop().map(|(iteration, _)| iteration);
        assert_eq!(newest(&run), Some(1));

        // A checkpoint, by the URL of its run and by its own.
        let own = format!("{url}/{}", checkpoint::name(1));
        for url in [&url, &own] {
            let there = fetch_checkpoint(Path::new(url)).unwrap();
            assert!(there.ends_with(checkpoint::name(1)) && there.join("state/total").exists(), "{there:?}");
        }

        // As far as the storage: what lies here stays, though the storage lacks it.
        let mine = [run.join(".notes"), run.join("notes.txt")];
        for path in &mine {
            fs::write(path, "mine").unwrap();
        }
        assert_eq!(fetch_run(&url).unwrap(), run);
        assert!(mine.iter().all(|path| path.exists()));

        // Ahead of the storage.
        let here = RunOptions { logdir: Some(run.clone()), resume: Resume::ByCaller, ..RunOptions::default() };
        let mut ahead = Driver::with(Counter::default(), Config::new(), here).unwrap();
        ahead.restore(run.join(checkpoint::name(1))).unwrap();
        train(&mut ahead);
        ahead.stop().unwrap();
        fetch_run(&url).unwrap();
        assert_eq!(newest(&run), Some(2));

        // Behind it: what the storage has replaces all but hidden files.
        let mut second = driver();
        second.restore(run.join(checkpoint::name(2))).unwrap();
        train(&mut second);
        train(&mut second);
        second.stop().unwrap();
        fetch_run(&url).unwrap();
        assert_eq!(newest(&run), Some(4));
        assert_eq!(mine.map(|path| path.exists()), [true, false]);
    }

    fn an_upload_that_failed_goes_on_with_what_is_missing() {
        let options = RunOptions {
            logdir: Some(child_home().join("run")),
            remote_checkpoint_dir: Some(faulty::url(&child_home().join("bucket/run"))),
            ..RunOptions::default()
        };
        let mut refusals = 2;
        faulty::refuse(move |action, path| {
            let is_refused = action == "put" && path.ends_with("manifest.json") && refusals > 0;
            refusals -= i32::from(is_refused);
            is_refused.then(|| ("no connection".into(), true))
        });
        let uploaded = uploads();
        let mut driver =
            Driver::with(Counter { ballast: vec![7; 100], ..Counter::default() }, Config::new(), options).unwrap();
        driver.train().unwrap();
        let saved = driver.save().unwrap();
        let files = checkpoint::verify(&saved, None).unwrap().files.len();
        driver.stop().unwrap();
        let uploaded = uploaded.lock().unwrap();
        let of_checkpoint = uploaded.iter().filter(|path| path.starts_with("checkpoint_"));
        assert_eq!(of_checkpoint.count(), files, "{uploaded:?}");
    }

    fn a_file_that_has_not_changed_is_uploaded_once() {
        let uploaded = uploads();
        at(faulty::url(&bucket())).fit().unwrap();
        let uploaded = uploaded.lock().unwrap();
        let params: Vec<&String> = uploaded.iter().filter(|path| path.ends_with("params.json")).collect();
        let trials: BTreeSet<&String> = params.iter().copied().collect();
        assert!(!trials.is_empty() && params.len() == trials.len(), "{uploaded:?}");
    }
}

/// Collects the paths of the files that are uploaded from now on.
fn uploads() -> Arc<Mutex<Vec<String>>> {
    let uploaded = Arc::new(Mutex::new(Vec::new()));
    let list = uploaded.clone();
    faulty::watch(move |action, path| {
        if action == "put_file" {
            list.lock().unwrap().push(path.to_owned());
        }
    });
    uploaded
}
