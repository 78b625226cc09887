//! V-trace by hand arithmetic, and against returns where the policy that acted is the one that learns.

use pavlov::prelude::*;
use pavlov::torch::Tensor;
use pavlov::trainer::Array;
use pavlov::trainer::batch::{Column, SampleBatch, Trajectory};
use pavlov::trainer::policy::{Fragment, FragmentMasks};
use pavlov::trainer::returns::discount_cumsum;
use pavlov::trainer::returns::{BatchValues, Targets, VTrace, vtrace};

use crate::support::{assert_close, discrete_spaces, numbers, policy, rows, worker_set};

const SETTINGS: VTrace = VTrace { gamma: 0.9, clip_rho: 1.0, clip_pg_rho: 1.0 };

/// Rows with these rewards, in pieces of so many rows that ended or were cut.
fn batch(rewards: &[f32], pieces: &[(usize, bool)]) -> SampleBatch {
    let mut next = 0;
    let piece = |&(len, terminated): &(usize, bool)| {
        let start = next;
        next += len;
        Trajectory { start, len, terminated }
    };
    let pieces: Vec<Trajectory> = pieces.iter().map(piece).collect();
    let cut: Vec<f32> = pieces.iter().filter(|p| !p.terminated).map(|p| 100.0 + p.start as f32).collect();
    let behind = if cut.is_empty() {
        SampleBatch::default()
    } else {
        SampleBatch::default().with_f32s(Column::OBS, &cut)
    };
    SampleBatch::default().with_f32s(Column::REWARDS, rewards).with_trajectories(pieces, behind)
}

fn targets(batch: &SampleBatch, rows: &[f32], behind: &[f32], ratios: &[f32], settings: VTrace) -> Targets {
    let values = BatchValues { rows: rows.to_vec(), behind: behind.to_vec() };
    let log_rhos: Vec<f32> = ratios.iter().map(|ratio| ratio.ln()).collect();
    vtrace(batch, &values, &log_rhos, settings).expect("targets")
}

#[track_caller]
fn assert_targets(found: &Targets, values: &[f64], advantages: &[f64]) {
    assert_close(&found.values.iter().map(|&x| f64::from(x)).collect::<Vec<_>>(), values, 1e-5);
    assert_close(&found.advantages.iter().map(|&x| f64::from(x)).collect::<Vec<_>>(), advantages, 1e-5);
}

#[test]
fn targets_of_a_trajectory_that_was_cut_are_those_of_the_paper() {
    // Ratios 2 and 0.5, rewards 1 and 2, values 0.5 and 0.4, behind them 0.2; gamma 0.9.
    // t = 1: delta = 0.5 (2 + 0.18 - 0.4) = 0.89; vs = 0.4 + 0.89 = 1.29; A = 0.5 (2 + 0.18 - 0.4) = 0.89.
    // t = 0: delta = 1 (1 + 0.36 - 0.5) = 0.86; vs = 0.5 + 0.86 + 0.9 * 1 * (1.29 - 0.4) = 2.161;
    //        A = 1 (1 + 0.9 * 1.29 - 0.5) = 1.661.
    let found = targets(&batch(&[1.0, 2.0], &[(2, false)]), &[0.5, 0.4], &[0.2], &[2.0, 0.5], SETTINGS);
    assert_targets(&found, &[2.161, 1.29], &[1.661, 0.89]);
}

#[test]
fn nothing_is_behind_a_trajectory_that_terminated() {
    // t = 1: delta = 0.5 (2 - 0.4) = 0.8; vs = 1.2; A = 0.8. t = 0: vs = 0.5 + 0.86 + 0.9 * 0.8 = 2.08;
    // A = 1 + 0.9 * 1.2 - 0.5 = 1.58.
    let found = targets(&batch(&[1.0, 2.0], &[(2, true)]), &[0.5, 0.4], &[], &[2.0, 0.5], SETTINGS);
    assert_targets(&found, &[2.08, 1.2], &[1.58, 0.8]);
}

#[test]
fn bounds_of_targets_and_of_advantages_are_two_and_the_trace_is_cut_at_one() {
    // One row of ratio 3 before one of ratio 1. t = 1: delta = 2 + 0.18 - 0.4 = 1.78; vs = 2.18.
    // t = 0: rho bar 2: delta = 2 * 0.86 = 1.72; c = 1: vs = 0.5 + 1.72 + 0.9 * 1.78 = 3.822;
    // A = min(3, 2.5) (1 + 0.9 * 2.18 - 0.5) = 6.155.
    let settings = VTrace { clip_rho: 2.0, clip_pg_rho: 2.5, ..SETTINGS };
    let found = targets(&batch(&[1.0, 2.0], &[(2, false)]), &[0.5, 0.4], &[0.2], &[3.0, 1.0], settings);
    assert_targets(&found, &[3.822, 2.18], &[6.155, 1.78]);
}

#[test]
fn trajectories_of_a_batch_do_not_see_each_other() {
    let alone = |rewards: &[f32], piece, values: &[f32], behind: &[f32], ratios: &[f32]| {
        targets(&batch(rewards, &[piece]), values, behind, ratios, SETTINGS)
    };
    let all = batch(&[1.0, 2.0, 3.0, 4.0, 5.0], &[(2, false), (1, true), (2, false)]);
    let values = [0.5, 0.4, 0.3, 0.2, 0.1];
    let ratios = [2.0, 0.5, 0.7, 1.1, 0.9];
    let found = targets(&all, &values, &[0.6, 0.7], &ratios, SETTINGS);
    let parts = [
        alone(&[1.0, 2.0], (2, false), &values[..2], &[0.6], &ratios[..2]),
        alone(&[3.0], (1, true), &values[2..3], &[], &ratios[2..3]),
        alone(&[4.0, 5.0], (2, false), &values[3..], &[0.7], &ratios[3..]),
    ];
    assert_eq!(found.values, parts.iter().flat_map(|p| p.values.clone()).collect::<Vec<_>>());
    assert_eq!(found.advantages, parts.iter().flat_map(|p| p.advantages.clone()).collect::<Vec<_>>());
}

#[test]
fn on_policy_targets_are_n_step_returns() {
    let rewards = [1.0, -2.0, 3.0, 0.5, 2.0];
    let values = [0.3, -0.2, 0.9, 0.4, -0.7];
    let found = targets(&batch(&rewards, &[(3, false), (2, true)]), &values, &[0.8], &[1.0; 5], SETTINGS);
    // What is behind the first trajectory counts as one more reward.
    let mut wanted = discount_cumsum(&[1.0, -2.0, 3.0, 0.8], 0.9)[..3].to_vec();
    wanted.extend(discount_cumsum(&[0.5, 2.0], 0.9));
    let wanted: Vec<f64> = wanted.into_iter().map(f64::from).collect();
    let advantages: Vec<f64> = wanted.iter().zip(values).map(|(w, v)| w - f64::from(v)).collect();
    assert_targets(&found, &wanted, &advantages);
}

#[test]
#[should_panic(expected = "a value behind every trajectory that was cut")]
fn a_missing_value_behind_a_cut_is_no_zero() {
    targets(&batch(&[1.0], &[(1, false)]), &[0.5], &[], &[1.0], SETTINGS);
}

#[test]
fn rows_that_were_selected_one_by_one_know_no_trajectories() {
    let all = batch(&[1.0, 2.0, 3.0], &[(1, false), (2, true)]);
    let values = BatchValues { rows: vec![0.0; 2], behind: vec![0.0] };
    let some = all.select(&[0, 2].into());
    let error = vtrace(&some, &values, &[0.0; 2], SETTINGS).unwrap_err().to_string();
    assert!(error.contains("which of its rows follow each other"), "{error}");
    assert!(all.slice(0, 2).trajectories().is_err(), "it cuts the second one");
}

#[test]
fn slices_along_trajectories_and_what_is_joined_keep_them_and_what_is_behind() {
    let pieces = |batch: &SampleBatch| -> Vec<(usize, usize, bool)> {
        let all = batch.trajectories().expect("trajectories");
        all.iter().map(|t| (t.start, t.len, t.terminated)).collect()
    };
    let all = batch(&[1.0, 2.0, 3.0, 4.0], &[(1, false), (2, true), (1, false)]);
    let last = all.slice(1, 3);
    assert_eq!(pieces(&last), [(0, 2, true), (2, 1, false)]);
    assert_eq!(numbers(last.behind().expect("rows"), Column::OBS), [103.0]);
    let joined = SampleBatch::concat(vec![last, batch(&[7.0], &[(1, true)]), all]).expect("a batch");
    let wanted = [(0, 2, true), (2, 1, false), (3, 1, true), (4, 1, false), (5, 2, true), (7, 1, false)];
    assert_eq!(pieces(&joined), wanted);
    assert_eq!(numbers(joined.behind().expect("rows"), Column::OBS), [103.0, 100.0, 103.0]);
}

#[test]
fn a_fragment_knows_what_is_behind_each_of_its_cuts() {
    // Two copies, three steps. Copy 0 is cut by time after step 1 (at 90), copy 1 terminates after step 0 (at 91).
    let obs = Tensor::from_slice(&[0.0_f32, 10.0, 1.0, 11.0, 2.0, 12.0, 3.0, 13.0]).view([4, 2, 1]);
    let masks = Array::from(obs.ge(10.0));
    let obs = Array::from(obs);
    let actions = Array::from_vec([0_i64; 6], &[3, 2]);
    let final_obs = Array::from_vec([91.0_f32, 90.0], &[2, 1]);
    let behind = Array::from_vec([false, true], &[2, 1]);
    let mut fragment = Fragment {
        steps: 3,
        num_envs: 2,
        lengths: None,
        gamma: 0.9,
        obs: obs.lend(),
        actions: actions.lend(),
        rewards: &[0.0, 0.1, 1.0, 1.1, 2.0, 2.1],
        terminated: &[false, true, false, false, false, false],
        truncated: &[false, false, true, false, false, false],
        columns: vec![],
        ended: &[1, 2],
        final_obs: final_obs.lend(),
        masks: Some(FragmentMasks { rows: masks.lend(), behind: behind.lend() }),
        memory: None,
        abandoned: &[],
        episodes: None,
        waiting: None,
    };
    let batch = fragment.rows_with_trajectories();
    let found: Vec<_> =
        batch.trajectories().unwrap().iter().map(|t| (t.start, t.len, t.terminated)).collect();
    assert_eq!(found, [(0, 2, false), (2, 1, false), (3, 1, true), (4, 2, false)]);
    assert_eq!(numbers(batch.behind().unwrap(), Column::OBS), [90.0, 3.0, 13.0]);
    assert_eq!(numbers(batch.behind().unwrap(), Column::ACTION_MASK), [1.0, 0.0, 1.0]);
    assert_close(&numbers(&batch, Column::REWARDS), &[0.0, 1.0, 2.0, 0.1, 1.1, 2.1], 1e-6);
    // Nothing is behind the end of copy 1 when its time was up in the same step.
    fragment.truncated = &[false, true, true, false, false, false];
    let batch = fragment.rows_with_trajectories();
    assert_eq!(numbers(batch.behind().unwrap(), Column::OBS), [90.0, 3.0, 13.0]);
}

#[test]
fn impala_learns_from_targets_with_the_parameters_before_the_step() {
    // On-policy: the ratio is 1, so targets are returns whatever the critic says, up to the value behind the cut.
    let mut impala = Impala::get_default_config();
    impala.common.model.fcnet_hiddens = vec![4];
    impala.common.gamma = 0.5;
    for fused in [false, true] {
        impala.common.model.fused = fused;
        let mut policy = policy(&impala, &discrete_spaces(2, 2));
        let obs = rows(&[[0.1, 0.2], [0.3, -0.4]]);
        let logits =
            Vec::<Vec<f64>>::try_from(policy.forward(&obs).expect("logits").to_kind(tch::Kind::Double));
        let logp: Vec<f32> =
            logits.expect("rows").iter().map(|l| (l[1] - (l[0].exp() + l[1].exp()).ln()) as f32).collect();
        let pieces = vec![Trajectory { start: 0, len: 2, terminated: true }];
        let mut batch = SampleBatch::default()
            .with(Column::OBS, obs)
            .with(Column::ACTIONS, Tensor::from_slice(&[1_i64, 1]))
            .with_f32s(Column::ACTION_LOGP, &logp)
            .with_f32s(Column::REWARDS, &[1.0, 4.0])
            .with_trajectories(pieces, SampleBatch::default());
        policy.prepare(&mut batch).expect("targets");
        assert_close(&numbers(&batch, Column::VALUE_TARGETS), &[3.0, 4.0], 1e-5);
    }
}

#[test]
fn on_policy_a_fragments_targets_are_rewards_and_the_next_fragments_values_with_and_without_memory() {
    // Ratios are 1 and values right only if whoever learns sees what was seen and remembered while acting.
    for (gru, lstm) in [(false, false), (true, false), (false, true)] {
        let mut impala = Impala::get_default_config();
        let common = &mut impala.common;
        common.num_workers = 0;
        common.num_envs_per_worker = 2;
        common.rollout_fragment_length = 11;
        common.seed = Some(1);
        common.gamma = 0.9;
        let model = &mut common.model;
        model.fcnet_hiddens = vec![4];
        model.max_seq_len = 5;
        model.lstm_cell_size = 4;
        model.use_gru = gru;
        model.use_lstm = lstm;
        let workers = worker_set(&impala, "CartPole-v1").expect("workers");
        let [first, next] = [(); 2].map(|()| {
            let mut rows = workers.sample().and_then(|batch| batch.single()).expect("a fragment");
            let prepared = workers.with_policy("default_policy", |policy| policy.prepare(&mut rows));
            prepared.expect("a policy").expect("targets");
            rows
        });
        let values: Vec<f64> = numbers(&next, Column::VALUE_TARGETS)
            .iter()
            .zip(numbers(&next, Column::ADVANTAGES))
            .map(|(target, advantage)| target - advantage)
            .collect();
        let rewards = numbers(&first, Column::REWARDS);
        let targets = numbers(&first, Column::VALUE_TARGETS);
        let mut cuts = 0;
        for piece in first.trajectories().expect("trajectories") {
            let last = piece.rows().end - 1;
            let behind = if piece.terminated { 0.0 } else { values[last / 11 * 11] };
            cuts += usize::from(!piece.terminated);
            for t in piece.rows() {
                let following = if t == last { behind } else { targets[t + 1] };
                assert_close(&[targets[t]], &[rewards[t] + 0.9 * following], 1e-5);
            }
        }
        assert!(cuts > 0, "something is cut by the fragment's end");
    }
}
