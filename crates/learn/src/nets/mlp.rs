//! A network of hidden layers and an output layer.

use crate::layers::{Activation, Architecture, HiddenLayers};
use crate::loss::{Net, Value};
use crate::nets::builder::NetBuilder;
use crate::nets::init::Init;
use crate::nets::layers::{Dense, LayerNorm};

/// Hidden layers and a linear output layer.
#[derive(Clone, Debug)]
pub struct Mlp {
    parts: Vec<Part>,
}

#[derive(Clone, Copy, Debug)]
#[expect(clippy::large_enum_variant, reason = "a network has few")]
enum Part {
    Dense(Dense),
    /// Layer normalisation, then an activation.
    Norm(LayerNorm, Activation),
    /// A residual block, `x + back(wide(norm(x)))`.
    Block {
        norm: LayerNorm,
        wide: Dense,
        back: Dense,
    },
}

impl Part {
    fn on<'t>(&self, net: Net<'t>, x: Value<'t>) -> Value<'t> {
        match self {
            Self::Dense(layer) => layer.on(net, x),
            Self::Norm(norm, activation) => norm.on(net, x).activate(*activation),
            Self::Block { norm, wide, back } => x + back.on(net, wide.on(net, norm.on(net, x))),
        }
    }
}

impl Mlp {
    /// Lays out hidden layers `name.0`, `name.1`, ..., and a linear output `name.out`. Weights and biases start as
    /// [`Init::Uniform`].
    pub fn new(
        net: &mut NetBuilder<'_>,
        name: &str,
        inputs: usize,
        hidden: &HiddenLayers,
        out: usize,
    ) -> Self {
        let mut parts = Vec::new();
        let mut width = inputs;
        let dense = |net: &mut NetBuilder<'_>, of: &str, from, to, activation| {
            net.dense(&format!("{name}.{of}"), from, to, activation, Init::Uniform)
        };
        let activation = hidden.fcnet_activation;
        if let (Architecture::Simba, Some(&units)) = (hidden.architecture, hidden.fcnet_hiddens.first()) {
            parts.push(Part::Dense(dense(net, "in", width, units, Activation::Linear)));
            width = units;
        }
        for (i, &units) in hidden.fcnet_hiddens.iter().enumerate() {
            let norm = |net: &mut NetBuilder<'_>| net.layer_norm(&format!("{name}.{i}.norm"), units);
            match (hidden.architecture, hidden.layer_norm) {
                (Architecture::Simba, _) => {
                    let norm = norm(net);
                    let wide = dense(net, &format!("{i}.wide"), units, 4 * units, activation);
                    let back = dense(net, &format!("{i}.back"), 4 * units, units, Activation::Linear);
                    parts.push(Part::Block { norm, wide, back });
                }
                (Architecture::Mlp, true) => {
                    let layer = dense(net, &i.to_string(), width, units, Activation::Linear);
                    parts.extend([Part::Dense(layer), Part::Norm(norm(net), activation)]);
                }
                (Architecture::Mlp, false) => {
                    parts.push(Part::Dense(dense(net, &i.to_string(), width, units, activation)));
                }
            }
            width = units;
        }
        if hidden.architecture == Architecture::Simba {
            parts.push(Part::Norm(net.layer_norm(&format!("{name}.norm"), width), Activation::Linear));
        }
        parts.push(Part::Dense(dense(net, "out", width, out, Activation::Linear)));
        Self { parts }
    }

    /// The network's output, `[rows, out]`.
    pub fn on<'t>(&self, net: Net<'t>, x: Value<'t>) -> Value<'t> {
        self.parts.iter().fold(x, |x, part| part.on(net, x))
    }

    /// The outputs of the last hidden layer, and the network's output.
    pub fn features_and_output<'t>(&self, net: Net<'t>, x: Value<'t>) -> (Value<'t>, Value<'t>) {
        let (last, hidden) = self.parts.split_last().expect("a linear output layer");
        let features = hidden.iter().fold(x, |x, part| part.on(net, x));
        (features, last.on(net, features))
    }
}
