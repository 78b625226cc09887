//! SAC's targets and losses, through `Policy::learn_on_batch`.

use pavlov::algorithms::sac::{CriticLoss, Optimization};
use pavlov::envs::Space;
use pavlov::prelude::*;
use pavlov::torch::{Kind, Reduction, Tensor};
use pavlov::trainer::batch::{Column, SampleBatch};
use pavlov::trainer::models;
use pavlov::trainer::policy::{Policy, Spaces};
use pavlov::trainer::rng::Stream;

use self::Critics::{Boxes, Choices, Quantiles};
use crate::golden::seam::assert_near;
use crate::support::{assert_close, column, discrete_spaces, floats, policy, rows, stat, weights};

/// One observation, two choices, no hidden layers.
fn linear(change: impl FnOnce(&mut Sac)) -> Box<dyn Policy> {
    let mut sac = Sac { tau: 1.0, initial_alpha: 0.5, critic_loss: CriticLoss::Mse, ..Sac::default() };
    sac.policy_model_config.fcnet_hiddens = vec![];
    sac.q_model_config.fcnet_hiddens = vec![];
    change(&mut sac);
    policy(&sac, &discrete_spaces(1, 2))
}

/// Sets the logits and the values of both critics, whatever is observed.
fn set(policy: &mut dyn Policy, logits: [f32; 2], q1: [f32; 2], q2: [f32; 2]) {
    let zero = || rows(&[[0.0_f32], [0.0]]);
    let named = [
        ("actor.out.weight", zero()),
        ("actor.out.bias", column(&logits)),
        ("q1.out.weight", zero()),
        ("q1.out.bias", column(&q1)),
        ("q2.out.weight", zero()),
        ("q2.out.bias", column(&q2)),
        ("log_alpha", column(&[0.5_f32.ln()])),
    ];
    policy.set_weights(&weights(&named)).expect("weights that fit");
}

/// Choice 1 gave reward 1.
fn row(terminated: f32) -> SampleBatch {
    SampleBatch::default()
        .with(Column::OBS, rows(&[[0.3]]))
        .with(Column::ACTIONS, Tensor::from_slice(&[1_i64]))
        .with(Column::REWARDS, column(&[1.0]))
        .with(Column::NEW_OBS, rows(&[[0.7]]))
        .with(Column::TERMINATED, column(&[terminated]))
        .with(Column::DISCOUNTS, column(&[0.9]))
}

#[test]
fn the_losses_of_choices_are_means_over_all_of_them() {
    // p = (1/4, 3/4), ln p = (-1.386294, -0.287682), alpha = 1/2, smaller target values (2, 1).
    // Next: 1/4 (2 + 0.693147) + 3/4 (1 + 0.143841) = 1.531168; y = 1 + 0.9 * 1.531168 = 2.378051, at an end 1.
    // Online the critics say 3 and 0 of choice 1, and at least (0, 0) of both.
    let logits = [0.0, 3.0_f32.ln()];
    for (terminated, y) in [(0.0, 2.378051), (1.0, 1.0)] {
        let mut policy = linear(|_| {});
        set(policy.as_mut(), logits, [2.0, 5.0], [4.0, 1.0]);
        policy.update_target();
        set(policy.as_mut(), logits, [0.0, 3.0], [7.0, 0.0]);
        let learned = policy.learn_on_batch(&row(terminated)).expect("a learning step");
        // The first critic's value of the action that was taken, as in Ray.
        assert_close(&[stat(&learned, "mean_q")], &[3.0], 1e-5);
        let e1 = 3.0 - y;
        let e2 = -y;
        assert_close(&[stat(&learned, "critic_loss")], &[0.5 * (e1 * e1 + e2 * e2)], 1e-4);
        let td = floats(learned.td_errors.as_ref().expect("SAC reports errors"));
        assert_close(&td, &[0.5 * (e1.abs() + e2.abs())], 1e-5);
        // Half of sum p ln p = -0.562335.
        assert_close(&[stat(&learned, "actor_loss")], &[-0.281168], 1e-5);
        // The entropy that is aimed at is 0.98 ln 2 = 0.679284: -ln(1/2) * (-0.562335 + 0.679284).
        assert_close(&[stat(&learned, "alpha_loss")], &[0.081063], 1e-5);
    }
}

#[test]
fn weight_decay_shrinks_the_actor_and_the_critics_and_not_the_temperature() {
    // One step of AdamW is one of Adam, and the share lr * decay of each parameter less (Loshchilov and Hutter 2019).
    let logits = [0.5, 3.0];
    let q1 = [2.0, 5.0];
    let q2 = [4.0, 1.0];
    let after = |fused, weight_decay| {
        let mut policy = linear(|sac| {
            sac.common.model.fused = fused;
            sac.optimization = Optimization {
                actor_learning_rate: 1e-3,
                critic_learning_rate: 2e-3,
                weight_decay,
                ..Optimization::default()
            };
        });
        set(policy.as_mut(), logits, q1, q2);
        policy.learn_on_batch(&row(0.0)).expect("a learning step");
        let weights = policy.get_weights();
        let names = ["actor.out.bias", "q1.out.bias", "q2.out.bias", "log_alpha"];
        names.map(|name| floats(&weights.tensor(name).expect("a parameter"))).concat()
    };
    for fused in [false, true] {
        let with = after(fused, 10.0);
        let without = after(fused, 0.0);
        let lost: Vec<f64> = without.iter().zip(&with).map(|(a, b)| a - b).collect();
        assert_close(&lost, &[0.005, 0.03, 0.04, 0.1, 0.08, 0.02, 0.0], 1e-6);
    }
}

#[test]
fn a_temperature_is_learnt_unless_its_step_size_is_0() {
    // Adam's first step is as long as its step size, but for epsilon.
    for (fused, rate) in [false, true].into_iter().flat_map(|fused| [(fused, 0.1), (fused, 0.0)]) {
        let mut policy = linear(|sac| {
            sac.common.model.fused = fused;
            sac.optimization.entropy_learning_rate = rate;
        });
        policy.learn_on_batch(&row(0.0)).expect("a learning step");
        let log_alpha = floats(&policy.get_weights().tensor("log_alpha").expect("a parameter"));
        assert_close(&[(log_alpha[0] - 0.5_f64.ln()).abs()], &[rate], 1e-5);
    }
}

#[test]
fn illegal_choices_count_for_nothing() {
    // Only choice 0 is legal in what follows: y = 1 + 0.9 * 2, and its certain choice has no entropy.
    let mut policy = linear(|_| {});
    set(policy.as_mut(), [0.0, 3.0_f32.ln()], [2.0, 5.0], [4.0, 1.0]);
    policy.update_target();
    let mask = || Tensor::from_slice(&[true, false]).view([1, 2]);
    let batch = row(0.0).with(Column::ACTION_MASK, mask()).with(Column::NEW_ACTION_MASK, mask());
    let learned = policy.learn_on_batch(&batch).expect("a learning step");
    // The critics say 5 and 1 of the choice that was taken: (2.2^2 + 1.8^2) / 2.
    assert_close(&[stat(&learned, "critic_loss"), stat(&learned, "actor_loss")], &[4.04, -2.0], 1e-5);
}

#[test]
fn the_entropy_that_choices_aim_at_is_that_of_the_legal_ones() {
    // Of three choices that are all as likely 3, 2 and 1 are legal: the entropies are ln 3, ln 2 and 0, and the targets
    // 0.98 of them. -ln(1/2) * mean(target - entropy) = 0.693147 * -0.02 * (1.098612 + 0.693147 + 0) / 3. A target of
    // 0.98 ln 3 for all rows would be 0.693147 * (1.076640 - 0.597253).
    let masks = [[true, true, true], [true, true, false], [true, false, false]].concat();
    let mask = || Tensor::from_slice(&masks).view([3, 3]);
    let of_rows = |numbers: [f32; 3]| column(&numbers);
    let batch = SampleBatch::default()
        .with(Column::OBS, rows(&[[0.3], [0.3], [0.3]]))
        .with(Column::ACTIONS, Tensor::from_slice(&[0_i64; 3]))
        .with(Column::REWARDS, of_rows([1.0; 3]))
        .with(Column::NEW_OBS, rows(&[[0.7], [0.7], [0.7]]))
        .with(Column::TERMINATED, of_rows([0.0; 3]))
        .with(Column::DISCOUNTS, of_rows([0.9; 3]))
        .with(Column::ACTION_MASK, mask())
        .with(Column::NEW_ACTION_MASK, mask());
    for (fused, target_entropy, expected) in
        [(false, None, -0.008280), (true, None, -0.008280), (true, Some(1.0), 0.279162)]
    {
        let mut sac = Sac { initial_alpha: 0.5, target_entropy, ..Sac::default() };
        sac.policy_model_config.fcnet_hiddens = vec![];
        sac.q_model_config.fcnet_hiddens = vec![];
        sac.common.model.fused = fused;
        let mut policy = policy(&sac, &discrete_spaces(1, 3));
        let layer = |name: &str| {
            [
                (format!("{name}.out.weight"), rows(&[[0.0_f32], [0.0], [0.0]])),
                (format!("{name}.out.bias"), column(&[0.0; 3])),
            ]
        };
        let mut all = ["actor", "q1", "q2"].map(layer).into_iter().flatten().collect::<Vec<_>>();
        all.push(("log_alpha".to_owned(), column(&[0.5_f32.ln()])));
        let named: Vec<_> =
            all.iter().map(|(name, tensor)| (name.as_str(), tensor.shallow_clone())).collect();
        policy.set_weights(&weights(&named)).expect("weights that fit");
        let learned = policy.learn_on_batch(&batch).expect("a learning step");
        assert_close(&[stat(&learned, "alpha_loss")], &[expected], 1e-5);
    }
}

const NOISE: Column = Column::new("noise");
const NEXT_NOISE: Column = Column::new("next_noise");

/// What the critics learn.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Critics {
    Boxes,
    Choices,
    /// So many critics learn so many quantiles each, of which targets leave out so many.
    Quantiles(usize, usize, usize),
}

/// A random policy with small layers, and rows to learn from.
fn random(fused: bool, critics: Critics) -> (Box<dyn Policy>, SampleBatch) {
    let discrete = critics == Choices;
    let mut sac = Sac { critic_loss: CriticLoss::Mse, ..Sac::default() };
    if let Quantiles(nets, quantiles, dropped) = critics {
        sac.critic_loss = CriticLoss::Huber;
        sac.quantiles = models::Quantiles {
            n_critics: Some(nets),
            n_quantiles: quantiles,
            top_quantiles_to_drop_per_net: dropped,
        };
    }
    sac.policy_model_config.fcnet_hiddens = vec![7, 5];
    sac.q_model_config.fcnet_hiddens = vec![9];
    sac.common.model.fused = fused;
    let action_space = if discrete { Space::discrete(3) } else { Space::boxed(-2.0, 2.0, &[2]) };
    let mut policy = policy(&sac, &Spaces { observation_space: Space::real(&[3]), action_space });
    let mut rng = Stream::new(6, "rows", 0);
    let n = 40;
    let actions: Vec<i64> = (0..n).map(|_| rng.below(3) as i64).collect();
    let mut normal = |width: usize| {
        let numbers: Vec<f32> = (0..n * width).map(|_| rng.normal()).collect();
        Tensor::from_slice(&numbers).view([n as i64, width as i64])
    };
    let batch = SampleBatch::default()
        .with(Column::OBS, normal(3))
        .with(Column::ACTIONS, if discrete { Tensor::from_slice(&actions) } else { normal(2).tanh() })
        .with(Column::REWARDS, normal(1).squeeze())
        .with(Column::NEW_OBS, normal(3))
        .with(Column::TERMINATED, normal(1).squeeze().gt(1.0).to_kind(Kind::Float))
        .with(Column::DISCOUNTS, Tensor::full([n as i64], 0.97, (Kind::Float, pavlov::torch::Device::Cpu)))
        .with(Column::WEIGHTS, normal(1).squeeze().abs())
        .with(NOISE, normal(2))
        .with(NEXT_NOISE, normal(2));
    (0..3).for_each(|_| drop(policy.learn_on_batch(&batch).expect("a learning step")));
    (policy, batch)
}

/// The losses in tensors of doubles, and their gradient by libtorch's autograd in the order of the parameters.
fn reference(policy: &dyn Policy, batch: &SampleBatch, critics: Critics) -> Vec<f64> {
    let discrete = critics == Choices;
    let state = policy.get_state().expect("a state");
    let mut nets = vec![("actor", vec!["0", "1", "out"])];
    let count = if let Quantiles(nets, ..) = critics { nets } else { 2 };
    nets.extend(["q1", "q2", "q3"][..count].iter().map(|&q| (q, vec!["0", "out"])));
    type Layers = Vec<[Tensor; 2]>;
    let double = |set: &str, name: &str| {
        state.nested(set).expect("weights").tensor(name).expect("a parameter").to_kind(Kind::Double)
    };
    let leaves = |set: &str, learns: bool| -> Vec<Layers> {
        let leaf = |name: String| double(set, &name).set_requires_grad(learns);
        let layer =
            |net: &str, layer: &str| ["weight", "bias"].map(|kind| leaf(format!("{net}.{layer}.{kind}")));
        nets.iter().map(|(net, layers)| layers.iter().map(|name| layer(net, name)).collect()).collect()
    };
    let mlp = |net: &Layers, mut x: Tensor| {
        for (i, [weight, bias]) in net.iter().enumerate() {
            x = x.linear(weight, Some(bias));
            x = if i + 1 < net.len() { x.relu() } else { x };
        }
        x
    };
    let online = leaves("weights", true);
    let target = leaves("target", false);
    let frozen: Vec<Layers> = leaves("weights", false);
    let log_alpha = double("weights", "log_alpha").set_requires_grad(true);
    let alpha = log_alpha.detach().exp();
    let column = |column| {
        let tensor = batch.get(column).expect("the column").to_tensor().to_kind(Kind::Double);
        if tensor.dim() == 1 { tensor.unsqueeze(1) } else { tensor }
    };
    let all = |nets: &[Layers], x: &Tensor| -> Vec<Tensor> {
        nets[1..].iter().map(|q| mlp(q, x.shallow_clone())).collect()
    };
    let worth = |nets: &[Layers], x: &Tensor| match critics {
        Quantiles(..) => Tensor::cat(&all(nets, x), 1).mean_dim(1, true, Kind::Double),
        _ => all(nets, x).into_iter().reduce(|a, b| a.minimum(&b)).expect("two critics"),
    };
    let target_worth = |nets: &[Layers], x: &Tensor| match critics {
        Quantiles(count, quantiles, dropped) => {
            let kept = (count * (quantiles - dropped)) as i64;
            Tensor::cat(&all(nets, x), 1).sort(1, false).0.narrow(1, 0, kept)
        }
        _ => worth(nets, x),
    };
    // Probabilities, their logarithms and what the critics look at.
    let pi = |nets: &[Layers], s: &Tensor, noise: Column| -> [Tensor; 3] {
        let head = mlp(&nets[0], s.shallow_clone());
        if discrete {
            let logp = head.log_softmax(1, Kind::Double);
            return [logp.exp(), logp, s.shallow_clone()];
        }
        let mean = head.narrow(1, 0, 2);
        let log_std = head.narrow(1, 2, 2).clamp(-5.0, 2.0);
        let noise = column(noise);
        let u = mean + log_std.exp() * &noise;
        let normal = noise.square() * -0.5 - log_std - 0.5 * std::f64::consts::TAU.ln();
        let logp = normal + u.cosh().log() * 2.0;
        let a = u.tanh();
        [a.ones_like().narrow(1, 0, 1), logp.sum_dim_intlist(1, true, Kind::Double), Tensor::cat(&[s, &a], 1)]
    };
    let mean_of =
        |p: &Tensor, x: Tensor| if discrete { (p * x).sum_dim_intlist(1, true, Kind::Double) } else { x };
    let s = column(Column::OBS);
    let s2 = column(Column::NEW_OBS);
    let [p2, logp2, x2] = pi(&frozen, &s2, NEXT_NOISE);
    let y = column(Column::REWARDS)
        + column(Column::DISCOUNTS)
            * (column(Column::TERMINATED) * -1.0 + 1.0)
            * mean_of(&p2, target_worth(&target, &x2) - &alpha * logp2);
    let mut total = Tensor::from(0.0_f64);
    for q in &online[1..] {
        let said = if discrete {
            mlp(q, s.shallow_clone()).gather(1, &column(Column::ACTIONS).to_kind(Kind::Int64), false)
        } else {
            mlp(q, Tensor::cat(&[&s, &column(Column::ACTIONS)], 1))
        };
        let size = match critics {
            // |level - (y < q)| huber(y - q), the mean over all pairs.
            Quantiles(_, n, _) => {
                let levels = Tensor::arange(n as i64, (Kind::Double, pavlov::torch::Device::Cpu)) + 0.5;
                let errors = y.unsqueeze(1) - said.unsqueeze(2);
                let weights = ((levels / n as f64).unsqueeze(1) - errors.lt(0).to_kind(Kind::Double)).abs();
                let huber = errors.huber_loss(&errors.zeros_like(), Reduction::None, 1.0);
                (weights * huber).flatten(1, -1).mean_dim(1, true, Kind::Double)
            }
            _ => (said - &y).square() * 0.5,
        };
        total += (size * column(Column::WEIGHTS)).mean(Kind::Double);
    }
    let [p, logp, x] = pi(&online, &s, NOISE);
    total += mean_of(&p, &alpha * &logp - worth(&frozen, &x)).mean(Kind::Double);
    let wanted = if discrete { 0.98 * 3.0_f64.ln() } else { -2.0 };
    total -= (&log_alpha * (mean_of(&p, logp).detach() + wanted)).mean(Kind::Double);
    total.backward();
    let of = |leaf: &Tensor| floats(&leaf.grad());
    online.iter().flatten().flatten().chain([&log_alpha]).flat_map(of).collect()
}

#[test]
fn gradients_of_actions_choices_and_quantiles_are_those_of_autograd_on_both_engines() {
    for critics in [Boxes, Choices, Quantiles(2, 5, 1), Quantiles(3, 4, 0), Quantiles(1, 7, 3)] {
        for fused in [false, true] {
            let (mut policy, batch) = random(fused, critics);
            let wanted = reference(policy.as_ref(), &batch, critics);
            policy.learn_on_batch(&batch).expect("a learning step");
            let found = floats(policy.learner_mut().expect("a network").last_gradient());
            assert_near(&found, &wanted, &format!("{critics:?}, fused {fused}, number"));
        }
    }
}
