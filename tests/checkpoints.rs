//! Checkpoints of real runs: what is refused and what it leaves unchanged, disks that take no more, what is kept.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use pavlov::envs;
use pavlov::prelude::*;
use pavlov::trainer::Trainer;
use pavlov::trainer::rng::episode_seed;
use pavlov::trainer::settings::BatchMode;
use pavlov::trainer::settings::ObservationFilter;
use pavlov::trainer::state::State;
use pavlov::tune::{checkpoint, difference, validate_save_restore};
use serde_json::Value;

use crate::support::{
    going_on, number, quiet, refused, scripted, tiny_dqn, tiny_ppo, tiny_sac, with_off_policy,
};

/// A PPO run with two iterations behind it, and its checkpoint.
fn saved(home: &Path) -> PathBuf {
    let mut driver = quiet(tiny_ppo(), "CartPole-v1").expect("a driver");
    driver.train().expect("a result");
    driver.train().expect("a result");
    driver.save_to(home).expect("a checkpoint")
}

/// A run that is asked to restore what it must refuse, and one that is not.
struct Pair<T: Trainer> {
    asked: Driver<Algorithm<T>>,
    undisturbed: Driver<Algorithm<T>>,
}

impl<T: Trainer> Pair<T> {
    fn new(settings: T, env: &str) -> Self {
        let make = || {
            let mut driver = quiet(settings.clone(), env).expect("a driver");
            driver.train().expect("a result");
            driver
        };
        Self { asked: make(), undisturbed: make() }
    }

    /// The checkpoint is refused with its path and all of `parts`; its files stay, and the run goes on as if nothing
    /// had been asked.
    #[track_caller]
    fn refuses(&mut self, path: &Path, parts: &[&str]) {
        let before = contents(path);
        let message = refused(self.asked.restore(path), parts);
        assert!(message.starts_with(&format!("checkpoint {}: ", path.display())), "{message}");
        assert!(contents(path) == before, "the files stay as they were");
        let [asked, undisturbed] =
            [&mut self.asked, &mut self.undisturbed].map(|driver| driver.train().expect("a result"));
        assert_eq!(difference(&asked, &undisturbed), None);
    }
}

fn contents(dir: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let paths = fs::read_dir(dir).expect("a directory").map(|entry| entry.expect("an entry").path());
    let mut files: Vec<_> = paths.map(|path| (path.clone(), fs::read(path).expect("a file"))).collect();
    files.sort();
    files
}

#[test]
fn every_file_is_refused_when_it_is_cut_flipped_or_missing() {
    let home = tempfile::tempdir().expect("a directory");
    let path = saved(home.path());
    let mut pair = Pair::new(tiny_ppo(), "CartPole-v1");
    let files = checkpoint::verify(&path, None).expect("a whole checkpoint").files;
    for needed in ["policies.safetensors", "worker0.safetensors", "run.json", "results.json", "settings.json"]
    {
        assert!(files.iter().any(|file| file.path == needed), "{needed} is not in {files:?}");
    }
    for file in files {
        let at = path.join(&file.path);
        let whole = fs::read(&at).expect("a file of the manifest");
        fs::write(&at, &whole[..whole.len() - 1]).expect("a cut file");
        pair.refuses(
            &path,
            &[&format!("{} has {} bytes instead of {}", file.path, file.bytes - 1, file.bytes)],
        );
        let mut flipped = whole.clone();
        flipped[whole.len() / 2] ^= 1;
        fs::write(&at, &flipped).expect("a damaged file");
        pair.refuses(&path, &[&format!("{} is damaged: checksum", file.path)]);
        fs::remove_file(&at).expect("a missing file");
        pair.refuses(&path, &[&format!("{} is missing", file.path)]);
        fs::write(&at, &whole).expect("the file as it was");
    }
    pair.asked.restore(&path).expect("a whole checkpoint again");
    assert_eq!(pair.asked.iteration(), 2);
}

#[test]
fn a_checkpoint_of_another_format_version_or_algorithm_is_refused() {
    let home = tempfile::tempdir().expect("a directory");
    let path = saved(home.path());
    Pair::new(tiny_dqn(), "CartPole-v1")
        .refuses(&path, &["it was saved by PPO, but is to be loaded into DQN"]);
    let manifest = path.join("manifest.json");
    let text = fs::read_to_string(&manifest).expect("a manifest");
    fs::write(&manifest, text.replace("\"format_version\": 1", "\"format_version\": 7")).expect("a manifest");
    Pair::new(tiny_ppo(), "CartPole-v1")
        .refuses(&path, &["manifest.json: format version 7 cannot be read by this version of pavlov"]);
}

#[test]
fn a_run_of_another_shape_is_refused_with_the_setting() {
    let home = tempfile::tempdir().expect("a directory");
    let path = saved(home.path());
    Pair::new(tiny_ppo(), "Pendulum-v1")
        .refuses(&path, &["observation_space: it was Box(", "Pendulum-v1 has Box("]);
    let home = tempfile::tempdir().expect("a directory");
    let env = |actions| {
        move || {
            scripted(Space::discrete(actions), |_, t, _: &[i64], obs| {
                obs[0] = t as f32;
                Ok(going_on(0.0))
            })
        }
    };
    let two = quiet(tiny_ppo(), env(2)).expect("a driver").save_to(home.path()).expect("a checkpoint");
    let three = || quiet(tiny_ppo(), env(3)).expect("a driver");
    Pair { asked: three(), undisturbed: three() }
        .refuses(&two, &["action_space: it was Discrete(2) in the saved run, but Scripted has Discrete(3)"]);

    type Change = fn(&mut Ppo);
    let changes: [(Change, &[&str]); 5] = [
        (
            |ppo| ppo.common.num_workers = 1,
            &[
                "`num_workers` is 1, but it was 0 in the saved run; set it to that, or read the policies alone",
            ],
        ),
        (
            |ppo| ppo.common.num_envs_per_worker = 1,
            &["`num_envs_per_worker` is 1, but it was 2 in the saved run"],
        ),
        (
            |ppo| ppo.common.batch_mode = BatchMode::CompleteEpisodes,
            &["`batch_mode` is \"complete_episodes\", but it was \"truncate_episodes\" in the saved run"],
        ),
        (
            |ppo| ppo.common.observation_filter = ObservationFilter::MeanStdFilter,
            &["`observation_filter` is \"MeanStdFilter\", but it was \"NoFilter\" in the saved run"],
        ),
        (
            |ppo| ppo.common.model.fcnet_hiddens = vec![16],
            &["the network of the policy `default_policy`", "[8, 4]", "[16, 4]", "set the `model` settings"],
        ),
    ];
    for (change, parts) in changes {
        let mut ppo = tiny_ppo();
        change(&mut ppo);
        Pair::new(ppo, "CartPole-v1").refuses(&path, parts);
    }
}

#[test]
fn a_replay_buffer_of_another_size_is_refused_after_the_policy_was_read_and_nothing_has_changed() {
    let home = tempfile::tempdir().expect("a directory");
    let mut driver = quiet(tiny_dqn(), "CartPole-v1").expect("a driver");
    driver.train().expect("a result");
    let path = driver.save_to(home.path()).expect("a checkpoint");
    let mut dqn = tiny_dqn();
    dqn.off_policy.replay_buffer_config.capacity = 32;
    Pair::new(dqn, "CartPole-v1").refuses(
        &path,
        &["replay_buffer: the replay buffer: it is a PrioritizedReplayBuffer of 64 rows", "of 32"],
    );
}

#[test]
fn settings_that_shape_nothing_may_change() {
    let home = tempfile::tempdir().expect("a directory");
    let path = saved(home.path());
    let mut ppo = tiny_ppo();
    ppo.lr = 0.01;
    ppo.num_sgd_iter = 3;
    ppo.common.rollout_fragment_length = 8;
    let mut driver = quiet(ppo, "CartPole-v1").expect("a driver");
    driver.restore(&path).expect("a checkpoint that fits");
    let result = driver.train().expect("a result");
    assert_eq!(number(&result, "info.learner.default_policy.learner_stats.cur_lr"), 0.01);
    assert_eq!(number(&result, "timesteps_total"), 96.0);
}

#[test]
fn a_run_goes_on_with_fewer_workers_from_its_policy_alone() {
    let home = tempfile::tempdir().expect("a directory");
    let mut ppo = tiny_ppo();
    ppo.common.num_workers = 1;
    ppo.common.observation_filter = ObservationFilter::MeanStdFilter;
    let mut many = quiet(ppo.clone(), "CartPole-v1").expect("a driver");
    many.train().expect("a result");
    let path = many.save_to(home.path()).expect("a checkpoint");
    ppo.common.num_workers = 0;
    let mut one = quiet(ppo, "CartPole-v1").expect("a driver");
    one.restore_policies(&path).expect("the policies");
    assert_eq!(one.get_weights().expect("weights"), many.get_weights().expect("weights"));
    let filters = [&one, &many].map(|driver| driver.workers().expect("workers").filters());
    assert_eq!(filters[0], filters[1]);
}

#[test]
fn a_run_that_lost_a_worker_is_saved_and_restored() {
    let mut ppo = tiny_ppo();
    ppo.common.num_workers = 2;
    ppo.common.ignore_worker_failures = true;
    ppo.common.train_batch_size = 64;
    // The first copy of the first of two workers breaks in its first episode.
    let broken = episode_seed(0, 0, 0);
    let make = || {
        let env = move || {
            scripted(Space::discrete(2), move |seed, t, _: &[i64], obs| {
                obs[0] = t as f32;
                match (seed == broken, t) {
                    (true, 3) => Err(envs::Error::other("out of order")),
                    _ => Ok(Step { truncated: t == 10, ..going_on(1.0) }),
                }
            })
        };
        quiet(ppo.clone(), env).expect("a driver")
    };
    let home = tempfile::tempdir().expect("a directory");
    let mut driver = make();
    assert_eq!(number(&driver.train().expect("a result"), "num_healthy_workers"), 1.0);
    let path = driver.save_to(home.path()).expect("a checkpoint");
    assert!(path.join("worker2.json").exists() && !path.join("worker1.json").exists());
    let mut restored = make();
    restored.restore(&path).expect("a checkpoint without that worker");
    assert_eq!(restored.get_weights().expect("weights"), driver.get_weights().expect("weights"));
    restored.train().expect("a result");
}

#[test]
fn without_its_replay_buffer_a_run_goes_on_when_it_has_filled_a_new_one() {
    let home = tempfile::tempdir().expect("a directory");
    let make = || {
        let mut dqn = with_off_policy(|off| off.store_buffer_in_checkpoints = false);
        dqn.off_policy.replay_buffer_config.learning_starts = 32;
        quiet(dqn, "CartPole-v1").expect("a driver")
    };
    let mut driver = make();
    for _ in 0..3 {
        driver.train().expect("a result");
    }
    let path = driver.save_to(home.path()).expect("a checkpoint");
    assert!(!path.join("replay_buffer.json").exists());
    let mut restored = make();
    restored.restore(&path).expect("a checkpoint that fits");
    // 16 steps each: the second one reaches 32 rows.
    let trained = |result: Metrics| number(&result, "num_env_steps_trained_this_iter");
    assert_eq!(trained(restored.train().expect("a result")), 0.0);
    assert!(trained(restored.train().expect("a result")) > 0.0);
}

#[test]
fn ppo_and_dqn_keep_the_contract_of_saving_and_restoring() {
    for use_object_store in [false, true] {
        let ppo = || quiet(tiny_ppo(), "CartPole-v1").map_err(pavlov::tune::Error::other);
        validate_save_restore(ppo, use_object_store).expect("PPO");
        let dqn = || quiet(tiny_dqn(), "CartPole-v1").map_err(pavlov::tune::Error::other);
        validate_save_restore(dqn, use_object_store).expect("DQN");
    }
}

/// Gives results 1, 2, ... the scores 1, 9, 3, 2, 4.
struct Scores;

impl Callbacks for Scores {
    fn on_train_result(&mut self, _: &mut RunHandle<'_>, result: &mut Metrics) -> Result<()> {
        let iteration = result["training_iteration"].as_u64().unwrap_or_default() as usize;
        result.insert("score".into(), [1, 9, 3, 2, 4][iteration - 1].into());
        Ok(())
    }
}

#[test]
fn the_last_two_checkpoints_and_the_best_are_kept_and_each_can_be_restored() {
    let home = tempfile::tempdir().expect("a directory");
    let make = || {
        let builder = tiny_ppo().builder("CartPole-v1").callbacks(|| Scores).logdir(home.path());
        let keep = |options: &mut RunOptions| {
            options.keep_checkpoints_num = Some(2);
            options.checkpoint_score_attr = "score".into();
        };
        builder.options(keep).resume(Resume::ByCaller).build().expect("a driver")
    };
    let mut driver = make();
    for _ in 0..5 {
        driver.train().expect("a result");
        driver.save().expect("a checkpoint");
    }
    let kept = driver.checkpoints().expect("a readable run");
    assert_eq!(kept.iter().map(|(iteration, _)| *iteration).collect::<Vec<_>>(), [2, 4, 5]);
    for (iteration, path) in kept {
        let mut restored = make();
        restored.restore(&path).expect("a whole checkpoint");
        assert_eq!(restored.iteration(), iteration);
    }
}

/// PPO whose policy takes 100 kB, in a run directory.
fn larger(logdir: &Path) -> Driver<Algorithm<Ppo>> {
    let mut ppo = tiny_ppo();
    ppo.common.model.fcnet_hiddens = vec![64, 64];
    ppo.builder("CartPole-v1").logdir(logdir).resume(Resume::ByCaller).build().expect("a driver")
}

#[test]
#[ignore = "run in a process of its own by the next test"]
fn child_saves_more_than_fits() {
    let home = PathBuf::from(std::env::var_os("PAVLOV_TEST_HOME").expect("run by another test"));
    let mut driver = larger(&home);
    let newest = checkpoint::latest(&home).expect("a readable run").expect("a checkpoint");
    driver.restore(&newest).expect("a whole checkpoint");
    driver.train().expect("a result");
    println!("says: {}", driver.save().expect_err("a full disk"));
    driver.train().expect("a result although the last one was not saved");
}

#[test]
fn a_disk_that_takes_no_more_is_named_and_the_previous_checkpoint_goes_on() {
    let home = tempfile::tempdir().expect("a directory");
    let run = home.path().join("run");
    let mut driver = larger(&run);
    driver.train().expect("a result");
    let path = driver.save().expect("a checkpoint");
    // Files end at 96 blocks of 512 or 1024 bytes, and writing more is an error instead of a signal.
    let script = "trap '' XFSZ; ulimit -f 96; exec \"$0\" --exact --ignored --nocapture checkpoints::child_saves_more_than_fits";
    let child = Command::new("sh")
        .args(["-c", script])
        .arg(std::env::current_exe().expect("this binary"))
        .env("PAVLOV_TEST_HOME", &run)
        .output()
        .expect("a child");
    let said = String::from_utf8_lossy(&child.stdout).into_owned();
    assert!(child.status.success(), "{said}{}", String::from_utf8_lossy(&child.stderr));
    for part in ["says: cannot write ", "policies.safetensors", "File too large"] {
        assert!(said.contains(part), "no {part:?} in: {said}");
    }
    assert_eq!(checkpoint::latest(&run).expect("a readable run"), Some(path.clone()));
    let names = fs::read_dir(&run).expect("the run").map(|entry| entry.expect("an entry").file_name());
    assert!(
        !names.into_iter().any(|name| name.to_string_lossy().starts_with(".pavlov")),
        "nothing is left over"
    );
    let mut restored = larger(&home.path().join("other"));
    restored.restore(&path).expect("the previous checkpoint");
    let a = driver.train().expect("a result");
    let b = restored.train().expect("a result");
    assert_eq!(difference(&a, &b), None);
}

#[test]
fn a_place_that_cannot_be_written_is_named_and_the_run_goes_on() {
    let home = tempfile::tempdir().expect("a directory");
    let file = home.path().join("file");
    fs::write(&file, "not a directory").expect("a file");
    let mut pair = Pair::new(tiny_ppo(), "CartPole-v1");
    let path = pair.asked.save_to(home.path()).expect("a checkpoint");
    let place = file.join("run");
    refused(pair.asked.save_to(&place), &["cannot create", &place.display().to_string(), "Not a directory"]);
    checkpoint::verify(&path, Some("PPO")).expect("the previous checkpoint");
    let [a, b] = [&mut pair.asked, &mut pair.undisturbed].map(|driver| driver.train().expect("a result"));
    assert_eq!(difference(&a, &b), None);
}

#[test]
fn a_checkpoint_says_what_was_trained_on_what() {
    let home = tempfile::tempdir().expect("a directory");
    let path = saved(home.path());
    let settings: Value =
        serde_json::from_slice(&fs::read(path.join("settings.json")).expect("settings")).expect("JSON");
    for (key, value) in [("algorithm", "PPO"), ("env", "CartPole-v1"), ("action_space", "Discrete(2)")] {
        assert_eq!(settings[key], value);
    }
    assert_eq!(settings["config"]["num_envs_per_worker"], 2);
}

/// Population based training copies a checkpoint into a trial with other settings.
#[test]
fn a_changed_setting_takes_effect_where_the_checkpoint_has_a_value_that_learning_changed() {
    let home = tempfile::tempdir().expect("a directory");
    let path = saved(home.path());
    let coefficient = |kl_coeff: f64| {
        let mut driver = quiet(Ppo { kl_coeff, ..tiny_ppo() }, "CartPole-v1").expect("a driver");
        driver.restore(&path).expect("restored");
        driver
            .get_policy("default_policy", |policy| policy.current_values(0)["cur_kl_coeff"])
            .expect("a policy")
    };
    let was = tiny_ppo().kl_coeff;
    assert_ne!(coefficient(was), was, "learning has changed it");
    assert_eq!(coefficient(0.7), 0.7);

    let log_alpha = |driver: &Driver<Algorithm<Sac>>| {
        let weights = driver.get_weights().expect("weights");
        let name = weights.array_names().find(|name| name.ends_with("log_alpha")).expect("the temperature");
        weights.array(name).expect("its number").to_vec::<f32>()[0]
    };
    let mut driver = quiet(tiny_sac(), "Pendulum-v1").expect("a driver");
    (0..3).for_each(|_| drop(driver.train().expect("a result")));
    let learned = log_alpha(&driver);
    let path = driver.save_to(home.path().join("sac")).expect("a checkpoint");
    for (initial_alpha, expected) in [(1.0, learned), (0.2, 0.2_f64.ln() as f32)] {
        let mut driver = quiet(Sac { initial_alpha, ..tiny_sac() }, "Pendulum-v1").expect("a driver");
        driver.restore(&path).expect("restored");
        assert_eq!(log_alpha(&driver), expected, "{initial_alpha}");
        driver.train().expect("a result");
    }
    assert_ne!(learned, 0.0, "learning has changed it");
}

/// The checkpoints in `tests/first_layout` were saved by commit bf6727f: two iterations of PPO on two workers with fragments
/// that were sampled ahead, of PPO without workers, and of DQN with prioritised replay. Saved environments had another layout
/// then.
#[test]
fn checkpoints_of_the_first_layout_are_refused_by_their_version_and_their_policies_are_read() {
    fn read<T: Trainer>(name: &str) {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/first_layout").join(name);
        let text = fs::read(path.join("settings.json")).expect("settings");
        let saved: Value = serde_json::from_slice(&text).expect("JSON");
        let settings: T = serde_json::from_value(saved["config"].clone()).expect("settings of today");
        let mut driver = quiet(settings, "CartPole-v1").expect("a driver");
        let version = "its layout has version 1, but this version of pavlov reads version 3";
        crate::support::refused(driver.restore(&path), &["environment state", version]);
        driver.restore_policies(&path).expect("policies");
        let policies = State::read(&path, "policies").expect("the policies");
        let weights = driver.get_weights().expect("weights");
        assert!(weights.array_names().count() > 4);
        for weight in weights.array_names() {
            let (policy, rest) = weight.split_once('.').expect("the id of a policy in front");
            let saved = policies.array(&format!("{policy}.weights.{rest}")).expect("the same weight");
            assert_eq!(weights.array(weight).expect("its numbers"), saved, "{weight}");
        }
    }
    read::<Ppo>("ppo");
    read::<Ppo>("ppo_alone");
    read::<Dqn>("dqn");
}
