//! A network of hidden layers and an output layer.

use super::{
    builder::NetBuilder,
    config::HiddenLayers,
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
    /// Hidden layers `name.0`, `name.1`, ..., and a linear one `name.out`. Weights start as PyTorch's.
    pub fn new(
        net: &mut NetBuilder<'_>,
        name: &str,
        inputs: usize,
        hidden: &HiddenLayers,
        out: usize,
    ) -> Self {
        let (mut layers, mut width) = (Vec::new(), inputs);
        for (i, &units) in hidden.fcnet_hiddens.iter().enumerate() {
            let activation = hidden.fcnet_activation;
            layers.push(net.dense(&format!("{name}.{i}"), width, units, activation, Init::Uniform));
            width = units;
        }
        layers.push(net.dense(&format!("{name}.out"), width, out, Activation::Linear, Init::Uniform));
        Self { layers }
    }

    /// The output of the last layer, `[rows, out]`.
    pub fn on<'t>(&self, net: Net<'t>, x: Value<'t>) -> Value<'t> {
        self.layers.iter().fold(x, |x, layer| layer.on(net, x))
    }
}
