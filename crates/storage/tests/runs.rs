//! Runs of a driver that are kept on S3.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use pavlov_tune::ray1::DurableTrainable;
use pavlov_tune::storage::{SyncConfig, fetch_run, open};
use pavlov_tune::{
    Config, Driver, Error, Metrics, Result, Resume, RunOptions, Trainable, TrialContext, checkpoint,
};

use crate::server::{Server, in_child};

/// Adds up a stream of pseudo-random numbers: what it gives next depends on all before.
#[derive(Default)]
pub(crate) struct Walk {
    state: u64,
    score: f64,
    /// Bytes that a checkpoint has besides.
    more: usize,
}

impl Trainable for Walk {
    fn setup(&mut self, config: &Config, _: &TrialContext) -> Result<()> {
        self.state = config.get("seed").and_then(|seed| seed.as_u64()).unwrap_or_default();
        Ok(())
    }

    fn step(&mut self) -> Result<Metrics> {
        self.state = self.state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        self.score += (self.state >> 40) as f64;
        Ok(Metrics::from([("score", self.score)]))
    }

    fn save_checkpoint(&mut self, dir: &Path) -> Result<()> {
        fs::write(dir.join("walk"), format!("{} {}", self.state, self.score)).unwrap();
        let ballast = dir.join("ballast");
        fs::write(&ballast, vec![1; 100_000 + self.more]).map_err(Error::io("write", &ballast))
    }

    fn load_checkpoint(&mut self, dir: &Path) -> Result<()> {
        let text = fs::read_to_string(dir.join("walk")).unwrap();
        let (state, score) = text.split_once(' ').unwrap();
        self.state = state.parse().unwrap();
        self.score = score.parse().unwrap();
        Ok(())
    }
}

const URL: &str = "s3://pavlov/runs/first";

fn durable(keep_checkpoints_num: Option<usize>) -> DurableTrainable<Walk> {
    let options = RunOptions {
        remote_checkpoint_dir: Some(URL.into()),
        resume: Resume::ByCaller,
        keep_checkpoints_num,
        checkpoint_score_attr: "score".into(),
        ..RunOptions::default()
    };
    Driver::with(Walk::default(), Config::new(), options).unwrap()
}

fn results(dir: &Path) -> PathBuf {
    dir.ancestors().nth(4).unwrap().into()
}

/// The scores in `result.json`.
fn scores(dir: &Path) -> Vec<f64> {
    let text = fs::read_to_string(dir.join("result.json")).unwrap();
    text.lines()
        .map(|line| serde_json::from_str::<Metrics>(line).unwrap()["score"].as_f64().unwrap())
        .collect()
}

fn undisturbed(n: usize) -> Vec<f64> {
    let mut walk = Walk::default();
    (0..n).map(|_| walk.step().unwrap()["score"].as_f64().unwrap()).collect()
}

fn names(dir: &Path) -> Vec<u64> {
    checkpoint::list(dir).unwrap().into_iter().map(|(iteration, _)| iteration).collect()
}

fn names_there() -> Vec<String> {
    let objects = open(URL).unwrap().list("").unwrap();
    objects.iter().filter_map(|object| Some(object.path.strip_suffix("/manifest.json")?.to_owned())).collect()
}

#[test]
fn a_run_goes_on_from_its_url_alone_as_if_nothing_had_happened() {
    in_child("runs::a_run_goes_on_from_its_url_alone_as_if_nothing_had_happened", || {
        let mut first = durable(None);
        let logdir = first.logdir().to_path_buf();
        assert!(logdir.ends_with("s3/pavlov/runs/first"), "{}", logdir.display());
        for _ in 0..5 {
            first.train().unwrap();
            first.save().unwrap();
        }
        // After the checkpoint: not there, so it happens again.
        first.train().unwrap();
        first.stop().unwrap();
        fs::remove_dir_all(results(&logdir)).unwrap();

        assert_eq!(fetch_run(URL).unwrap(), logdir);
        let mut second = durable(None);
        second.restore(Path::new(URL)).unwrap();
        assert_eq!(second.iteration(), 5);
        for _ in 0..5 {
            second.train().unwrap();
        }
        second.save().unwrap();
        second.stop().unwrap();
        assert_eq!(scores(&logdir), undisturbed(10));
        fs::remove_dir_all(results(&logdir)).unwrap();
        fetch_run(URL).unwrap();
        assert_eq!(scores(&logdir), undisturbed(10));

        // An older one by its URL, into a run that is kept nowhere else.
        let mut third = Driver::new(Walk::default(), Config::new()).unwrap();
        third.restore(Path::new("s3://pavlov/runs/first/checkpoint_000003")).unwrap();
        assert_eq!(third.train().unwrap()["score"].as_f64().unwrap(), undisturbed(4)[3]);
    });
}

#[test]
fn here_the_newest_checkpoint_stays_and_there_as_many_as_are_to_be_kept() {
    in_child("runs::here_the_newest_checkpoint_stays_and_there_as_many_as_are_to_be_kept", || {
        let mut driver = durable(Some(2));
        let logdir = driver.logdir().to_path_buf();
        let mut saved = Vec::new();
        for _ in 0..6 {
            driver.train().unwrap();
            saved.push(driver.save().unwrap());
        }
        driver.stop().unwrap();
        assert_eq!(names(&logdir), [6]);
        assert_eq!(names_there(), ["checkpoint_000005", "checkpoint_000006"]);

        // All stay if that is asked for.
        let sync_config = SyncConfig { keep_local_checkpoints: true, ..SyncConfig::default() };
        let url = Some("s3://pavlov/runs/kept".into());
        let options = RunOptions { remote_checkpoint_dir: url, sync_config, ..RunOptions::default() };
        let mut kept = Driver::with(Walk::default(), Config::new(), options).unwrap();
        for _ in 0..3 {
            kept.train().unwrap();
            kept.save().unwrap();
        }
        kept.stop().unwrap();
        assert_eq!(names(kept.logdir()), [1, 2, 3]);

        // The limit also counts those of before.
        let mut driver = durable(Some(2));
        driver.restore(&saved[4]).unwrap();
        driver.restore(&saved[5]).unwrap();
        driver.train().unwrap();
        driver.save().unwrap();
        driver.delete_checkpoint(&saved[5]).unwrap();
        driver.stop().unwrap();
        assert_eq!(names(&logdir), [7]);
        assert_eq!(names_there(), ["checkpoint_000007"]);
    });
}

#[test]
fn what_went_further_here_than_there_is_not_given_up() {
    in_child("runs::what_went_further_here_than_there_is_not_given_up", || {
        let mut first = durable(None);
        let logdir = first.logdir().to_path_buf();
        first.train().unwrap();
        first.save().unwrap();
        first.stop().unwrap();
        // Without the storage for a while.
        let options =
            RunOptions { logdir: Some(logdir.clone()), resume: Resume::ByCaller, ..RunOptions::default() };
        let mut second = Driver::with(Walk::default(), Config::new(), options).unwrap();
        second.restore(logdir.join("checkpoint_000001")).unwrap();
        second.train().unwrap();
        second.save().unwrap();
        second.stop().unwrap();
        assert_eq!(names(&fetch_run(URL).unwrap()), [1, 2]);
        assert_eq!(scores(&logdir), undisturbed(2));
        // On another machine it then went further.
        let elsewhere = results(&logdir);
        let hidden = results(&logdir).with_extension("hidden");
        fs::rename(&elsewhere, &hidden).unwrap();
        let mut third = durable(None);
        third.restore(fetch_run(URL).unwrap().join("checkpoint_000001")).unwrap();
        (0..3).for_each(|_| drop(third.train().unwrap()));
        third.save().unwrap();
        third.stop().unwrap();
        fs::remove_dir_all(&elsewhere).unwrap();
        fs::rename(&hidden, &elsewhere).unwrap();
        assert_eq!(names(&fetch_run(URL).unwrap()), [4]);
        assert_eq!(scores(&logdir), undisturbed(4));
    });
}

#[test]
fn a_place_that_cannot_be_used_is_told_before_anything_is_set_up() {
    in_child("runs::a_place_that_cannot_be_used_is_told_before_anything_is_set_up", || {
        let refused = |url: &str| {
            let options = RunOptions { remote_checkpoint_dir: Some(url.into()), ..RunOptions::default() };
            Driver::with(Walk::default(), Config::new(), options).unwrap_err().to_string()
        };
        let expected = "`remote_checkpoint_dir` is /data/run, but it must be a URL such as s3://bucket/run; \
            for a directory there is `logdir`";
        assert_eq!(refused("/data/run"), expected);
        assert!(
            refused("s3://elsewhere/run")
                .ends_with("the bucket does not exist: make it first, or correct its name")
        );
        let message = fetch_run("s3://pavlov/nothing").unwrap_err().to_string();
        assert_eq!(message, "experiment s3://pavlov/nothing: there is no run: nothing lies there");
        let mut driver = Driver::new(Walk::default(), Config::new()).unwrap();
        let message = driver.restore(Path::new("s3://pavlov/nothing")).unwrap_err().to_string();
        assert_eq!(
            message,
            "checkpoint s3://pavlov/nothing: there is no whole checkpoint: manifest.json is missing"
        );
    });
}

/// Its disk takes no file of a megabyte.
#[test]
#[ignore = "run by the next test"]
fn child_fills_its_disk() {
    pavlov_storage::register();
    let mut driver = durable(None);
    for _ in 0..2 {
        driver.train().unwrap();
        driver.save().unwrap();
    }
    driver.train().unwrap();
    driver.more = 1 << 20;
    let message = driver.save().unwrap_err().to_string();
    assert!(
        message.starts_with("cannot write ")
            && message.contains("/ballast: File too large (os error 27); raise the"),
        "{message}"
    );
    driver.stop().unwrap();
    assert_eq!(names_there(), ["checkpoint_000001", "checkpoint_000002"]);
}

#[test]
fn a_full_disk_is_an_error_and_every_checkpoint_that_was_acknowledged_is_there() {
    let Some(server) = Server::start() else { return };
    let child = server.command("runs::child_fills_its_disk");
    // Files end at 512 blocks of 512 or 1024 bytes: to the writer that is a disk that takes no more.
    let mut limited = Command::new("sh");
    limited.args(["-c", "trap '' XFSZ; ulimit -f 512; exec \"$0\" \"$@\""]);
    limited.arg(child.get_program()).args(child.get_args());
    limited.envs(child.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let output = limited.output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && text.contains("1 passed"), "{text}");
}
