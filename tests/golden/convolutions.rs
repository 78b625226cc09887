//! Convolutions on both engines against libtorch's autograd in doubles.

use pavlov::torch::{Kind, Tensor};
use pavlov::trainer::Array;
use pavlov::trainer::batch::{Column, SampleBatch};
use pavlov::trainer::learner::{Learner, Loss};
use pavlov::trainer::models::{Activation, Conv2d, Filter, Padding, Rule};
use pavlov::trainer::rng::Stream;

use crate::support::{floats, learner, on_threads};

/// Two convolutions after one another, so that a gradient flows through the second one's input.
struct Shape {
    input: [usize; 3],
    filters: [Filter; 2],
    activation: Activation,
}

fn shapes() -> [Shape; 4] {
    let filter = |channels, kernel, stride, padding| Filter { channels, kernel, stride, padding };
    [
        // Strides that leave out a border, and a number of channels that fills no tile.
        Shape {
            input: [3, 11, 9],
            filters: [filter(5, [3, 3], [2, 2], Padding::Valid), filter(3, [2, 2], [1, 1], Padding::Valid)],
            activation: Activation::Relu,
        },
        // The border is padded, differently on both sides.
        Shape {
            input: [2, 7, 8],
            filters: [filter(4, [4, 2], [2, 3], Padding::Same), filter(6, [3, 3], [1, 1], Padding::Same)],
            activation: Activation::Tanh,
        },
        // One pixel is left.
        Shape {
            input: [1, 5, 5],
            filters: [filter(16, [3, 3], [1, 1], Padding::Same), filter(2, [5, 5], [1, 1], Padding::Valid)],
            activation: Activation::Swish,
        },
        // More patches than are copied at once.
        Shape {
            input: [4, 20, 20],
            filters: [filter(16, [8, 8], [4, 4], Padding::Same), filter(32, [4, 4], [2, 2], Padding::Same)],
            activation: Activation::Elu,
        },
    ]
}

fn normal(seed: u64, shape: &[i64]) -> Tensor {
    let mut rng = Stream::new(seed, "numbers", 0);
    let n = shape.iter().product::<i64>();
    Tensor::from_slice(&(0..n).map(|_| rng.normal()).collect::<Vec<f32>>()).view(shape)
}

fn lay_out(shape: &Shape, fused: bool) -> (Learner, [Conv2d; 2]) {
    let width = shape.input.iter().product();
    learner(width, fused, Rule::adam(1e-3, 1e-8), |net| {
        let first = net.conv2d("first", shape.input, shape.filters[0], shape.activation).expect("a layer");
        let second = net.conv2d("second", first.out, shape.filters[1], shape.activation);
        [first, second.expect("a layer")]
    })
}

fn activate(activation: Activation, x: Tensor) -> Tensor {
    match activation {
        Activation::Tanh => x.tanh(),
        Activation::Relu => x.relu(),
        Activation::Elu => x.elu(),
        Activation::Swish => x.silu(),
        Activation::Linear => x,
    }
}

/// Padding on both sides of an axis, as TensorFlow's "same" has it: the output has `ceil(side / stride)` pixels.
fn around(padding: Padding, side: usize, kernel: usize, stride: usize) -> [i64; 2] {
    if padding == Padding::Valid {
        return [0, 0];
    }
    let all = ((side.div_ceil(stride) - 1) * stride + kernel).saturating_sub(side);
    [all as i64 / 2, (all - all / 2) as i64]
}

/// The loss and the gradient by all parameters, in doubles.
fn reference(shape: &Shape, learner: &Learner, batch: &SampleBatch) -> (Vec<f64>, Vec<f64>) {
    let weights = learner.weights();
    let leaf =
        |name: &str| weights.tensor(name).expect("a parameter").to_kind(Kind::Double).set_requires_grad(true);
    let leaves = ["first.weight", "first.bias", "second.weight", "second.bias"].map(leaf);
    let [channels, height, width] = shape.input.map(|n| n as i64);
    let obs = batch.get(Column::OBS).expect("the column").to_tensor().to_kind(Kind::Double);
    let mut x = obs.view([-1, channels, height, width]);
    for (filter, leaves) in shape.filters.iter().zip(leaves.chunks_exact(2)) {
        let size = x.size();
        let [top, bottom] = around(filter.padding, size[2] as usize, filter.kernel[0], filter.stride[0]);
        let [left, right] = around(filter.padding, size[3] as usize, filter.kernel[1], filter.stride[1]);
        let padded = x.constant_pad_nd([left, right, top, bottom]);
        let stride = filter.stride.map(|n| n as i64);
        x = activate(
            shape.activation,
            padded.conv2d(&leaves[0], Some(&leaves[1]), stride, [0, 0], [1, 1], 1),
        );
    }
    let out = x.flatten(1, -1);
    out.square().mean_dim(1, false, Kind::Double).mean(Kind::Double).backward();
    (floats(&out.detach()), leaves.iter().flat_map(|leaf| floats(&leaf.grad())).collect())
}

/// Within 1e-5 of the largest.
#[track_caller]
fn assert_near(found: &[f64], wanted: &[f64], what: &str) {
    assert_eq!(found.len(), wanted.len(), "{what}");
    let largest = wanted.iter().fold(1e-3_f64, |m, x| m.max(x.abs()));
    for (i, (f, w)) in found.iter().zip(wanted).enumerate() {
        assert!((f - w).abs() <= 1e-5 * largest, "{what} {i}: {f}, wanted {w}; the largest is {largest}");
    }
}

fn gradient(learner: &mut Learner, layers: [Conv2d; 2], batch: &SampleBatch) -> Vec<f64> {
    let report = learner.gradient(batch, |rows| {
        let out = layers[1].on(rows.online(), layers[0].on(rows.online(), rows.obs()?.obs()));
        Ok(Loss::new(out.square().mean_columns().mean()))
    });
    report.expect("a gradient");
    floats(learner.last_gradient())
}

#[test]
fn outputs_and_gradients_of_convolutions_are_autograds_on_both_engines() {
    for (case, shape) in shapes().iter().enumerate() {
        let width = shape.input.iter().product::<usize>() as i64;
        for rows in [1, 7, 70] {
            let batch = SampleBatch::default().with(Column::OBS, normal(rows as u64, &[rows, width]));
            for fused in [false, true] {
                let what = format!("case {case}, {rows} rows, fused {fused}, number");
                let (mut learner, layers) = lay_out(shape, fused);
                let (outputs, wanted) = reference(shape, &learner, &batch);
                let obs = Array::from(&batch.get(Column::OBS).expect("the column").to_tensor());
                let columns = layers[1].out.iter().product();
                let found = learner
                    .evaluate(&obs, None, columns, |net, x| layers[1].on(net, layers[0].on(net, x.obs())));
                let found: Vec<f64> = found.expect("values").iter().map(|&x| f64::from(x)).collect();
                assert_near(&found, &outputs, &what);
                assert_near(&gradient(&mut learner, layers, &batch), &wanted, &format!("gradient of {what}"));
            }
        }
    }
}

#[test]
fn gradients_of_convolutions_are_bit_equal_on_any_number_of_threads() {
    let shape = &shapes()[3];
    let on = |threads| {
        on_threads(threads, || {
            let batch = SampleBatch::default().with(Column::OBS, normal(1, &[900, 1600]));
            let (mut learner, layers) = lay_out(shape, true);
            gradient(&mut learner, layers, &batch)
        })
    };
    assert_eq!(on(4), on(1));
}
