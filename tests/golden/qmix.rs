//! QMIX's and VDN's mixed values and targets, through `Policy::learn_on_batch`.

use pavlov::algorithms::qmix::Mixing;
use pavlov::envs::Space;
use pavlov::prelude::*;
use pavlov::torch::Tensor;
use pavlov::trainer::batch::{Column, SampleBatch};
use pavlov::trainer::policy::{Policy, PolicySpec, Spaces};
use pavlov::trainer::rng::Stream;

use crate::support::{assert_close, column, floats, policy, rows, stat, weights};

/// Two members that see a number each and choose between two actions.
fn spaces() -> Spaces {
    Spaces {
        observation_space: Space::Tuple(vec![Space::real(&[1]), Space::real(&[1])]),
        action_space: Space::multi_discrete(&[2, 2]),
    }
}

/// Each member that sees `x` values its actions `first x` and `second x`.
fn team(mixer: Option<Mixing>, fused: bool, [first, second]: [f32; 2]) -> Box<dyn Policy> {
    let mut qmix = Qmix { mixer, mixing_embed_dim: 1, ..Qmix::get_default_config() };
    qmix.common.model.fcnet_hiddens = vec![];
    qmix.common.model.fused = fused;
    let mut policy = policy(&qmix, &spaces());
    set(policy.as_mut(), mixer, [first, second]);
    policy
}

/// With a mixing network: `|w1(s)| = (|s1|, |3 s2 / 3|)`, `b1 = -20`, `|w2| = |-2|`, `b2(s) = relu(s2) + 0.5`.
fn set(policy: &mut dyn Policy, mixer: Option<Mixing>, [first, second]: [f32; 2]) {
    let mut named =
        vec![("agent.0.weight", rows(&[&[first], &[second]])), ("agent.0.bias", column(&[0.0, 0.0]))];
    if mixer == Some(Mixing::Qmix) {
        named.extend([
            ("mixer.w1.weight", rows(&[&[1.0, 0.0], &[0.0, -1.0]])),
            ("mixer.w1.bias", column(&[0.0, 0.0])),
            ("mixer.b1.weight", rows(&[&[0.0, 0.0]])),
            ("mixer.b1.bias", column(&[-20.0])),
            ("mixer.w2.weight", rows(&[&[0.0, 0.0]])),
            ("mixer.w2.bias", column(&[-2.0])),
            ("mixer.b2.0.weight", rows(&[&[0.0, 1.0]])),
            ("mixer.b2.0.bias", column(&[0.0])),
            ("mixer.b2.1.weight", rows(&[&[1.0]])),
            ("mixer.b2.1.bias", column(&[0.5])),
        ]);
    }
    policy.set_weights(&weights(&named)).expect("weights that fit");
}

/// The members saw 1 and 3, took their actions 0 and 1, and then saw 2 and 1.
fn row(terminated: f32) -> SampleBatch {
    SampleBatch::default()
        .with(Column::OBS, rows(&[&[1.0, 3.0]]))
        .with(Column::ACTIONS, Tensor::from_slice(&[0_i64, 1]).view([1, 2]))
        .with(Column::REWARDS, column(&[1.0]))
        .with(Column::NEW_OBS, rows(&[&[2.0, 1.0]]))
        .with(Column::TERMINATED, column(&[terminated]))
        .with(Column::DISCOUNTS, column(&[0.5]))
}

fn errors(policy: &mut dyn Policy, batch: &SampleBatch) -> Vec<f64> {
    let learned = policy.learn_on_batch(batch).expect("a learning step");
    floats(learned.td_errors.as_ref().expect("QMIX reports errors"))
}

#[test]
fn the_value_of_a_team_by_vdn_is_the_sum_of_its_members() {
    for fused in [false, true] {
        let mut policy = team(Some(Mixing::Vdn), fused, [1.0, 2.0]);
        policy.update_target();
        // Q = 1 + 6; what follows is worth 4 + 2, so the target is 1 + 0.5 * 6.
        assert_close(&errors(policy.as_mut(), &row(0.0)), &[7.0 - 4.0], 1e-6);
        let mut policy = team(Some(Mixing::Vdn), fused, [1.0, 2.0]);
        let learned = policy.learn_on_batch(&row(1.0)).expect("a learning step");
        assert_close(&[stat(&learned, "mean_q"), stat(&learned, "loss")], &[7.0, 36.0], 1e-5);
    }
}

#[test]
fn the_value_of_a_team_by_qmix_is_the_papers_network_of_the_members() {
    for fused in [false, true] {
        let mut policy = team(Some(Mixing::Qmix), fused, [1.0, 2.0]);
        policy.update_target();
        // 1 * 1 + 3 * 6 - 20 = -1; 2 * elu(-1) + 3 + 0.5.
        let q = 2.0 * ((-1.0_f64).exp() - 1.0) + 3.5;
        assert_close(&errors(policy.as_mut(), &row(1.0)), &[q - 1.0], 1e-5);
        let mut policy = team(Some(Mixing::Qmix), fused, [1.0, 2.0]);
        policy.update_target();
        // What follows: 2 * 4 + 1 * 2 - 20 = -10; 2 * elu(-10) + 1 + 0.5.
        let next = 2.0 * ((-10.0_f64).exp() - 1.0) + 1.5;
        assert_close(&errors(policy.as_mut(), &row(0.0)), &[q - (1.0 + 0.5 * next)], 1e-5);
    }
}

#[test]
fn without_a_mixer_every_member_learns_from_the_reward_of_the_team() {
    let mut policy = team(None, true, [1.0, 2.0]);
    policy.update_target();
    // 1 - (1 + 0.5 * 4) = -2 and 6 - (1 + 0.5 * 2) = 4; the errors' mean and the mean of their squares.
    let learned = policy.learn_on_batch(&row(0.0)).expect("a learning step");
    assert_close(&floats(learned.td_errors.as_ref().expect("errors")), &[1.0], 1e-6);
    assert_close(&[stat(&learned, "loss")], &[10.0], 1e-5);
}

#[test]
fn each_member_chooses_by_the_network_and_is_valued_by_the_target_network() {
    for (double_q, next) in [(true, 2.0 + 1.0), (false, 10.0 + 5.0)] {
        let mut qmix = Qmix { mixer: Some(Mixing::Vdn), double_q, ..Qmix::get_default_config() };
        qmix.common.model.fcnet_hiddens = vec![];
        let mut policy = policy(&qmix, &spaces());
        set(policy.as_mut(), Some(Mixing::Vdn), [5.0, 1.0]);
        policy.update_target();
        // The network now prefers the second action, which the target network values with `x`.
        set(policy.as_mut(), Some(Mixing::Vdn), [1.0, 2.0]);
        assert_close(&errors(policy.as_mut(), &row(0.0)), &[7.0 - (1.0 + 0.5 * next)], 1e-5);
    }
}

#[test]
fn what_is_illegal_for_a_member_is_no_part_of_the_target() {
    let mut policy = team(Some(Mixing::Vdn), true, [1.0, 2.0]);
    policy.update_target();
    let legal = Tensor::from_slice(&[true, false, true, true]).view([1, 4]);
    let batch = row(0.0).with(Column::NEW_ACTION_MASK, legal);
    // The first member may only take the action that is worth 2.
    assert_close(&errors(policy.as_mut(), &batch), &[7.0 - (1.0 + 0.5 * (2.0 + 2.0))], 1e-6);
}

#[test]
fn a_member_that_is_worth_more_never_makes_the_team_worth_less() {
    let mut rng = Stream::new(5, "states", 0);
    let policy = |seed: u64, of: [f32; 2]| {
        let mut qmix = Qmix { mixing_embed_dim: 8, ..Qmix::get_default_config() };
        qmix.common.model.fcnet_hiddens = vec![];
        let spec = PolicySpec { seed, ..crate::support::spec(&spaces(), true) };
        let class = qmix.get_default_policy_class(&spaces()).expect("a class");
        let mut policy = class.build(&spec).expect("a policy");
        // Of random weights only those of the members are set.
        let mut weights = (*policy.get_weights()).clone();
        weights.set_tensor("agent.0.weight", &rows(&[&[0.0], &[0.0]]));
        weights.set_tensor("agent.0.bias", &column(&of));
        policy.set_weights(&std::sync::Arc::new(weights)).expect("weights that fit");
        policy
    };
    for seed in 0..20 {
        let a = rng.normal();
        let b = rng.normal();
        let batch = row(1.0).with(Column::OBS, rows(&[&[rng.normal(), rng.normal()]]));
        // The first member took its action 0, the second its action 1.
        let of = |values| errors(policy(seed, values).as_mut(), &batch)[0];
        assert!(of([a + 1.0, b]) >= of([a, b]) && of([a, b + 1.0]) >= of([a, b]), "seed {seed}");
    }
}
