//! Ends of episodes and of fragments, on an environment whose every number is known.

use std::sync::Arc;

use pavlov::prelude::*;
use pavlov::trainer::WorkerSet;
use pavlov::trainer::batch::Column;
use pavlov::trainer::policy::DEFAULT_POLICY;
use pavlov::trainer::rng::episode_seed;
use pavlov::trainer::settings::{BatchMode, ClipRewards};
use pavlov::trainer::state::State;

use crate::support::{
    Clockwork, assert_close, clockwork, clockwork_obs, column, numbers, rows, tiny_dqn, tiny_ppo, weights,
    worker_set,
};

const SEED: u64 = 11;

/// What copy 0 observes at step `t` of its `episode`-th episode.
fn obs(episode: u64, t: usize) -> [f64; 2] {
    clockwork_obs(episode_seed(SEED, 0, episode), t).map(f64::from)
}

/// One copy, fragments of so many steps, one-step transitions.
fn one_copy(env: Clockwork, fragment: usize, change: impl FnOnce(&mut Common)) -> WorkerSet {
    let mut dqn = tiny_dqn();
    dqn.common.num_envs_per_worker = 1;
    dqn.common.rollout_fragment_length = fragment;
    dqn.common.seed = Some(SEED);
    change(&mut dqn.common);
    worker_set(&dqn, clockwork(env)).expect("workers")
}

#[test]
fn an_ended_episode_hands_over_its_last_observation_and_the_next_one_starts_in_the_same_step() {
    for (env, ends) in [(Clockwork::terminating(3), 1.0), (Clockwork::truncating(3), 0.0)] {
        let workers = one_copy(env, 8, |_| {});
        let batch = workers.sample().and_then(|batch| batch.single()).expect("a fragment");
        let seen = [(0, 0), (0, 1), (0, 2), (1, 0), (1, 1), (1, 2), (2, 0), (2, 1)];
        assert_eq!(numbers(&batch, Column::OBS), seen.map(|(k, t)| obs(k, t)).concat());
        // The observation at t = 3 is the cut one, never (k + 1, 0).
        let followed = seen.map(|(k, t)| obs(k, t + 1));
        assert_eq!(numbers(&batch, Column::NEW_OBS), followed.concat());
        assert_eq!(numbers(&batch, Column::REWARDS), [1.0, 2.0, 3.0, 1.0, 2.0, 3.0, 1.0, 2.0]);
        let ended = [0.0, 0.0, ends, 0.0, 0.0, ends, 0.0, 0.0];
        assert_eq!(numbers(&batch, Column::TERMINATED), ended);
        let episodes = workers.ledger.take_episodes();
        let told: Vec<_> = episodes.iter().map(|e| (e.number, e.seed, e.total_reward, e.length)).collect();
        let wanted = |k| (k, episode_seed(SEED, 0, k), 6.0, 3);
        assert_eq!(told, [wanted(0), wanted(1)]);
    }
}

#[test]
fn the_next_fragment_goes_on_where_the_last_one_stopped() {
    let workers = one_copy(Clockwork::terminating(3), 2, |_| {});
    let sample = || workers.sample().and_then(|batch| batch.single()).expect("a fragment");
    let first = sample();
    let second = sample();
    let third = sample();
    assert_eq!(numbers(&first, Column::OBS), [obs(0, 0), obs(0, 1)].concat());
    assert_eq!(numbers(&second, Column::OBS), [obs(0, 2), obs(1, 0)].concat());
    assert_eq!(numbers(&third, Column::OBS), [obs(1, 1), obs(1, 2)].concat());
    let rewards = [&first, &second, &third].map(|batch| numbers(batch, Column::REWARDS)).concat();
    assert_eq!(rewards, [1.0, 2.0, 3.0, 1.0, 2.0, 3.0]);
    let episodes = workers.ledger.take_episodes();
    assert_eq!(episodes.iter().map(|e| e.length).collect::<Vec<_>>(), [3, 3]);
}

/// Value targets of one copy whose critic says 0.1 t, with gamma 0.5 and lambda 0: r + 0.5 V(what follows).
fn value_targets(env: Clockwork, fragment: usize) -> Vec<f64> {
    let mut ppo = Ppo { lambda: 0.0, ..tiny_ppo() };
    ppo.common.num_envs_per_worker = 1;
    ppo.common.rollout_fragment_length = fragment;
    ppo.common.gamma = 0.5;
    ppo.common.model.fcnet_hiddens = vec![];
    let workers = worker_set(&ppo, clockwork(env)).expect("workers");
    let critic = weights(&[
        ("actor.out.weight", rows(&[[0.0; 2]; 2])),
        ("actor.out.bias", column(&[0.0; 2])),
        ("critic.out.weight", rows(&[[0.0, 0.1]])),
        ("critic.out.bias", column(&[0.0])),
    ]);
    let mut all = State::default();
    all.nest(DEFAULT_POLICY, (*critic).clone());
    workers.set_weights(&Arc::new(all)).expect("weights that fit");
    numbers(&workers.sample().and_then(|batch| batch.single()).expect("a fragment"), Column::VALUE_TARGETS)
}

#[test]
fn a_truncated_episode_bootstraps_from_where_it_was_cut_and_a_terminated_one_not_at_all() {
    // 1 + 0.5*0.1, 2 + 0.5*0.2, and at the end 3 + 0.5*0.3 or 3. The next episode starts at value 0.
    let cut = value_targets(Clockwork::truncating(3), 4);
    assert_close(&cut, &[1.05, 2.1, 3.15, 1.05], 1e-6);
    let ended = value_targets(Clockwork::terminating(3), 4);
    assert_close(&ended, &[1.05, 2.1, 3.0, 1.05], 1e-6);
}

#[test]
fn whole_episodes_are_sampled_until_there_are_enough_steps() {
    // Two copies, episodes of 5 steps, at least 2 * 4 steps wanted: two whole episodes each time.
    let workers = one_copy(Clockwork::truncating(5), 4, |common| {
        common.num_envs_per_worker = 2;
        common.batch_mode = BatchMode::CompleteEpisodes;
    });
    for round in 0..3 {
        let batch = workers.sample().and_then(|batch| batch.single()).expect("episodes");
        assert_eq!(batch.rows(), 10);
        let obs = numbers(&batch, Column::OBS);
        let new_obs = numbers(&batch, Column::NEW_OBS);
        for copy in 0..2 {
            let seed = episode_seed(SEED, copy, round);
            let whole: Vec<f64> = (0..6).flat_map(|t| clockwork_obs(seed, t)).map(f64::from).collect();
            let at = copy as usize * 10;
            assert_eq!(obs[at..at + 10], whole[..10], "copy {copy} in round {round}");
            assert_eq!(new_obs[at..at + 10], whole[2..], "copy {copy} in round {round}");
        }
    }
    assert_eq!(workers.counters().num_env_steps_sampled, 30);
}

#[test]
fn whole_episodes_are_bootstrapped_as_fragments_are() {
    let mut ppo = Ppo { lambda: 0.9, kl_coeff: 0.0, ..tiny_ppo() };
    ppo.common.num_envs_per_worker = 1;
    ppo.common.rollout_fragment_length = 3;
    let targets = |ppo: &Ppo| {
        let workers = worker_set(ppo, clockwork(Clockwork::truncating(3))).expect("workers");
        numbers(
            &workers.sample().and_then(|batch| batch.single()).expect("three steps"),
            Column::VALUE_TARGETS,
        )
    };
    let fragment = targets(&ppo);
    ppo.common.batch_mode = BatchMode::CompleteEpisodes;
    assert_close(&targets(&ppo), &fragment, 1e-5);
}

#[test]
fn rewards_are_clipped_for_the_algorithm_but_not_in_results() {
    for (clip, wanted) in [
        (Some(ClipRewards::Sign(true)), [1.0, 1.0, 1.0]),
        (Some(ClipRewards::Within(2.5)), [1.0, 2.0, 2.5]),
        (Some(ClipRewards::Sign(false)), [1.0, 2.0, 3.0]),
        (None, [1.0, 2.0, 3.0]),
    ] {
        let workers = one_copy(Clockwork::terminating(3), 3, |common| common.clip_rewards = clip);
        let batch = workers.sample().and_then(|batch| batch.single()).expect("a fragment");
        assert_eq!(numbers(&batch, Column::REWARDS), wanted, "{clip:?}");
        assert_eq!(workers.ledger.take_episodes()[0].total_reward, 6.0, "{clip:?}");
    }
}
