//! DDPG's and TD3's targets, delays and losses, through `Policy::learn_on_batch`.

use pavlov::algorithms::Ddpg;
use pavlov::envs::Space;
use pavlov::prelude::*;
use pavlov::torch::{Kind, Tensor};
use pavlov::trainer::batch::{Column, SampleBatch};
use pavlov::trainer::policy::{Learned, Policy, Spaces};

use crate::golden::seam::assert_near;
use crate::support::{assert_close, column, floats, policy, rows, stat, weights};

const NOISE: Column = Column::new("noise");

/// An actor `tanh(w s + b)` and critics `c s + d a + e`, of one observation and one action, and a target copy that moves
/// all the way.
fn linear(change: impl FnOnce(&mut Ddpg)) -> Box<dyn Policy> {
    let mut ddpg = Ddpg { l2_reg: 0.0, tau: 1.0, ..Ddpg::default() };
    ddpg.actor_hiddens = vec![];
    ddpg.critic_hiddens = vec![];
    change(&mut ddpg);
    let action_space = Space::boxed(-1.0, 1.0, &[1]);
    policy(&ddpg, &Spaces { observation_space: Space::real(&[1]), action_space })
}

/// Sets `[w, b]` of the actor and `[c, d, e]` of each critic.
fn set(policy: &mut dyn Policy, [w, b]: [f32; 2], critics: &[[f32; 3]]) {
    let mut named =
        vec![("actor.out.weight".to_owned(), rows(&[[w]])), ("actor.out.bias".to_owned(), column(&[b]))];
    for (i, [c, d, e]) in critics.iter().enumerate() {
        named.push((format!("q{}.out.weight", i + 1), rows(&[[*c, *d]])));
        named.push((format!("q{}.out.bias", i + 1), column(&[*e])));
    }
    let named: Vec<(&str, Tensor)> =
        named.iter().map(|(name, t)| (name.as_str(), t.shallow_clone())).collect();
    policy.set_weights(&weights(&named)).expect("weights that fit");
}

/// Action 0.25 in observation 1 gave reward 1 and led to observation 2.
fn row(terminated: f32) -> SampleBatch {
    SampleBatch::default()
        .with(Column::OBS, rows(&[[1.0]]))
        .with(Column::ACTIONS, rows(&[[0.25]]))
        .with(Column::REWARDS, column(&[1.0]))
        .with(Column::NEW_OBS, rows(&[[2.0]]))
        .with(Column::TERMINATED, column(&[terminated]))
        .with(Column::DISCOUNTS, column(&[0.9]))
}

fn learn(policy: &mut dyn Policy, batch: &SampleBatch) -> Learned {
    policy.learn_on_batch(batch).expect("a learning step")
}

fn td_error(learned: &Learned) -> Vec<f64> {
    floats(learned.td_errors.as_ref().expect("DDPG reports errors"))
}

#[test]
fn the_target_is_the_reward_plus_the_discounted_value_of_the_target_actors_action() {
    // tanh(0.5 * 2) = 0.761594, valued 2 + 2 * 0.761594 + 0.5 = 4.023188; y = 1 + 0.9 * that = 4.620870, or 1 at an end.
    // The online critic says 0.25: half of 4.370870^2 is 9.552250, half of 0.75^2 is 0.28125.
    for (terminated, error, loss) in [(0.0, -4.370870, 9.552252), (1.0, -0.75, 0.28125)] {
        let mut policy = linear(|_| {});
        set(policy.as_mut(), [0.5, 0.0], &[[1.0, 2.0, 0.5]]);
        policy.update_target();
        set(policy.as_mut(), [-3.0, 1.0], &[[0.0, 1.0, 0.0]]);
        let learned = learn(policy.as_mut(), &row(terminated));
        assert_close(&td_error(&learned), &[error], 1e-5);
        assert_close(&[stat(&learned, "critic_loss")], &[loss], 1e-4);
        // What the critic says of tanh(-3 + 1).
        assert_close(&[stat(&learned, "actor_loss")], &[2.0_f64.tanh()], 1e-6);
    }
}

#[test]
fn of_two_critics_the_smaller_gives_the_target_and_both_learn_it() {
    // The second target critic says 0.761594 * 2 - 1 = 0.523188: y = 1 + 0.9 * 0.523188 = 1.470870.
    let mut policy = linear(|ddpg| ddpg.twin_q = true);
    set(policy.as_mut(), [0.5, 0.0], &[[1.0, 2.0, 0.5], [0.0, 2.0, -1.0]]);
    policy.update_target();
    set(policy.as_mut(), [0.5, 0.0], &[[0.0, 1.0, 0.0], [0.0, 0.0, 3.0]]);
    let learned = learn(policy.as_mut(), &row(0.0));
    assert_close(&td_error(&learned), &[0.25 - 1.470870], 1e-5);
    // Half the squares of -1.220870 and 1.529130.
    assert_close(&[stat(&learned, "critic_loss")], &[0.745262 + 1.169119], 1e-4);
    // The actor follows the first.
    assert_close(&[stat(&learned, "actor_loss")], &[-0.5_f64.tanh()], 1e-6);
}

#[test]
fn the_noise_of_targets_is_scaled_clipped_and_kept_within_the_bounds() {
    // 0.2 * 1 = 0.2 is added to 0.761594; 0.2 * -9 counts as -0.5; 0.761594 + 0.5 counts as 1.
    for (noise, action) in [(1.0, 0.961594), (-9.0, 0.261594), (9.0, 1.0)] {
        let mut policy = linear(|ddpg| ddpg.smooth_target_policy = true);
        set(policy.as_mut(), [0.5, 0.0], &[[0.0, 1.0, 0.0]]);
        policy.update_target();
        let learned = learn(policy.as_mut(), &row(0.0).with(NOISE, rows(&[[noise]])));
        assert_close(&td_error(&learned), &[0.25 - (1.0 + 0.9 * action)], 1e-5);
    }
}

#[test]
fn the_noise_of_targets_is_drawn_anew_for_every_batch_from_the_learners_stream() {
    let drawn = || {
        let mut policy = linear(|ddpg| ddpg.smooth_target_policy = true);
        [0, 1].map(|_| {
            let mut batch = SampleBatch::concat(vec![row(0.0), row(0.0), row(0.0)]).expect("equal columns");
            policy.prepare(&mut batch).expect("noise");
            floats(batch.get(NOISE).expect("noise"))
        })
    };
    let [first, second] = drawn();
    assert_eq!(first.len(), 3);
    assert!(first != second && [first, second] == drawn());
    let mut plain = row(0.0);
    linear(|_| {}).prepare(&mut plain).expect("nothing to draw");
    assert!(!plain.has(NOISE));
}

#[test]
fn hubers_loss_grows_in_a_straight_line_from_its_threshold_on() {
    // The error is 0.25 - 1 = -0.75: 0.5 * (0.75 - 0.25) beyond 0.5, half the square below 2.
    for (threshold, loss) in [(0.5, 0.25), (2.0, 0.28125)] {
        let mut policy = linear(|ddpg| {
            ddpg.use_huber = true;
            ddpg.huber_threshold = threshold;
        });
        set(policy.as_mut(), [0.0, 0.0], &[[0.0, 1.0, 0.0]]);
        assert_close(&[stat(&learn(policy.as_mut(), &row(1.0)), "critic_loss")], &[loss], 1e-6);
    }
}

/// A parameter of the network, or of its target copy.
fn parameter(policy: &dyn Policy, set: &str, name: &str) -> Vec<f64> {
    let state = policy.get_state().expect("a state").nested(set).expect("parameters");
    floats(&state.tensor(name).expect("the parameter"))
}

#[test]
fn the_actor_rests_between_its_learning_steps_and_its_moments_with_it() {
    for fused in [false, true] {
        let mut policy = linear(|ddpg| {
            ddpg.policy_delay = 3;
            ddpg.common.model.fused = fused;
        });
        set(policy.as_mut(), [0.5, 0.0], &[[0.0, 1.0, 0.0]]);
        let moment = |policy: &dyn Policy| {
            let optimizer = policy.get_state().expect("a state").nested("optimizer").expect("optimizers");
            let actor = optimizer.nested("actor").expect("the actor's");
            let steps: u64 = actor.get("steps").expect("a number");
            (steps, floats(&actor.tensor("first").expect("moments")))
        };
        let mut before = (parameter(policy.as_ref(), "weights", "actor.out.weight"), moment(policy.as_ref()));
        for step in 0..7 {
            let learned = learn(policy.as_mut(), &row(0.0));
            let learns = step % 3 == 0;
            let after = (parameter(policy.as_ref(), "weights", "actor.out.weight"), moment(policy.as_ref()));
            assert_eq!(before != after, learns, "step {step}");
            assert_eq!(learned.stats.read("actor_loss").is_some(), learns, "step {step}");
            before = after;
        }
        assert_eq!(before.1.0, 3);
    }
}

#[test]
fn the_target_moves_after_every_step_or_only_after_the_actors() {
    for (delay_target, moves) in [(false, [true, true, true, true]), (true, [true, false, true, false])] {
        let mut policy = linear(|ddpg| {
            ddpg.policy_delay = 2;
            ddpg.delay_target = delay_target;
            ddpg.tau = 0.25;
        });
        for moves in moves {
            learn(policy.as_mut(), &row(0.0));
            for name in ["actor.out.weight", "q1.out.weight"] {
                let old = parameter(policy.as_ref(), "target", name);
                let online = parameter(policy.as_ref(), "weights", name);
                let way = if moves { 0.25 } else { 0.0 };
                let wanted: Vec<f64> = old.iter().zip(&online).map(|(t, o)| t + way * (o - t)).collect();
                // On a copy: the other parameter has its turn as well.
                let mut moved = linear(|ddpg| {
                    ddpg.policy_delay = 2;
                    ddpg.delay_target = delay_target;
                    ddpg.tau = 0.25;
                });
                moved.set_state(&policy.get_state().expect("a state")).expect("its own state");
                moved.update_target();
                assert_close(&parameter(moved.as_ref(), "target", name), &wanted, 1e-7);
            }
            policy.update_target();
        }
    }
}

/// A random policy of both kinds of layers, and rows to learn from.
fn random(fused: bool, change: impl FnOnce(&mut Ddpg)) -> (Box<dyn Policy>, SampleBatch) {
    let mut ddpg = Td3::default().0;
    ddpg.actor_hiddens = vec![7, 5];
    ddpg.critic_hiddens = vec![9];
    ddpg.common.model.fused = fused;
    change(&mut ddpg);
    let action_space = Space::boxed(-2.0, 2.0, &[2]);
    let mut policy = policy(&ddpg, &Spaces { observation_space: Space::real(&[3]), action_space });
    let mut rng = pavlov::trainer::rng::Stream::new(5, "rows", 0);
    let n = 40;
    let mut normal = |width: usize| {
        let numbers: Vec<f32> = (0..n * width).map(|_| rng.normal()).collect();
        Tensor::from_slice(&numbers).view([n as i64, width as i64])
    };
    let batch = SampleBatch::default()
        .with(Column::OBS, normal(3))
        .with(Column::ACTIONS, normal(2).tanh())
        .with(Column::REWARDS, normal(1).squeeze())
        .with(Column::NEW_OBS, normal(3))
        .with(Column::TERMINATED, normal(1).squeeze().gt(1.0).to_kind(Kind::Float))
        .with(Column::DISCOUNTS, Tensor::full([n as i64], 0.97, (Kind::Float, pavlov::torch::Device::Cpu)))
        .with(Column::WEIGHTS, normal(1).squeeze().abs())
        .with(NOISE, normal(2) * 3.0);
    // So that network and target copy differ.
    (0..3).for_each(|_| drop(learn(policy.as_mut(), &batch)));
    (policy, batch)
}

/// The gradient that the last learning step took.
fn gradient(policy: &mut dyn Policy) -> Vec<f64> {
    floats(policy.learner_mut().expect("a network").last_gradient())
}

/// TD3's losses in tensors of doubles, and their gradient by libtorch's autograd in the order of the parameters.
fn reference(policy: &dyn Policy, batch: &SampleBatch, actor_learns: bool) -> Vec<f64> {
    let state = policy.get_state().expect("a state");
    let nets = [("actor", vec!["0", "1", "out"]), ("q1", vec!["0", "out"]), ("q2", vec!["0", "out"])];
    let leaves = |set: &str, learns: bool| -> Vec<Vec<[Tensor; 2]>> {
        let weights = state.nested(set).expect("weights");
        let leaf = |name: String| {
            let tensor = weights.tensor(&name).expect("a parameter").to_kind(Kind::Double);
            tensor.set_requires_grad(learns)
        };
        let layer =
            |net: &str, layer: &str| ["weight", "bias"].map(|kind| leaf(format!("{net}.{layer}.{kind}")));
        nets.iter().map(|(net, layers)| layers.iter().map(|name| layer(net, name)).collect()).collect()
    };
    let mlp = |net: &[[Tensor; 2]], mut x: Tensor| {
        for (i, [weight, bias]) in net.iter().enumerate() {
            x = x.linear(weight, Some(bias));
            x = if i + 1 < net.len() { x.relu() } else { x };
        }
        x
    };
    let online = leaves("weights", true);
    let target = leaves("target", false);
    let column = |column| {
        let tensor = batch.get(column).expect("the column").to_tensor().to_kind(Kind::Double);
        if tensor.dim() == 1 { tensor.unsqueeze(1) } else { tensor }
    };
    let s = column(Column::OBS);
    let s2 = column(Column::NEW_OBS);
    let noise = (column(NOISE) * 0.2).clamp(-0.5, 0.5);
    let a2 = (mlp(&target[0], s2.shallow_clone()).tanh() + noise).clamp(-1.0, 1.0);
    let sa2 = Tensor::cat(&[&s2, &a2], 1);
    let next = mlp(&target[1], sa2.shallow_clone()).minimum(&mlp(&target[2], sa2));
    let y = column(Column::REWARDS)
        + column(Column::DISCOUNTS) * (column(Column::TERMINATED) * -1.0 + 1.0) * next;
    let sa = Tensor::cat(&[&s, &column(Column::ACTIONS)], 1);
    let mut total = Tensor::from(0.0_f64);
    for q in &online[1..] {
        let error = mlp(q, sa.shallow_clone()) - &y;
        total += (error.square() * 0.5 * column(Column::WEIGHTS)).mean(Kind::Double);
    }
    if actor_learns {
        let frozen: Vec<[Tensor; 2]> =
            online[1].iter().map(|[weight, bias]| [weight.detach(), bias.detach()]).collect();
        let mu = mlp(&online[0], s.shallow_clone()).tanh();
        total -= mlp(&frozen, Tensor::cat(&[&s, &mu], 1)).mean(Kind::Double);
    }
    total.backward();
    let of = |leaf: &Tensor| floats(&if leaf.grad().defined() { leaf.grad() } else { leaf.zeros_like() });
    online.iter().flatten().flatten().flat_map(of).collect()
}

#[test]
fn gradients_are_those_of_autograd_and_a_resting_actor_has_none_on_both_engines() {
    for fused in [false, true] {
        let (mut policy, batch) = random(fused, |_| {});
        // Steps 3 and 4: the actor rests, then learns.
        for actor_learns in [false, true] {
            let wanted = reference(policy.as_ref(), &batch, actor_learns);
            learn(policy.as_mut(), &batch);
            let found = gradient(policy.as_mut());
            assert_near(&found, &wanted, &format!("fused {fused}, number"));
            let learner = policy.learner_mut().expect("a network");
            let rest = learner.groups_but(None)[0];
            let of_actor = &found[learner.range(rest)];
            if actor_learns {
                assert!(of_actor.iter().any(|g| g.abs() > 1e-4), "a gradient worth comparing");
            } else {
                assert!(of_actor.iter().all(|&g| g == 0.0), "{of_actor:?}");
            }
        }
    }
}

#[test]
fn the_actors_loss_leaves_the_gradient_of_the_critics_as_it_is_bit_for_bit() {
    for fused in [false, true] {
        let of_critics = |policy_delay| {
            let (policy, batch) = random(fused, |_| {});
            let state = policy.get_state().expect("a state");
            let (mut other, _) = random(fused, |ddpg| ddpg.policy_delay = policy_delay);
            other.set_state(&state).expect("a state of the same networks");
            learn(other.as_mut(), &batch);
            let range =
                other.learner_mut().map(|learner| learner.range(learner.groups_but(None)[1])).expect("q1");
            gradient(other.as_mut())[range].to_vec()
        };
        // At step 3 the actor learns with a delay of 1 and rests with one of 2.
        assert_eq!(of_critics(1), of_critics(2));
    }
}

#[test]
fn l2_draws_weights_to_zero_and_leaves_biases_alone() {
    for fused in [false, true] {
        let gradient_with = |l2_reg| {
            let (policy, batch) = random(fused, |_| {});
            let state = policy.get_state().expect("a state");
            let (mut other, _) = random(fused, |ddpg| {
                ddpg.l2_reg = l2_reg;
                ddpg.policy_delay = 1;
            });
            other.set_state(&state).expect("a state of the same networks");
            learn(other.as_mut(), &batch);
            (gradient(other.as_mut()), state)
        };
        let (without, state) = gradient_with(0.0);
        let (with, _) = gradient_with(0.5);
        let weights = state.nested("weights").expect("weights");
        let wanted: Vec<f64> = ["actor.0", "actor.1", "actor.out", "q1.0", "q1.out", "q2.0", "q2.out"]
            .iter()
            .flat_map(|layer| {
                let of = |kind: &str| weights.tensor(&format!("{layer}.{kind}")).expect("a parameter");
                [floats(&(of("weight") * 0.5)), floats(&of("bias").zeros_like())].concat()
            })
            .collect();
        let found: Vec<f64> = with.iter().zip(&without).map(|(with, without)| with - without).collect();
        assert_close(&found, &wanted, 1e-6);
    }
}
