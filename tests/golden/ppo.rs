//! PPO's loss, row by row, through `Policy::learn_on_batch`.

use std::f64::consts::LN_2;

use pavlov::algorithms::ppo::{NormalizeAdvantages, ValueClip, adapt_kl_coeff};
use pavlov::prelude::*;
use pavlov::torch::Tensor;
use pavlov::trainer::batch::{Column, SampleBatch};
use pavlov::trainer::plan::standardized;
use pavlov::trainer::policy::{Learned, Policy};

use crate::support::{assert_close, column, discrete_spaces, floats, numbers, policy, rows, stat, weights};

/// No hidden layers; both actions equally likely; the critic says 3.
fn flat_policy(change: impl FnOnce(&mut Ppo)) -> Box<dyn Policy> {
    let mut ppo =
        Ppo { kl_coeff: 0.0, normalize_advantages: NormalizeAdvantages::None, ..Ppo::get_default_config() };
    ppo.common.model.fcnet_hiddens = vec![];
    change(&mut ppo);
    let mut policy = policy(&ppo, &discrete_spaces(1, 2));
    let flat = [
        ("actor.out.weight", rows(&[&[0.0], &[0.0]])),
        ("actor.out.bias", column(&[0.0, 0.0])),
        ("critic.out.weight", rows(&[&[0.0]])),
        ("critic.out.bias", column(&[3.0])),
    ];
    policy.set_weights(&weights(&flat)).expect("weights that fit");
    policy
}

/// Action 0 whose probability has grown by `ratio` since acting, value target 8.
fn row(advantage: f32, ratio: f32, old_value: f32) -> SampleBatch {
    SampleBatch::default()
        .with(Column::OBS, rows(&[&[1.0]]))
        .with(Column::ACTIONS, Tensor::from_slice(&[0_i64]))
        .with(Column::ACTION_LOGP, column(&[0.5_f32.ln() - ratio.ln()]))
        .with(Column::ADVANTAGES, column(&[advantage]))
        .with(Column::VALUE_TARGETS, column(&[8.0]))
        .with(Column::VF_PREDS, column(&[old_value]))
}

fn learn(policy: &mut dyn Policy, batch: &SampleBatch) -> Learned {
    policy.learn_on_batch(batch).expect("a learning step")
}

fn bias(policy: &dyn Policy, name: &str) -> Vec<f64> {
    floats(&policy.get_weights().tensor(name).expect("a weight of that name"))
}

#[test]
fn a_ratio_beyond_the_clip_gives_the_clipped_objective_and_no_gradient() {
    // min(1.5 * 1.4, 1.5 * 1.3) = 1.95
    let mut policy = flat_policy(|_| {});
    let learned = learn(policy.as_mut(), &row(1.5, 1.4, 3.0));
    assert_close(&[stat(&learned, "policy_loss")], &[-1.95], 1e-6);
    assert_eq!(bias(policy.as_ref(), "actor.out.bias"), [0.0, 0.0]);
}

#[test]
fn a_bad_action_that_became_likelier_is_not_clipped() {
    // min(-1.5 * 1.4, -1.5 * 1.3) = -2.1, and Adam's first step makes action 0 less likely by lr.
    let mut policy = flat_policy(|_| {});
    let learned = learn(policy.as_mut(), &row(-1.5, 1.4, 3.0));
    assert_close(&[stat(&learned, "policy_loss")], &[2.1], 1e-6);
    assert_close(&bias(policy.as_ref(), "actor.out.bias"), &[-5e-5, 5e-5], 1e-8);
}

#[test]
fn each_value_clip_bounds_what_it_says() {
    // The prediction is 3, the target 8, vf_clip_param 10.
    for (clip, old_value, wanted, moves) in [
        // min(25, 10): a constant, so no gradient.
        (ValueClip::SquaredError, 3.0, 10.0, false),
        // The prediction did not move: max(25, 25).
        (ValueClip::AroundOld, 3.0, 25.0, true),
        // It may move to -9 + 10 = 1 at most: max(25, 49), a constant again.
        (ValueClip::AroundOld, -9.0, 49.0, false),
        // Down to 20 - 10 = 10 at most: max(25, 4).
        (ValueClip::AroundOld, 20.0, 25.0, true),
        (ValueClip::None, 20.0, 25.0, true),
    ] {
        let mut policy = flat_policy(|ppo| ppo.vf_clip = clip);
        let learned = learn(policy.as_mut(), &row(1.5, 1.4, old_value));
        assert_close(&[stat(&learned, "vf_loss")], &[wanted], 1e-5);
        let moved = bias(policy.as_ref(), "critic.out.bias") != [3.0];
        assert_eq!(moved, moves, "{clip:?} from {old_value}");
    }
}

#[test]
fn the_total_loss_weighs_value_entropy_and_kl() {
    // Old probabilities (3/4, 1/4), new (1/2, 1/2): KL(old || new) = 0.75 ln 1.5 + 0.25 ln 0.5 = 0.130812.
    // Entropy ln 2 = 0.693147. Total = -1.95 + 0.5 * 10 - 0.01 * 0.693147 + 0.2 * 0.130812 = 3.069231.
    let mut policy = flat_policy(|ppo| {
        ppo.vf_loss_coeff = 0.5;
        ppo.entropy_coeff = 0.01;
        ppo.kl_coeff = 0.2;
    });
    let old = rows(&[&[3.0_f32.ln(), 0.0]]);
    let learned = learn(policy.as_mut(), &row(1.5, 1.4, 3.0).with(Column::ACTION_DIST_INPUTS, old));
    assert_close(&[stat(&learned, "kl")], &[0.130812], 1e-6);
    assert_close(&[stat(&learned, "entropy")], &[LN_2], 1e-6);
    assert_close(&[stat(&learned, "total_loss")], &[3.069231], 1e-5);
}

#[test]
fn exceeding_the_target_kl_stops_before_the_step() {
    // Without a penalty the estimate is ratio - 1 - ln ratio = 0.4 - 0.336472 = 0.063528 > 1.5 * 0.04.
    for (target, stops) in [(0.04, true), (0.05, false)] {
        let mut policy = flat_policy(|ppo| ppo.target_kl = Some(target));
        let learned = learn(policy.as_mut(), &row(-1.5, 1.4, 3.0));
        assert_close(&[stat(&learned, "kl")], &[0.063528], 1e-6);
        assert_eq!(learned.stop, stops, "target_kl {target}");
        assert_eq!(bias(policy.as_ref(), "actor.out.bias") == [0.0, 0.0], stops, "target_kl {target}");
    }
}

#[test]
fn advantages_of_a_minibatch_are_standardised_when_asked() {
    // Advantages 1 and 3 become -1 and 1; ratios 1 and 1.2 are inside the clip: -(-1 * 1 + 1 * 1.2) / 2 = -0.1.
    let two = || SampleBatch::concat(vec![row(1.0, 1.0, 3.0), row(3.0, 1.2, 3.0)]).expect("equal columns");
    let mut policy = flat_policy(|ppo| ppo.normalize_advantages = NormalizeAdvantages::Minibatch);
    assert_close(&[stat(&learn(policy.as_mut(), &two()), "policy_loss")], &[-0.1], 1e-6);
    // As they are: -(1 * 1 + 3 * 1.2) / 2 = -2.3.
    let mut policy = flat_policy(|_| {});
    assert_close(&[stat(&learn(policy.as_mut(), &two()), "policy_loss")], &[-2.3], 1e-6);
}

#[test]
fn gradients_are_clipped_by_norm_and_the_norm_is_reported() {
    // d/dbias of -A * ratio: 1.5 * 1.4 * (1 - 1/2) = 1.05 and -1.05 for the biases and, as the observation is 1, for
    // the weights: norm sqrt(4) * 1.05 = 2.1. The value loss has none.
    let mut policy = flat_policy(|ppo| ppo.grad_clip = Some(0.5));
    let learned = learn(policy.as_mut(), &row(-1.5, 1.4, 3.0));
    assert_close(&[stat(&learned, "grad_gnorm")], &[2.1], 1e-5);
}

#[test]
fn the_kl_coefficient_grows_shrinks_and_stays() {
    // Target 0.01: twice above, once below half, once between.
    let mut coeff = 0.2;
    let followed: Vec<f64> = [0.05, 0.03, 0.001, 0.015]
        .iter()
        .map(|&kl| {
            coeff = adapt_kl_coeff(coeff, kl, 0.01);
            coeff
        })
        .collect();
    assert_close(&followed, &[0.3, 0.45, 0.225, 0.225], 1e-12);
}

#[test]
fn standardising_uses_the_population_deviation_and_a_floor() {
    let standardized = |values: &[f32]| {
        let batch = SampleBatch::default().with(Column::ADVANTAGES, column(values));
        numbers(&standardized(&batch, Column::ADVANTAGES).expect("the column"), Column::ADVANTAGES)
    };
    let wanted = [-1.341641, -0.447214, 0.447214, 1.341641];
    assert_close(&standardized(&[1.0, 2.0, 3.0, 4.0]), &wanted, 1e-6);
    assert_close(&standardized(&[5.0; 4]), &[0.0; 4], 0.0);
}
