//! DQN's targets, losses and network, through `Policy::learn_on_batch` and the public functions.

use std::f64::consts::LN_2;

use pavlov::prelude::*;
use pavlov::torch::Tensor;
use pavlov::trainer::Array;
use pavlov::trainer::batch::{Column, SampleBatch};
use pavlov::trainer::learner::Loss;
use pavlov::trainer::models::{Activation, Init, Rule};
use pavlov::trainer::policy::{Learned, Policy};

use crate::support::{
    assert_close, column, discrete_spaces, floats, learner, on_both_engines, policy, rows, stat, weights,
};

/// Q-values of the two one-hot states, `[action][state]`: no hidden layers, no dueling unless changed.
fn tabular(change: impl FnOnce(&mut Dqn)) -> Box<dyn Policy> {
    let mut dqn = Dqn { hiddens: vec![], dueling: false, ..Dqn::get_default_config() };
    dqn.common.model.fcnet_hiddens = vec![];
    change(&mut dqn);
    policy(&dqn, &discrete_spaces(2, 2))
}

fn set_table(policy: &mut dyn Policy, table: &[&[f32]]) {
    let named = [("advantage.0.weight", rows(table)), ("advantage.0.bias", column(&[0.0, 0.0]))];
    policy.set_weights(&weights(&named)).expect("weights that fit");
}

/// Action 0 in state 0, which led to state 1.
fn row(reward: f32, discount: f32, terminated: f32) -> SampleBatch {
    SampleBatch::default()
        .with(Column::OBS, rows(&[&[1.0, 0.0]]))
        .with(Column::ACTIONS, Tensor::from_slice(&[0_i64]))
        .with(Column::REWARDS, column(&[reward]))
        .with(Column::NEW_OBS, rows(&[&[0.0, 1.0]]))
        .with(Column::TERMINATED, column(&[terminated]))
        .with(Column::DISCOUNTS, column(&[discount]))
}

fn learn(policy: &mut dyn Policy, batch: &SampleBatch) -> Learned {
    policy.learn_on_batch(batch).expect("a learning step")
}

fn td_error(learned: &Learned) -> Vec<f64> {
    floats(learned.td_errors.as_ref().expect("DQN reports errors"))
}

#[test]
fn the_target_is_the_reward_plus_the_discounted_value_of_what_follows() {
    // Q(s, 0) = 0 and max Q(s', .) = 2: 0 - (1 + 0.99^3 * 2) = -2.940598; terminated: 0 - 1.
    for (terminated, wanted) in [(0.0, -2.940598), (1.0, -1.0)] {
        let mut policy = tabular(|_| {});
        set_table(policy.as_mut(), &[&[0.0, 2.0], &[0.0, 1.0]]);
        policy.update_target();
        let learned = learn(policy.as_mut(), &row(1.0, 0.99_f32.powi(3), terminated));
        assert_close(&td_error(&learned), &[wanted], 1e-6);
    }
}

#[test]
fn double_q_lets_the_network_choose_and_the_target_network_value() {
    // In s' the network says (1, 2) and the target network (5, 3): double takes 3, plain takes 5.
    for (double_q, next) in [(true, 3.0), (false, 5.0)] {
        let mut policy = tabular(|dqn| dqn.double_q = double_q);
        set_table(policy.as_mut(), &[&[0.0, 5.0], &[0.0, 3.0]]);
        policy.update_target();
        set_table(policy.as_mut(), &[&[0.5, 1.0], &[0.0, 2.0]]);
        let learned = learn(policy.as_mut(), &row(1.0, 0.9, 0.0));
        assert_close(&td_error(&learned), &[0.5 - (1.0 + 0.9 * next)], 1e-6);
        assert_close(&[stat(&learned, "mean_q")], &[0.5], 1e-6);
    }
}

#[test]
fn the_loss_is_hubers_weighted_by_importance() {
    // Errors -1 - 2 = -3 and 0.5: Huber 2.5 and 0.125; weights 1 and 0.4: (2.5 + 0.05) / 2 = 1.275.
    let mut policy = tabular(|_| {});
    set_table(policy.as_mut(), &[&[-1.0, 0.0], &[0.0, 0.0]]);
    policy.update_target();
    let both = SampleBatch::concat(vec![row(2.0, 0.9, 1.0), row(-1.5, 0.9, 1.0)]).expect("equal columns");
    let learned = learn(policy.as_mut(), &both.with(Column::WEIGHTS, column(&[1.0, 0.4])));
    assert_close(&td_error(&learned), &[-3.0, 0.5], 1e-6);
    assert_close(&[stat(&learned, "loss")], &[1.275], 1e-6);
}

#[test]
fn huber_is_quadratic_inside_one_and_linear_beyond() {
    let batch = SampleBatch::default().with(Column::OBS, column(&[0.0, 0.5, -1.0, 1.0, -3.0]));
    for found in on_both_engines(&batch, |rows| Ok(rows.get(Column::OBS)?.huber())) {
        assert_close(&found, &[0.0, 0.125, 0.5, 0.5, 2.5], 1e-7);
    }
}

#[test]
fn huber_has_a_gradient_of_at_most_one() {
    for fused in [false, true] {
        let (mut learner, free) =
            learner(2, fused, Rule::adam(1e-3, 1e-8), |net| net.free("x", &[0.5, -3.0]));
        let batch = SampleBatch::default().with(Column::OBS, rows(&[&[0.0, 0.0]]));
        learner
            .gradient(&batch, |rows| Ok(Loss::new(free.on(rows.online()).huber().sum_columns().mean())))
            .expect("a gradient");
        assert_close(&floats(learner.last_gradient()), &[0.5, -1.0], 1e-7);
    }
}

#[test]
fn dueling_values_are_the_state_value_plus_centred_advantages() {
    // V = 2, A = (1, 4): Q = 2 + A - 2.5 = (0.5, 3.5).
    let mut policy = tabular(|dqn| dqn.dueling = true);
    let named = [
        ("advantage.0.weight", rows(&[&[0.0, 0.0], &[0.0, 0.0]])),
        ("advantage.0.bias", column(&[1.0, 4.0])),
        ("value.0.weight", rows(&[&[0.0, 0.0]])),
        ("value.0.bias", column(&[2.0])),
    ];
    policy.set_weights(&weights(&named)).expect("weights that fit");
    let q = policy.forward(&rows(&[&[1.0, 0.0]])).expect("values");
    assert_close(&floats(&q), &[0.5, 3.5], 1e-6);
}

/// What a step with these rewards and this discount makes of a distribution on -2, -1, 0, 1, 2, on both engines.
fn projected(rewards: &[f32], discount: f32) -> [Vec<f64>; 2] {
    [false, true].map(|fused| {
        let (mut learner, ()) = learner(7, fused, Rule::adam(1e-3, 1e-8), |net| {
            net.dense("unused", 1, 1, Activation::Linear, Init::Uniform);
        });
        let row = |&reward: &f32| [0.1, 0.2, 0.4, 0.2, 0.1, reward, discount];
        let numbers: Vec<f32> = rewards.iter().flat_map(row).collect();
        let obs = Array::from_vec(numbers, &[rewards.len() as i64, 7]);
        let found = learner.evaluate(&obs, None, 5, |_, x| {
            let x = x.obs();
            x.narrow(0, 5).project(x.narrow(5, 1), x.narrow(6, 1), -2.0, 2.0)
        });
        found.expect("values").iter().map(|&x| f64::from(x)).collect()
    })
}

#[test]
fn projected_probabilities_match_the_golden_ones() {
    // Support -2..2 moved by 0.5 + 0.9 z.
    for found in projected(&[0.5], 0.9) {
        assert_close(&found, &[0.03, 0.15, 0.32, 0.32, 0.18], 1e-6);
    }
}

#[test]
fn projection_of_an_ended_episode_is_the_reward_and_clamps_to_the_support() {
    // Nothing follows: all mass at r. 0.5 lies half-way between atoms 0 and 1; 10 and -10 lie beyond the ends.
    let wanted = [0.0, 0.0, 0.5, 0.5, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0, 1.0, 0.0, 0.0, 0.0, 0.0];
    for found in projected(&[0.5, 10.0, -10.0], 0.0) {
        assert_close(&found, &wanted, 1e-6);
    }
}

#[test]
fn with_atoms_the_value_is_the_mean_and_the_error_the_cross_entropy() {
    // Three atoms -1, 0, 1. Logits (0, 0, ln 2) of action 0: p = (1/4, 1/4, 1/2), mean 1/4.
    // The episode ended with reward 1: all mass on atom 1, cross-entropy -ln(1/2).
    let mut policy = tabular(|dqn| {
        dqn.num_atoms = 3;
        dqn.v_min = -1.0;
        dqn.v_max = 1.0;
    });
    let named = [
        ("advantage.0.weight", rows(&[&[0.0, 0.0]; 6])),
        ("advantage.0.bias", column(&[0.0, 0.0, 2.0_f32.ln(), 0.0, 0.0, 0.0])),
    ];
    policy.set_weights(&weights(&named)).expect("weights that fit");
    let q = policy.forward(&rows(&[&[1.0, 0.0]])).expect("values");
    assert_close(&floats(&q), &[0.25, 0.0], 1e-6);
    let learned = learn(policy.as_mut(), &row(1.0, 0.9, 1.0));
    assert_close(&td_error(&learned), &[LN_2], 1e-6);
    assert_close(&[stat(&learned, "loss"), stat(&learned, "mean_q")], &[LN_2, 0.25], 1e-6);
}
