//! One run whose checkpoints are uploaded to a directory.

use std::path::Path;

use pavlov_tune::storage::{Object, open};
use pavlov_tune::{Config, Driver, RunOptions, checkpoint};

use crate::counter::Counter;

#[test]
fn a_storage_keeps_the_newest_checkpoints_and_no_file_of_a_replaced_one() {
    let home = tempfile::tempdir().unwrap();
    let url = format!("file://{}/bucket/run", home.path().display());
    let driver = |name: &str| {
        let options = RunOptions {
            logdir: Some(home.path().join(name)),
            remote_checkpoint_dir: Some(url.clone()),
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
