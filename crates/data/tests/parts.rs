//! Shards, splits, limits, and datasets made from others.

use pavlov_data::Dataset;
use pavlov_tune::{Error, Result};
use serde_json::json;

use super::{Stream, all, problem, sorted};

fn both(sizes: &[usize]) -> [Dataset; 2] {
    let stream = Stream::of(sizes).dataset();
    [stream.materialize().unwrap(), stream]
}

fn parts(datasets: Vec<Dataset>) -> Vec<Vec<i64>> {
    datasets.iter().map(all).collect()
}

#[test]
fn each_row_is_in_exactly_one_shard() {
    for dataset in both(&[3, 1, 7, 2, 4]) {
        for workers in 1..20 {
            let shards: Vec<Vec<i64>> =
                (0..workers).map(|rank| all(&dataset.shard(rank, workers).unwrap())).collect();
            assert_eq!(sorted(shards.concat()), (0..17).collect::<Vec<_>>());
            let sizes = shards.iter().map(Vec::len);
            assert!(sizes.clone().max().unwrap() - sizes.min().unwrap() <= 1, "{shards:?}");
        }
        assert_eq!(all(&dataset.shard(1, 5).unwrap()), [1, 6, 11, 16]);
        assert_eq!(all(&dataset.shard(1, 2).unwrap().shard(1, 3).unwrap()), [3, 9, 15]);
        assert_eq!(all(&dataset.shard(4, usize::MAX).unwrap()), [4]);
        assert_eq!(all(&dataset.random_shuffle(1).shard(1, 2).unwrap()).len(), 8);
        let message = dataset.shard(2, 2).unwrap_err().to_string();
        assert_eq!(message, "`rank` is 2, but it must be below the number of shards, 2");
    }
}

#[test]
fn splits_follow_each_other_and_cover_all_rows() {
    for dataset in both(&[4, 6, 1]) {
        assert_eq!(parts(dataset.split(3).unwrap()), [vec![0, 1, 2, 3], vec![4, 5, 6, 7], vec![8, 9, 10]]);
        assert_eq!(
            parts(dataset.split_at_indices(&[2, 2, 9]).unwrap()),
            [vec![0, 1], vec![], vec![2, 3, 4, 5, 6, 7, 8], vec![9, 10]]
        );
        assert_eq!(all(&dataset.split_at_indices(&[9, usize::MAX]).unwrap()[1]), [9, 10]);
        assert_eq!(all(&dataset.shard(1, 2).unwrap().split_at_indices(&[usize::MAX]).unwrap()[1]), [0; 0]);
        assert!(dataset.split_at_indices(&[3, 2]).is_err());
        assert!(dataset.split(0).is_err());
        assert_eq!(all(&dataset.limit(5).split(2).unwrap()[1]), [3, 4]);
    }
}

// What Ray 2.60.0 printed for `record_ray_splits.py`.
#[test]
fn proportions_are_cut_as_ray_cuts_them() {
    let splits: [(usize, &[f64], &[usize]); 6] = [
        (10, &[0.2, 0.5], &[2, 5, 3]),
        (10, &[0.1, 0.1, 0.1], &[1, 1, 1, 7]),
        (5, &[0.9], &[4, 1]),
        (3, &[0.4, 0.3], &[1, 1, 1]),
        (1000, &[0.333, 0.333], &[333, 333, 334]),
        (4, &[0.98, 0.01], &[2, 1, 1]),
    ];
    for (n, proportions, expected) in splits {
        let splits = Dataset::range(n).split_proportionately(proportions).unwrap();
        let counts: Vec<usize> = splits.iter().map(|split| split.count().unwrap()).collect();
        assert_eq!(counts, expected, "{n} rows, {proportions:?}");
    }
    for (n, test_size, expected) in
        [(10, 0.25, [7, 3]), (10, 0.3, [7, 3]), (3, 0.5, [1, 2]), (2, 0.1, [1, 1]), (1000, 0.1, [900, 100])]
    {
        let (train, test) = Dataset::range(n).train_test_split(test_size).unwrap();
        assert_eq!([train.count().unwrap(), test.count().unwrap()], expected, "{n} rows, {test_size}");
    }
}

#[test]
fn proportions_that_make_no_parts_are_refused() {
    let range = Dataset::range(3);
    for proportions in [&[][..], &[0.5, 0.5], &[0.0], &[-0.1, 0.5], &[f64::NAN], &[0.1, 0.1, 0.1]] {
        assert!(range.split_proportionately(proportions).is_err(), "{proportions:?}");
    }
    for test_size in [0.0, 1.0, -0.5, f64::NAN] {
        assert!(range.train_test_split(test_size).is_err(), "{test_size}");
    }
    assert!(range.limit(1).train_test_split(0.5).is_err());
}

#[test]
fn datasets_are_made_from_others_row_by_row() {
    for dataset in both(&[3, 2]) {
        let squares = dataset.map(|row| {
            let id = row["id"].as_i64().unwrap_or(0);
            Ok(json!({"id": id * id, "half": id as f64 / 2.0}))
        });
        assert_eq!(all(&squares), [0, 1, 4, 9, 16]);
        assert_eq!(squares.columns().unwrap(), ["id", "half"]);
        assert_eq!(squares.select_columns(["half"]).columns().unwrap(), ["half"]);
        let even = dataset.filter(|row| row["id"].as_i64().is_some_and(|id| id % 2 == 0));
        assert_eq!(all(&even), [0, 2, 4]);
        assert_eq!(all(&even.union(&dataset)), [0, 2, 4, 0, 1, 2, 3, 4]);
        assert_eq!(even.count().unwrap(), 3);
        assert_eq!(all(&dataset.limit(4).limit(9)), [0, 1, 2, 3]);
        let doubled = dataset.map_batches(|block| {
            let twice = block.int("id")?.mapv(|id| 2 * id);
            block.with_column("id", twice)
        });
        assert_eq!(all(&doubled), [0, 2, 4, 6, 8]);
        assert!(
            problem(&dataset.select_columns(["x"])).ends_with("there is no column `x`; the columns are id")
        );
    }
}

#[test]
fn a_random_shuffle_is_the_same_in_each_pass() {
    let range = Dataset::range(100);
    let shuffled = range.random_shuffle(7);
    assert_eq!(sorted(all(&shuffled)), (0..100).collect::<Vec<_>>());
    assert_eq!(all(&shuffled), all(&shuffled));
    assert_ne!(all(&shuffled), all(&range));
    assert_ne!(all(&shuffled), all(&range.random_shuffle(8)));
}

#[test]
fn a_dataset_from_a_function_is_made_when_it_is_read_and_once() {
    let stream = Stream::of(&[2, 2]);
    let inner = stream.clone();
    let made = std::sync::Arc::new(std::sync::Mutex::new(0));
    let count = made.clone();
    let lazy = Dataset::from_fn(move || {
        *count.lock().unwrap() += 1;
        inner.dataset().materialize()
    });
    let shard = lazy.shard(1, 2).unwrap();
    assert_eq!(*made.lock().unwrap(), 0);
    assert_eq!((all(&shard), all(&shard)), (vec![1, 3], vec![1, 3]));
    assert_eq!(*made.lock().unwrap(), 1);
    let failing = Dataset::from_fn(|| -> Result<Dataset> { Err(Error::other("no disk")) });
    assert_eq!(problem(&failing), "no disk");
}

// By hand: the mean of 1, 2, 3, 4 is 2.5, their squared distances from it sum to 5.
#[test]
fn means_and_deviations_leave_missing_values_out() {
    let dataset = Dataset::from_items([1.0, f64::NAN, 2.0, 3.0, 4.0]).unwrap();
    assert_eq!(dataset.mean("item").unwrap(), Some(2.5));
    assert_eq!(dataset.std("item").unwrap(), Some((5.0_f64 / 3.0).sqrt()));
    assert_eq!(dataset.limit(2).mean("item").unwrap(), Some(1.0));
    assert_eq!(dataset.limit(2).std("item").unwrap(), None);
    assert_eq!(dataset.limit(0).mean("item").unwrap(), None);
    assert!(dataset.mean("x").is_err());
}
