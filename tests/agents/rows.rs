//! What is sampled: a row closes when its agent acts again or ends, whenever that is.

use std::collections::BTreeMap;

use pavlov::envs::{EnvCreator, check_multi_agent_env};
use pavlov::prelude::*;
use pavlov::trainer::WorkerSet;
use pavlov::trainer::agents::Policies;
use pavlov::trainer::batch::{Column, SampleBatch, TrainBatch};
use pavlov::trainer::returns::{Trajectories, advantages};
use pavlov::trainer::state::State;

use super::turns::{AtRandom, Turns, workers};
use crate::support::{numbers, refused, tiny_ppo};

fn common(copies: usize, steps: usize) -> Common {
    let mut common = tiny_ppo().common;
    common.num_envs_per_worker = copies;
    common.rollout_fragment_length = steps;
    common
}

/// Columns of one number, rows of others, as nested numbers.
fn column(batch: &SampleBatch, column: Column) -> Vec<Vec<f64>> {
    let all = numbers(batch, column);
    all.chunks(all.len() / batch.rows()).map(<[f64]>::to_vec).collect()
}

/// `(agent, t)` of observations of [`Turns`].
fn places(batch: &SampleBatch, of: Column) -> Vec<(f64, f64)> {
    column(batch, of).iter().map(|obs| (obs[1], obs[2])).collect()
}

#[test]
fn the_environment_of_these_tests_keeps_the_contract() {
    check_multi_agent_env(&mut Turns::default()).expect("it keeps it");
}

#[test]
fn rewards_are_added_up_between_own_actions_and_ends_are_told_apart() {
    let shared = Policies::from(AtRandom::class(2));
    let workers = workers(&common(1, 5), shared, &Turns::creator()).expect("workers");
    let batch = workers.sample().expect("a fragment");
    assert_eq!((batch.env_steps, workers.counters().num_agent_steps_sampled), (5, 7));
    let rows = batch.single().expect("one policy");
    assert_eq!(
        places(&rows, Column::OBS),
        [(0.0, 0.0), (0.0, 2.0), (1.0, 1.0), (1.0, 3.0), (2.0, 0.0), (2.0, 2.0), (2.0, 4.0)]
    );
    assert_eq!(
        places(&rows, Column::NEW_OBS),
        [(0.0, 2.0), (0.0, 3.0), (1.0, 3.0), (1.0, 5.0), (2.0, 2.0), (2.0, 4.0), (2.0, 5.0)]
    );
    // A policy without a postprocessing of its own gets steps discounted by the run's `gamma`.
    assert!(numbers(&rows, Column::DISCOUNTS).iter().all(|&discount| discount == f64::from(0.99_f32)));
    // `b` earned 101 before it had done anything; that is in no row.
    assert_eq!(
        numbers(&rows, Column::REWARDS),
        [1.0 + 2.0, 3.0, 102.0 + 103.0, 104.0 + 105.0, 201.0 + 202.0, 203.0 + 204.0, 205.0]
    );
    assert_eq!(numbers(&rows, Column::TERMINATED), [0.0, 1.0, 0.0, 0.0, 0.0, 0.0, 1.0]);
    let episodes = workers.ledger.take_episodes();
    assert_eq!(episodes.len(), 1);
    let rewards: Vec<f64> = episodes[0].agent_rewards.iter().map(|agent| agent.reward).collect();
    assert_eq!(rewards, [6.0, 515.0, 1015.0]);
    assert_eq!((episodes[0].total_reward, episodes[0].length), (1536.0, 5));
}

#[test]
fn sums_of_several_steps_end_where_an_agents_rows_end() {
    let mut ppo = tiny_ppo();
    ppo.common = common(1, 5);
    ppo.common.gamma = 0.5;
    // An untrained critic says little; rewards as small leave it its digits.
    ppo.common.clip_rewards = Some(pavlov::trainer::settings::ClipRewards::Within(0.01));
    ppo.lambda = 0.5;
    let class = ppo.get_default_policy_class(&spaces()).expect("a class");
    let workers = workers(&ppo.common, class.into(), &Turns::creator()).expect("workers");
    let rows = workers.sample().and_then(|batch| batch.single()).expect("a fragment");
    let values = numbers(&rows, Column::VF_PREDS);
    let found = numbers(&rows, Column::ADVANTAGES);
    let rewards = [0.01; 7];
    // Only `b` is cut: something would have followed its last row, what its critic says of step 5.
    let behind = found[3] - rewards[3] + values[3];
    assert!(behind.abs() > 1e-5, "half the value behind the cut: {behind}");
    let mut next = 0.0;
    for t in (0..7).rev() {
        let last = [1, 3, 6].contains(&t);
        let follows = match t {
            3 => behind,
            _ if last => 0.0,
            _ => 0.5 * values[t + 1],
        };
        let delta = rewards[t] + follows - values[t];
        next = delta + if last { 0.0 } else { 0.25 * next };
        assert!((found[t] - next).abs() < 1e-6, "row {t}: {} against {next}", found[t]);
    }
}

fn spaces() -> pavlov::trainer::policy::Spaces {
    crate::support::discrete_spaces(3, 2)
}

#[test]
fn advantages_of_copies_of_other_lengths_are_those_of_each_alone() {
    // Two copies of 3 and 1 steps; what stands behind the second is not read.
    let of = |lengths, n, rewards: &[f32], values: &[f32]| {
        let terminated = vec![false; rewards.len()];
        let truncated = vec![false; rewards.len()];
        let f = Trajectories {
            num_envs: n,
            lengths,
            rewards,
            values,
            terminated: &terminated,
            truncated: &truncated,
            ended: &[],
            final_values: &[],
        };
        advantages(f, 0.9, 0.8)
    };
    let x = f32::NAN;
    let both = of(Some(&[3, 1]), 2, &[1.0, 5.0, 2.0, x, 3.0, x], &[0.1, 0.5, 0.2, 0.6, 0.3, x, 0.4, x]);
    let alone = [of(None, 1, &[1.0, 2.0, 3.0], &[0.1, 0.2, 0.3, 0.4]), of(None, 1, &[5.0], &[0.5, 0.6])];
    assert_eq!(both, alone.concat());
}

/// Rows of each policy, fragment by fragment, as text that two runs can be compared by.
fn rows_of(batches: Vec<TrainBatch>) -> BTreeMap<String, Vec<String>> {
    let mut all: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for batch in batches {
        for (id, rows) in &batch.policies {
            let columns: Vec<_> = rows.columns().map(|(name, _)| (name, column(rows, name))).collect();
            let of =
                |i: usize| columns.iter().map(move |(name, rows)| format!("{} {:?} ", name.name(), rows[i]));
            all.entry(id.clone()).or_default().extend((0..rows.rows()).map(|i| of(i).collect::<String>()));
        }
    }
    all
}

fn sample(workers: &WorkerSet, times: usize) -> Vec<TrainBatch> {
    (0..times).map(|_| workers.sample().expect("a fragment")).collect()
}

/// Two players that draw legal moves, each by a policy of its own.
fn game(steps: usize) -> WorkerSet {
    let mut common = common(1, steps);
    common.mask_actions = true;
    let players = [("first", AtRandom::class(9)), ("second", AtRandom::class(9))];
    let policies = Policies::new(players, |agent| if agent == "player_1" { "first" } else { "second" });
    workers(&common, policies, &EnvCreator::from("tictactoe_v3")).expect("workers")
}

#[test]
fn a_board_game_cut_after_any_number_of_moves_gives_the_rows_of_one_long_fragment() {
    for steps in [1, 2, 3, 4, 5, 6, 7, 10, 12] {
        let fragments = 60 / steps;
        let whole = rows_of(sample(&game(fragments * steps), 1));
        assert!(whole["first"].len() > 20 && whole["second"].len() > 20, "{whole:?}");
        assert_eq!(rows_of(sample(&game(steps), fragments)), whole, "fragments of {steps}");
    }
}

/// What a run saves, part by part.
fn saved(workers: &WorkerSet) -> BTreeMap<String, State> {
    workers.state().expect("a state").into_iter().collect()
}

fn continued(workers: &WorkerSet, state: &BTreeMap<String, State>) {
    let read = |part: &str| Ok(state.get(part).unwrap_or_else(|| panic!("no part {part}")).clone());
    workers.set_state(read).expect("it is continued");
}

#[test]
fn a_board_game_saved_after_any_number_of_moves_is_continued_row_for_row() {
    let whole = rows_of(sample(&game(1), 40));
    for moves in 1..20 {
        let before = game(1);
        let mut rows = sample(&before, moves);
        let after = game(1);
        continued(&after, &saved(&before));
        rows.extend(sample(&after, 40 - moves));
        assert_eq!(rows_of(rows), whole, "saved after {moves} moves");
    }
}

#[test]
fn agents_that_die_early_wait_and_come_back_are_cut_and_continued_alike() {
    let sorted = |batches| {
        let mut rows = rows_of(batches);
        rows.values_mut().for_each(|rows| rows.sort());
        rows
    };
    let make =
        |steps| workers(&common(3, steps), AtRandom::class(2).into(), &Turns::creator()).expect("workers");
    // Episodes of 5 steps: all rows are closed after 30.
    let whole = sorted(sample(&make(30), 1));
    assert_eq!(whole["default_policy"].len(), 3 * 6 * 7);
    for steps in [1, 2, 3, 6] {
        assert_eq!(sorted(sample(&make(steps), 30 / steps)), whole, "fragments of {steps}");
        let before = make(steps);
        let after = make(steps);
        let mut rows = sample(&before, 2);
        continued(&after, &saved(&before));
        rows.extend(sample(&after, 30 / steps - 2));
        assert_eq!(sorted(rows), whole, "saved after 2 fragments of {steps}");
    }
}

#[test]
fn any_number_of_workers_gives_the_same_rows() {
    let rollouts = |num_workers: usize| {
        let common = Common { num_workers, seed: Some(3), ..common(4 / num_workers.max(1), 7) };
        let policies = Policies::new([("ac", AtRandom::class(2)), ("b", AtRandom::class(2))], |agent| {
            if agent == "b" { "b" } else { "ac" }
        });
        rows_of(sample(&workers(&common, policies, &Turns::creator()).expect("workers"), 3))
    };
    let alone = rollouts(0);
    let by_fragment = |rows: &BTreeMap<String, Vec<String>>| rows.values().map(Vec::len).sum::<usize>();
    assert!(by_fragment(&alone) > 90);
    for num_workers in [1, 2, 4] {
        assert_eq!(rollouts(num_workers), alone, "{num_workers} workers");
    }
}

#[test]
fn whole_episodes_are_those_of_every_agent() {
    let mut common = common(2, 4);
    common.batch_mode = pavlov::trainer::settings::BatchMode::CompleteEpisodes;
    let workers = workers(&common, AtRandom::class(2).into(), &Turns::creator()).expect("workers");
    let batch = workers.sample().expect("whole episodes");
    // 4 steps of each copy are no episode, 8 are one.
    assert_eq!(batch.env_steps, 10);
    let rows = batch.single().expect("one policy");
    // 7 rows of every episode that has ended, and the 2 of every `a` that has terminated in the next one.
    let terminated: f64 = numbers(&rows, Column::TERMINATED).iter().sum();
    assert_eq!((rows.rows(), terminated), (18, 6.0));
}

#[test]
fn policies_that_do_not_learn_act_and_leave_no_rows() {
    let policies = Policies::new([("ac", AtRandom::class(2)), ("b", AtRandom::class(2))], |agent| {
        if agent == "b" { "b" } else { "ac" }
    });
    let all =
        rows_of(sample(&workers(&common(2, 5), policies.clone(), &Turns::creator()).expect("workers"), 2));
    let some = workers(&common(2, 5), policies.training(["ac"]), &Turns::creator()).expect("workers");
    let some = rows_of(sample(&some, 2));
    assert_eq!(some.keys().collect::<Vec<_>>(), ["ac"]);
    assert_eq!(some["ac"], all["ac"]);
    let of_agents = |rows: &[String], agents: [f64; 2]| {
        rows.iter().all(|row| agents.iter().any(|agent| row.contains(&format!(", {agent:.1}, "))))
    };
    assert!(of_agents(&all["ac"], [0.0, 2.0]) && !of_agents(&all["b"], [0.0, 2.0]));
}

#[test]
fn an_agent_that_ends_with_both_flags_has_terminated() {
    let rows_with = |both_flags| {
        let env = EnvCreator::multi_agent(move || Turns { both_flags, ..Turns::default() });
        let policies = Policies::from(AtRandom::class(2));
        rows_of(sample(&workers(&common(1, 5), policies, &env).expect("workers"), 3))
    };
    assert_eq!(rows_with(true), rows_with(false));
}

#[test]
fn an_agent_that_acts_after_its_end_is_refused() {
    let env = EnvCreator::multi_agent(|| Turns { acts_on: true, ..Turns::default() });
    let workers = workers(&common(1, 5), Policies::from(AtRandom::class(2)), &env).expect("workers");
    refused(
        workers.sample(),
        &[
            "contract `turn` is broken: copy 0: a is to act, but it is not alive",
            "an agent that has ended acts no more",
        ],
    );
}

#[test]
fn an_observation_that_is_not_finite_is_refused_with_its_agent_whoever_acts_beside_it() {
    // `a` and `c` act in the same steps, so the rows of a policy of theirs stand side by side.
    let together = Policies::new([("ac", AtRandom::class(2)), ("b", AtRandom::class(2))], |agent| {
        if agent == "b" { "b" } else { "ac" }
    });
    for policies in [together, Policies::from(AtRandom::class(2))] {
        // At the reset, in its turns, and behind its end.
        for step in [0, 2, 4, 5] {
            let env = EnvCreator::multi_agent(move || Turns { blinds_c_at: Some(step), ..Turns::default() });
            let sampled = workers(&common(3, 5), policies.clone(), &env).and_then(|workers| workers.sample());
            refused(sampled, &["component 2 of an observation of agent `c`", "NaN"]);
        }
    }
}
