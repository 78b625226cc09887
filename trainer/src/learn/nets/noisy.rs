//! Noisy linear layers (Fortunato et al. 2018) with factorised Gaussian noise.

use super::{Params, ParamsBuilder};
use crate::base::rng::Stream;
use tch::{Device, Kind, Tensor};

/// A linear layer whose weights carry learned noise.
#[derive(Clone, Copy, Debug)]
pub struct NoisyLinear {
    weight: usize,
    bias: usize,
    sigma_weight: usize,
    sigma_bias: usize,
    inputs: i64,
    out: i64,
}

impl NoisyLinear {
    /// Adds its parameters: means uniform in plus and minus `1 / sqrt(inputs)`, deviations `sigma0 / sqrt(inputs)`.
    pub fn new(p: &mut ParamsBuilder, name: &str, inputs: i64, out: i64, sigma0: f64) -> Self {
        let bound = 1.0 / (inputs as f64).sqrt();
        let weight = p.uniform(&[out, inputs], -bound, bound);
        let bias = p.uniform(&[out], -bound, bound);
        let sigma = |shape: &[i64]| Tensor::full(shape, sigma0 * bound, (Kind::Float, Device::Cpu));
        Self {
            weight: p.add(format!("{name}.weight"), weight),
            bias: p.add(format!("{name}.bias"), bias),
            sigma_weight: p.add(format!("{name}.sigma_weight"), sigma(&[out, inputs])),
            sigma_bias: p.add(format!("{name}.sigma_bias"), sigma(&[out])),
            inputs,
            out,
        }
    }

    /// `x (W + S e)^T + b + s e`; without `noise` the means alone.
    pub fn forward(&self, p: &Params, x: &Tensor, noise: Option<&mut Stream>) -> Tensor {
        let (weight, bias) = (p.leaf(self.weight), p.leaf(self.bias));
        let Some(noise) = noise else { return x.linear(weight, Some(bias)) };
        let mut draw = |n: i64| {
            // f(x) = sign(x) sqrt(|x|)
            let values: Vec<f32> =
                (0..n).map(|_| noise.normal()).map(|x: f32| x.signum() * x.abs().sqrt()).collect();
            Tensor::from_slice(&values).to_device(x.device())
        };
        let (from, to) = (draw(self.inputs), draw(self.out));
        let weight = weight + p.leaf(self.sigma_weight) * to.outer(&from);
        let bias = bias + p.leaf(self.sigma_bias) * to;
        x.linear(&weight, Some(&bias))
    }
}
