//! What a step allocates. This binary counts the allocations of each of its threads; a local worker samples on the
//! thread that asks it to.

#[path = "../../envs/tests/counting/mod.rs"]
mod counting;

use counting::allocations_of_thread;
use pavlov::prelude::*;
use pavlov::trainer::WorkerSet;
use pavlov::trainer::policy::PolicyClass;

use crate::support::{Doors, Rememberer, tiny_dqn, tiny_ppo, worker_set, workers_with};

/// Allocations of a fragment of `steps` steps of eight copies of CartPole, when buffers have been used before.
fn allocations<T: Trainer>(mut settings: T, steps: usize) -> u64 {
    let common = settings.common_mut();
    common.num_envs_per_worker = 8;
    common.rollout_fragment_length = steps;
    of_a_fragment(&worker_set(&settings, "CartPole-v1").expect("workers"), steps)
}

fn of_a_fragment(workers: &WorkerSet, steps: usize) -> u64 {
    for _ in 0..3 {
        workers.sample().and_then(|batch| batch.single()).expect("a fragment");
    }
    let before = allocations_of_thread();
    let batch = workers.sample().and_then(|batch| batch.single()).expect("a fragment");
    assert_eq!(batch.rows(), 8 * steps);
    allocations_of_thread() - before
}

#[test]
fn agents_that_act_at_once_or_in_turn_allocate_nothing_per_step() {
    let allocations = |env: &str, (agents, episode): (u64, u64), steps| {
        let mut ppo = tiny_ppo();
        ppo.common.num_envs_per_worker = 4;
        ppo.common.rollout_fragment_length = steps;
        ppo.common.mask_actions = env == "tictactoe_v3";
        let workers = worker_set(&ppo, env).expect("workers");
        let sample = || workers.sample().expect("a fragment").rows() as u64;
        (0..3).for_each(|_| assert!(sample() > 0));
        workers.ledger.take_episodes();
        let before = allocations_of_thread();
        let rows = sample();
        let allocated = allocations_of_thread() - before;
        let episodes = workers.ledger.take_episodes().len() as u64;
        assert!(rows >= 4 * steps as u64 - 8 && episodes >= 4 * steps as u64 / episode);
        // An episode has a list of its agents, with their names and those of their policies.
        allocated - episodes * (1 + 2 * agents)
    };
    for (env, agents, episode) in [("simple_spread_v3", 3, 25), ("tictactoe_v3", 2, 9)] {
        let allocations = |steps| allocations(env, (agents, episode), steps);
        let short = allocations(100);
        let long = allocations(1100);
        // Lists of episodes and of their endings grow by doubling.
        assert!(long <= short + 64, "{env}: {short} allocations in 100 steps, {long} in 1,100");
    }
}

#[track_caller]
fn assert_allocates_per_fragment_only<T: Trainer>(settings: T) {
    let short = allocations(settings.clone(), 100);
    let long = allocations(settings, 1100);
    // The list of ended episodes doubles in size, perhaps four times more often for eleven times the steps. And columns of up to
    // 16 KiB, as a short fragment has them, use memory of dropped arrays again.
    assert!(long <= short + 4 + 12, "{short} allocations in 100 steps, {long} in 1,100");
}

#[test]
fn acting_with_ppo_allocates_nothing_per_step() {
    assert_allocates_per_fragment_only(tiny_ppo());
    assert_allocates_per_fragment_only(Ppo { kl_coeff: 0.0, ..tiny_ppo() });
}

#[test]
fn acting_with_dqn_allocates_nothing_per_step() {
    assert_allocates_per_fragment_only(tiny_dqn());
    assert_allocates_per_fragment_only(Dqn { dueling: false, ..tiny_dqn() });
}

#[test]
fn acting_with_recurrent_layers_allocates_nothing_per_step() {
    for (use_gru, use_lstm) in [(true, false), (false, true)] {
        let allocations = |steps| {
            let mut ppo = tiny_ppo();
            ppo.common.num_envs_per_worker = 8;
            ppo.common.rollout_fragment_length = steps;
            // As many sequences in a short fragment as in a long one: a list of them is made per fragment.
            let model = &mut ppo.common.model;
            model.use_gru = use_gru;
            model.use_lstm = use_lstm;
            model.lstm_cell_size = 8;
            model.max_seq_len = steps / 10;
            of_a_fragment(&worker_set(&ppo, "CartPole-v1").expect("workers"), steps)
        };
        let short = allocations(100);
        let long = allocations(1100);
        assert!(long <= short + 16, "{short} allocations in 100 steps, {long} in 1,100");
    }
}

#[test]
fn acting_with_memory_and_masks_allocates_nothing_per_step() {
    let allocations = |class: Option<PolicyClass>, steps| {
        let mut dqn = tiny_dqn();
        dqn.common.num_envs_per_worker = 8;
        dqn.common.rollout_fragment_length = steps;
        dqn.common.mask_actions = true;
        let env = || Doors::new(50, true);
        let workers = match class {
            Some(class) => workers_with(&dqn.common, class, env),
            None => worker_set(&dqn, env),
        };
        of_a_fragment(&workers.expect("workers"), steps)
    };
    for class in [Some(Rememberer::class(4)), None] {
        let short = allocations(class.clone(), 100);
        let long = allocations(class, 1100);
        // Lists of ended episodes, their observations, masks and results grow by doubling.
        assert!(long <= short + 16, "{short} allocations in 100 steps, {long} in 1,100");
    }
}
