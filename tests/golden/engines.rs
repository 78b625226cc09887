//! The fused engine against libtorch's autograd, on random networks, batches and settings.

use pavlov::envs::Space;
use pavlov::prelude::*;
use pavlov::torch::Tensor;
use pavlov::trainer::batch::{Column, SampleBatch};
use pavlov::trainer::models::{Activation, ModelConfig};
use pavlov::trainer::policy::{Learned, Policy, Spaces};
use pavlov::trainer::rng::Stream;

use crate::support::{floats, policy};

const OBS: i64 = 5;

fn pick<T: Copy>(rng: &mut Stream, from: &[T]) -> T {
    from[rng.below(from.len() as u64) as usize]
}

fn normal(rng: &mut Stream, shape: &[i64]) -> Tensor {
    let n = shape.iter().product::<i64>();
    Tensor::from_slice(&(0..n).map(|_| rng.normal()).collect::<Vec<f32>>()).view(shape)
}

fn model(rng: &mut Stream, fused: bool) -> ModelConfig {
    let layers = rng.below(3);
    ModelConfig {
        fcnet_hiddens: (0..layers).map(|_| 1 + rng.below(70) as usize).collect(),
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

/// Both engines' gradients and statistics agree within 1e-4 of the largest.
#[track_caller]
fn assert_equal(case: u64, rows: i64, [torch, fused]: [(Vec<f64>, Learned); 2]) {
    // `scale`: what counts as large at least.
    let close = |torch: &[f64], fused: &[f64], scale: f64, what: &str| {
        assert_eq!(torch.len(), fused.len(), "{what}");
        let largest = torch.iter().fold(scale, |m, x| m.max(x.abs()));
        for (i, (t, f)) in torch.iter().zip(fused).enumerate() {
            assert!((t - f).abs() <= 1e-4 * largest, "{what} {i}: {f}, but libtorch says {t}; case {case}");
        }
    };
    close(&torch.0, &fused.0, 1e-3, "gradient");
    assert_eq!(torch.1.stats.names(), fused.1.stats.names());
    // A variance within pieces is that of all rows only when there is one piece.
    let whole = |name: &&&str| rows < 256 || **name != "vf_explained_var";
    for name in torch.1.stats.names().iter().filter(whole) {
        let of = |learned: &Learned| [learned.stats.read(name).expect("that statistic")];
        // An explained variance is one minus a quotient, a KL a difference of logarithms: their scale is 1.
        close(&of(&torch.1), &of(&fused.1), 1.0, name);
    }
    if let (Some(torch), Some(fused)) = (&torch.1.td_errors, &fused.1.td_errors) {
        close(&floats(torch), &floats(fused), 1e-3, "error");
    }
}

#[test]
fn ppos_gradients_are_autograds_on_random_networks_batches_and_settings() {
    use pavlov::algorithms::ppo::ValueClip::{AroundOld, None as Unbounded, SquaredError};
    for case in 0..60 {
        let run = |fused| {
            let mut rng = Stream::new(case, "case", 0);
            let (space, actions, inputs) = match rng.below(3) {
                0 => (Space::discrete(3), 0, 3),
                1 => (Space::MultiDiscrete { nvec: vec![2, 4] }, 2, 6),
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
            ppo.common.model = model(&mut rng, fused);
            let rows = 1 + rng.below(700) as i64;
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
            let mut policy = policy(&ppo, &spaces);
            let learned = policy.learn_on_batch(&batch).expect("a learning step");
            (gradient(policy.as_ref()), learned, rows)
        };
        let [torch, fused] = [false, true].map(run);
        assert_equal(case, torch.2, [(torch.0, torch.1), (fused.0, fused.1)]);
    }
}

#[test]
fn dqns_gradients_are_autograds_on_random_networks_batches_and_settings() {
    for case in 0..40 {
        let run = |fused| {
            let mut rng = Stream::new(case, "case", 1);
            let mut dqn = Dqn {
                double_q: pick(&mut rng, &[true, false]),
                dueling: pick(&mut rng, &[true, false]),
                hiddens: pick::<&[usize]>(&mut rng, &[&[], &[17], &[64, 9]]).to_vec(),
                grad_clip: pick(&mut rng, &[None, Some(0.5)]),
                ..Dqn::get_default_config()
            };
            dqn.common.model = model(&mut rng, fused);
            let rows = 1 + rng.below(400) as i64;
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
            let spaces =
                Spaces { observation_space: Space::real(&[OBS as usize]), action_space: Space::discrete(4) };
            let mut policy = policy(&dqn, &spaces);
            let learned = policy.learn_on_batch(&batch).expect("a learning step");
            (gradient(policy.as_ref()), learned, rows)
        };
        let [torch, fused] = [false, true].map(run);
        assert_equal(case, torch.2, [(torch.0, torch.1), (fused.0, fused.1)]);
    }
}
