//! Fully connected networks as data: libtorch runs them layer by layer, the fused path in plain memory.

use super::{Activation, Initializer, NoisyLinear, Params, ParamsBuilder, params::Layout};
use crate::{
    base::rng::Stream,
    learn::{
        engines::tape::{LayerPlace, Tape},
        value::Value,
    },
};
use std::cell::RefCell;
use tch::{Device, Kind, Tensor};

/// What a layer reads and a head asks for: the observation or the output of a layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Node(usize);

/// A parameter that belongs to no layer.
#[derive(Clone, Copy, Debug)]
pub struct Free(usize);

/// How a layer's weights start; see [`Initializer`].
#[derive(Clone, Copy, Debug)]
pub enum Init {
    /// Normal numbers, each row scaled to this norm; bias 0.
    Normc(f64),
    /// Orthogonal, scaled by this gain; bias 0.
    Orthogonal(f64),
    /// Weights and bias uniform in plus and minus `1 / sqrt(inputs)` (PyTorch's default).
    Uniform,
}

impl Initializer {
    /// For an output layer: both as they are named, at this scale.
    pub fn scaled(self, scale: f64) -> Init {
        match self {
            Self::Normc => Init::Normc(scale),
            Self::Orthogonal => Init::Orthogonal(scale),
        }
    }

    fn hidden(self) -> Init {
        match self {
            Self::Normc => Init::Normc(1.0),
            Self::Orthogonal => Init::Orthogonal(std::f64::consts::SQRT_2),
        }
    }
}

/// A linear layer and what follows it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Layer {
    pub(crate) from: Node,
    pub(crate) inputs: usize,
    pub(crate) out: usize,
    pub(crate) activation: Activation,
    linear: Linear,
}

#[derive(Clone, Copy, Debug)]
enum Linear {
    /// The bias is the next parameter behind the weight; the fused engine counts on it.
    Plain {
        weight: usize,
    },
    Noisy(NoisyLinear),
}

/// Builds a [`Net`] and its parameters.
#[derive(Debug)]
pub struct NetBuilder<'a> {
    params: ParamsBuilder<'a>,
    net: Net,
}

impl<'a> NetBuilder<'a> {
    /// A network on observations of so many numbers; initial weights come from `rng`.
    pub fn new(obs_width: usize, rng: &'a mut Stream) -> Self {
        Self { params: ParamsBuilder::new(rng), net: Net { obs_width, layers: Vec::new() } }
    }

    /// The observation.
    pub fn obs(&self) -> Node {
        Node(0)
    }

    /// Hidden layers named `name.0`, `name.1`, ...; their last output.
    pub fn tower(
        &mut self,
        name: &str,
        from: Node,
        layers: &[(usize, Activation)],
        init: Initializer,
    ) -> Node {
        let mut node = from;
        for (i, &(units, activation)) in layers.iter().enumerate() {
            node = self.layer(&format!("{name}.{i}"), node, units, activation, init.hidden());
        }
        node
    }

    /// One layer, with parameters `name.weight` `[out, in]` and `name.bias` `[out]`.
    pub fn layer(&mut self, name: &str, from: Node, out: usize, activation: Activation, init: Init) -> Node {
        let (o, i) = (out as i64, self.net.width(from) as i64);
        let zero = || Tensor::zeros([o], (Kind::Float, Device::Cpu));
        let (weight, bias) = match init {
            Init::Normc(norm) => (self.params.normc(o, i, norm), zero()),
            Init::Orthogonal(gain) => (self.params.orthogonal(o, i, gain), zero()),
            Init::Uniform => {
                let bound = 1.0 / (i as f64).sqrt();
                (self.params.uniform(&[o, i], -bound, bound), self.params.uniform(&[o], -bound, bound))
            }
        };
        let weight = self.params.add(format!("{name}.weight"), weight);
        self.params.add(format!("{name}.bias"), bias);
        self.push(from, out, activation, Linear::Plain { weight })
    }

    /// A layer with learned noise (Fortunato et al. 2018).
    pub fn noisy(&mut self, name: &str, from: Node, out: usize, activation: Activation, sigma0: f64) -> Node {
        let inputs = self.net.width(from) as i64;
        let layer = NoisyLinear::new(&mut self.params, name, inputs, out as i64, sigma0);
        self.push(from, out, activation, Linear::Noisy(layer))
    }

    fn push(&mut self, from: Node, out: usize, activation: Activation, linear: Linear) -> Node {
        let inputs = self.net.width(from);
        self.net.layers.push(Layer { from, inputs, out, activation, linear });
        Node(self.net.layers.len())
    }

    /// A vector of parameters that no layer reads.
    pub fn free(&mut self, name: &str, init: &[f32]) -> Free {
        Free(self.params.add(name, Tensor::from_slice(init)))
    }

    /// The network, and its parameters on `device`.
    pub fn finish(self, device: Device) -> (Net, Params) {
        (self.net, self.params.finish(device))
    }
}

/// Layers and what each reads. It holds no numbers: [`Params`] do.
#[derive(Clone, Debug)]
pub struct Net {
    obs_width: usize,
    layers: Vec<Layer>,
}

impl Net {
    fn width(&self, node: Node) -> usize {
        node.0.checked_sub(1).map_or(self.obs_width, |i| self.layers[i].out)
    }

    /// Whether the fused path can run it: no noisy layers, and activations whose slope follows from their result.
    pub(crate) fn fits_host(&self) -> bool {
        self.layers
            .iter()
            .all(|l| matches!(l.linear, Linear::Plain { .. }) && l.activation != Activation::Swish)
    }

    /// Its outputs for rows of observations, by libtorch.
    pub(crate) fn on_torch<'t>(
        &'t self,
        params: &'t Params,
        obs: &Tensor,
        noise: Option<&'t RefCell<Stream>>,
        learn: bool,
    ) -> Outputs<'t> {
        let mut done: Vec<Option<Tensor>> = (0..=self.layers.len()).map(|_| None).collect();
        done[0] = Some(obs.shallow_clone());
        Outputs { net: self, way: Way::Torch { params, done: RefCell::new(done), noise, learn } }
    }

    /// Its outputs for rows of observations that stand on a tape, in node `obs`.
    pub(crate) fn on_host<'t>(
        &'t self,
        weights: HostWeights<'t>,
        tape: &'t Tape,
        obs: usize,
        learn: bool,
    ) -> Outputs<'t> {
        Outputs { net: self, way: Way::Host { weights, tape, obs, learn } }
    }
}

/// Parameters in plain memory.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HostWeights<'t> {
    pub(crate) layout: &'t Layout,
    pub(crate) flat: &'t [f32],
}

/// A network's outputs for some rows, computed when asked for.
#[derive(Debug)]
pub struct Outputs<'t> {
    net: &'t Net,
    way: Way<'t>,
}

#[derive(Debug)]
enum Way<'t> {
    Torch {
        params: &'t Params,
        done: RefCell<Vec<Option<Tensor>>>,
        noise: Option<&'t RefCell<Stream>>,
        learn: bool,
    },
    Host {
        weights: HostWeights<'t>,
        tape: &'t Tape,
        obs: usize,
        learn: bool,
    },
}

impl<'t> Outputs<'t> {
    /// The output of a layer, `[rows, out]`.
    pub fn get(&self, node: Node) -> Value<'t> {
        match &self.way {
            Way::Torch { learn: true, .. } => Value::torch(self.tensor(node)),
            Way::Torch { learn: false, .. } => Value::torch(tch::no_grad(|| self.tensor(node))),
            Way::Host { tape, .. } => Value::host(tape, self.on_tape(node)),
        }
    }

    /// A parameter of no layer, the same for every row.
    pub fn free(&self, Free(i): Free) -> Value<'t> {
        match &self.way {
            Way::Torch { params, .. } => {
                // Shaped by the observation, so that an exported module takes any number of rows.
                let leaf = params.leaf(i);
                let like = self.tensor(Node(0)).narrow(1, 0, 1).expand([-1, leaf.size()[0]], false);
                Value::torch(leaf.unsqueeze(0).expand_as(&like))
            }
            Way::Host { weights, tape, learn, .. } => {
                let range = weights.layout.range(i);
                Value::host(tape, tape.param(range.start, &weights.flat[range], *learn))
            }
        }
    }

    fn tensor(&self, node: Node) -> Tensor {
        let Way::Torch { params, done, noise, .. } = &self.way else {
            unreachable!("asked on the other path")
        };
        if let Some(ready) = &done.borrow()[node.0] {
            return ready.shallow_clone();
        }
        let layer = &self.net.layers[node.0 - 1];
        let x = self.tensor(layer.from);
        let y = match layer.linear {
            Linear::Plain { weight } => x.linear(params.leaf(weight), Some(params.leaf(weight + 1))),
            Linear::Noisy(noisy) => match noise {
                Some(noise) => noisy.forward(params, &x, Some(&mut noise.borrow_mut())),
                None => noisy.forward(params, &x, None),
            },
        };
        let y = layer.activation.apply(y);
        done.borrow_mut()[node.0] = Some(y.shallow_clone());
        y
    }

    fn on_tape(&self, node: Node) -> usize {
        let Way::Host { weights, tape, obs, learn } = &self.way else {
            unreachable!("asked on the other path")
        };
        let Some(i) = node.0.checked_sub(1) else { return *obs };
        if let Some(ready) = tape.find_layer(*obs, i) {
            return ready;
        }
        let layer = &self.net.layers[i];
        let x = self.on_tape(layer.from);
        let Linear::Plain { weight } = layer.linear else { unreachable!("`fits_host` was asked") };
        let place = LayerPlace {
            key: (*obs, i),
            from: x,
            weight: weights.layout.range(weight).start,
            inputs: layer.inputs,
            out: layer.out,
            activation: layer.activation,
        };
        tape.layer(place, weights.flat, *learn)
    }
}
