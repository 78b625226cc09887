//! Algorithms with a replay buffer or with asynchronous workers, and several policies.

use std::collections::BTreeMap;

use pavlov::prelude::*;
use pavlov::trainer::Trainer;
use serde_json::json;

use super::settings::{first_and_others, with};
use crate::support::{number, quiet, tiny_dqn};

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

#[test]
fn impala_and_sac_take_several_policies() {
    let mut impala = Impala::get_default_config();
    impala.common.seed = Some(0);
    (impala.common.num_workers, impala.common.rollout_fragment_length, impala.common.train_batch_size) =
        (1, 10, 20);
    impala.common.min_sample_timesteps_per_reporting = Some(40);
    impala.common.model.fcnet_hiddens = vec![8];
    let settings = with(&impala, first_and_others()).expect("settings");
    let mut driver = quiet(settings, "simple_spread_v3").expect("a driver");
    learns_all(&mut driver);

    let mut sac = Sac::get_default_config();
    (sac.common.train_batch_size, sac.common.seed) = (8, Some(0));
    sac.off_policy.replay_buffer_config.capacity = 256;
    sac.off_policy.replay_buffer_config.learning_starts = 16;
    sac.common.env_config = json!({"continuous_actions": true}).as_object().expect("an object").clone();
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
