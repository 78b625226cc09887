//! Hindsight experience replay: which rows are drawn, and which goals and rewards they get.
//!
//! The rules are those of Stable-Baselines3 2.9.2, `stable_baselines3/her/her_replay_buffer.py`.

use std::collections::BTreeMap;

use pavlov::trainer::batch::{Column, SampleBatch};
use pavlov::trainer::replay::{
    GoalColumns, GoalSelectionStrategy, Goals, ReplayBuffer, ReplayBufferConfig, ReplayKind,
};
use pavlov::trainer::rng::Stream;

use crate::support::{assert_frequency, numbers, refused};

const DRAWS: usize = 40_000;

/// A buffer whose observations are `[achieved_goal, desired_goal, observation]`; the reward is the achieved goal minus the
/// desired one.
fn buffer(strategy: GoalSelectionStrategy, capacity: usize) -> ReplayBuffer {
    let config = ReplayBufferConfig {
        kind: ReplayKind::HerReplayBuffer,
        capacity,
        learning_starts: 1,
        goal_selection_strategy: strategy,
        ..ReplayBufferConfig::default()
    };
    let goals = Goals::new(GoalColumns { achieved: 0..1, desired: 1..2 }, |achieved, desired, rewards| {
        let pairs = achieved.iter().zip(desired);
        rewards.iter_mut().zip(pairs).for_each(|(reward, (achieved, desired))| *reward = achieved - desired);
        Ok(())
    });
    ReplayBuffer::new(config, Stream::new(5, "replay", 0)).with_goals(goals, Stream::new(5, "hindsight", 0))
}

/// Steps `from..to` of an episode of the copy `env_id`, which ends with step `last`. Step `t` reaches the state
/// `1000 * env_id + first + t + 1`, which is the achieved goal; the desired goal is -1 and the reward is 7.
fn steps(env_id: i64, first: i64, (from, to): (i64, i64), last: i64) -> SampleBatch {
    let state = |t: i64| (1000 * env_id + first + t) as f32;
    let row = |t: i64| [state(t), -1.0, state(t)];
    let rows = |after: i64| (from..to).flat_map(|t| row(t + after)).collect::<Vec<f32>>();
    let wide = |rows: Vec<f32>| pavlov::torch::Tensor::from_slice(&rows).view([-1, 3]);
    let count = (to - from) as usize;
    let mut batch = SampleBatch::default()
        .with(Column::OBS, wide(rows(0)))
        .with(Column::NEW_OBS, wide(rows(1)))
        .with_f32s(Column::REWARDS, &vec![7.0; count])
        .with_f32s(Column::TERMINATED, &vec![0.0; count])
        .with_f32s(Column::ENDED, &(from..to).map(|t| f32::from(t == last)).collect::<Vec<_>>());
    batch.set(Column::ENV_ID, vec![env_id; count]);
    batch.set(Column::T, (from..to).collect::<Vec<i64>>());
    batch
}

/// A drawn row: its state, the state after it, its desired goal before and after the step, and its reward.
struct Drawn {
    state: f64,
    next: f64,
    goals: [f64; 2],
    reward: f64,
}

fn drawn(buffer: &mut ReplayBuffer, rows: usize) -> Vec<Drawn> {
    let batch = buffer.sample(rows).expect("a draw").expect("an episode has ended");
    let [obs, new_obs, rewards] = [Column::OBS, Column::NEW_OBS, Column::REWARDS].map(|c| numbers(&batch, c));
    let row = |i: usize| Drawn {
        state: obs[3 * i + 2],
        next: new_obs[3 * i + 2],
        goals: [obs[3 * i + 1], new_obs[3 * i + 1]],
        reward: rewards[i],
    };
    (0..rows).map(row).collect()
}

/// `her_ratio` is 1 - 1 / (n_sampled_goal + 1), and `int(her_ratio * batch_size)` rows get another goal; the others stay as
/// they were stored.
#[test]
fn four_of_five_rows_get_a_goal_that_their_episode_achieved_and_its_reward() {
    let mut buffer = buffer(GoalSelectionStrategy::Future, 100);
    buffer.add(&steps(0, 0, (0, 10), 9)).expect("an episode");
    buffer.add(&steps(1, 0, (0, 20), 19)).expect("an episode");
    for (rows, virtually) in [(256, 204), (10, 8), (7, 5), (1, 0)] {
        let all = drawn(&mut buffer, rows);
        let (own, others) = all.split_at(rows - virtually);
        assert!(own.iter().all(|row| row.goals == [-1.0; 2] && row.reward == 7.0), "{rows} rows");
        for row in others {
            let copy = (row.state / 1000.0).floor();
            assert_eq!(row.next, row.state + 1.0);
            assert_eq!(row.goals[0], row.goals[1], "the goal is the same before and after the step");
            assert!(row.goals[0] >= row.next && (row.goals[0] / 1000.0).floor() == copy, "{}", row.goals[0]);
            assert_eq!(row.reward, row.next - row.goals[0], "the next achieved goal makes the reward");
        }
    }
}

/// `future`: `np.random.randint(current, ep_length)`; `episode`: `np.random.randint(0, ep_length)`; `final`:
/// `ep_length - 1`. The goal is `next_observations["achieved_goal"]` of that transition.
#[test]
fn goals_are_chosen_with_the_probabilities_of_each_strategy() {
    const LENGTH: i64 = 4;
    for strategy in
        [GoalSelectionStrategy::Future, GoalSelectionStrategy::Final, GoalSelectionStrategy::Episode]
    {
        let mut buffer = buffer(strategy, 100);
        buffer.add(&steps(0, 0, (0, LENGTH), LENGTH - 1)).expect("an episode");
        let mut counts = BTreeMap::new();
        let all = drawn(&mut buffer, DRAWS);
        let others = &all[DRAWS / 5..];
        for row in others {
            *counts.entry((row.state as i64, row.goals[0] as i64 - 1)).or_insert(0) += 1;
        }
        for step in 0..LENGTH {
            for goal in 0..LENGTH {
                let p = match strategy {
                    GoalSelectionStrategy::Future if goal < step => 0.0,
                    GoalSelectionStrategy::Future => 1.0 / (LENGTH - step) as f64,
                    GoalSelectionStrategy::Final => f64::from(goal == LENGTH - 1),
                    GoalSelectionStrategy::Episode => 1.0 / LENGTH as f64,
                };
                let count = counts.get(&(step, goal)).copied().unwrap_or(0);
                assert_frequency(others.len(), count, p / LENGTH as f64);
            }
        }
    }
}

#[test]
fn rows_of_running_episodes_are_not_drawn() {
    let mut buffer = buffer(GoalSelectionStrategy::Future, 100);
    buffer.add(&steps(0, 0, (0, 6), 9)).expect("a part of an episode");
    assert!(buffer.sample(8).expect("nothing yet").is_none());
    buffer.add(&steps(1, 0, (0, 3), 2)).expect("an episode of another copy");
    assert!(drawn(&mut buffer, 500).iter().all(|row| row.state >= 1000.0));
    buffer.add(&steps(0, 0, (6, 10), 9)).expect("the rest");
    let states: Vec<f64> = drawn(&mut buffer, 2000).iter().map(|row| row.state).collect();
    assert!((0..10).all(|t| states.contains(&f64::from(t))), "the whole episode is drawn now");
}

/// "When we start to rewrite on an old episodes, we want the whole old episode to be deleted".
#[test]
fn an_episode_that_loses_a_row_is_not_drawn_any_more() {
    let mut buffer = buffer(GoalSelectionStrategy::Episode, 12);
    buffer.add(&steps(0, 0, (0, 5), 4)).expect("the first");
    buffer.add(&steps(0, 100, (0, 5), 4)).expect("the second");
    assert!(drawn(&mut buffer, 500).iter().any(|row| row.state < 5.0));
    // Two rows fill the ring, the third replaces the first row of the first episode.
    buffer.add(&steps(0, 200, (0, 3), 9)).expect("a part of the third");
    let all = drawn(&mut buffer, 2000);
    assert!(all.iter().all(|row| (100.0..105.0).contains(&row.state)));
    assert!(all[400..].iter().all(|row| (101.0..=105.0).contains(&row.goals[0])));
}

#[test]
fn an_episode_with_a_gap_and_one_that_was_given_up_are_never_drawn() {
    let mut buffer = buffer(GoalSelectionStrategy::Future, 100);
    buffer.add(&steps(0, 0, (0, 3), 9)).expect("a beginning");
    buffer.add(&steps(0, 0, (4, 10), 9)).expect("step 3 is missing");
    buffer.add(&steps(1, 0, (0, 3), 9)).expect("a beginning");
    buffer.add(&steps(1, 100, (0, 4), 3)).expect("the next episode");
    assert!(drawn(&mut buffer, 500).iter().all(|row| (1100.0..1104.0).contains(&row.state)));
}

#[test]
fn a_buffer_in_which_no_episode_fits_is_refused_when_it_is_full() {
    let mut buffer = buffer(GoalSelectionStrategy::Future, 4);
    buffer.add(&steps(0, 0, (0, 3), 9)).expect("a part of an episode");
    let full = buffer.add(&steps(0, 0, (3, 5), 9));
    refused(full, &["replay_buffer_config.capacity", "no whole episode"]);
}

#[test]
fn a_restored_buffer_draws_the_same_rows_and_goes_on_with_running_episodes() {
    let mut first = buffer(GoalSelectionStrategy::Future, 30);
    for episode in 0..7 {
        first.add(&steps(episode % 2, 10 * episode, (0, 5), 4)).expect("an episode");
    }
    first.add(&steps(0, 200, (0, 2), 3)).expect("a part of an episode");
    drop(drawn(&mut first, 50));
    let state = first.state().expect("a state");
    let mut second = buffer(GoalSelectionStrategy::Future, 30);
    second.set_state(&state).expect("its own state");
    assert_eq!(second.state().expect("a state"), state);
    for buffer in [&mut first, &mut second] {
        buffer.add(&steps(0, 200, (2, 4), 3)).expect("the rest");
    }
    let [a, b] = [&mut first, &mut second].map(|buffer| drawn(buffer, 200));
    let told = |row: &Drawn| (row.state, row.next, row.goals, row.reward);
    assert!(a.iter().map(told).eq(b.iter().map(told)));
    assert!(a.iter().any(|row| row.state == 203.0), "the episode that went on is drawn");
}

#[test]
fn rows_without_their_episodes_are_refused() {
    let mut buffer = buffer(GoalSelectionStrategy::Future, 30);
    let rows = SampleBatch::default()
        .with(Column::OBS, pavlov::torch::Tensor::from_slice(&[0.0_f32; 3]).view([1, 3]));
    refused(buffer.add(&rows), &["env_id"]);
}
