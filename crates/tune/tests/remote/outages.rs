//! Storage that fails for a while, or for good.

use std::sync::atomic::AtomicBool;
use std::time::Instant;

use pavlov_tune::{Error, TrialStatus};

use super::*;

/// Ends the outage once all trials have ended.
struct UpAtTheEnd(Arc<AtomicBool>);

impl Callback for UpAtTheEnd {
    fn on_experiment_end(&mut self, trials: &[Trial]) -> Result<()> {
        self.0.store(trials.iter().all(|trial| trial.status == TrialStatus::Terminated), Ordering::SeqCst);
        faulty::come_up();
        Ok(())
    }
}

/// No connection from the `call`th call on.
fn go_down_at(call: usize) {
    let mut calls = 0;
    faulty::refuse(move |_, _| {
        calls += 1;
        (calls > call).then(|| ("no connection".into(), true))
    });
}

apart! {
    fn training_goes_on_through_an_outage_and_all_is_there_in_the_end() {
        let undisturbed = at(child_home().join("local")).fit().unwrap();
        for (name, call, num_to_keep) in [("a", 12, None), ("b", 30, Some(1)), ("c", 53, Some(2)), ("d", 71, Some(1))] {
            let dir = bucket().join(name);
            let place = dir.clone();
            faulty::watch(move |action, path| audit(&place, &format!("after {action} {path}")));
            go_down_at(call);
            let ended = Arc::new(AtomicBool::new(false));
            let mut tuner = at(faulty::url(&bucket()));
            tuner.run_config.name = Some(name.into());
            tuner.run_config.checkpoint_config.num_to_keep = num_to_keep;
            tuner.run_config.callbacks.push(Box::new(UpAtTheEnd(ended.clone())));
            let grid = tuner.fit().unwrap();
            assert!(ended.load(Ordering::SeqCst));
            assert_equal(&grid, &undisturbed, name);
            let kept = num_to_keep.map_or(vec![1, 2, 3, 4, 5], |keep| (6 - keep as u64..=5).collect());
            for trial in &grid {
                let there = checkpoint::list(&dir.join(&trial.trial_id)).unwrap();
                assert_eq!(there.iter().map(|(iteration, _)| *iteration).collect::<Vec<_>>(), kept, "{name}");
                assert_eq!(checkpoint::list(&trial.path).unwrap().len(), 1, "{name}");
            }
        }
    }

    fn a_sweep_that_cannot_be_uploaded_is_whole_here_and_restoring_it_uploads_the_rest() {
        let undisturbed = at(child_home().join("local")).fit().unwrap();
        for (name, transient, timeout) in [("slow", true, 300), ("hopeless", false, 1_000_000)] {
            let mut calls = 0;
            faulty::refuse(move |_, _| {
                calls += 1;
                (calls > 20).then(|| ("the bucket is full".into(), transient))
            });
            let make = || {
                let mut tuner = at(faulty::url(&bucket()));
                tuner.run_config.name = Some(name.into());
                tuner
            };
            let mut tuner = make();
            tuner.run_config.sync_config.sync_timeout = Duration::from_millis(timeout);
            let message = tuner.fit().unwrap_err().to_string();
            let url = format!("{}/{name}", faulty::url(&bucket()));
            let dir = work(&url);
            assert!(message.starts_with(&format!("experiment {}: it is whole here, but not at", dir.display())), "{message}");
            assert!(message.contains("the bucket is full"), "{message}");
            assert!(message.ends_with("restore it from here to upload the rest"), "{message}");
            faulty::come_up();
            // From the directory, then by the URL: nothing is trained again.
            let restored = make().restore(&dir, Restore::default()).unwrap();
            assert_equal(&restored, &undisturbed, name);
            audit(&bucket().join(name), name);
            fs::remove_dir_all(&dir).unwrap();
            let restored = make().restore(&url, Restore::default()).unwrap();
            assert_equal(&restored, &undisturbed, name);
            let events = journal(&bucket().join(name));
            assert_eq!(events.iter().filter(|event| event["event"] == "started").count(), 2);
            assert_eq!(events.iter().filter(|event| event["event"] == "restored").count(), 2);
        }
    }

    fn storage_that_cannot_be_used_is_an_error_before_anything_is_trained() {
        let begun = Instant::now();
        faulty::refuse(|action, _| (action == "put").then(|| ("access denied".into(), false)));
        let error = at(faulty::url(&bucket())).fit().unwrap_err();
        assert!(matches!(&error, Error::Storage { reason, .. } if reason == "access denied"), "{error}");
        assert!(begun.elapsed() < Duration::from_secs(10));
        assert!(!child_home().join("work").exists() && !bucket().exists());
        faulty::come_up();
        let mut tuner = at(faulty::url(&bucket()));
        tuner.run_config.sync_config.sync_period = Duration::ZERO;
        assert!(tuner.fit().unwrap_err().to_string().ends_with("`sync_period` is 0, but it must be above 0"));
    }

    fn an_upload_that_is_cut_short_goes_on_with_the_file_it_had_come_to() {
        let calls: Arc<Mutex<Vec<String>>> = Arc::default();
        let seen = calls.clone();
        let mut refusals = 0;
        faulty::refuse(move |action, path| {
            if action != "put_file" || !path.contains("checkpoint_000005") {
                return None;
            }
            seen.lock().unwrap().push(path.into());
            refusals += 1;
            // The second of a checkpoint's three files, once.
            (refusals == 2).then(|| ("cut".into(), true))
        });
        let mut tuner = at(faulty::url(&bucket()));
        tuner.tune_config.max_concurrent_trials = Some(1);
        let grid = tuner.fit().unwrap();
        let calls = calls.lock().unwrap();
        let count = |file: &str| {
            calls.iter().filter(|path| path.starts_with(&grid[0].trial_id) && path.ends_with(file)).count()
        };
        assert_eq!((count("/ballast"), count("/metadata.json"), count("/state/total")), (1, 2, 1), "{calls:?}");
    }
}
