//! Optimizers against PyTorch's formulas worked out by hand for one parameter that starts at 1.

use pavlov::trainer::batch::{Column, SampleBatch};
use pavlov::trainer::learner::Loss;
use pavlov::trainer::learner::{Optimizer, OptimizerConfig};
use pavlov::trainer::models::Rule;

use crate::support::{assert_close, column, floats, learner, rows};

/// The parameter after each of the gradients 0.5, -0.2, 0.1 at learning rate 0.1.
fn path(config: OptimizerConfig) -> Vec<f64> {
    let mut params = column(&[1.0]);
    let mut optimizer = Optimizer::new(config, &params);
    let step = |&gradient: &f32| {
        optimizer.step(&mut params, &column(&[gradient]), 0.1);
        params.double_value(&[0])
    };
    [0.5, -0.2, 0.1].iter().map(step).collect()
}

#[test]
fn adam_follows_pytorch() {
    // m = 0.9 m + 0.1 g, v = 0.999 v + 0.001 g^2, p -= 0.1 (m / (1 - 0.9^t)) / (sqrt(v / (1 - 0.999^t)) + 1e-8):
    // m: 0.05, 0.025, 0.0325; v: 0.00025, 0.00028975, 0.00029946.
    assert_close(&path(OptimizerConfig::adam(1e-8)), &[0.9, 0.8654394, 0.8275002], 1e-6);
}

#[test]
fn adam_adds_epsilon_outside_of_the_root() {
    // The first step is lr g / (|g| + eps) = 0.1 * 0.5 / 1.
    assert_close(&path(OptimizerConfig::adam(0.5))[..1], &[0.95], 1e-6);
}

#[test]
fn rmsprop_follows_pytorch() {
    // v = 0.99 v + 0.01 g^2, u = g / (sqrt(v) + 1e-8); p -= 0.1 u, or 0.1 b with b = 0.9 b + u.
    // u: 10, -3.7300, 1.8423.
    let rmsprop = |momentum| OptimizerConfig::Rmsprop { alpha: 0.99, eps: 1e-8, momentum };
    assert_close(&path(rmsprop(0.0)), &[0.0, 0.3730021, 0.1887700], 1e-5);
    assert_close(&path(rmsprop(0.9)), &[0.0, -0.5269978, -1.1855280], 1e-5);
}

#[test]
fn sgd_follows_pytorch() {
    // With momentum b: 0.5, 0.25, 0.325.
    assert_close(&path(OptimizerConfig::Sgd { momentum: 0.0 }), &[0.95, 0.97, 0.96], 1e-6);
    assert_close(&path(OptimizerConfig::Sgd { momentum: 0.9 }), &[0.95, 0.925, 0.8925], 1e-6);
}

#[test]
fn a_restored_optimizer_goes_on_bit_for_bit() {
    let gradient = |i: u32| column(&[0.5 - i as f32, 0.25 * i as f32]);
    for config in [
        OptimizerConfig::adam(1e-8),
        OptimizerConfig::Rmsprop { alpha: 0.99, eps: 1e-8, momentum: 0.9 },
        OptimizerConfig::Sgd { momentum: 0.9 },
    ] {
        let mut params = column(&[1.0, 2.0]);
        let mut optimizer = Optimizer::new(config, &params);
        (0..3).for_each(|i| optimizer.step(&mut params, &gradient(i), 0.1));
        let (mut copy, state) = (params.copy(), optimizer.state().expect("a state"));
        let mut restored = Optimizer::new(config, &copy);
        restored.set_state(&state).expect("its own state");
        for i in 3..6 {
            optimizer.step(&mut params, &gradient(i), 0.1);
            restored.step(&mut copy, &gradient(i), 0.1);
        }
        assert_eq!(params, copy, "{config:?}");
    }
}

#[test]
fn the_state_of_another_rule_is_refused() {
    let params = column(&[1.0]);
    let adam = Optimizer::new(OptimizerConfig::adam(1e-8), &params).state().expect("a state");
    let mut sgd = Optimizer::new(OptimizerConfig::Sgd { momentum: 0.0 }, &params);
    let error = sgd.set_state(&adam).expect_err("Adam is not SGD").to_string();
    assert!(error.contains("saved by Adam") && error.contains("uses Sgd"), "{error}");
}

#[test]
fn clipping_scales_to_the_norm_and_reports_the_norm_before() {
    for fused in [false, true] {
        let (mut learner, free) =
            learner(2, fused, Rule::adam(1e-3, 1e-8).clip(Some(1.0)), |net| net.free("x", &[0.0; 2]));
        // The gradient by the free numbers is the observation.
        let mut clipped = |obs: [f32; 2]| {
            let batch = SampleBatch::default().with(Column::OBS, rows(&[obs]));
            let report = learner.gradient(&batch, |rows| {
                let product = free.on(rows.online()) * rows.get(Column::OBS)?;
                Ok(Loss::new(product.sum_columns().mean()))
            });
            let mut report = report.expect("a gradient");
            learner.clip(&mut report);
            let norm = report.stats.read("grad_gnorm").expect("the norm before");
            (floats(learner.last_gradient()), norm)
        };
        let (gradient, norm) = clipped([3.0, 4.0]);
        assert_close(&[norm], &[5.0], 1e-6);
        assert_close(&gradient, &[0.6, 0.8], 1e-6);
        let (small, norm) = clipped([0.3, 0.4]);
        assert_close(&[norm], &[0.5], 1e-6);
        assert_eq!(small, floats(&column(&[0.3, 0.4])));
        assert_eq!(clipped([0.0; 2]), (vec![0.0; 2], 0.0));
    }
}
