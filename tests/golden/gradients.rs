//! Models and gradients: initial weights, noisy layers, and gradients of many rows in pieces.

use pavlov::torch::{Device, Kind, Tensor};
use pavlov::trainer::Result;
use pavlov::trainer::batch::{Column, SampleBatch};
use pavlov::trainer::learner::{Gradient, LossStats, Shards, map_rows};
use pavlov::trainer::models::{Activation, FcNet, Initializer, NoisyLinear, Params, ParamsBuilder};
use pavlov::trainer::rng::Stream;

use crate::support::{assert_close, floats, refused};

#[test]
fn normc_rows_have_the_stated_norm() {
    let mut rng = Stream::new(0, "weights", 0);
    let weight = ParamsBuilder::new(&mut rng).normc(5, 7, 0.01);
    assert_eq!(weight.size(), [5, 7]);
    let norms = weight.square().sum_dim_intlist(1, false, Kind::Double).sqrt();
    assert_close(&floats(&norms), &[0.01; 5], 1e-8);
    // Not five times the same row.
    assert_ne!(weight.get(0), weight.get(1));
}

#[test]
fn orthogonal_weights_are_orthogonal_times_the_gain() {
    let mut rng = Stream::new(0, "weights", 0);
    for (out, inputs) in [(3, 8), (8, 3), (4, 4)] {
        let weight = ParamsBuilder::new(&mut rng).orthogonal(out, inputs, 2.0);
        assert_eq!(weight.size(), [out, inputs]);
        let gram = if out < inputs { weight.mm(&weight.tr()) } else { weight.tr().mm(&weight) };
        let identity = Tensor::eye(out.min(inputs), (Kind::Float, Device::Cpu)) * 4.0;
        let difference = (gram - identity).abs().max().double_value(&[]);
        assert!(difference < 1e-5, "{out} x {inputs}: {difference}");
    }
}

#[test]
fn a_noisy_layer_without_noise_is_linear() {
    let mut rng = Stream::new(0, "weights", 0);
    let mut builder = ParamsBuilder::new(&mut rng);
    let layer = NoisyLinear::new(&mut builder, "noisy", 3, 2, 0.5);
    let params = builder.finish(Device::Cpu);
    let weights = params.weights();
    let named = |name: &str| weights.tensor(name).expect("a parameter of that name");
    let x = Tensor::from_slice(&[1.0_f32, -2.0, 0.5, 0.0, 3.0, 1.0]).view([2, 3]);
    let linear = x.matmul(&named("noisy.weight").tr()) + named("noisy.bias");
    assert_close(&floats(&layer.forward(&params, &x, None)), &floats(&linear), 1e-6);
    // Deviations start at sigma0 / sqrt(inputs).
    assert_close(&floats(&named("noisy.sigma_bias")), &[0.5 / 3.0_f64.sqrt(); 2], 1e-6);

    let noisy = |index| layer.forward(&params, &x, Some(&mut Stream::new(0, "noise", index)));
    assert_eq!(noisy(0), noisy(0));
    assert_ne!(noisy(0), noisy(1));
}

/// A small network and 5,000 rows: pieces of 1,000.
struct Problem {
    params: Params,
    net: FcNet,
    batch: SampleBatch,
}

impl Problem {
    fn new() -> Self {
        let mut rng = Stream::new(0, "weights", 0);
        let mut builder = ParamsBuilder::new(&mut rng);
        let layers = [(16, Activation::Tanh), (16, Activation::Relu)];
        let net = FcNet::hidden(&mut builder, "net", 4, &layers, Initializer::Orthogonal).output(
            &mut builder,
            "net",
            1,
            Initializer::Orthogonal,
            1.0,
        );
        let params = builder.finish(Device::Cpu);
        let mut rng = Stream::new(1, "rows", 0);
        let numbers: Vec<f32> = (0..5000 * 4).map(|_| rng.normal()).collect();
        let obs = Tensor::from_slice(&numbers).view([5000, 4]);
        let targets = obs.sum_dim_intlist(1, false, Kind::Float).sin();
        let batch = SampleBatch::default().with(Column::OBS, obs).with(Column::VALUE_TARGETS, targets);
        Self { params, net, batch }
    }

    fn loss(&self, params: &Params, batch: &SampleBatch) -> Result<(Tensor, LossStats)> {
        let values = self.net.forward(params, batch.get(Column::OBS)?).squeeze_dim(-1);
        let loss = (values - batch.get(Column::VALUE_TARGETS)?).square().mean(None);
        let stats = vec![("loss", loss.shallow_clone())];
        Ok((loss, stats))
    }

    fn sharded(&self, shards: &Shards) -> Gradient {
        // Only the network is shared between threads; tensors are not Sync.
        let net = &self.net;
        shards
            .gradient(&self.batch, |params, batch| {
                let values = net.forward(params, batch.get(Column::OBS)?).squeeze_dim(-1);
                let loss = (values - batch.get(Column::VALUE_TARGETS)?).square().mean(None);
                let stats = vec![("loss", loss.shallow_clone())];
                Ok((loss, stats))
            })
            .expect("a gradient")
    }
}

/// Calls `f` in a rayon pool of so many threads.
fn on_threads<T: Send>(threads: usize, f: impl FnOnce() -> T + Send) -> T {
    rayon::ThreadPoolBuilder::new().num_threads(threads).build().expect("a pool").install(f)
}

#[test]
fn the_gradient_in_pieces_is_the_gradient_of_the_whole() {
    let problem = Problem::new();
    let (loss, _) = problem.loss(&problem.params, &problem.batch).expect("a loss");
    let whole = problem.params.gradient(&loss);
    let pieces = problem.sharded(&Shards::new(&problem.params));
    assert!(whole.abs().max().double_value(&[]) > 0.01, "a gradient worth comparing");
    assert_close(&floats(&pieces.flat), &floats(&whole), 1e-5);
    assert_eq!(pieces.names, ["loss"]);
    assert_close(&floats(&pieces.stats), &floats(&loss), 1e-6);
}

#[test]
fn the_gradient_is_bit_equal_on_any_number_of_threads() {
    let on = |threads: usize| {
        on_threads(threads, || {
            let problem = Problem::new();
            let gradient = problem.sharded(&Shards::new(&problem.params));
            (floats(&gradient.flat), floats(&gradient.stats))
        })
    };
    let one = on(1);
    assert_eq!(on(2), one);
    assert_eq!(on(3), one);
}

#[test]
fn rows_in_pieces_are_mapped_as_the_whole() {
    let (pieces, whole) = on_threads(2, || {
        let problem = Problem::new();
        let obs = problem.batch.get(Column::OBS).expect("the column");
        let net = &problem.net;
        let shards = Shards::new(&problem.params);
        let pieces = map_rows(&shards, obs, |params, x| net.forward(params, x)).expect("values");
        (floats(&pieces), floats(&net.forward(&problem.params, obs)))
    });
    assert_eq!(pieces.len(), 5000);
    assert_close(&pieces, &whole, 1e-5);
}

#[test]
fn weights_of_another_shape_are_refused_and_change_nothing() {
    let mut problem = Problem::new();
    let before = floats(problem.params.flat());
    let mut rng = Stream::new(9, "weights", 0);
    let mut builder = ParamsBuilder::new(&mut rng);
    let layers = [(16, Activation::Tanh), (8, Activation::Relu)];
    FcNet::hidden(&mut builder, "net", 4, &layers, Initializer::Orthogonal);
    let other = builder.finish(Device::Cpu).weights();
    let parts = ["net.1.weight: its shape is [8, 16], but the model's is [16, 16]"];
    refused(problem.params.set_weights(&other), &parts);
    assert_eq!(floats(problem.params.flat()), before);
}
