//! Sizes, orders, and the thread that makes batches ahead.

use std::sync::mpsc;
use std::time::Duration;

use pavlov_data::{Block, Blocks, Dataset, Datasource, IterBatches, Shuffle};
use pavlov_tune::Result;

use super::{Stream, all, batches, ids, problem, size, sorted};

fn shuffled(seed: u64, epoch: u64, buffer_size: usize) -> IterBatches {
    IterBatches { shuffle: Some(Shuffle { seed, epoch, buffer_size }), ..size(7) }
}

#[test]
fn batches_have_the_asked_size_whatever_the_blocks() {
    let stream = Stream::of(&[3, 0, 1, 4, 2]).dataset();
    let expected = vec![vec![0, 1, 2, 3], vec![4, 5, 6, 7], vec![8, 9]];
    assert_eq!(batches(&stream, size(4)), expected);
    assert_eq!(batches(&stream.materialize().unwrap(), size(4)), expected);
    assert_eq!(batches(&stream, IterBatches { prefetch_batches: 2, ..size(4) }), expected);
    assert_eq!(batches(&stream, IterBatches { drop_last: true, ..size(4) }), expected[..2]);
    assert_eq!(batches(&stream, IterBatches { drop_last: true, ..size(5) }).len(), 2);
    assert_eq!(batches(&stream, size(100)), [sorted(all(&stream))]);
    assert_eq!(batches(&stream.limit(0), size(4)), Vec::<Vec<i64>>::new());
}

#[test]
fn sizes_that_make_no_batches_are_refused() {
    let range = Dataset::range(3);
    let message = range.iter_batches(size(0)).unwrap_err().to_string();
    assert_eq!(message, "`batch_size` is 0, but it must be above 0");
    let message = range.iter_batches(shuffled(1, 0, 0)).unwrap_err().to_string();
    assert_eq!(message, "`shuffle.buffer_size` is 0, but it must be above 0");
    let ahead = IterBatches { prefetch_batches: usize::MAX, ..size(1) };
    assert!(range.iter_batches(ahead).unwrap_err().to_string().starts_with("`prefetch_batches` is 1844"));
}

#[test]
fn a_shuffle_has_every_row_once_in_an_order_of_seed_and_epoch() {
    let stream = Stream::of(&[50; 20]).dataset();
    let all_of_it = batches(&stream, shuffled(1, 0, usize::MAX)).concat();
    assert_eq!(sorted(all_of_it), (0..1000).collect::<Vec<_>>());
    for dataset in [stream.materialize().unwrap(), stream] {
        let order = |seed, epoch| batches(&dataset, shuffled(seed, epoch, 100)).concat();
        let first = order(1, 0);
        assert_eq!(sorted(first.clone()), (0..1000).collect::<Vec<_>>());
        assert_ne!(first, (0..1000).collect::<Vec<_>>());
        assert_eq!(order(1, 0), first);
        assert_ne!(order(1, 1), first);
        assert_ne!(order(2, 0), first);
        assert_eq!(
            batches(&dataset, IterBatches { prefetch_batches: 3, ..shuffled(1, 0, 100) }).concat(),
            first
        );
    }
}

// A uniform permutation of n rows moves a row by n/3 on average; for n = 1000 the mean over the rows has a standard
// deviation of 7.5 (each row's is 236).
#[test]
fn rows_in_memory_are_shuffled_as_a_whole() {
    let memory = Dataset::range(1000).materialize().unwrap();
    let order = batches(&memory, shuffled(1, 0, 1)).concat();
    let moved: i64 = order.iter().zip(0..).map(|(id, place)| (id - place).abs()).sum();
    assert!((moved as f64 / 1000.0 - 333.3).abs() < 30.0, "{moved}");
}

#[test]
fn a_shuffle_of_a_stream_holds_no_more_than_its_buffer() {
    let stream = Stream::of(&[10; 1000]);
    let mut shuffled = stream.dataset().iter_batches(shuffled(1, 0, 100)).unwrap();
    let mut seen = vec![];
    for number in 1..=100 {
        seen.extend(ids(&shuffled.next().unwrap().unwrap()));
        // Half as much again as the buffer's 10 blocks, before what was drawn.
        assert!(stream.blocks_read() <= 15 + (number * 7_usize).div_ceil(10), "{}", stream.blocks_read());
    }
    // What was drawn last stood at most half a buffer before what was read by then.
    assert!(seen.iter().all(|&id| id < 10 * stream.blocks_read() as i64));
    assert!(*seen.iter().min().unwrap() < 100);
}

#[test]
fn a_stream_is_read_no_further_than_the_batches_asked_for() {
    let stream = Stream::of(&[10; 1000]);
    let mut plain = stream.dataset().iter_batches(size(10)).unwrap();
    assert_eq!(stream.blocks_read(), 0);
    plain.next().unwrap().unwrap();
    assert_eq!(stream.blocks_read(), 1);
    plain.nth(3).unwrap().unwrap();
    assert_eq!(stream.blocks_read(), 5);
    assert_eq!(stream.dataset().take(15).unwrap().len(), 15);
    assert_eq!(stream.blocks_read(), 7);
}

/// Tells of each block that is read, and when it is dropped.
#[derive(Debug)]
struct Telling(mpsc::SyncSender<&'static str>);

struct Pass(mpsc::SyncSender<&'static str>);

impl Datasource for Telling {
    fn blocks(&self) -> Result<Blocks> {
        let pass = Pass(self.0.clone());
        let block = move |id: i64| {
            pass.0.send("read").unwrap();
            Block::new([("id", vec![id])])
        };
        Ok(Box::new((0..).map(block)))
    }
}

impl Drop for Pass {
    fn drop(&mut self) {
        self.0.send("dropped").unwrap();
    }
}

#[test]
fn as_many_batches_are_made_ahead_as_asked_and_the_thread_ends_with_the_iterator() {
    let (sender, told) = mpsc::sync_channel(100);
    let hear = |patience| told.recv_timeout(Duration::from_millis(patience));
    let options = IterBatches { prefetch_batches: 3, ..size(1) };
    let mut endless = Dataset::from_source(Telling(sender)).iter_batches(options).unwrap();
    // Three are made before the first is asked for, and no fourth.
    assert_eq!([hear(60_000), hear(60_000), hear(60_000)], [Ok("read"); 3]);
    assert!(hear(50).is_err());
    assert_eq!(ids(&endless.next().unwrap().unwrap()), [0]);
    assert_eq!(hear(60_000), Ok("read"));
    assert!(hear(50).is_err());
    drop(endless);
    assert_eq!(hear(60_000), Ok("dropped"));
}

#[test]
fn what_fails_on_the_thread_comes_out_of_the_iterator() {
    let stream = Stream { bad: Some(2), ..Stream::of(&[4; 5]) };
    for prefetch_batches in [0, 2] {
        let options = IterBatches { prefetch_batches, ..size(4) };
        let mut batches = stream.dataset().iter_batches(options.clone()).unwrap();
        assert!(batches.by_ref().take(2).all(|batch| batch.is_ok()));
        assert_eq!(batches.next().unwrap().unwrap_err().to_string(), "dataset: block 2 is bad");
        assert!(batches.next().is_none());
        let missing = Dataset::read_csv("no/such.csv").iter_batches(options).unwrap().next().unwrap();
        assert!(missing.unwrap_err().to_string().starts_with("cannot open no/such.csv: "));
    }
    let panics = Stream::of(&[4; 5]).dataset().map_batches(|block| {
        assert!(ids(&block)[0] < 8, "too large");
        Ok(block)
    });
    let mut batches = panics.iter_batches(IterBatches { prefetch_batches: 1, ..size(4) }).unwrap();
    assert!(batches.by_ref().take(2).all(|batch| batch.is_ok()));
    assert_eq!(batches.next().unwrap().unwrap_err().to_string(), "dataset: reading panicked: too large");
    assert!(batches.next().is_none());
}

#[test]
fn blocks_with_other_columns_are_refused() {
    let other = Dataset::from_columns([("id", vec![0.5])]).unwrap();
    let message = problem(&Dataset::range(2).union(&other));
    assert_eq!(
        message,
        "dataset: its rows change from (id: int) to (id: float): give them the same columns, types and shapes"
    );
}
