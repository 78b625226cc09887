//! Workers that sample while others learn: whose fragment comes when, and which weights made it.

use pavlov::prelude::*;
use pavlov::trainer::batch::{Column, TrainBatch};
use pavlov::trainer::plan::Order;

use crate::support::{bytes, number, quiet, worker_set};

/// IMPALA whose iterations take milliseconds: 2 workers of 2 copies, fragments of 20 steps, batches of 4 fragments.
pub(crate) fn tiny_impala() -> Impala {
    let mut impala = Impala::get_default_config();
    impala.common.num_workers = 2;
    impala.common.num_envs_per_worker = 2;
    impala.common.rollout_fragment_length = 10;
    impala.common.train_batch_size = 80;
    impala.common.min_sample_timesteps_per_reporting = None;
    impala.common.model.fcnet_hiddens = vec![8];
    impala.common.seed = Some(5);
    impala
}

fn fragments(settings: &Impala, in_flight: usize, order: Order, n: usize) -> Vec<TrainBatch> {
    let workers = worker_set(settings, "CartPole-v1").expect("workers");
    let plan = workers.rollouts_async(in_flight, order);
    plan.take(n).map(|fragment| fragment.expect("a fragment")).collect()
}

#[test]
fn in_deterministic_order_workers_take_turns_and_make_the_fragments_of_rounds() {
    let settings = tiny_impala();
    let workers = worker_set(&settings, "CartPole-v1").expect("workers");
    let rounds: Vec<_> =
        (0..3).map(|_| workers.sample().and_then(|b| b.single()).expect("a round")).collect();
    for in_flight in [1, 3] {
        let fragments = fragments(&settings, in_flight, Order::Deterministic, 6);
        let whose: Vec<usize> = fragments.iter().map(|fragment| fragment.sources[0].worker).collect();
        assert_eq!(whose, [1, 2, 1, 2, 1, 2]);
        for (i, fragment) in fragments.into_iter().enumerate() {
            let fragment = fragment.single().expect("rows");
            let wanted = rounds[i / 2].slice(i % 2 * 20, 20);
            assert!(bytes(&fragment, Column::OBS) == bytes(&wanted, Column::OBS), "fragment {i}");
        }
    }
}

#[test]
fn broadcast_weights_reach_what_is_asked_for_after_them() {
    for in_flight in 1..=3 {
        let workers = worker_set(&tiny_impala(), "CartPole-v1").expect("workers");
        let mut fragments = workers.rollouts_async(in_flight, Order::Deterministic);
        let mut versions = Vec::new();
        for _ in 0..6 {
            for _ in 0..2 {
                versions.push(fragments.next().expect("no end").expect("a fragment").sources[0].version);
            }
            workers.with_policy("default_policy", |_| ()).expect("a policy");
            workers.broadcast_weights(1).expect("no worker waits");
        }
        // The fragment that is asked for when the first is taken comes `in_flight` later, made with the weights of then.
        let wanted: Vec<u64> =
            (0..6).flat_map(|round: u64| [round.saturating_sub(in_flight as u64); 2]).collect();
        assert_eq!(versions, wanted, "{in_flight} in flight");
    }
}

#[test]
fn weights_are_broadcast_after_every_so_many_batches_that_were_learned() {
    let workers = worker_set(&tiny_impala(), "CartPole-v1").expect("workers");
    for round in 1..=7 {
        workers.with_policy("default_policy", |_| ()).expect("a policy");
        workers.broadcast_weights(3).expect("no worker waits");
        assert_eq!(workers.counters().num_weight_syncs, round / 3, "round {round}");
    }
    let workers = worker_set(&tiny_impala(), "CartPole-v1").expect("workers");
    workers.broadcast_weights(1).expect("nothing was learned");
    assert_eq!(workers.counters().num_weight_syncs, 0);
}

#[test]
fn in_order_of_arrival_every_worker_has_its_turn() {
    let workers = worker_set(&tiny_impala(), "CartPole-v1").expect("workers");
    let mut fragments = workers.rollouts_async(2, Order::FirstCome);
    let mut taken = [0_u32; 2];
    // On a busy machine one of the two may be far ahead.
    while taken.contains(&0) {
        let fragment = fragments.next().expect("no end").expect("a fragment");
        taken[fragment.sources[0].worker - 1] += 1;
        assert!(taken.iter().sum::<u32>() < 100_000, "{taken:?}");
    }
}

#[test]
fn without_workers_rollouts_are_never_old() {
    let mut settings = tiny_impala();
    settings.common.num_workers = 0;
    let mut impala = quiet(settings, "CartPole-v1").expect("settings that can be");
    for _ in 0..2 {
        assert_eq!(number(&impala.train().expect("a result"), "info.policy_lag"), 0.0);
    }
}

#[test]
fn the_age_of_what_was_learned_from_is_reported() {
    // Four fragments of two workers are in flight, and a batch has four: they are all one update old, from the second on.
    let mut impala = quiet(tiny_impala(), "CartPole-v1").expect("settings that can be");
    let ages: Vec<f64> =
        (0..4).map(|_| number(&impala.train().expect("a result"), "info.policy_lag")).collect();
    assert_eq!(ages, [0.0, 1.0, 1.0, 1.0]);
}

#[test]
fn impala_learns_the_same_twice_and_on_any_number_of_threads() {
    let weights = |threads: usize| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().expect("threads");
        pool.install(|| {
            let settings = Impala {
                num_sgd_iter: 2,
                broadcast_interval: 2,
                replay_proportion: 0.5,
                replay_buffer_num_slots: 3,
                ..tiny_impala()
            };
            let mut impala = quiet(settings, "CartPole-v1").expect("settings that can be");
            for _ in 0..5 {
                impala.train().expect("a result");
            }
            impala.workers().expect("workers").get_weights()
        })
    };
    let once = weights(1);
    assert!(once == weights(1), "twice");
    assert!(once == weights(4), "on four threads");
}
