//! Optimizers against libtorch's own, and against PyTorch's formulas worked out by hand.

use pavlov::torch::nn;
use pavlov::torch::{Device, Kind, Tensor};
use pavlov::trainer::batch::{Column, SampleBatch};
use pavlov::trainer::learner::Loss;
use pavlov::trainer::learner::{Optimizer, OptimizerConfig};
use pavlov::trainer::models::Rule;

use crate::support::{assert_close, column, floats, learner, rows};

/// Gradients of two parameters for 50 steps, of sizes from 1e-3 to 1.
fn gradients() -> impl Iterator<Item = [f64; 2]> {
    (0..50).map(f64::from).map(|t| [(0.7 * t).sin() * 0.93_f64.powf(t), 0.3 - (1.3 * t).cos()])
}

/// Both parameters after 50 steps from 1 and -2 at learning rate 0.01.
fn after_50(config: OptimizerConfig) -> Vec<f64> {
    let mut params = [1.0, -2.0];
    let mut optimizer = Optimizer::new(config, params.len());
    for g in gradients() {
        optimizer.step(&mut params, &g.map(|g| g as f32), 0.01);
    }
    floats(&params[..])
}

/// The same by libtorch's optimizer.
fn libtorchs_after_50(config: impl nn::OptimizerConfig) -> Vec<f64> {
    let store = nn::VarStore::new(Device::Cpu);
    let params = store.root().var_copy("x", &column(&[1.0, -2.0]));
    let mut optimizer = config.build(&store, 0.01).expect("an optimizer");
    for g in gradients() {
        let g = Tensor::from_slice(&g.map(|g| g as f32));
        optimizer.backward_step(&(&params * g).sum(Kind::Float));
    }
    floats(&params)
}

#[test]
fn fifty_steps_of_adam_adamw_rmsprop_and_sgd_are_libtorchs() {
    let close = |config, libtorch: Vec<f64>| assert_close(&after_50(config), &libtorch, 2e-6);
    close(
        OptimizerConfig::adam(1e-7),
        libtorchs_after_50(nn::Adam { eps: 1e-7, wd: 0.0, ..Default::default() }),
    );
    close(
        OptimizerConfig::adamw(1e-8, 0.1),
        libtorchs_after_50(nn::AdamW { eps: 1e-8, wd: 0.1, ..Default::default() }),
    );
    for (momentum, centered) in [(0.0, false), (0.9, false), (0.0, true), (0.5, true)] {
        let eps = 0.1;
        close(
            OptimizerConfig::Rmsprop { alpha: 0.95, eps, momentum, centered },
            libtorchs_after_50(nn::RmsProp { alpha: 0.95, eps, wd: 0.0, momentum, centered }),
        );
    }
    close(OptimizerConfig::Sgd { momentum: 0.9 }, libtorchs_after_50(nn::sgd(0.9, 0.0, 0.0, false)));
}

/// PyTorch's page of RAdam, line by line, in doubles.
fn radam_by_its_formulas(beta2: f64) -> Vec<f64> {
    let lr = 0.01;
    let beta1 = 0.9;
    let eps = 1e-8;
    let limit = 2.0 / (1.0 - beta2) - 1.0;
    let of = |i: usize, mut x: f64| {
        let mut m = 0.0;
        let mut v = 0.0;
        for (t, g) in (1..).zip(gradients()) {
            let g = f64::from(g[i] as f32);
            m = beta1 * m + (1.0 - beta1) * g;
            v = beta2 * v + (1.0 - beta2) * g * g;
            let mean = m / (1.0 - beta1.powi(t));
            let rho = limit - 2.0 * f64::from(t) * beta2.powi(t) / (1.0 - beta2.powi(t));
            let step = if rho > 5.0 {
                let l = (1.0 - beta2.powi(t)).sqrt() / (v.sqrt() + eps);
                let r = ((rho - 4.0) * (rho - 2.0) * limit / ((limit - 4.0) * (limit - 2.0) * rho)).sqrt();
                mean * r * l
            } else {
                mean
            };
            x -= lr * step;
        }
        x
    };
    vec![of(0, 1.0), of(1, -2.0)]
}

#[test]
fn fifty_steps_of_radam_follow_pytorchs_formulas() {
    // The second moment counts from step 6 on; with a decay of 0.5 it never does.
    for beta2 in [0.999, 0.99, 0.5] {
        let found = after_50(OptimizerConfig::RAdam { beta1: 0.9, beta2, eps: 1e-8 });
        assert_close(&found, &radam_by_its_formulas(beta2), 2e-6);
    }
}

/// The parameter after each of the gradients 0.5, -0.2, 0.1 at learning rate 0.1.
fn path(config: OptimizerConfig) -> Vec<f64> {
    let mut params = [1.0];
    let mut optimizer = Optimizer::new(config, params.len());
    let step = |&gradient: &f32| {
        optimizer.step(&mut params, &[gradient], 0.1);
        f64::from(params[0])
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
    let rmsprop = |momentum| OptimizerConfig::Rmsprop { alpha: 0.99, eps: 1e-8, momentum, centered: false };
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
    let gradient = |i: u32| [0.5 - i as f32, 0.25 * i as f32];
    for config in [
        OptimizerConfig::adam(1e-8),
        OptimizerConfig::adamw(1e-8, 0.01),
        OptimizerConfig::radam(1e-8),
        OptimizerConfig::Rmsprop { alpha: 0.99, eps: 1e-8, momentum: 0.9, centered: false },
        OptimizerConfig::Rmsprop { alpha: 0.99, eps: 1e-8, momentum: 0.9, centered: true },
        OptimizerConfig::Sgd { momentum: 0.9 },
    ] {
        let mut params = [1.0, 2.0];
        let mut optimizer = Optimizer::new(config, params.len());
        (0..7).for_each(|i| optimizer.step(&mut params, &gradient(i), 0.1));
        let mut copy = params;
        let state = optimizer.state().expect("a state");
        let mut restored = Optimizer::new(config, copy.len());
        restored.set_state(&state).expect("its own state");
        for i in 7..10 {
            optimizer.step(&mut params, &gradient(i), 0.1);
            restored.step(&mut copy, &gradient(i), 0.1);
        }
        assert_eq!(params, copy, "{config:?}");
    }
}

#[test]
fn the_state_of_another_rule_is_refused() {
    let adam = Optimizer::new(OptimizerConfig::adam(1e-8), 1).state().expect("a state");
    let mut sgd = Optimizer::new(OptimizerConfig::Sgd { momentum: 0.0 }, 1);
    let error = sgd.set_state(&adam).expect_err("Adam is not SGD").to_string();
    assert!(error.contains("saved by Adam") && error.contains("uses Sgd"), "{error}");
}

#[test]
fn the_state_of_an_rmsprop_from_before_it_could_be_centered_is_read_and_does_not_center() {
    let mut params = [1.0];
    let rmsprop = |centered| OptimizerConfig::Rmsprop { alpha: 0.99, eps: 1e-8, momentum: 0.9, centered };
    let mut first = Optimizer::new(rmsprop(false), params.len());
    first.step(&mut params, &[0.5], 0.1);
    let mut state = first.state().expect("a state");
    let old = serde_json::json!({"type": "rmsprop", "alpha": 0.99, "eps": 1e-8, "momentum": 0.9});
    state.set("config", &old).expect("JSON");
    let mut restored = Optimizer::new(rmsprop(false), params.len());
    restored.set_state(&state).expect("an older state");
    let mut copy = params;
    first.step(&mut params, &[0.25], 0.1);
    restored.step(&mut copy, &[0.25], 0.1);
    assert_eq!(params, copy);
    let mut centered = Optimizer::new(rmsprop(true), params.len());
    let error = centered.set_state(&state).expect_err("it has no means").to_string();
    assert!(error.contains("centered: false") && error.contains("centered: true"), "{error}");
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
