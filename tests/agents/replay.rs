//! Algorithms with a replay buffer or with asynchronous workers, and several policies.

use std::collections::BTreeMap;

use pavlov::prelude::*;
use pavlov::trainer::agents::Policies;
use pavlov::trainer::batch::{Column, TrainBatch};
use pavlov::trainer::plan::{replay, store_to_replay};
use pavlov::trainer::replay::{ReplayBufferConfig, ReplayKind};
use pavlov::trainer::settings::BatchMode;
use pavlov::trainer::{PolicyChange, Trainer, register_policy_mapping_fn};
use serde_json::{Value, json};

use super::settings::{first_and_others, with};
use super::turns::{AtRandom, Turns, workers};
use crate::support::{number, numbers, quiet, refused, tiny_dqn, with_off_policy};

/// DQN for simple spread with a policy for `agent_0` and one for the others.
fn dqn() -> Dqn {
    with(&tiny_dqn(), first_and_others()).expect("settings")
}

fn weights<T: Trainer>(
    driver: &Driver<Algorithm<T>>,
) -> BTreeMap<&'static str, pavlov::trainer::state::Weights> {
    let of = |id| (id, driver.get_weights_of(&[id]).expect("weights"));
    ["first", "others"].map(of).into()
}

#[test]
fn every_policy_learns_from_a_replay_buffer_of_its_own_rows() {
    let mut driver = quiet(dqn(), "simple_spread_v3").expect("a driver");
    let before = weights(&driver);
    for _ in 0..4 {
        let result = driver.train().expect("a result");
        if number(&result, "num_env_steps_trained") > 0.0 {
            for id in ["first", "others"] {
                assert!(
                    number(&result, &format!("info.learner.{id}.learner_stats.loss")).is_finite(),
                    "{id}"
                );
            }
        }
    }
    let after = weights(&driver);
    assert!(before.iter().all(|(id, weights)| after[id] != *weights), "both have learned");
    // Twice as many agents fill the other buffer twice as fast.
    let counters = driver.workers().expect("workers").counters();
    let rows = |id| counters.of_policy(id).num_steps_sampled;
    assert!(rows("others") > 3 * rows("first") / 2, "{counters:?}");
}

#[test]
fn a_policy_without_a_whole_episode_waits_for_its_first_rows() {
    register_policy_mapping_fn(
        "second_later",
        |_, episode| if episode.number < 6 { "first" } else { "second" },
    );
    let both = json!({"policies": ["first", "second"], "policy_mapping_fn": "second_later"});
    let mut settings = with(&tiny_dqn(), both).expect("settings");
    settings.common.batch_mode = BatchMode::CompleteEpisodes;
    let mut driver = quiet(settings, Turns::creator()).expect("a driver");
    (0..6).for_each(|_| drop(driver.train().expect("a result")));
    let counters = driver.workers().expect("workers").counters();
    assert!(
        ["first", "second"].iter().all(|id| counters.of_policy(id).num_steps_sampled > 0),
        "{counters:?}"
    );
}

#[test]
fn a_policy_that_is_not_trained_has_no_replay_buffer_and_stays_as_it_is() {
    let mut settings = dqn();
    settings.common.multiagent.policies_to_train = Some(vec!["first".into()]);
    settings.off_policy.training_intensity = Some(1.0);
    let mut driver = quiet(settings, "simple_spread_v3").expect("a driver");
    let before = weights(&driver);
    (0..4).for_each(|_| drop(driver.train().expect("a result")));
    let after = weights(&driver);
    assert!(after["first"] != before["first"] && after["others"] == before["others"]);
    let buffers = driver.workers().expect("workers").state().expect("a state");
    let names: Vec<&str> = buffers.iter().map(|(name, _)| name.as_str()).collect();
    assert!(names.contains(&"replay_buffer_first") && !names.contains(&"replay_buffer_others"), "{names:?}");
}

#[test]
fn training_intensity_counts_the_rows_of_all_policies_together() {
    let mut settings = dqn();
    settings.off_policy.training_intensity = Some(2.0);
    let mut driver = quiet(settings, "simple_spread_v3").expect("a driver");
    (0..12).for_each(|_| drop(driver.train().expect("a result")));
    let counters = driver.workers().expect("workers").counters();
    // Each buffer starts at 16 rows; a debt of less than a batch of 8 rows of both is left.
    let owed = 2 * (counters.num_agent_steps_sampled - 2 * 16);
    assert!(owed - counters.num_agent_steps_trained < 16, "{counters:?}");
}

#[test]
fn replay_buffers_of_all_policies_are_saved_and_go_on_bit_for_bit() {
    let dir = tempfile::tempdir().expect("a directory");
    let builder = dqn().builder("simple_spread_v3").logdir(dir.path()).loggers(LoggerChoice::None);
    let mut straight = builder.build().expect("a driver");
    (0..3).for_each(|_| drop(straight.train().expect("a result")));
    let checkpoint = straight.save().expect("a checkpoint");
    let mut second = quiet(dqn(), "simple_spread_v3").expect("a driver");
    second.restore(&checkpoint).expect("it goes on");
    for _ in 0..3 {
        straight.train().expect("a result");
        second.train().expect("a result");
        assert_eq!(weights(&second), weights(&straight));
    }
}

/// Rows of three policies, one for each agent of simple spread, drawn from their buffers after some fragments.
fn drawn(mode: &str) -> TrainBatch {
    let multi = json!({
        "policies": ["a", "b", "c"], "policy_mapping_fn": {"agent_0": "a", "agent_1": "b", "agent_2": "c"}, "replay_mode": mode,
    });
    let settings = with(&tiny_dqn(), multi).expect("settings");
    let config =
        ReplayBufferConfig { kind: ReplayKind::ReplayBuffer, ..settings.off_policy.replay_buffer_config };
    let by = |agent: &str| ["a", "b", "c"][agent.bytes().last().map_or(0, |digit| usize::from(digit - b'0'))];
    let policies = Policies::new(["a", "b", "c"].map(|id| (id, AtRandom::class(5))), by);
    let workers = workers(&settings.common, policies, &"simple_spread_v3".into()).expect("workers");
    let buffer = workers.replay_buffer(&config, false);
    let mut store = store_to_replay(&buffer);
    // The ring is full and has turned.
    (0..40).for_each(|_| drop(store(workers.sample().expect("rows")).expect("they fit")));
    replay(&buffer, 32).next().expect("a plan goes on").expect("rows").expect("enough of them")
}

#[test]
fn in_lockstep_the_rows_of_a_step_are_drawn_together() {
    // An agent sees its own place in columns 2 and 3, and how far away the next agent is in columns 10 and 11.
    let together = |mode: &str| {
        let batch = drawn(mode);
        let [a, b] = ["a", "b"].map(|id| numbers(&batch.policies[id], Column::OBS));
        let rows = a.chunks(18).zip(b.chunks(18));
        let near = |(a, b): (&[f64], &[f64])| (0..2).all(|i| (b[2 + i] - a[2 + i] - a[10 + i]).abs() < 1e-5);
        rows.filter(|&rows| near(rows)).count()
    };
    assert_eq!(together("lockstep"), 32);
    assert!(together("independent") < 8);
}

#[test]
fn replay_in_lockstep_that_cannot_be_is_refused() {
    let build = |settings: &Dqn, multi: &Value| {
        let mut multi = multi.clone();
        multi["replay_mode"] = json!("lockstep");
        quiet(with(settings, multi).expect("settings"), "simple_spread_v3")
    };
    refused(
        build(&tiny_dqn(), &first_and_others()),
        &["`multiagent.replay_mode` is \"lockstep\"", "\"ReplayBuffer\""],
    );
    let uniform = with_off_policy(|replay| replay.replay_buffer_config.kind = ReplayKind::ReplayBuffer);
    let one = json!({"policies": ["all"], "policy_mapping_fn": {"*": "all"}});
    refused(build(&uniform, &one), &["it is for several policies that learn from replay buffers"]);
    let mut uneven = build(&uniform, &first_and_others()).expect("a driver");
    refused(
        uneven.train(),
        &["`first` got 8 rows of a fragment, and `others` 16", "leave out `replay_mode`"],
    );
    let three = json!({
        "policies": ["a", "b", "c"], "policy_mapping_fn": {"agent_0": "a", "agent_1": "b", "agent_2": "c"},
    });
    let mut even = build(&uniform, &three).expect("a driver");
    (0..4).for_each(|_| drop(even.train().expect("a result")));
    refused(even.remove_policy("c", PolicyChange::default()), &["leave it out to add or remove policies"]);
}

#[test]
fn impala_and_sac_take_several_policies() {
    let mut impala = Impala::get_default_config();
    impala.common.seed = Some(0);
    impala.common.num_workers = 1;
    impala.common.rollout_fragment_length = 10;
    impala.common.train_batch_size = 20;
    impala.common.min_sample_timesteps_per_reporting = Some(40);
    impala.common.model.fcnet_hiddens = vec![8];
    let settings = with(&impala, first_and_others()).expect("settings");
    let mut driver = quiet(settings, "simple_spread_v3").expect("a driver");
    learns_all(&mut driver);

    let mut sac = Sac::get_default_config();
    sac.common.train_batch_size = 8;
    sac.common.seed = Some(0);
    sac.off_policy.replay_buffer_config.capacity = 256;
    sac.off_policy.replay_buffer_config.learning_starts = 16;
    sac.common.env_config =
        json!({"continuous_actions": true}).as_object().expect("an object").clone().into();
    let settings = with(&sac, first_and_others()).expect("settings");
    let mut driver = quiet(settings, "simple_spread_v3").expect("a driver");
    learns_all(&mut driver);
}

#[track_caller]
fn learns_all<T: Trainer>(driver: &mut Driver<Algorithm<T>>) {
    let before = weights(driver);
    driver.train().expect("a result");
    let after = weights(driver);
    assert!(before.iter().all(|(id, weights)| after[id] != *weights), "{} has learned", T::NAME);
}
