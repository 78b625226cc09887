//! Saved policies that act without settings, environments and workers.

use std::path::{Path, PathBuf};

use pavlov::envs::{self, EnvConfig};
use pavlov::prelude::*;
use pavlov::trainer::settings::ObservationFilter;
use pavlov::trainer::state::State;
use serde_json::{Value, json};

use crate::support::{Doors, Rememberer, quiet, refused, tiny_dqn, tiny_ppo};

fn saved<T: Trainer>(settings: T, env: &str, dir: &Path) -> (Driver<Algorithm<T>>, PathBuf) {
    let builder = settings.builder(env).logdir(dir).loggers(LoggerChoice::None);
    let mut trainer = builder.build().expect("a trainer");
    (0..2).for_each(|_| drop(trainer.train().expect("a result")));
    let checkpoint = trainer.save().expect("a checkpoint");
    (trainer, checkpoint)
}

/// Rows that the environment itself writes.
fn rows<O: envs::Element>(env: &str, n: usize) -> Vec<O> {
    let copies = envs::make_vec(env, &EnvConfig::new(), n).expect("copies");
    let width = copies.observation_space().width();
    let mut random = envs::NpRandom::new(3);
    let mut rows = vec![O::default(); n * width];
    rows.chunks_exact_mut(width).for_each(|row| copies.observation_space().sample(&mut random, row));
    rows
}

/// The loaded policy gives the actions that the trainer gives, one call after the other.
fn acts_alike<T: Trainer, O: envs::Element>(settings: T, env: &str) {
    let home = tempfile::tempdir().expect("a directory");
    let (mut trainer, checkpoint) = saved(settings, env, home.path());
    let obs: Vec<O> = rows(env, 30);
    let width = obs.len() / 30;
    let mut session = trainer.session(1).expect("a session");
    let wanted: Vec<Action> = obs.chunks(width).map(|row| session.act(row).expect("an action")).collect();
    drop(trainer);
    for path in [home.path(), &checkpoint] {
        let mut loaded = pavlov::load(path).expect("a policy");
        let found: Vec<Action> = obs.chunks(width).map(|row| loaded.act(row).expect("an action")).collect();
        assert_eq!(found, wanted, "{env} from {}", path.display());
    }
}

#[test]
fn a_loaded_policy_acts_as_the_one_that_was_saved() {
    let mut filtered = tiny_ppo();
    filtered.common.observation_filter = ObservationFilter::MeanStdFilter;
    acts_alike::<_, f32>(filtered.clone(), "Pendulum-v1");
    acts_alike::<_, i64>(filtered, "Taxi-v4");
    acts_alike::<_, i64>(tiny_dqn(), "Taxi-v4");
    acts_alike::<_, f32>(tiny_dqn(), "CartPole-v1");
    let mut recurrent = tiny_ppo();
    recurrent.common.model.use_lstm = true;
    acts_alike::<_, f32>(recurrent, "CartPole-v1");
}

#[test]
fn a_loaded_policy_takes_the_legal_actions_it_is_told_and_needs_no_environment() {
    let mut dqn = tiny_dqn();
    dqn.common.mask_actions = true;
    let home = tempfile::tempdir().expect("a directory");
    // The environment is a closure: no name leads to it.
    let builder = dqn.builder(|| Doors::new(100, false)).logdir(home.path()).loggers(LoggerChoice::None);
    let mut trainer = builder.build().expect("a trainer");
    trainer.train().expect("a result");
    trainer.save().expect("a checkpoint");
    let mut loaded = pavlov::load(home.path()).expect("a policy");
    for legal in 0..4 {
        let mask = loaded.mask_mut().expect("the settings have masks");
        mask.iter_mut().enumerate().for_each(|(i, flag)| *flag = i == legal);
        assert_eq!(loaded.act(&[0.0_f32]).expect("an action"), Action::Int(vec![legal as i64]));
    }
}

#[test]
fn wrappers_of_the_settings_stand_in_training_evaluation_and_loading() {
    let home = tempfile::tempdir().expect("a directory");
    let mut ppo = tiny_ppo();
    ppo.common.wrappers = serde_json::from_value(json!(["TimeLimit(7)", "FrameStack(3)"])).expect("wrappers");
    let (mut trainer, checkpoint) = saved(ppo.clone(), "CartPole-v1", home.path());
    assert_eq!(trainer.train().expect("a result")["episode_len_mean"], 7.0);
    let played = trainer.play(4, 0, false, 0).expect("episodes");
    assert!(played.episodes.iter().all(|episode| episode.length == 7));
    let mut loaded = pavlov::load(&checkpoint).expect("a policy");
    assert_eq!(loaded.observation_space().shape(), [3, 4]);
    loaded.act(&[0.0_f32; 12]).expect("an action");
    let mut other = quiet(ppo, "CartPole-v1").expect("a trainer");
    other.restore(&checkpoint).expect("the same wrappers");
    refused(
        quiet(tiny_ppo(), "CartPole-v1").expect("a trainer").restore(&checkpoint),
        &["observation_space"],
    );
}

#[test]
fn several_copies_of_a_loaded_policy_act_at_once_and_explore() {
    let home = tempfile::tempdir().expect("a directory");
    let (mut trainer, checkpoint) = saved(tiny_ppo(), "CartPole-v1", home.path());
    let obs: Vec<f32> = rows("CartPole-v1", 30);
    let mut loaded = pavlov::load_policy(&checkpoint, Some("default_policy"), 30).expect("a policy");
    let wanted = trainer.session(30).expect("a session").compute_actions(&obs, true).expect("actions");
    assert_eq!(loaded.compute_actions(&obs, true).expect("actions"), wanted);
    refused(loaded.act(&obs[..4]), &["it has 30 copies; `compute_actions` acts in all of them"]);
    refused(
        pavlov::load_policy(&checkpoint, Some("hider"), 1),
        &["no policy `hider`; there is default_policy"],
    );
    refused(pavlov::load_policy(&checkpoint, None, 0), &["asked for 0 copies"]);
}

#[test]
fn what_cannot_be_loaded_is_refused_with_the_way_out() {
    let home = tempfile::tempdir().expect("a directory");
    refused(pavlov::load(home.path().join("none")), &["none: there is no such directory"]);
    refused(pavlov::load(home.path()), &["there is no whole checkpoint in it"]);
    let builder = tiny_ppo().builder(|| Doors::new(100, false)).policy_class(Rememberer::class(4));
    let mut trainer = builder.logdir(home.path()).loggers(LoggerChoice::None).build().expect("a trainer");
    trainer.save().expect("a checkpoint");
    refused(pavlov::load(home.path()), &["a policy class of your own is no part of a checkpoint"]);
}

/// CRC-32C, bit by bit.
fn crc32c(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(!0, |crc, byte| {
        (0..8).fold(crc ^ u32::from(*byte), |crc, _| (crc >> 1) ^ (0x82f6_3b78 & (crc & 1).wrapping_neg()))
    })
}

#[test]
fn a_checkpoint_of_an_older_version_says_how_to_make_one_that_loads() {
    let home = tempfile::tempdir().expect("a directory");
    let (_, checkpoint) = saved(tiny_ppo(), "CartPole-v1", home.path());
    // As older versions wrote it.
    let settings = checkpoint.join("settings.json");
    let mut about: Value = serde_json::from_slice(&std::fs::read(&settings).unwrap()).unwrap();
    about.as_object_mut().unwrap().retain(|key, _| !["spaces", "dtypes"].contains(&key.as_str()));
    let text = serde_json::to_vec_pretty(&about).unwrap();
    std::fs::write(&settings, &text).unwrap();
    let manifest = checkpoint.join("manifest.json");
    let mut listed: Value = serde_json::from_slice(&std::fs::read(&manifest).unwrap()).unwrap();
    for file in listed["files"].as_array_mut().unwrap() {
        if file["path"] == "settings.json" {
            file["bytes"] = json!(text.len());
            file["crc32c"] = json!(crc32c(&text));
        }
    }
    // Its own checksum is that of the rest.
    listed["crc32c"] = json!(0);
    listed["crc32c"] = json!(crc32c(listed.to_string().as_bytes()));
    std::fs::write(&manifest, listed.to_string()).unwrap();
    refused(pavlov::load(&checkpoint), &["an older version saved this checkpoint", "`pavlov resume`"]);
    let mut trainer = quiet(tiny_ppo(), "CartPole-v1").expect("a trainer");
    trainer.restore(&checkpoint).expect("it is still restored");
    State::read(&checkpoint, "policies").expect("and read");
}
