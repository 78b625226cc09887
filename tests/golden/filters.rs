//! Running statistics and the mean-std filter.

use std::f64::consts::FRAC_1_SQRT_2;

use pavlov::trainer::rng::Stream;
use pavlov::trainer::workers::{MeanStdFilter, RunningStat};

use crate::support::{assert_close, refused};

fn stat_of(rows: &[[f32; 2]]) -> RunningStat {
    let mut stat = RunningStat::new(2);
    rows.iter().for_each(|row| stat.push(row));
    stat
}

fn variances(stat: &RunningStat) -> [f64; 2] {
    [stat.variance(0), stat.variance(1)]
}

#[test]
fn mean_and_variance_match_the_golden_values() {
    // The second component is the first one shifted by 10, so only its mean differs.
    let rows = [[1.0, 11.0], [2.0, 12.0], [4.0, 14.0]];
    let two = stat_of(&rows[..2]);
    assert_close(two.mean(), &[1.5, 11.5], 1e-12);
    assert_close(&variances(&two), &[0.5, 0.5], 1e-12);
    let three = stat_of(&rows);
    assert_close(three.mean(), &[2.333333, 12.333333], 1e-6);
    assert_close(&variances(&three), &[2.333333, 2.333333], 1e-6);
    assert_eq!(three.count(), 3);
}

#[test]
fn the_variance_of_one_observation_is_its_square() {
    assert_close(&variances(&stat_of(&[[3.0, -2.0]])), &[9.0, 4.0], 0.0);
}

#[test]
fn the_filter_learns_before_it_normalises() {
    let mut filter = MeanStdFilter::new(1);
    let mut through = |x: f32, update: bool| {
        let mut row = [x];
        filter.apply(&mut row, update);
        f64::from(row[0])
    };
    // 3: (3 - 3) / 3.
    assert_close(&[through(3.0, true)], &[0.0], 1e-6);
    // Without an update the mean is still 3 and the deviation 3.
    assert_close(&[through(4.5, false)], &[0.5], 1e-6);
    let mut filter = MeanStdFilter::new(1);
    let found = [1.0, 2.0, 4.0].map(|x: f32| {
        let mut row = [x];
        filter.apply(&mut row, true);
        f64::from(row[0])
    });
    assert_close(&found, &[0.0, FRAC_1_SQRT_2, 1.091089], 2e-6);
}

#[test]
fn merged_statistics_equal_those_of_one_sequence() {
    let mut rng = Stream::new(1, "rows", 0);
    let rows: Vec<[f32; 2]> = (0..500).map(|_| [rng.normal(), 100.0 + 3.0 * rng.normal()]).collect();
    let sequential = stat_of(&rows);
    let mut merged = RunningStat::new(2);
    // Unequal parts, an empty one and a single row among them.
    for part in [&rows[..120], &rows[120..120], &rows[120..121], &rows[121..]] {
        merged.update(&stat_of(part));
    }
    assert_eq!(merged.count(), 500);
    assert_close(merged.mean(), sequential.mean(), 1e-9);
    assert_close(&variances(&merged), &variances(&sequential), 1e-9);
}

#[test]
fn a_flushed_buffer_holds_what_was_seen_since_the_last_flush() {
    let mut filter = MeanStdFilter::new(2);
    let see = |filter: &mut MeanStdFilter, row: [f32; 2]| filter.apply(&mut { row }, true);
    see(&mut filter, [1.0, 1.0]);
    assert_eq!(filter.flush(), stat_of(&[[1.0, 1.0]]));
    see(&mut filter, [5.0, 7.0]);
    assert_eq!(filter.flush(), stat_of(&[[5.0, 7.0]]));
    assert_eq!(filter.flush().count(), 0);
    assert_eq!(filter.running(), &stat_of(&[[1.0, 1.0], [5.0, 7.0]]));
}

#[test]
fn statistics_of_another_width_are_refused() {
    let mut filter = MeanStdFilter::new(2);
    let parts = ["the observation filter: it is 3 wide, but observations are 2"];
    refused(filter.set_running(&RunningStat::new(3)), &parts);
}
