//! A fully connected network of several layers.

use super::{
    builder::NetBuilder,
    layers::{Dense, Init},
    view::Net,
};
use crate::learn::{engines::Activation, value::Value};

/// Hidden layers and a linear output layer.
#[derive(Clone, Debug)]
pub struct Mlp {
    layers: Vec<Dense>,
}

impl Mlp {
    /// Layers `name.0`, `name.1`, ..., of `hidden` units each with ReLU behind them, and a linear one `name.out`. Weights
    /// start as PyTorch's.
    pub fn new(net: &mut NetBuilder<'_>, name: &str, inputs: usize, hidden: &[usize], out: usize) -> Self {
        let (mut layers, mut width) = (Vec::new(), inputs);
        for (i, &units) in hidden.iter().enumerate() {
            layers.push(net.dense(&format!("{name}.{i}"), width, units, Activation::Relu, Init::Uniform));
            width = units;
        }
        layers.push(net.dense(&format!("{name}.out"), width, out, Activation::Linear, Init::Uniform));
        Self { layers }
    }

    /// Its output, `[rows, out]`.
    pub fn on<'t>(&self, net: Net<'t>, x: Value<'t>) -> Value<'t> {
        self.layers.iter().fold(x, |x, layer| layer.on(net, x))
    }
}
