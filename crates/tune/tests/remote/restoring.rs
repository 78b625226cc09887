//! Restores where this and that is left.

use super::*;

/// A sweep that was interrupted after four results, and its URL.
fn interrupted() -> String {
    let mut tuner = at(faulty::url(&bucket()));
    interrupt_after(&mut tuner, 4);
    assert!(tuner.fit().unwrap().interrupted());
    format!("{}/sweep", faulty::url(&bucket()))
}

/// The newest checkpoint of the first trial that has two or more on the storage.
fn newest_of_two() -> PathBuf {
    let trials = fs::read_dir(bucket().join("sweep")).unwrap().map(|entry| entry.unwrap().path());
    let newest = trials.filter_map(|trial| {
        let all = checkpoint::list(&trial).unwrap_or_default();
        (all.len() >= 2).then(|| all[all.len() - 1].1.clone())
    });
    newest.min().expect("four results, two trials")
}

apart! {
    fn checkpoints_that_are_damaged_or_gone_there_are_skipped() {
        let undisturbed = at(child_home().join("local")).fit().unwrap();
        let url = interrupted();
        let newest = newest_of_two();
        let ballast = newest.join("state/total");
        fs::write(&ballast, [0xff; 8]).unwrap();
        fs::remove_dir_all(work(&url)).unwrap();
        let broken = storage::fetch_checkpoint(Path::new(&format!("file://{}", newest.display())));
        let message = broken.unwrap_err().to_string();
        assert!(message.contains("file://") && message.contains("state/total is damaged"), "{message}");
        let restored = at("").restore(&url, Restore::default()).unwrap();
        assert_equal(&restored, &undisturbed, "damaged");
        let trial = newest.parent().unwrap().file_name().unwrap().to_string_lossy().into_owned();
        let from = |event: &&Value| event["event"] == "started" && event["trial_id"] == json!(trial);
        let events = journal(&bucket().join("sweep"));
        let iteration: u64 = newest.to_string_lossy().rsplit('_').next().unwrap().parse().unwrap();
        assert_eq!(events.iter().rfind(from).unwrap()["from"], json!(iteration - 1));
    }

    fn a_working_directory_that_is_behind_is_replaced_and_one_that_went_another_way_is_refused() {
        let undisturbed = at(child_home().join("local")).fit().unwrap();
        let url = interrupted();
        let old = child_home().join("old");
        copy_dir(&work(&url), &old);
        fs::remove_dir_all(work(&url)).unwrap();
        at("").restore(&url, Restore::default()).unwrap();

        fs::remove_dir_all(work(&url)).unwrap();
        copy_dir(&old, &work(&url));
        let restored = at("").restore(&url, Restore::default()).unwrap();
        assert_equal(&restored, &undisturbed, "behind");

        fs::remove_dir_all(work(&url)).unwrap();
        copy_dir(&old, &work(&url));
        let path = work(&url).join("journal.jsonl");
        let apart = fs::read_to_string(&path).unwrap() + "{\"event\":\"idle\"}\n";
        fs::write(&path, &apart).unwrap();
        let message = at("").restore(&url, Restore::default()).unwrap_err().to_string();
        assert!(message.contains(&work(&url).display().to_string()), "{message}");
        assert!(message.contains(&format!("and the one at {url} have gone different ways; move")), "{message}");
        assert_eq!(fs::read_to_string(&path).unwrap(), apart);
    }

    fn what_is_no_new_sweep_and_what_is_none_at_all_are_told() {
        let url = interrupted();
        let message = at(faulty::url(&bucket())).fit().unwrap_err().to_string();
        assert!(message.starts_with(&format!("experiment {url}: there is a sweep already")), "{message}");
        let absent = format!("{}/absent", faulty::url(&bucket()));
        let message = at("").restore(&absent, Restore::default()).unwrap_err().to_string();
        assert_eq!(message, format!("experiment {absent}: there is no sweep"));
        assert_eq!(Tuner::can_restore(&absent).unwrap_err().to_string(), message);
        let message = Tuner::can_restore("nobody://knows/this").unwrap_err().to_string();
        assert!(message.contains("no storage is registered for that scheme"), "{message}");
        fs::remove_dir_all(bucket().join("sweep")).unwrap();
        let message = at(faulty::url(&bucket())).fit().unwrap_err().to_string();
        assert!(message.contains("restore it from here, or delete this directory"), "{message}");
        at("").restore(&url, Restore::default()).unwrap();
        audit(&bucket().join("sweep"), "uploaded again");
    }

    fn one_driver_at_a_time_runs_a_sweep() {
        struct Second(String, Arc<Mutex<String>>);
        impl Callback for Second {
            fn setup(&mut self, _: &Path, _: Option<u64>) -> Result<()> {
                let refused = at("").restore(&self.0, Restore::default()).unwrap_err();
                *self.1.lock().unwrap() = refused.to_string();
                Ok(())
            }
        }
        let said: Arc<Mutex<String>> = Arc::default();
        let mut tuner = at(faulty::url(&bucket()));
        let url = format!("{}/sweep", faulty::url(&bucket()));
        tuner.run_config.callbacks.push(Box::new(Second(url, said.clone())));
        tuner.fit().unwrap();
        assert!(said.lock().unwrap().ends_with("is running it; stop that first"), "{said:?}");
    }
}
