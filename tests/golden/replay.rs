//! The replay buffer and its sum tree.

use std::collections::BTreeSet;

use pavlov::torch::{Kind, Tensor};
use pavlov::trainer::batch::{Column, SampleBatch};
use pavlov::trainer::replay::{ReplayBuffer, ReplayBufferConfig, ReplayKind, SumTree};
use pavlov::trainer::rng::Stream;
use pavlov::trainer::state::State;

use crate::support::{assert_close, assert_frequency, bytes, column, numbers, refused};

const DRAWS: usize = 40_000;

fn buffer(kind: ReplayKind, capacity: usize, learning_starts: usize) -> ReplayBuffer {
    let config = ReplayBufferConfig { kind, capacity, learning_starts, ..ReplayBufferConfig::default() };
    ReplayBuffer::new(config, Stream::new(5, "replay", 0))
}

fn prioritized(capacity: usize) -> ReplayBuffer {
    buffer(ReplayKind::PrioritizedReplayBuffer, capacity, 1)
}

/// Rows whose observation is their number.
fn numbered(from: usize, to: usize) -> SampleBatch {
    let obs: Vec<f32> = (from..to).map(|i| i as f32).collect();
    let actions: Vec<i64> = (from..to).map(|i| 10 * i as i64).collect();
    SampleBatch::default()
        .with(Column::OBS, Tensor::from_slice(&obs).view([-1, 1]))
        .with(Column::ACTIONS, Tensor::from_slice(&actions))
}

fn drawn(buffer: &mut ReplayBuffer, rows: usize) -> SampleBatch {
    buffer.sample(rows).expect("a draw").expect("learning has started")
}

fn count(values: &[f64], wanted: f64) -> usize {
    values.iter().filter(|&&v| v == wanted).count()
}

#[test]
fn rows_are_drawn_by_priority_and_weighted_against_it() {
    // Priorities 1, 2, 3, 4 with alpha 0.6 and beta 0.4.
    let mut buffer = prioritized(4);
    buffer.add(&numbered(0, 4).with(Column::PRIORITIES, column(&[1.0, 2.0, 3.0, 4.0]))).expect("four rows");
    let batch = drawn(&mut buffer, DRAWS);
    let obs = numbers(&batch, Column::OBS);
    let weights = numbers(&batch, Column::WEIGHTS);
    let p = [0.148230, 0.224674, 0.286555, 0.340542];
    let w = [1.0, 0.846745, 0.768229, 0.716978];
    for row in 0..4 {
        assert_frequency(DRAWS, count(&obs, row as f64), p[row]);
        let at = obs.iter().position(|&o| o == row as f64).expect("drawn at least once");
        assert_close(&[weights[at]], &[w[row]], 1e-6);
    }
    assert_eq!(numbers(&batch, Column::BATCH_INDEXES), obs);
    assert_eq!(numbers(&batch, Column::ACTIONS), obs.iter().map(|o| 10.0 * o).collect::<Vec<_>>());
}

#[test]
fn errors_become_priorities_by_size_not_by_sign() {
    // |-3| and 1 against two rows never drawn again, at 1: 3^0.6 = 1.933182 of 4.933182.
    let mut buffer = prioritized(4);
    buffer.add(&numbered(0, 4)).expect("four rows");
    let visited = SampleBatch::default().with(Column::BATCH_INDEXES, Tensor::from_slice(&[2_i64, 3]));
    buffer.update_priorities(&visited, column(&[-3.0, 1.0])).expect("finite errors");
    let obs = numbers(&drawn(&mut buffer, DRAWS), Column::OBS);
    assert_frequency(DRAWS, count(&obs, 2.0), 1.933182 / 4.933182);
    assert_frequency(DRAWS, count(&obs, 3.0), 1.0 / 4.933182);
}

#[test]
fn new_rows_get_the_highest_priority_so_far() {
    // Row 0 is raised to 3, so row 1 starts there: one half each.
    let mut buffer = prioritized(4);
    buffer.add(&numbered(0, 1)).expect("a row");
    let visited = SampleBatch::default().with(Column::BATCH_INDEXES, Tensor::from_slice(&[0_i64]));
    buffer.update_priorities(&visited, column(&[3.0])).expect("a finite error");
    buffer.add(&numbered(1, 2)).expect("a row");
    let obs = numbers(&drawn(&mut buffer, DRAWS), Column::OBS);
    assert_frequency(DRAWS, count(&obs, 1.0), 0.5);
}

#[test]
fn an_error_that_is_not_finite_is_refused() {
    let mut buffer = prioritized(4);
    buffer.add(&numbered(0, 4)).expect("four rows");
    let visited = SampleBatch::default().with(Column::BATCH_INDEXES, Tensor::from_slice(&[2_i64]));
    let error = buffer.update_priorities(&visited, column(&[f32::NAN])).expect_err("NaN").to_string();
    assert!(error.starts_with("a TD error is NaN at step 4; lower `lr`"), "{error}");
}

#[test]
fn the_oldest_rows_make_room() {
    for kind in [ReplayKind::ReplayBuffer, ReplayKind::PrioritizedReplayBuffer] {
        let mut buffer = buffer(kind, 3, 1);
        buffer.add(&numbered(0, 2)).expect("two rows");
        buffer.add(&numbered(2, 5)).expect("three rows");
        assert_eq!((buffer.len(), buffer.added()), (3, 5));
        let seen: BTreeSet<u64> =
            numbers(&drawn(&mut buffer, 500), Column::OBS).into_iter().map(|o| o as u64).collect();
        assert_eq!(seen, BTreeSet::from([2, 3, 4]), "{kind:?}");
    }
}

#[test]
fn a_batch_larger_than_the_buffer_leaves_its_newest_rows() {
    let mut buffer = buffer(ReplayKind::ReplayBuffer, 3, 1);
    buffer.add(&numbered(0, 8)).expect("eight rows");
    let seen: BTreeSet<u64> =
        numbers(&drawn(&mut buffer, 500), Column::OBS).into_iter().map(|o| o as u64).collect();
    assert_eq!(seen, BTreeSet::from([5, 6, 7]));
}

#[test]
fn nothing_is_drawn_before_learning_starts() {
    let mut buffer = buffer(ReplayKind::ReplayBuffer, 10, 4);
    buffer.add(&numbered(0, 3)).expect("three rows");
    assert!(buffer.sample(2).expect("no error").is_none());
    buffer.add(&numbered(3, 4)).expect("a row");
    assert!(buffer.sample(2).expect("no error").is_some());
}

#[test]
fn a_uniform_buffer_draws_every_row_equally_and_adds_no_weights() {
    let mut buffer = buffer(ReplayKind::ReplayBuffer, 4, 1);
    buffer.add(&numbered(0, 4)).expect("four rows");
    let batch = drawn(&mut buffer, DRAWS);
    let obs = numbers(&batch, Column::OBS);
    (0..4).for_each(|row| assert_frequency(DRAWS, count(&obs, f64::from(row)), 0.25));
    assert!(batch.get(Column::WEIGHTS).is_err());
}

#[test]
fn a_restored_buffer_draws_the_same_rows() {
    for kind in [ReplayKind::ReplayBuffer, ReplayKind::PrioritizedReplayBuffer] {
        let mut first = buffer(kind, 3, 1);
        first.add(&numbered(0, 5)).expect("five rows");
        drawn(&mut first, 7);
        let mut second = buffer(kind, 3, 1);
        second.set_state(&first.state().expect("a state")).expect("its own state");
        first.add(&numbered(5, 6)).expect("a row");
        second.add(&numbered(5, 6)).expect("a row");
        let a = drawn(&mut first, 50);
        let b = drawn(&mut second, 50);
        assert_eq!(numbers(&a, Column::OBS), numbers(&b, Column::OBS), "{kind:?}");
    }
}

#[test]
fn the_sum_tree_keeps_sum_minimum_and_order() {
    // 7 leaves: not a power of two. Random priorities, changed 500 times, against a plain list.
    let mut rng = Stream::new(2, "tree", 0);
    let mut tree = SumTree::new(7);
    let mut plain = [0.0_f64; 7];
    for i in 0..507 {
        let leaf = if i < 7 { i } else { rng.below(7) as usize };
        plain[leaf] = rng.uniform_f64() + 0.01;
        tree.set(leaf, plain[leaf]);
        if i < 6 {
            continue;
        }
        let total: f64 = plain.iter().sum();
        assert_close(&[tree.total()], &[total], 1e-12);
        assert_eq!(tree.min(), plain.iter().copied().fold(f64::INFINITY, f64::min));
        assert_eq!(tree.get(leaf), plain[leaf]);
        let mass = rng.uniform_f64() * total * (1.0 - 1e-9);
        let mut before = 0.0;
        let wanted = plain.iter().position(|p| {
            before += p;
            before > mass
        });
        assert_eq!(Some(tree.find(mass)), wanted);
    }
}

#[test]
fn the_sum_tree_never_finds_an_empty_leaf() {
    let mut tree = SumTree::new(5);
    tree.set(0, 0.1);
    tree.set(1, 0.2);
    assert_eq!(tree.find(0.0), 0);
    // All of the mass: rounding may bring it here.
    assert_eq!(tree.find(tree.total()), 1);
}

const FRAME: usize = 84 * 84;
const EPISODE: usize = 50;

/// Frame `t` of an episode, of which no two are equal; before the first stands the first.
fn frame(episode: usize, t: i64) -> Vec<u8> {
    let mut rng = Stream::new(episode as u64, "frame", t.max(0) as u64);
    (0..FRAME).map(|_| rng.below(256) as u8).collect()
}

/// The last four frames at `t`, the channels last.
fn stack(episode: usize, t: i64) -> Vec<u8> {
    let frames: Vec<Vec<u8>> = (0..4).map(|i| frame(episode, t - 3 + i)).collect();
    (0..FRAME).flat_map(|pixel| frames.iter().map(move |frame| frame[pixel])).collect()
}

/// Rows `from..to` of episodes of 50 steps; their actions are their numbers.
fn stacked(from: usize, to: usize) -> SampleBatch {
    let tensor = |rows: Vec<u8>| Tensor::from_slice(&rows).view([-1, 84, 84, 4]);
    let at = |row: usize, ahead: usize| stack(row / EPISODE, (row % EPISODE + ahead) as i64);
    let rows = |ahead| (from..to).flat_map(|row| at(row, ahead)).collect();
    let numbers: Vec<i64> = (from as i64..to as i64).collect();
    SampleBatch::default()
        .with(Column::OBS, tensor(rows(0)))
        .with(Column::ACTIONS, Tensor::from_slice(&numbers))
        .with(Column::NEW_OBS, tensor(rows(1)))
}

/// Every drawn row shows what its number says.
#[track_caller]
fn assert_stacked(batch: &SampleBatch) {
    let actions = batch.array::<i64>(Column::ACTIONS).expect("numbers");
    for (ahead, column) in [(0, Column::OBS), (1, Column::NEW_OBS)] {
        let pixels = batch.get(column).expect("the column");
        assert_eq!(pixels.kind(), pavlov::trainer::Kind::U8);
        for (i, &row) in actions.iter().enumerate() {
            let wanted = stack(row as usize / EPISODE, row % EPISODE as i64 + ahead);
            let found: Vec<u8> = pixels.lend().row(i).to_vec();
            assert!(found == wanted, "{} of row {row}", column.name());
        }
    }
}

/// 84 x 84 x 4 bytes are kept as about one frame per row, not as the eight of two stacks: a row, its share of an
/// episode's first frame (1 / 50) and of memory taken in pieces.
#[test]
fn stacked_frames_are_kept_once_and_rows_are_drawn_as_they_were() {
    const CAPACITY: usize = 200;
    let mut first = buffer(ReplayKind::ReplayBuffer, CAPACITY, 1);
    // Fragments that cut episodes; the ring is written over once.
    (0..14).for_each(|i| first.add(&stacked(i * 30, (i + 1) * 30)).expect("rows"));
    let per_row = first.bytes() / CAPACITY;
    assert!(per_row > FRAME && per_row < FRAME * 6 / 5, "{per_row} bytes per row, a frame has {FRAME}");
    assert_stacked(&drawn(&mut first, 20));

    let state = first.state().expect("a state");
    let mut second = buffer(ReplayKind::ReplayBuffer, CAPACITY, 1);
    second.set_state(&state).expect("its own state");
    assert_eq!(second.state().expect("a state"), state);
    let a = drawn(&mut first, 20);
    let b = drawn(&mut second, 20);
    assert_eq!(bytes(&a, Column::NEW_OBS), bytes(&b, Column::NEW_OBS));
    second.add(&stacked(420, 450)).expect("rows");
    assert_stacked(&drawn(&mut second, 20));
    assert!(second.bytes() / CAPACITY < FRAME * 6 / 5);
}

/// Buffers were once saved with every observation as it is.
#[test]
fn a_buffer_that_was_saved_without_frames_is_read() {
    let mut first = buffer(ReplayKind::ReplayBuffer, 8, 1);
    first.add(&stacked(45, 53)).expect("rows");
    let saved = first.state().expect("a state");
    let mut old = State::default();
    for key in ["columns", "kind", "capacity", "len", "next", "added", "max_priority", "rng"] {
        old.set(key, &saved.get::<serde_json::Value>(key).expect("a value")).expect("the same value");
    }
    stacked(45, 53).columns().for_each(|(column, data)| old.set_array(column.name(), data));
    let mut second = buffer(ReplayKind::ReplayBuffer, 8, 1);
    second.set_state(&old).expect("a state of the old layout");
    assert_eq!(second.state().expect("a state"), saved);
    assert_stacked(&drawn(&mut second, 8));
}

#[test]
fn long_rows_that_are_no_stacks_are_kept_once_and_of_another_shape_refused() {
    let rows = |n: i64| (Tensor::arange(n * 100, (Kind::Float, pavlov::torch::Device::Cpu))).view([n, 100]);
    let pair = |from: i64| {
        SampleBatch::default()
            .with(Column::OBS, rows(31).narrow(0, from, 10))
            .with(Column::NEW_OBS, rows(31).narrow(0, from + 1, 10))
    };
    let mut buffer = buffer(ReplayKind::ReplayBuffer, 30, 1);
    (0..3).for_each(|i| buffer.add(&pair(10 * i)).expect("rows"));
    let batch = drawn(&mut buffer, 50);
    let [obs, next] = [Column::OBS, Column::NEW_OBS].map(|column| numbers(&batch, column));
    assert!(obs.iter().zip(&next).all(|(obs, next)| obs + 100.0 == *next));
    let error = buffer.add(&SampleBatch::default().with(Column::OBS, rows(3).view([3, 10, 10])));
    assert!(error.expect_err("other rows").to_string().contains("obs"));
}

#[test]
fn a_first_priority_that_is_not_finite_is_refused_and_nothing_is_added() {
    let mut buffer = prioritized(4);
    let rows = numbered(0, 2).with(Column::PRIORITIES, column(&[1.0, f32::INFINITY]));
    refused(buffer.add(&rows), &["a first priority", "inf", "leave the `priorities` column out"]);
    assert_eq!(buffer.len(), 0);
}
