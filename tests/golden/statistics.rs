//! How the statistics of the pieces of a minibatch become those of all its rows: against all rows at once, in doubles.

use pavlov::envs::{Space, Step};
use pavlov::torch::{Device, Kind, Tensor};
use pavlov::trainer::batch::{Column, SampleBatch};
use pavlov::trainer::learner::{Loss, Report};
use pavlov::trainer::models::Rule;
use pavlov::trainer::rng::Stream;
use pavlov::trainer::settings::BatchMode;

use crate::support::{assert_close, at, floats, learner, number, on_threads, quiet, scripted, tiny_ppo};

const FOUND: Column = Column::new("found");

/// Numbers `[rows, columns]` around `mean`.
fn normal(seed: u64, shape: &[i64], mean: f32) -> Tensor {
    let mut rng = Stream::new(seed, "numbers", 0);
    let n = shape.iter().product::<i64>();
    Tensor::from_slice(&(0..n).map(|_| mean + rng.normal()).collect::<Vec<f32>>()).view(shape)
}

/// What a loss reports of these rows, with a gradient that no one asks for.
fn report(fused: bool, batch: &SampleBatch) -> Report {
    let (mut learner, free) = learner(1, fused, Rule::adam(1e-3, 1e-8), |net| net.free("x", &[1.0]));
    let report = learner.gradient(batch, |rows| {
        let [wanted, found] = rows.columns([Column::VALUE_TARGETS, FOUND])?;
        let both = wanted.cat(found);
        Ok(Loss::new((free.on(rows.online()) * wanted).mean())
            .mean("mean", wanted)
            .mean("mean of a mean", wanted.mean())
            .mean("mean of both", both)
            .min("min", wanted)
            .max("max", both)
            .explained_variance("explained", wanted, found)
            .td_errors(found))
    });
    report.expect("a gradient")
}

/// `1 - var(wanted - found) / var(wanted)`, of all rows at once, around their means.
fn explained(wanted: &Tensor, found: &Tensor) -> f64 {
    let variance = |x: &Tensor| (x - x.mean(Kind::Double)).square().mean(Kind::Double).double_value(&[]);
    let [wanted, found] = [wanted, found].map(|x| x.to_kind(Kind::Double));
    1.0 - variance(&(&wanted - found)) / variance(&wanted)
}

#[test]
fn statistics_of_pieces_are_those_of_all_rows_on_both_engines() {
    // The second case is far from zero: moments lose there what floats cannot hold.
    for (rows, mean) in [(5000, 0.5), (5003, 300.0), (1, 2.0), (2, 0.0), (511, -3.0), (2047, 1.0)] {
        let wanted = normal(1, &[rows], mean);
        let found = &wanted * 0.7 + normal(2, &[rows], 3.0) * 0.4;
        let batch = SampleBatch::default()
            .with(Column::OBS, normal(3, &[rows], 0.0))
            .with(Column::VALUE_TARGETS, wanted.shallow_clone())
            .with(FOUND, found.shallow_clone());
        let both = floats(&Tensor::cat(&[&wanted, &found], 0));
        let average = |all: &[f64]| all.iter().sum::<f64>() / all.len() as f64;
        let mean = average(&floats(&wanted));
        let smallest = floats(&wanted).into_iter().fold(f64::INFINITY, f64::min);
        let largest = both.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let explained = explained(&wanted, &found);
        for fused in [false, true] {
            let report = report(fused, &batch);
            let names = ["mean", "mean of a mean", "mean of both", "min", "max", "explained"];
            assert_eq!(report.stats.names(), names);
            let values = report.stats.values();
            let scale = largest.abs().max(1.0);
            assert_close(&values[..3], &[mean, mean, average(&both)], 1e-6 * scale);
            assert_eq!(values[3..5], [smallest, largest], "{rows} rows, fused {fused}");
            if rows > 1 {
                assert_close(&values[5..], &[explained], 1e-6);
            } else {
                assert!(values[5].is_nan(), "one row has no variance: {}", values[5]);
            }
            let errors = report.td_errors.expect("an error of each row");
            assert_eq!(floats(&errors), floats(&found), "in the order of the rows");
        }
    }
}

#[test]
fn a_critic_of_equal_targets_has_no_explained_variance() {
    // Stable-Baselines3 2.9.2 says nan for all three; with an epsilon in the divisor a wrong critic looked perfect.
    for (wanted, found) in [(5.0, 5.0), (5.0, 0.0), (1e-4, 0.3), (12345.678, 0.1)] {
        let rows = 3000;
        let batch = SampleBatch::default()
            .with(Column::OBS, normal(3, &[rows], 0.0))
            .with(Column::VALUE_TARGETS, Tensor::full([rows], wanted, (Kind::Float, Device::Cpu)))
            .with(FOUND, Tensor::full([rows], found, (Kind::Float, Device::Cpu)));
        for fused in [false, true] {
            let explained = report(fused, &batch).stats.read("explained").expect("a statistic");
            assert!(explained.is_nan(), "targets {wanted}, values {found}: {explained}");
        }
    }
}

#[test]
fn an_iteration_whose_targets_are_all_equal_says_null_and_goes_on() {
    let mut ppo = tiny_ppo();
    ppo.common.batch_mode = BatchMode::CompleteEpisodes;
    let env = || {
        scripted::<i64, _>(Space::discrete(2), |_, _, _, obs| {
            obs[0] = 1.0;
            Ok(Step { reward: 5.0, terminated: true, truncated: false })
        })
    };
    let mut driver = quiet(ppo, env).expect("a driver");
    for _ in 0..2 {
        let result = driver.train().expect("a result");
        assert!(at(&result, "info.learner.default_policy.learner_stats.vf_explained_var").is_null());
        assert!(number(&result, "info.learner.default_policy.learner_stats.vf_loss") > 1.0);
    }
}

#[test]
fn statistics_of_pieces_are_bit_equal_on_any_number_of_threads() {
    let run = |fused| {
        let wanted = normal(1, &[5003], 10.0);
        let batch = SampleBatch::default()
            .with(Column::OBS, normal(3, &[5003], 0.0))
            .with(FOUND, &wanted + normal(2, &[5003], 0.0))
            .with(Column::VALUE_TARGETS, wanted);
        report(fused, &batch).stats.values()
    };
    for fused in [false, true] {
        let one = on_threads(1, || run(fused));
        assert_eq!(on_threads(2, || run(fused)), one);
        assert_eq!(on_threads(3, || run(fused)), one);
    }
}
