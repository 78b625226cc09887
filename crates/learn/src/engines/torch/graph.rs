//! The graph of libtorch's operations on one piece of a batch.

use crate::base::{Result, Stream};
use crate::engines::norm::EPSILON as NORM_EPSILON;
use crate::engines::torch::columns;
use crate::engines::torch::huber::huber;
use crate::engines::torch::leaves::{LeafSet, Leaves};
use crate::engines::torch::sequences::Sequences;
use crate::experience::{Column, SampleBatch};
use crate::layers::Activation;
use crate::loss::{Graph, Layer, MASKED, Op, ParamSet, WithModule, refuse};
use crate::params::LearningGroups;
use std::cell::{Cell, RefCell};
use tch::{Device, Kind, Tensor};

/// The results of the operations on one piece of a batch. A [`Value`](crate::loss::Value) is an index into them, so that it can be `Copy`.
#[derive(Debug)]
pub(super) struct TorchGraph<'t> {
    nodes: RefCell<Vec<Tensor>>,
    pub(super) leaves: &'t Leaves,
    live: LearningGroups<'t>,
    pub(super) noise: Option<RefCell<Stream>>,
    /// A tensor with the piece's number of rows. Values that are equal for every row take their length from it, so
    /// that an exported module accepts any number of rows.
    pub(super) like: Option<Tensor>,
    rows: usize,
    /// Sequences of the rows, for recurrent layers.
    pub(super) sequences: Option<Sequences>,
    /// Whether a tensor that needs a gradient was handed out to the user's code.
    is_gradient_out: Cell<bool>,
}

impl<'t> TorchGraph<'t> {
    pub(super) fn new(leaves: &'t Leaves, live: LearningGroups<'t>, rows: usize) -> Self {
        Self {
            nodes: RefCell::default(),
            leaves,
            live,
            noise: None,
            like: None,
            rows,
            sequences: None,
            is_gradient_out: Cell::new(false),
        }
    }

    /// The leaves of the set `which`; those of the network learn if the group of the parameter `i` does.
    fn set(&self, which: ParamSet, i: usize) -> &LeafSet {
        match which {
            ParamSet::Online if self.live.at(self.leaves.layout.range(i).start) => &self.leaves.online,
            ParamSet::Online | ParamSet::Frozen => &self.leaves.frozen,
            ParamSet::Target => self.leaves.target.as_ref().expect("`Rows::target` was asked"),
        }
    }

    fn leaf(&self, which: ParamSet, i: usize) -> &Tensor {
        &self.set(which, i).leaves[i]
    }

    /// Adds a result and returns its node.
    fn push(&self, tensor: Tensor) -> usize {
        let mut nodes = self.nodes.borrow_mut();
        nodes.push(if tensor.dim() == 1 { tensor.unsqueeze(-1) } else { tensor });
        nodes.len() - 1
    }

    pub(super) fn device(&self) -> Device {
        self.leaves.device()
    }

    /// Output of a noisy layer: `x (W + S e)^T + b + s e`, with factorised Gaussian noise `e` (Fortunato et al. 2018);
    /// without noise `x W^T + b`.
    fn noisy(&self, which: ParamSet, first: usize, inputs: usize, out: usize, x: &Tensor) -> Tensor {
        let weight = self.leaf(which, first);
        let bias = self.leaf(which, first + 1);
        let Some(noise) = &self.noise else { return x.linear(weight, Some(bias)) };
        let noise = &mut *noise.borrow_mut();
        let mut draw = |n: usize| {
            // f(x) = sign(x) sqrt(|x|)
            let values: Vec<f32> =
                (0..n).map(|_| noise.normal()).map(|x: f32| x.signum() * x.abs().sqrt()).collect();
            Tensor::from_slice(&values).to_device(x.device())
        };
        let from = draw(inputs);
        let to = draw(out);
        let weight = weight + self.leaf(which, first + 2) * to.outer(&from);
        let bias = bias + self.leaf(which, first + 3) * to;
        x.linear(&weight, Some(&bias))
    }
}

impl Graph for TorchGraph<'_> {
    fn apply(&self, op: Op, operands: &[usize]) -> usize {
        let result = {
            let nodes = self.nodes.borrow();
            let x = &nodes[operands[0]];
            let other = || &nodes[operands[1]];
            match op {
                Op::Exp => x.exp(),
                Op::Log => x.log(),
                Op::Sqrt => x.sqrt(),
                Op::Square => x.square(),
                Op::Abs => x.abs(),
                Op::Sign => x.detach().sign(),
                Op::Tanh => x.tanh(),
                Op::Sigmoid => x.sigmoid(),
                Op::Softplus => x.softplus(),
                Op::Relu => x.relu(),
                Op::Clamp(f64::NEG_INFINITY, high) => x.clamp_max(high),
                Op::Clamp(low, high) => x.clamp(low, high),
                // Three cases, so that nothing is rounded twice.
                Op::Scale(1.0, shift) => x + shift,
                Op::Scale(scale, 0.0) => x * scale,
                Op::Scale(scale, shift) => x * scale + shift,
                Op::LogSoftmax => x.log_softmax(-1, Kind::Float),
                Op::LogSumExp => x.logsumexp(-1, true),
                Op::SortColumns => x.detach().sort(-1, false).0,
                Op::Argmax => x.detach().argmax(-1, true),
                Op::SumColumns => x.sum_dim_intlist(-1, true, Kind::Float),
                Op::MeanColumns => x.mean_dim(-1, true, Kind::Float),
                Op::Mean => x.mean(Kind::Float),
                Op::Detach => x.detach(),
                Op::Narrow(start, len) => x.narrow(-1, start as i64, len as i64),
                Op::Add => x + other(),
                Op::Sub => x - other(),
                Op::Mul => x * other(),
                Op::Div => x / other(),
                Op::Minimum => x.minimum(other()),
                Op::Maximum => x.maximum(other()),
                Op::Gather(1) => x.gather(-1, &other().to_kind(Kind::Int64), false),
                Op::Gather(width) => {
                    let width = width as i64;
                    let index = other().to_kind(Kind::Int64).view([-1, 1, 1]).expand([-1, 1, width], false);
                    x.view([x.size()[0], -1, width]).gather(1, &index, false).squeeze_dim(1)
                }
                Op::Expectation(low, high) => {
                    let atoms = Tensor::linspace(low, high, x.size()[1], (Kind::Float, x.device()));
                    (x * atoms).sum_dim_intlist(-1, true, Kind::Float)
                }
                Op::Project(low, high) => project(&x.detach(), &other().detach(), low, high),
                Op::Cat => Tensor::cat(&[x, other()], -1),
                Op::QuantileHuber => huber(x, other()),
                Op::Mask => x.masked_fill(&other().eq(0), f64::from(MASKED)),
            }
        };
        self.push(result)
    }

    fn layer(&self, layer: Layer, which: ParamSet, operands: &[usize]) -> usize {
        let result = {
            let nodes = self.nodes.borrow();
            let x = || &nodes[operands[0]];
            match layer {
                Layer::Dense { weight, activation, .. } => {
                    let (weight, bias) = (self.leaf(which, weight), self.leaf(which, weight + 1));
                    activate(activation, x().linear(weight, Some(bias)))
                }
                Layer::Noisy { weight, inputs, out, activation } => {
                    activate(activation, self.noisy(which, weight, inputs, out, x()))
                }
                Layer::Conv2d { weight, input, stride, padding, activation } => {
                    let [weight, bias] = [weight, weight + 1].map(|i| self.leaf(which, i));
                    let [channels, height, width] = input.map(|n| n as i64);
                    let padding = padding.map(|n| n as i64);
                    let mut x = x().view([-1, channels, height, width]);
                    if padding != [0; 4] {
                        x = x.constant_pad_nd(padding);
                    }
                    let stride = stride.map(|n| n as i64);
                    let y = x.conv2d(weight, Some(bias), stride, [0, 0], [1, 1], 1);
                    activate(activation, y).flatten(1, -1)
                }
                Layer::Norm { weight, width } => {
                    let [weight, bias] = [weight, weight + 1].map(|i| self.leaf(which, i));
                    x().layer_norm([width as i64], Some(weight), Some(bias), NORM_EPSILON, false)
                }
                Layer::Recurrent { weight, units, cell, memory } => {
                    let weights = [0, 1, 2, 3].map(|i| self.leaf(which, weight + i));
                    let sequences = self
                        .sequences
                        .as_ref()
                        .expect("rows for a recurrent network come with what it remembers");
                    sequences.scan(x(), weights, cell, units, memory)
                }
                Layer::Free { parameter } => {
                    let leaf = self.leaf(which, parameter);
                    let width = leaf.size()[0];
                    let row = leaf.unsqueeze(0);
                    match &self.like {
                        Some(like) => row.expand_as(&like.narrow(1, 0, 1).expand([-1, width], false)),
                        None => row.expand([self.rows as i64, width], false),
                    }
                }
            }
        };
        self.push(result)
    }

    fn column(&self, batch: &SampleBatch, column: Column) -> Result<usize> {
        let data = columns::tensor(batch, column, self.device())?;
        Ok(self.push(match data.kind() {
            // u8 would wrap around, and bools cannot be subtracted. A column of i64 holds indices, so it stays i64.
            Kind::Uint8 | Kind::Bool => data.to_kind(Kind::Float),
            _ => data,
        }))
    }

    fn observation(&self, batch: &SampleBatch, column: Column) -> Result<usize> {
        self.leaves.encoding.check(batch.source(column)?.cols)?;
        Ok(self.push(self.leaves.encoding.encode(&columns::tensor(batch, column, self.device())?)))
    }

    fn number(&self, number: f32) -> usize {
        self.push(Tensor::from(number).to_device(self.device()))
    }

    fn columns(&self, id: usize) -> usize {
        self.nodes.borrow()[id].size().get(1).map_or(0, |&n| n as usize)
    }

    fn tensor(&self, id: usize) -> Tensor {
        let tensor = self.nodes.borrow()[id].shallow_clone();
        if tensor.requires_grad() {
            self.is_gradient_out.set(true);
        }
        tensor
    }

    fn insert(&self, tensor: Tensor) -> usize {
        // Whatever needs a gradient here depends on a parameter that learns, or on a variable that nothing knows of.
        if tensor.requires_grad() && !self.is_gradient_out.get() {
            let reason = "it needs a gradient, but depends on no parameter of the network that learns here: on variables \
                          that nothing would train or save, or on an input of which you made a leaf; lay variables out with \
                          `NetBuilder::tch_module`, or detach the result where it leaves your computation";
            refuse("a tensor in a network or a loss".into(), reason.into());
        }
        self.push(tensor)
    }

    fn module(&self, index: usize, which: ParamSet, x: usize, f: &WithModule<'_>) -> usize {
        let place = &self.leaves.layout.modules[index];
        let set = self.set(which, place.parameters().start);
        let x = self.tensor(x);
        if set.leaves[place.parameters().start].requires_grad() {
            self.is_gradient_out.set(true);
        }
        let out = f(&*set.modules[index], &x);
        let size = out.size();
        if !(1..=2).contains(&size.len()) || size[0] != x.size()[0] {
            let reason =
                format!("it gets {:?} and returns {size:?}, not a matrix with as many rows", x.size());
            refuse(format!("the module `{}`", place.name()), reason);
        }
        self.insert(out)
    }
}

/// Moves each atom `z` to `reward + discount z`, and shares its probability between the atoms beside it (Bellemare et al.
/// 2017, algorithm 1). `probs` is `[rows, atoms]`, `moves` has reward and discount of each row.
fn project(probs: &Tensor, moves: &Tensor, low: f64, high: f64) -> Tensor {
    let atoms = probs.size()[1];
    let step = (high - low) / (atoms - 1) as f64;
    let support = Tensor::linspace(low, high, atoms, (Kind::Float, probs.device()));
    let moved = (moves.narrow(1, 0, 1) + moves.narrow(1, 1, 1) * support).clamp(low, high);
    let position = ((moved - low) / step).clamp(0.0, (atoms - 1) as f64);
    let below = position.floor();
    let above_share = &position - &below;
    let lower = below.to_kind(Kind::Int64);
    let upper = (&lower + 1).clamp_max(atoms - 1);
    probs.zeros_like().scatter_add_(1, &lower, &(probs * above_share.rsub_scalar(1.0))).scatter_add_(
        1,
        &upper,
        &(probs * above_share),
    )
}

/// Applies an activation, in place if the backward pass allows it.
fn activate(activation: Activation, mut x: Tensor) -> Tensor {
    match activation {
        Activation::Tanh => x.tanh_(),
        Activation::Relu => x.relu_(),
        Activation::Elu => x.elu(),
        Activation::Swish => x.silu(),
        Activation::Linear => x,
    }
}
