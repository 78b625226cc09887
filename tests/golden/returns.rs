//! Advantages, returns and n-step transitions, with terminated, truncated and the fragment's border kept apart.

use pavlov::algorithms::Ppo;
use pavlov::envs::{Space, Step};
use pavlov::prelude::*;
use pavlov::torch::Tensor;
use pavlov::trainer::batch::{Column, SampleBatch};
use pavlov::trainer::policy::{Fragment, FragmentMasks, WaitingRows};
use pavlov::trainer::replay::ReplayKind;
use pavlov::trainer::returns::{Trajectories, advantages, discount_cumsum};
use pavlov::trainer::{Array, Kind};

use std::cell::RefCell;
use std::collections::BTreeMap;

use crate::support::{
    assert_close, discrete_spaces, number, numbers, policy, quiet, rows, scripted, weights, with_off_policy,
};

/// gamma 0.9, lambda 0.8, as f64.
fn gae(f: Trajectories<'_>) -> Vec<f64> {
    advantages(f, 0.9, 0.8).into_iter().map(f64::from).collect()
}

const REWARDS: [f32; 3] = [1.0, 2.0, 3.0];
/// Deltas with bootstrap 0.2: [0.86, 1.87, 2.88].
const BOOTSTRAPPED: [f64; 3] = [3.699392, 3.9436, 2.88];
/// Deltas with nothing after the end: [0.86, 1.87, 2.7].
const ENDED: [f64; 3] = [3.60608, 3.814, 2.70];

fn one_copy<'a>(values: &'a [f32], terminated: &'a [bool], truncated: &'a [bool]) -> Trajectories<'a> {
    let rewards = &REWARDS;
    Trajectories {
        num_envs: 1,
        lengths: None,
        rewards,
        values,
        terminated,
        truncated,
        ended: &[],
        final_values: &[],
    }
}

#[test]
fn advantages_at_the_fragments_border_bootstrap_from_the_value_of_what_follows() {
    let found = gae(one_copy(&[0.5, 0.4, 0.3, 0.2], &[false; 3], &[false; 3]));
    assert_close(&found, &BOOTSTRAPPED, 1e-6);
}

#[test]
fn advantages_of_a_terminated_episode_see_nothing_after_its_end() {
    // 77 is the value of the next episode's first observation, 99 that of the final one: neither may count.
    let f = one_copy(&[0.5, 0.4, 0.3, 77.0], &[false, false, true], &[false; 3]);
    let found = gae(Trajectories { ended: &[2], final_values: &[99.0], ..f });
    assert_close(&found, &ENDED, 1e-6);
    // Neither when its time was up in the same step.
    let f = Trajectories { truncated: &[false, false, true], ..f };
    let found = gae(Trajectories { ended: &[2], final_values: &[99.0], ..f });
    assert_close(&found, &ENDED, 1e-6);
}

#[test]
fn advantages_of_a_truncated_episode_bootstrap_from_the_observation_it_was_cut_at() {
    let f = one_copy(&[0.5, 0.4, 0.3, 77.0], &[false; 3], &[false, false, true]);
    assert_close(&gae(Trajectories { ended: &[2], final_values: &[0.2], ..f }), &BOOTSTRAPPED, 1e-6);
}

#[test]
fn advantages_do_not_leak_over_an_ending_or_between_copies() {
    // Two copies, two steps. Copy 0 is cut after step 0 at value 0.2, copy 1 terminates after step 1.
    // Copy 0: A1 = 2 + 0.9*0.3 - 0.4 = 1.87;  A0 = 1 + 0.9*0.2 - 0.5 = 0.68.
    // Copy 1: A1 = 2 - 0.4 = 1.6;             A0 = (1 + 0.9*0.4 - 0.5) + 0.72*1.6 = 2.012.
    let found = gae(Trajectories {
        num_envs: 2,
        lengths: None,
        rewards: &[1.0, 1.0, 2.0, 2.0],
        values: &[0.5, 0.5, 0.4, 0.4, 0.3, 0.3],
        terminated: &[false, false, false, true],
        truncated: &[true, false, false, false],
        ended: &[0, 3],
        final_values: &[0.2, 9.0],
    });
    assert_close(&found, &[0.68, 1.87, 2.012, 1.6], 1e-6);
}

#[test]
fn copies_that_end_in_the_same_step_use_their_own_final_values() {
    // Copies 0 and 1 are cut, copy 2 goes on, copy 3 terminates; the border is worth 0.4 everywhere.
    // 1 + 0.9*0.2 - 0.5, 1 + 0.9*0.3 - 0.5, 1 + 0.9*0.4 - 0.5, 1 - 0.5
    let found = gae(Trajectories {
        num_envs: 4,
        lengths: None,
        rewards: &[1.0; 4],
        values: &[0.5, 0.5, 0.5, 0.5, 0.4, 0.4, 0.4, 0.4],
        terminated: &[false, false, false, true],
        truncated: &[true, true, false, false],
        ended: &[0, 1, 3],
        final_values: &[0.2, 0.3, 9.0],
    });
    assert_close(&found, &[0.68, 0.77, 0.86, 0.5], 1e-6);
}

/// A PPO whose critic says 0.5, 0.4, 0.3, 0.2 of the four one-hot observations, on an episode cut at the fourth.
fn postprocess(change: impl FnOnce(&mut Ppo)) -> (Vec<f64>, Vec<f64>) {
    let mut ppo = Ppo { lambda: 0.8, kl_coeff: 0.0, ..Ppo::get_default_config() };
    ppo.common.gamma = 0.9;
    ppo.common.model.fcnet_hiddens = vec![];
    change(&mut ppo);
    let mut policy = policy(&ppo, &discrete_spaces(4, 2));
    let critic = [
        ("actor.out.weight", rows(&[&[0.0; 4], &[0.0; 4]])),
        ("actor.out.bias", Tensor::from_slice(&[0.0_f32; 2])),
        ("critic.out.weight", rows(&[&[0.5, 0.4, 0.3, 0.2]])),
        ("critic.out.bias", Tensor::from_slice(&[0.0_f32])),
    ];
    policy.set_weights(&weights(&critic)).expect("weights that fit");
    let one_hot = Tensor::eye(4, (pavlov::torch::Kind::Float, pavlov::torch::Device::Cpu));
    // The row after the cut belongs to the next episode: the first observation, worth 0.5.
    let one_hot = Array::from(one_hot);
    let obs = one_hot.gather(&[0, 1, 2, 0]).reshape(&[4, 1, 4]);
    let actions = Array::zeros(Kind::I64, &[3, 1]);
    let logp = Array::zeros(Kind::F32, &[3, 1]);
    let batch = policy
        .postprocess_trajectory(Fragment {
            steps: 3,
            num_envs: 1,
            lengths: None,
            gamma: 0.9,
            obs: obs.lend(),
            actions: actions.lend(),
            rewards: &REWARDS,
            terminated: &[false; 3],
            truncated: &[false, false, true],
            columns: vec![(Column::ACTION_LOGP, logp.lend())],
            ended: &[2],
            final_obs: one_hot.lend().rows(3..4),
            masks: None,
            memory: None,
            abandoned: &[],
            episodes: None,
            waiting: None,
        })
        .expect("a batch");
    (numbers(&batch, Column::ADVANTAGES), numbers(&batch, Column::VALUE_TARGETS))
}

#[test]
fn ppo_targets_are_advantages_plus_values() {
    let (advantages, targets) = postprocess(|_| {});
    assert_close(&advantages, &BOOTSTRAPPED, 1e-6);
    assert_close(&targets, &[4.199392, 4.3436, 3.18], 1e-6);
}

#[test]
fn ppo_without_gae_learns_from_discounted_returns_minus_values() {
    let (advantages, targets) = postprocess(|ppo| ppo.use_gae = false);
    assert_close(&targets, &[5.3758, 4.862, 3.18], 1e-6);
    assert_close(&advantages, &[4.8758, 4.462, 2.88], 1e-6);
}

#[test]
fn ppo_without_critic_learns_from_discounted_returns_and_has_no_targets() {
    let (advantages, targets) = postprocess(|ppo| {
        ppo.use_gae = false;
        ppo.use_critic = false;
    });
    assert_close(&advantages, &[5.3758, 4.862, 3.18], 1e-6);
    assert_close(&targets, &[0.0; 3], 0.0);
}

/// Rewards 1 to 5, observations 0 to 5, final observations 9; n = 3, gamma = 0.9.
struct NStep {
    rewards: Vec<f64>,
    new_obs: Vec<f64>,
    terminated: Vec<f64>,
    discounts: Vec<f64>,
}

fn three_step(terminated: [bool; 5], truncated: [bool; 5]) -> NStep {
    let ended: Vec<usize> = (0..5).filter(|&t| terminated[t] || truncated[t]).collect();
    let obs: Vec<f32> = (0..6).map(|t| t as f32).collect();
    let final_obs = Array::from_vec(vec![9.0_f32; ended.len()], &[ended.len() as i64, 1]);
    let obs = Array::from_vec(obs, &[6, 1, 1]);
    let actions = Array::zeros(Kind::I64, &[5, 1]);
    let fragment = Fragment {
        steps: 5,
        num_envs: 1,
        lengths: None,
        gamma: 0.9,
        obs: obs.lend(),
        actions: actions.lend(),
        rewards: &[1.0, 2.0, 3.0, 4.0, 5.0],
        terminated: &terminated,
        truncated: &truncated,
        columns: vec![],
        ended: &ended,
        final_obs: final_obs.lend(),
        masks: None,
        memory: None,
        abandoned: &[],
        episodes: None,
        waiting: None,
    };
    let batch = fragment.transitions(3, 0.9);
    assert_close(&numbers(&batch, Column::OBS), &[0.0, 1.0, 2.0, 3.0, 4.0], 0.0);
    NStep {
        rewards: numbers(&batch, Column::REWARDS),
        new_obs: numbers(&batch, Column::NEW_OBS),
        terminated: numbers(&batch, Column::TERMINATED),
        discounts: numbers(&batch, Column::DISCOUNTS),
    }
}

/// 1 + 0.9*2 + 0.81*3, 2 + 0.9*3 + 0.81*4, 3 + 0.9*4 + 0.81*5, 4 + 0.9*5, 5.
const SUMS: [f64; 5] = [5.23, 7.94, 10.65, 8.5, 5.0];
/// Rows 3 and 4 look ahead two steps and one.
const DISCOUNTS: [f64; 5] = [0.729, 0.729, 0.729, 0.81, 0.9];

#[test]
fn n_step_rows_of_a_terminated_episode_lead_to_its_last_observation_and_end_there() {
    let at_the_end = [false, false, false, false, true];
    // Whether its time was up in the same step changes nothing.
    for truncated in [[false; 5], at_the_end] {
        let found = three_step(at_the_end, truncated);
        assert_close(&found.rewards, &SUMS, 1e-6);
        assert_close(&found.new_obs, &[3.0, 4.0, 9.0, 9.0, 9.0], 0.0);
        assert_close(&found.terminated, &[0.0, 0.0, 1.0, 1.0, 1.0], 0.0);
    }
}

#[test]
fn n_step_rows_at_the_fragments_border_look_ahead_fewer_steps_and_say_so() {
    let found = three_step([false; 5], [false; 5]);
    assert_close(&found.rewards, &SUMS, 1e-6);
    assert_close(&found.new_obs, &[3.0, 4.0, 5.0, 5.0, 5.0], 0.0);
    assert_close(&found.terminated, &[0.0; 5], 0.0);
    assert_close(&found.discounts, &DISCOUNTS, 1e-6);
}

#[test]
fn n_step_rows_of_a_truncated_episode_keep_bootstrapping_from_where_it_was_cut() {
    // Cut after step 1: rows 0 and 1 stop there, the next episode's rows are not touched.
    // 1 + 0.9*2, 2, then 3 + 0.9*4 + 0.81*5, 4 + 0.9*5, 5.
    let found = three_step([false; 5], [false, true, false, false, false]);
    assert_close(&found.rewards, &[2.8, 2.0, 10.65, 8.5, 5.0], 1e-6);
    assert_close(&found.new_obs, &[9.0, 9.0, 5.0, 5.0, 5.0], 0.0);
    assert_close(&found.terminated, &[0.0; 5], 0.0);
    assert_close(&found.discounts, &[0.81, 0.9, 0.729, 0.81, 0.9], 1e-6);
}

#[test]
fn n_step_rows_are_those_of_one_long_fragment_however_it_is_cut() {
    // 40 steps of three copies with masks; episodes terminate (2 of 5) or are truncated (every seventh step of copy 1).
    const STEPS: usize = 40;
    const COPIES: usize = 3;
    let ends = |t: usize, copy: usize| match copy {
        0 => (t % 5 == 1, t % 5 == 4),
        1 => (false, t % 7 == 6),
        _ => (false, false),
    };
    // Rows of columns from `from` to `to`, as a fragment that lends them.
    let sampled = |from: usize, to: usize, waiting: Option<&RefCell<WaitingRows>>| {
        let places = || (from..to).flat_map(|t| (0..COPIES).map(move |copy| (t, copy)));
        let number = |(t, copy): (usize, usize)| (100 * copy + t) as f32;
        let obs: Vec<f32> =
            (from..=to).flat_map(|t| (0..COPIES).map(move |copy| number((t, copy)))).collect();
        let flags: Vec<bool> = (from..=to).flat_map(|t| [t % 2 == 0, true].repeat(COPIES)).collect();
        let ended: Vec<usize> = places()
            .enumerate()
            .filter(|(_, (t, copy))| ends(*t, *copy).0 || ends(*t, *copy).1)
            .map(|(i, _)| i)
            .collect();
        let finals: Vec<f32> = ended.iter().map(|&i| 1000.0 + obs[i]).collect();
        let (terminated, truncated): (Vec<bool>, Vec<bool>) = places().map(|(t, copy)| ends(t, copy)).unzip();
        let steps = (to - from) as i64;
        let copies = COPIES as i64;
        let count = ended.len() as i64;
        let obs = Array::from_vec(obs, &[steps + 1, copies, 1]);
        let actions: Vec<i64> = places().map(|(t, copy)| (t + copy) as i64).collect();
        let actions = Array::from_vec(actions, &[steps, copies]);
        let rewards: Vec<f32> = places().map(|(t, copy)| ((t * t + 3 * copy) % 11) as f32).collect();
        let final_obs = Array::from_vec(finals, &[count, 1]);
        let masks = Array::from_vec(flags, &[steps + 1, copies, 2]);
        let behind = Array::from_vec([true, false].repeat(ended.len()), &[count, 2]);
        let fragment = Fragment {
            steps: to - from,
            num_envs: COPIES,
            lengths: None,
            gamma: 0.9,
            obs: obs.lend(),
            actions: actions.lend(),
            rewards: &rewards,
            terminated: &terminated,
            truncated: &truncated,
            columns: vec![],
            ended: &ended,
            final_obs: final_obs.lend(),
            masks: Some(FragmentMasks { rows: masks.lend(), behind: behind.lend() }),
            memory: None,
            abandoned: &[],
            episodes: None,
            waiting,
        };
        fragment.transitions(3, 0.9)
    };
    let columns = [Column::ACTIONS, Column::REWARDS, Column::NEW_OBS, Column::TERMINATED, Column::DISCOUNTS];
    let rows_of = |batch: &SampleBatch| -> Vec<(u64, Vec<f64>)> {
        let all = columns.map(|column| numbers(batch, column));
        let masks = [Column::ACTION_MASK, Column::NEW_ACTION_MASK].map(|column| numbers(batch, column));
        let row = |(i, obs): (usize, &f64)| {
            let flags = masks.iter().flat_map(|mask| [mask[2 * i], mask[2 * i + 1]]);
            (*obs as u64, all.iter().map(|column| column[i]).chain(flags).collect())
        };
        numbers(batch, Column::OBS).iter().enumerate().map(row).collect()
    };
    let mut whole: BTreeMap<u64, Vec<f64>> = rows_of(&sampled(0, STEPS, None)).into_iter().collect();
    // The last two steps of the copies whose episodes go on are not complete: steps 38 and 39 of copy 2, and of copy 1,
    // whose last episode began at 35.
    for row in [138, 139, 238, 239] {
        whole.remove(&row).expect("a row");
    }
    for lengths in [vec![1], vec![2], vec![3], vec![4], vec![5], vec![7], vec![40], vec![1, 4, 2]] {
        let waiting = RefCell::new(WaitingRows::default());
        let mut found = BTreeMap::new();
        let mut from = 0;
        for length in lengths.iter().cycle() {
            let to = (from + length).min(STEPS);
            for (row, numbers) in rows_of(&sampled(from, to, Some(&waiting))) {
                assert!(found.insert(row, numbers).is_none(), "row {row} twice, fragments of {lengths:?}");
            }
            from = to;
            if from == STEPS {
                break;
            }
        }
        assert_eq!(found, whole, "fragments of {lengths:?}");
    }
}

/// One observation, one action, reward 1, and episodes of five steps that end.
fn q_of_fragments(steps: usize, num_workers: usize) -> f64 {
    let mut dqn = with_off_policy(|off| {
        off.n_step = 3;
        off.target_network_update_freq = 50;
        off.replay_buffer_config.kind = ReplayKind::ReplayBuffer;
        off.replay_buffer_config.learning_starts = 64;
        off.training_intensity = Some(64.0);
    });
    dqn.lr = 5e-3;
    let common = &mut dqn.common;
    common.gamma = 0.9;
    common.seed = Some(1);
    common.num_workers = num_workers;
    common.num_envs_per_worker = 1;
    common.rollout_fragment_length = steps;
    common.train_batch_size = 64;
    common.min_sample_timesteps_per_reporting = Some(2500);
    let env = || {
        scripted::<i64, _>(Space::discrete(1), |_, t, _, obs| {
            obs[0] = 0.0;
            Ok(Step { reward: 1.0, terminated: t == 5, truncated: false })
        })
    };
    let mut driver = quiet(dqn, env).expect("a driver");
    let result = driver.train().expect("a result");
    number(&result, "info.learner.default_policy.learner_stats.mean_q")
}

#[test]
fn the_value_of_n_step_targets_does_not_depend_on_the_length_of_fragments() {
    // Targets of the five steps: twice 2.71 + 0.729 Q, then 2.71, 1.9 and 1. Huber's loss counts errors above 1 as 1, so at
    // its fixed point 2 * 1 - (Q - 2.71) - (Q - 1.9) - 1 = 0: Q = 2.805.
    for (steps, num_workers) in [(1, 0), (2, 0), (4, 0), (5, 0), (1, 2)] {
        let q = q_of_fragments(steps, num_workers);
        assert!((q - 2.805).abs() < 0.1, "{steps} steps a fragment, {num_workers} workers: {q}");
    }
}

#[test]
fn n_step_rows_of_several_copies_stay_apart() {
    // Copy 0 has rewards 1, 2 and terminates at once; copy 1 has rewards 10, 20 and goes on.
    let obs = Array::from_vec([0.0_f32, 10.0, 1.0, 11.0, 2.0, 12.0], &[3, 2, 1]);
    let actions = Array::from_vec([0_i64, 1, 2, 3], &[2, 2]);
    let final_obs = Array::from_vec([9.0_f32], &[1, 1]);
    let fragment = Fragment {
        steps: 2,
        num_envs: 2,
        lengths: None,
        gamma: 0.9,
        obs: obs.lend(),
        actions: actions.lend(),
        rewards: &[1.0, 10.0, 2.0, 20.0],
        terminated: &[true, false, false, false],
        truncated: &[false; 4],
        columns: vec![],
        ended: &[0],
        final_obs: final_obs.lend(),
        masks: None,
        memory: None,
        abandoned: &[],
        episodes: None,
        waiting: None,
    };
    let batch = fragment.transitions(2, 0.5);
    assert_close(&numbers(&batch, Column::OBS), &[0.0, 1.0, 10.0, 11.0], 0.0);
    assert_close(&numbers(&batch, Column::ACTIONS), &[0.0, 2.0, 1.0, 3.0], 0.0);
    assert_close(&numbers(&batch, Column::REWARDS), &[1.0, 2.0, 20.0, 20.0], 1e-6);
    assert_close(&numbers(&batch, Column::NEW_OBS), &[9.0, 2.0, 12.0, 12.0], 0.0);
    assert_close(&numbers(&batch, Column::TERMINATED), &[1.0, 0.0, 0.0, 0.0], 0.0);
    assert_close(&numbers(&batch, Column::DISCOUNTS), &[0.5, 0.5, 0.25, 0.5], 1e-6);
}

#[test]
fn discounted_sums_run_backwards_through_an_episode() {
    // 3; 2 + 3/2; 1 + 3.5/2.
    assert_eq!(discount_cumsum(&[1.0, 2.0, 3.0], 0.5), [2.75, 3.5, 3.0]);
    assert!(discount_cumsum(&[], 0.5).is_empty());
}
