//! The same copies spread over another number of workers give the same rollouts, byte for byte.

use pavlov::prelude::*;
use pavlov::trainer::batch::{Column, SampleBatch};
use pavlov::trainer::models::Sde;

use crate::support::{
    assert_close, bytes, numbers, tiny_ddpg, tiny_dqn, tiny_ppo, tiny_sac, tiny_td3, with_off_policy,
    worker_set,
};

/// Three fragments of 32 steps of so many copies, on so many workers.
fn rollouts<T: Trainer>(mut settings: T, env: &str, copies: usize, num_workers: usize) -> Vec<SampleBatch> {
    let common = settings.common_mut();
    common.num_workers = num_workers;
    common.num_envs_per_worker = copies / num_workers.max(1);
    common.rollout_fragment_length = 32;
    common.seed = Some(42);
    let workers = worker_set(&settings, env).expect("workers");
    (0..3).map(|_| workers.sample().and_then(|batch| batch.single()).expect("a fragment")).collect()
}

/// Every column is byte-identical on 0, 1, 2 and 4 workers, those `but` excepted.
#[track_caller]
fn assert_equal_rollouts<T: Trainer>(settings: &T, copies: usize, but: &[Column]) {
    assert_equal_rollouts_of(settings, "CartPole-v1", copies, but);
}

#[track_caller]
fn assert_equal_rollouts_of<T: Trainer>(settings: &T, env: &str, copies: usize, but: &[Column]) {
    let alone = rollouts(settings.clone(), env, copies, 0);
    for num_workers in [1, 2, 4] {
        let spread = rollouts(settings.clone(), env, copies, num_workers);
        for (i, (wanted, found)) in alone.iter().zip(&spread).enumerate() {
            // Up to two steps of each copy wait for later rewards, in the first fragment of three-step rows.
            assert_eq!(found.rows(), wanted.rows());
            assert!(found.rows() >= copies * 30, "{} rows", found.rows());
            for (column, _) in wanted.columns().filter(|(column, _)| !but.contains(column)) {
                let equal = bytes(found, column) == bytes(wanted, column);
                assert!(equal, "{} of fragment {i} differs on {num_workers} workers", column.name());
            }
            for &column in but {
                assert_close(&numbers(found, column), &numbers(wanted, column), 1e-5);
            }
        }
    }
}

#[test]
fn ppo_rollouts_are_byte_identical_for_any_number_of_workers() {
    assert_equal_rollouts(&tiny_ppo(), 8, &[]);
}

/// PPO with Ray's 256 x 256 network.
fn full_ppo() -> Ppo {
    let mut ppo = tiny_ppo();
    ppo.common.model = Ppo::get_default_config().common.model;
    ppo
}

#[test]
fn ppo_rollouts_of_the_default_network_are_byte_identical_down_to_one_copy_per_worker() {
    assert_equal_rollouts(&full_ppo(), 4, &[]);
}

/// libtorch chooses its kernels by the number of rows (and by the processor), so what is computed from the network's
/// numbers may differ in the last digit; what the environment sees may not.
#[test]
fn without_the_fused_engine_they_differ_by_rounding_only_and_the_environment_sees_the_same() {
    let mut ppo = full_ppo();
    ppo.common.model.fused = false;
    let of_the_network = [
        Column::ACTION_LOGP,
        Column::ACTION_DIST_INPUTS,
        Column::VF_PREDS,
        Column::ADVANTAGES,
        Column::VALUE_TARGETS,
    ];
    for copies in [4, 16] {
        assert_equal_rollouts(&ppo, copies, &of_the_network);
    }
}

#[test]
fn dqn_rollouts_are_byte_identical_for_any_number_of_workers() {
    assert_equal_rollouts(&tiny_dqn(), 8, &[]);
}

#[test]
fn dqn_rollouts_with_noisy_layers_are_byte_identical_for_any_number_of_workers() {
    assert_equal_rollouts(&Dqn { noisy: true, ..with_off_policy(|off| off.n_step = 3) }, 8, &[]);
}

#[test]
fn rollouts_of_sac_td3_and_ddpg_are_byte_identical_for_any_number_of_workers() {
    assert_equal_rollouts(&tiny_sac(), 8, &[]);
    assert_equal_rollouts_of(&tiny_sac(), "Pendulum-v1", 8, &[]);
    assert_equal_rollouts_of(&tiny_td3(), "Pendulum-v1", 8, &[]);
    // Its noise drifts on from fragment to fragment.
    let mut ddpg = tiny_ddpg();
    ddpg.off_policy.n_step = 3;
    assert_equal_rollouts_of(&ddpg, "Pendulum-v1", 8, &[]);
}

#[test]
fn rollouts_by_state_dependent_noise_are_byte_identical_for_any_number_of_workers() {
    let sde = Sde { use_sde: true, sde_sample_freq: 5, ..Sde::default() };
    assert_equal_rollouts_of(&Ppo { sde: sde.clone(), ..tiny_ppo() }, "Pendulum-v1", 8, &[]);
    assert_equal_rollouts_of(&Sac { sde, ..tiny_sac() }, "Pendulum-v1", 8, &[]);
}

#[test]
fn rollouts_of_another_seed_differ() {
    let sample = |seed| {
        let mut ppo = tiny_ppo();
        ppo.common.seed = Some(seed);
        worker_set(&ppo, "CartPole-v1").and_then(|workers| workers.sample()?.single()).expect("a fragment")
    };
    assert_ne!(numbers(&sample(0), Column::OBS), numbers(&sample(1), Column::OBS));
}

/// Two workers' fragments, with other weights from after the `learned`th on.
fn fragments(sample_async: bool, learned: usize) -> Vec<SampleBatch> {
    let mut ppo = tiny_ppo();
    let common = &mut ppo.common;
    common.num_workers = 2;
    common.rollout_fragment_length = 32;
    common.seed = Some(42);
    common.sample_async = sample_async;
    let workers = worker_set(&ppo, "CartPole-v1").expect("workers");
    let other = worker_set(&Ppo { common: Common { seed: Some(7), ..ppo.common }, ..ppo }, "CartPole-v1");
    let other = other.expect("workers").get_weights();
    let sample = |i| {
        let fragment = workers.sample().and_then(|batch| batch.single()).expect("a fragment");
        if i == learned {
            workers.set_weights(&other).expect("weights that fit");
        }
        fragment
    };
    (1..=3).map(sample).collect()
}

#[test]
fn workers_that_sample_ahead_act_with_the_weights_from_before_the_update() {
    let logits = |ahead, learned| -> Vec<_> {
        let fragments = fragments(ahead, learned);
        fragments.iter().map(|batch| bytes(batch, Column::ACTION_DIST_INPUTS)).collect()
    };
    let never = logits(false, 9);
    let after_two = logits(false, 2);
    let ahead = logits(true, 1);
    assert!(ahead == after_two);
    assert!(ahead[..2] == never[..2] && ahead[2] != never[2]);
}
