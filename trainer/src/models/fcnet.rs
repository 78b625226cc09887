//! Fully connected networks.

use super::{Activation, Initializer, Params, ParamsBuilder};
use tch::Tensor;

/// One linear layer: which parameters it reads.
#[derive(Clone, Copy, Debug)]
pub struct Linear {
    weight: usize,
    bias: usize,
}

impl Linear {
    /// Adds `name.weight` `[out, in]` and `name.bias` `[out]` (zero). `scale` is the norm of each row for normc, the
    /// gain for orthogonal.
    pub fn new(
        p: &mut ParamsBuilder,
        name: &str,
        inputs: i64,
        out: i64,
        init: Initializer,
        scale: f64,
    ) -> Self {
        let weight = match init {
            Initializer::Normc => p.normc(out, inputs, scale),
            Initializer::Orthogonal => p.orthogonal(out, inputs, scale),
        };
        let bias = Tensor::zeros([out], (tch::Kind::Float, tch::Device::Cpu));
        Self { weight: p.add(format!("{name}.weight"), weight), bias: p.add(format!("{name}.bias"), bias) }
    }

    /// As [`new`](Self::new), weights and bias uniform in plus and minus `1 / sqrt(inputs)` (PyTorch's default).
    pub fn uniform(p: &mut ParamsBuilder, name: &str, inputs: i64, out: i64) -> Self {
        let bound = 1.0 / (inputs as f64).sqrt();
        let (weight, bias) = (p.uniform(&[out, inputs], -bound, bound), p.uniform(&[out], -bound, bound));
        Self { weight: p.add(format!("{name}.weight"), weight), bias: p.add(format!("{name}.bias"), bias) }
    }

    /// `x W^T + b`.
    pub fn forward(&self, p: &Params, x: &Tensor) -> Tensor {
        x.linear(p.leaf(self.weight), Some(p.leaf(self.bias)))
    }
}

/// A tower of linear layers, each followed by its activation. It holds no tensors: [`Params`] do.
#[derive(Clone, Debug)]
pub struct FcNet {
    layers: Vec<(Linear, Activation)>,
    out: i64,
}

impl FcNet {
    /// Hidden layers on `inputs`, named `name.0`, `name.1`, ...
    pub fn hidden(
        p: &mut ParamsBuilder,
        name: &str,
        inputs: i64,
        layers: &[(usize, Activation)],
        init: Initializer,
    ) -> Self {
        let mut net = Self { layers: Vec::new(), out: inputs };
        for (i, &(units, activation)) in layers.iter().enumerate() {
            let scale = match init {
                Initializer::Normc => 1.0,
                Initializer::Orthogonal => std::f64::consts::SQRT_2,
            };
            net.push(
                Linear::new(p, &format!("{name}.{i}"), net.out, units as i64, init, scale),
                units as i64,
                activation,
            );
        }
        net
    }

    /// Adds an output layer named `name.out` without activation.
    #[must_use]
    pub fn output(
        mut self,
        p: &mut ParamsBuilder,
        name: &str,
        out: i64,
        init: Initializer,
        scale: f64,
    ) -> Self {
        let layer = Linear::new(p, &format!("{name}.out"), self.out, out, init, scale);
        self.push(layer, out, Activation::Linear);
        self
    }

    /// Adds a layer.
    pub fn push(&mut self, layer: Linear, out: i64, activation: Activation) {
        self.layers.push((layer, activation));
        self.out = out;
    }

    /// Units of the last layer.
    pub fn out(&self) -> i64 {
        self.out
    }

    /// The tower applied to rows of `x`.
    pub fn forward(&self, p: &Params, x: &Tensor) -> Tensor {
        let mut h = x.shallow_clone();
        for (layer, activation) in &self.layers {
            h = activation.apply(layer.forward(p, &h));
        }
        h
    }
}
