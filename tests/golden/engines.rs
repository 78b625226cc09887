//! The fused engine against libtorch's autograd, on random networks, batches and settings, and with instructions that
//! other processors have.

use pavlov::envs::Space;
use pavlov::prelude::*;
use pavlov::torch::Tensor;
use pavlov::trainer::Array;
use pavlov::trainer::batch::{Column, SampleBatch};
use pavlov::trainer::learner::{Loss, Value};
use pavlov::trainer::models::{Activation, Init, Initializer, ModelConfig, Rule};
use pavlov::trainer::policy::{Learned, Policy, Spaces};
use pavlov::trainer::rng::Stream;
use pulp::Arch;

use crate::support::{column, floats, learner, on_both_engines, policy, rows, weights};

const OBS: i64 = 5;

/// Numbers on both sides of zero, of many sizes.
fn sizes() -> Vec<f32> {
    let one_side = || (0..4000).map(|i| 10_f32.powf(f32::from(i as u16) / 500.0 - 6.0));
    one_side().chain(one_side().map(|x| -x)).chain([0.0]).collect()
}

/// `f` of every number on the fused engine.
fn fused<F>(numbers: &[f32], f: F) -> Vec<f64>
where
    F: for<'t> Fn(Value<'t>) -> Value<'t> + Sync,
{
    let batch = SampleBatch::default().with(Column::OBS, Tensor::from_slice(numbers));
    let [_, fused] = on_both_engines(&batch, |rows| Ok(f(rows.get(Column::OBS)?)));
    fused
}

#[test]
fn exponentials_and_logarithms_of_the_fused_engine_are_right_to_the_last_digits() {
    // 2.4e-7 is two units in the last place of an f32.
    let xs: Vec<f32> = sizes().into_iter().filter(|x| x.abs() < 87.0).collect();
    for (x, found) in xs.iter().zip(fused(&xs, |x| x.exp())) {
        let wanted = f64::from(*x).exp();
        assert!((found - wanted).abs() <= 2.4e-7 * wanted, "exp({x}) is {wanted}, not {found}");
    }
    let xs: Vec<f32> = sizes().into_iter().filter(|x| *x > 0.0).collect();
    for (x, found) in xs.iter().zip(fused(&xs, |x| x.log())) {
        let wanted = f64::from(*x).ln();
        assert!(
            (found - wanted).abs() <= 2.4e-7 * wanted.abs().max(1e-6),
            "ln({x}) is {wanted}, not {found}"
        );
    }
}

#[test]
fn what_is_not_finite_stays_so_on_the_fused_engine() {
    let numbers = [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, 100.0, -1.0];
    let exp = fused(&numbers, |x| x.exp());
    assert!(
        exp[0].is_nan() && exp[1] == f64::INFINITY && exp[2] < 1e-37 && exp[3] == f64::INFINITY,
        "{exp:?}"
    );
    let log = fused(&numbers, |x| x.log());
    assert!(log[0].is_nan() && log[1] == f64::INFINITY && log[2].is_nan() && log[4].is_nan(), "{log:?}");
    assert!(fused(&numbers, |x| x.clamp(-1.0, 1.0))[0].is_nan());
    assert!(fused(&numbers, |x| x.minimum(x * 0.0))[0].is_nan());
}

#[test]
fn activations_of_the_fused_engine_are_libtorchs() {
    let obs = Tensor::from_slice(&sizes()).view([-1, 1]);
    for (activation, tolerance) in [
        // Eigen's approximation: four units in the last place.
        (Activation::Tanh, 4.8e-7),
        (Activation::Relu, 0.0),
        (Activation::Elu, 1.2e-7),
        (Activation::Linear, 0.0),
    ] {
        let rule = Rule::adam(1e-3, 1e-8);
        let (mut learner, out) =
            learner(1, true, rule, |net| net.dense("out", 1, 1, activation, Init::Uniform));
        let named = [("out.weight", rows(&[&[1.0]])), ("out.bias", column(&[0.0]))];
        learner.set_weights(&weights(&named)).expect("weights that fit");
        let wanted = floats(&learner.forward(&[obs.shallow_clone()], |net, x| out.on(net, x.obs())));
        let found =
            learner.evaluate(&Array::from(&obs), None, 1, |net, x| out.on(net, x.obs())).expect("values");
        for ((x, found), wanted) in sizes().iter().zip(found).zip(wanted) {
            let off = (f64::from(*found) - wanted).abs();
            assert!(off <= tolerance * wanted.abs(), "{activation:?}({x}) is {wanted}, not {found}");
        }
    }
}

fn pick<T: Copy>(rng: &mut Stream, from: &[T]) -> T {
    from[rng.below(from.len() as u64) as usize]
}

fn normal(rng: &mut Stream, shape: &[i64]) -> Tensor {
    let n = shape.iter().product::<i64>();
    Tensor::from_slice(&(0..n).map(|_| rng.normal()).collect::<Vec<f32>>()).view(shape)
}

fn model(rng: &mut Stream, fused: bool) -> ModelConfig {
    let layers = rng.below(3);
    // Layers whose widths fill whole vectors have a gradient of their own for few rows.
    let unit = pick(rng, &[1, 16]);
    ModelConfig {
        fcnet_hiddens: (0..layers).map(|_| unit * (1 + rng.below(70 / unit as u64) as usize)).collect(),
        fcnet_activation: pick(
            rng,
            &[Activation::Tanh, Activation::Relu, Activation::Elu, Activation::Linear],
        ),
        vf_share_layers: pick(rng, &[true, false]),
        free_log_std: pick(rng, &[true, false]),
        fused,
        ..ModelConfig::default()
    }
}

/// The gradient of the first learning step: Adam's first moment is a tenth of it.
fn gradient(policy: &dyn Policy) -> Vec<f64> {
    let state = policy.get_state().and_then(|s| s.nested("optimizer")).expect("an optimizer");
    floats(&state.tensor("first").expect("its moment")).into_iter().map(|m| 10.0 * m).collect()
}

/// The gradients and statistics of two engines agree within 1e-4 of the largest.
#[track_caller]
fn assert_equal(case: u64, [left, right]: [(Vec<f64>, Learned); 2]) {
    // `scale`: what counts as large at least.
    let close = |left: &[f64], right: &[f64], scale: f64, what: &str| {
        assert_eq!(left.len(), right.len(), "{what}");
        let largest = left.iter().fold(scale, |m, x| m.max(x.abs()));
        for (i, (l, r)) in left.iter().zip(right).enumerate() {
            // A statistic that is not defined is not a number on both.
            let is_equal = (l - r).abs() <= 1e-4 * largest || (l.is_nan() && r.is_nan());
            assert!(is_equal, "{what} {i}: {r}, but {l} on the other; case {case}");
        }
    };
    close(&left.0, &right.0, 1e-3, "gradient");
    assert_eq!(left.1.stats.names(), right.1.stats.names());
    for name in left.1.stats.names() {
        let of = |learned: &Learned| [learned.stats.read(name).expect("that statistic")];
        // An explained variance is one minus a quotient, a KL a difference of logarithms: their scale is 1.
        close(&of(&left.1), &of(&right.1), 1.0, name);
    }
    if let (Some(left), Some(right)) = (&left.1.td_errors, &right.1.td_errors) {
        close(&floats(left), &floats(right), 1e-3, "error");
    }
}

/// What computes a learning step.
#[derive(Clone, Copy)]
enum Engine {
    Torch,
    /// With the instructions that were detected.
    Fused,
    With(Arch),
}

/// Portable code, and AVX2 where the processor has it.
fn instructions() -> Vec<Arch> {
    let mut all = vec![Arch::Scalar];
    #[cfg(target_arch = "x86_64")]
    all.extend(pulp::x86::V3::try_new().map(Arch::V3));
    all
}

/// Gradient and report of the first learning step.
fn learn(mut policy: Box<dyn Policy>, batch: &SampleBatch, engine: Engine) -> (Vec<f64>, Learned) {
    if let Engine::With(arch) = engine {
        policy.learner_mut().expect("a learner").set_arch(arch);
    }
    let learned = policy.learn_on_batch(batch).expect("a learning step");
    (gradient(policy.as_ref()), learned)
}

/// A learning step of PPO on a random network, batch and settings.
fn ppo_case(case: u64, engine: Engine) -> (Vec<f64>, Learned) {
    use pavlov::algorithms::ppo::ValueClip::{AroundOld, None as Unbounded, SquaredError};
    let mut rng = Stream::new(case, "case", 0);
    let (space, actions, inputs) = match rng.below(3) {
        0 => (Space::discrete(3), 0, 3),
        1 => (Space::multi_discrete(&[2, 4]), 2, 6),
        _ => (Space::real(&[2]), 2, 4),
    };
    let mut ppo = Ppo {
        clip_param: 0.1 + 0.3 * f64::from(rng.uniform()),
        entropy_coeff: pick(&mut rng, &[0.0, 0.02]),
        kl_coeff: pick(&mut rng, &[0.0, 0.3]),
        vf_clip: pick(&mut rng, &[SquaredError, AroundOld, Unbounded]),
        vf_clip_param: pick(&mut rng, &[0.5, 10.0]),
        grad_clip: pick(&mut rng, &[None, Some(0.5)]),
        ..Ppo::get_default_config()
    };
    ppo.common.model = model(&mut rng, !matches!(engine, Engine::Torch));
    let most = pick(&mut rng, &[128, 700]);
    let rows = 1 + rng.below(most) as i64;
    let integers = |rng: &mut Stream, below: &[u64]| {
        let one = |n: &u64| rng.below(*n) as i64;
        Tensor::from_slice(&below.iter().map(one).collect::<Vec<_>>())
    };
    let chosen = match space {
        Space::Discrete { .. } => integers(&mut rng, &vec![3; rows as usize]),
        Space::MultiDiscrete { .. } => {
            integers(&mut rng, &[2, 4].repeat(rows as usize)).view([rows, actions])
        }
        _ => normal(&mut rng, &[rows, actions]),
    };
    let batch = SampleBatch::default()
        .with(Column::OBS, normal(&mut rng, &[rows, OBS]))
        .with(Column::ACTIONS, chosen)
        .with(Column::ACTION_LOGP, normal(&mut rng, &[rows]) * 0.3 - 1.5)
        .with(Column::ACTION_DIST_INPUTS, normal(&mut rng, &[rows, inputs]) * 0.5)
        .with(Column::ADVANTAGES, normal(&mut rng, &[rows]))
        .with(Column::VF_PREDS, normal(&mut rng, &[rows]))
        .with(Column::VALUE_TARGETS, normal(&mut rng, &[rows]) * 2.0);
    let spaces = Spaces { observation_space: Space::real(&[OBS as usize]), action_space: space };
    let policy = policy(&ppo, &spaces);
    learn(policy, &batch, engine)
}

/// The same of DQN.
fn dqn_case(case: u64, engine: Engine) -> (Vec<f64>, Learned) {
    let mut rng = Stream::new(case, "case", 1);
    let mut dqn = Dqn {
        double_q: pick(&mut rng, &[true, false]),
        dueling: pick(&mut rng, &[true, false]),
        hiddens: pick::<&[usize]>(&mut rng, &[&[], &[17], &[64, 9]]).to_vec(),
        grad_clip: pick(&mut rng, &[None, Some(0.5)]),
        ..Dqn::get_default_config()
    };
    dqn.common.model = model(&mut rng, !matches!(engine, Engine::Torch));
    let most = pick(&mut rng, &[128, 400]);
    let rows = 1 + rng.below(most) as i64;
    let actions: Vec<i64> = (0..rows).map(|_| rng.below(4) as i64).collect();
    let ends: Vec<f32> = (0..rows).map(|_| f32::from(rng.below(5) == 0)).collect();
    let mut batch = SampleBatch::default()
        .with(Column::OBS, normal(&mut rng, &[rows, OBS]))
        .with(Column::NEW_OBS, normal(&mut rng, &[rows, OBS]))
        .with(Column::ACTIONS, Tensor::from_slice(&actions))
        .with(Column::REWARDS, normal(&mut rng, &[rows]))
        .with(Column::TERMINATED, Tensor::from_slice(&ends))
        .with(Column::DISCOUNTS, Tensor::full([rows], 0.97, pavlov::torch::kind::FLOAT_CPU));
    if pick(&mut rng, &[true, false]) {
        batch.set(Column::WEIGHTS, normal(&mut rng, &[rows]).abs());
    }
    let spaces = Spaces { observation_space: Space::real(&[OBS as usize]), action_space: Space::discrete(4) };
    let policy = policy(&dqn, &spaces);
    learn(policy, &batch, engine)
}

/// `left` and `right` agree on the first `cases`.
#[track_caller]
fn assert_engines_agree(cases: u64, [left, right]: [Engine; 2], run: fn(u64, Engine) -> (Vec<f64>, Learned)) {
    for case in 0..cases {
        let [left, right] = [left, right].map(|engine| run(case, engine));
        assert_equal(case, [left, right]);
    }
}

#[test]
fn ppos_gradients_are_autograds_on_random_networks_batches_and_settings() {
    assert_engines_agree(60, [Engine::Torch, Engine::Fused], ppo_case);
}

#[test]
fn dqns_gradients_are_autograds_on_random_networks_batches_and_settings() {
    assert_engines_agree(40, [Engine::Torch, Engine::Fused], dqn_case);
}

#[test]
fn gradients_have_the_same_bits_with_the_instructions_of_other_processors() {
    for arch in instructions() {
        for run in [ppo_case, dqn_case] {
            for case in 0..20 {
                let [here, there] = [Engine::Fused, Engine::With(arch)].map(|engine| run(case, engine));
                assert_eq!(here.0, there.0, "{arch:?}, case {case}");
                let stats = |learned: &Learned| -> Vec<f64> {
                    learned.stats.names().iter().filter_map(|name| learned.stats.read(name)).collect()
                };
                assert_eq!(bits(&stats(&here.1)), bits(&stats(&there.1)), "{arch:?}, case {case}");
            }
        }
    }
}

/// The bits of `numbers`: a NaN is unequal to itself.
fn bits(numbers: &[f64]) -> Vec<u64> {
    numbers.iter().map(|x| x.to_bits()).collect()
}

#[test]
fn gradients_of_wide_layers_are_autograds_and_have_the_same_bits_on_any_processor() {
    // Widths that fill no vectors and no tiles; numbers of rows below and above those of a piece.
    for (rows, widths) in [(40, [401, 416]), (300, [403, 410]), (7, [512, 400])] {
        let mut rng = Stream::new(rows as u64, "rows", 0);
        let batch = SampleBatch::default().with(Column::OBS, normal(&mut rng, &[rows, OBS]));
        let gradient = |engine: Engine| {
            let fused = !matches!(engine, Engine::Torch);
            let (mut learner, layers) = learner(OBS as usize, fused, Rule::adam(1e-3, 1e-8), |net| {
                [(OBS as usize, widths[0]), (widths[0], widths[1]), (widths[1], 1)].map(|(from, to)| {
                    net.dense(&format!("{from}"), from, to, Activation::Tanh, Init::Uniform)
                })
            });
            if let Engine::With(arch) = engine {
                learner.set_arch(arch);
            }
            let report = learner.gradient(&batch, |rows| {
                let net = rows.online();
                let x = layers.iter().fold(rows.obs()?.obs(), |x, layer| layer.on(net, x));
                Ok(Loss::new((x - 1.0).square().mean()))
            });
            report.expect("a gradient");
            floats(learner.last_gradient())
        };
        let wanted = gradient(Engine::Torch);
        let largest = wanted.iter().fold(0.0_f64, |m, x| m.max(x.abs()));
        let fused = gradient(Engine::Fused);
        for (i, (f, w)) in fused.iter().zip(&wanted).enumerate() {
            assert!((f - w).abs() <= 1e-4 * largest, "{widths:?}, number {i}: {f}, wanted {w}");
        }
        for arch in instructions() {
            assert!(gradient(Engine::With(arch)) == fused, "{widths:?}, {arch:?}");
        }
    }
}

#[test]
fn outputs_have_the_same_bits_with_the_instructions_of_other_processors() {
    for case in 0..20 {
        let run = |arch: Option<Arch>| {
            let mut rng = Stream::new(case, "case", 2);
            let model = ModelConfig { fcnet_initializer: Initializer::Orthogonal, ..model(&mut rng, true) };
            let rows = 1 + rng.below(300) as i64;
            let outputs = 1 + rng.below(9) as usize;
            let obs = normal(&mut rng, &[rows, OBS]);
            let (mut learner, (torso, out)) = learner(OBS as usize, true, Rule::adam(1e-3, 1e-8), |net| {
                let torso = net.torso("tower", &model).expect("a torso");
                let out = net.dense("out", torso.width(), outputs, Activation::Linear, Init::Uniform);
                (torso, out)
            });
            arch.into_iter().for_each(|arch| learner.set_arch(arch));
            let values =
                learner.evaluate(&Array::from(&obs), None, outputs, |net, x| out.on(net, torso.on(net, x)));
            values.expect("values").to_vec()
        };
        let detected = run(None);
        for arch in instructions() {
            assert!(run(Some(arch)) == detected, "{arch:?}, case {case}");
        }
    }
}
