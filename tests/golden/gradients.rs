//! Models and gradients: initial weights, noisy layers, and gradients of many rows in pieces.

use pavlov::torch::{Device, Kind, Tensor};
use pavlov::trainer::Array;
use pavlov::trainer::batch::{Column, SampleBatch};
use pavlov::trainer::learner::Value;
use pavlov::trainer::learner::{Learner, Loss};
use pavlov::trainer::models::{Activation, Dense, Init, Input, Net, NetBuilder, ParamsBuilder, Rule};
use pavlov::trainer::rng::Stream;
use pavlov::trainer::state::State;

use crate::support::{assert_close, floats, learner, on_threads, refused};

#[test]
fn normc_rows_have_the_stated_norm() {
    let rng = Stream::new(0, "weights", 0);
    let weight = ParamsBuilder::new(rng).normc(5, 7, 0.01).to_tensor();
    assert_eq!(weight.size(), [5, 7]);
    let norms = weight.square().sum_dim_intlist(1, false, Kind::Double).sqrt();
    assert_close(&floats(&norms), &[0.01; 5], 1e-8);
    // Not five times the same row.
    assert_ne!(weight.get(0), weight.get(1));
}

#[test]
fn orthogonal_weights_are_orthogonal_times_the_gain() {
    for (out, inputs) in [(3, 8), (8, 3), (4, 4)] {
        let weight =
            ParamsBuilder::new(Stream::new(0, "weights", 0)).orthogonal(out, inputs, 2.0).to_tensor();
        assert_eq!(weight.size(), [out, inputs]);
        let gram = if out < inputs { weight.mm(&weight.tr()) } else { weight.tr().mm(&weight) };
        let identity = Tensor::eye(out.min(inputs), (Kind::Float, Device::Cpu)) * 4.0;
        let difference = (gram - identity).abs().max().double_value(&[]);
        assert!(difference < 1e-5, "{out} x {inputs}: {difference}");
    }
}

/// A noisy layer from 3 numbers to 2.
fn noisy() -> (Learner, Dense) {
    learner(3, true, Rule::adam(1e-3, 1e-8), |net| net.noisy("noisy", 3, 2, Activation::Linear, 0.5))
}

#[test]
fn a_noisy_layer_without_noise_is_linear() {
    let (mut learner, layer) = noisy();
    let weights = learner.weights();
    let named = |name: &str| weights.tensor(name).expect("a parameter of that name");
    let x = Tensor::from_slice(&[1.0_f32, -2.0, 0.5, 0.0, 3.0, 1.0]).view([2, 3]);
    let linear = floats(&(x.matmul(&named("noisy.weight").tr()) + named("noisy.bias")));
    let values =
        learner.evaluate(&Array::from(&x), None, 2, |net, x| layer.on(net, x.obs())).expect("values");
    assert_close(&values.iter().map(|&v| f64::from(v)).collect::<Vec<_>>(), &linear, 1e-6);
    // Deviations start at sigma0 / sqrt(inputs).
    assert_close(&floats(&named("noisy.sigma_bias")), &[0.5 / 3.0_f64.sqrt(); 2], 1e-6);
}

#[test]
fn noise_of_a_learner_is_drawn_anew_for_every_gradient_and_follows_from_the_seed() {
    let obs = Tensor::from_slice(&[1.0_f32, -2.0, 0.5]).view([1, 3]);
    let batch = SampleBatch::default().with(Column::OBS, obs.shallow_clone());
    let run = || {
        let (mut learner, layer) = noisy();
        let mut output = || {
            let report = learner.gradient(&batch, |rows| {
                let mean = layer.on(rows.online(), rows.obs()?.obs()).mean();
                Ok(Loss::new(mean).mean("mean", mean))
            });
            report.expect("a gradient").stats.read("mean").expect("the mean")
        };
        [output(), output()]
    };
    let first = run();
    let again = run();
    assert_ne!(first[0], first[1]);
    assert_eq!(first, again);
}

/// Three layers.
#[derive(Clone, Copy)]
struct Layers([Dense; 3]);

impl Layers {
    fn new(net: &mut NetBuilder<'_>, second: usize) -> Self {
        let hidden = Init::Orthogonal(std::f64::consts::SQRT_2);
        Self([
            net.dense("net.0", 4, 16, Activation::Tanh, hidden),
            net.dense("net.1", 16, second, Activation::Relu, hidden),
            net.dense("net.out", second, 1, Activation::Linear, Init::Orthogonal(1.0)),
        ])
    }

    fn on<'t>(self, net: Net<'t>, x: Input<'t>) -> Value<'t> {
        self.0.iter().fold(x.obs(), |x, layer| layer.on(net, x))
    }
}

/// A small network with a loss, and 5,000 rows: several pieces for either engine.
struct Problem {
    learner: Learner,
    out: Layers,
    batch: SampleBatch,
}

impl Problem {
    fn new(fused: bool) -> Self {
        let rule = Rule::adam(1e-3, 1e-8);
        let (learner, out) = learner(4, fused, rule, |net| Layers::new(net, 16));
        let mut rng = Stream::new(1, "rows", 0);
        let numbers: Vec<f32> = (0..5000 * 4).map(|_| rng.normal()).collect();
        let obs = Tensor::from_slice(&numbers).view([5000, 4]);
        let targets = obs.sum_dim_intlist(1, false, Kind::Float).sin();
        let batch = SampleBatch::default().with(Column::OBS, obs).with(Column::VALUE_TARGETS, targets);
        Self { learner, out, batch }
    }

    /// The gradient of the squared error and its mean.
    fn gradient(&mut self) -> (Vec<f64>, Vec<f64>) {
        let out = self.out;
        let report = self.learner.gradient(&self.batch, |rows| {
            let values = out.on(rows.online(), rows.obs()?);
            Ok(Loss::sum([("loss", (values - rows.get(Column::VALUE_TARGETS)?).square().mean())]))
        });
        let report = report.expect("a gradient");
        assert_eq!(report.stats.names(), ["loss"]);
        (floats(self.learner.last_gradient()), report.stats.values())
    }

    fn values(&mut self, obs: &Tensor) -> Vec<f32> {
        let out = self.out;
        self.learner.evaluate(&Array::from(obs), None, 1, |net, x| out.on(net, x)).expect("values").to_vec()
    }
}

#[test]
fn the_gradient_in_pieces_is_autograds_of_the_whole() {
    for fused in [false, true] {
        let mut problem = Problem::new(fused);
        let weights = problem.learner.weights();
        let leaf = |name: &str| weights.tensor(name).expect("a parameter").set_requires_grad(true);
        let names = ["net.0", "net.1", "net.out"].map(|l| [format!("{l}.weight"), format!("{l}.bias")]);
        let leaves: Vec<Tensor> = names.iter().flatten().map(|name| leaf(name)).collect();
        let obs = problem.batch.get(Column::OBS).expect("the column").to_tensor();
        let hidden = obs.linear(&leaves[0], Some(&leaves[1])).tanh();
        let hidden = hidden.linear(&leaves[2], Some(&leaves[3])).relu();
        let values = hidden.linear(&leaves[4], Some(&leaves[5])).squeeze_dim(-1);
        let targets = problem.batch.get(Column::VALUE_TARGETS).expect("the column").to_tensor();
        let loss = (values - targets).square().mean(None);
        loss.backward();
        let whole: Vec<f64> = leaves.iter().flat_map(|leaf| floats(&leaf.grad())).collect();
        assert!(whole.iter().any(|g| g.abs() > 0.01), "a gradient worth comparing");

        let (gradient, stats) = problem.gradient();
        assert_close(&gradient, &whole, 1e-5);
        assert_close(&stats, &floats(&loss), 1e-6);
    }
}

#[test]
fn the_gradient_is_bit_equal_on_any_number_of_threads() {
    for fused in [false, true] {
        let on = |threads: usize| on_threads(threads, || Problem::new(fused).gradient());
        let one = on(1);
        assert_eq!(on(2), one);
        assert_eq!(on(3), one);
    }
}

#[test]
fn values_of_many_rows_in_pieces_are_those_of_the_network() {
    let of = |fused| {
        on_threads(2, || {
            let mut problem = Problem::new(fused);
            let obs = problem.batch.get(Column::OBS).expect("the column").to_tensor();
            let exported = problem.learner.forward(&[obs.shallow_clone()], |net, x| problem.out.on(net, x));
            (problem.values(&obs), floats(&exported))
        })
    };
    for fused in [false, true] {
        let (values, exported) = of(fused);
        let values: Vec<f64> = values.into_iter().map(f64::from).collect();
        assert_eq!(values.len(), 5000);
        assert_close(&values, &exported, 1e-5);
    }
}

#[test]
fn on_the_fused_engine_a_rows_value_does_not_depend_on_the_rows_beside_it() {
    let mut problem = Problem::new(true);
    let obs = problem.batch.get(Column::OBS).expect("the column").to_tensor();
    let all = problem.values(&obs);
    for (start, len) in [(0, 1), (17, 2), (100, 33), (4000, 1000)] {
        let some = problem.values(&obs.narrow(0, start, len));
        assert_eq!(some, all[start as usize..][..len as usize], "rows {start}..{}", start + len);
    }
}

#[test]
fn a_selection_of_rows_learns_as_its_copy() {
    let order: std::sync::Arc<[i64]> = (0..600).map(|i| (i * 7919) % 5000).collect();
    for fused in [false, true] {
        let mut problem = Problem::new(fused);
        let selected = problem.batch.select(&order).slice(100, 400);
        let mut copy = SampleBatch::default();
        for (column, data) in selected.columns() {
            copy.set(column, data.lend());
        }
        problem.batch = selected;
        let lazy = problem.gradient();
        problem.batch = copy;
        assert_eq!(problem.gradient(), lazy);
    }
}

#[test]
fn a_batch_without_rows_is_refused_and_has_no_values() {
    for fused in [false, true] {
        let mut problem = Problem::new(fused);
        problem.batch = problem.batch.slice(0, 0);
        let out = problem.out;
        let nothing = problem
            .learner
            .gradient(&problem.batch, |rows| Ok(Loss::new(out.on(rows.online(), rows.obs()?).mean())));
        refused(nothing, &["a batch", "no rows"]);
        assert!(problem.values(&Tensor::zeros([0, 4], (Kind::Float, Device::Cpu))).is_empty());
    }
}

#[test]
fn weights_of_another_shape_are_refused_and_change_nothing() {
    let mut problem = Problem::new(true);
    let before = floats(problem.learner.params().flat());
    let (other, _) = learner(4, true, Rule::adam(1e-3, 1e-8), |net| Layers::new(net, 8));
    let parts = ["net.1.weight: its shape is [8, 16], but the model's is [16, 16]"];
    refused(problem.learner.set_weights(&other.weights()), &parts);
    assert_eq!(floats(problem.learner.params().flat()), before);
}

#[test]
fn weights_whose_target_copy_does_not_fit_change_nothing() {
    let twice = |second| {
        learner(4, true, Rule::adam(1e-3, 1e-8), |net| {
            net.target_in_workers();
            Layers::new(net, second)
        })
        .0
    };
    let mut learner = twice(16);
    let other = twice(8);
    let before = floats(learner.params().flat());
    let mut moved = State::default();
    for name in other.weights().array_names() {
        moved.set_tensor(name, &other.weights().tensor(name).expect("a parameter"));
    }
    // The network's own parameters fit; those of the target copy do not.
    for name in learner.weights().array_names().filter(|name| !name.starts_with("target")) {
        moved.set_tensor(name, &(learner.weights().tensor(name).expect("a parameter") + 1.0));
    }
    refused(
        learner.set_weights(&moved),
        &["net.1.weight: its shape is [8, 16], but the model's is [16, 16]"],
    );
    assert_eq!(floats(learner.params().flat()), before);
}
