//! The libtorch engine, which keeps the tensors of a piece of a batch until the piece is computed.

use crate::base::{Result, Stats, Stream, host};
use crate::experience::{Column, SampleBatch};
use crate::learn::engines::backend::{Backend, HeadFn, LossFn, Report, RowFn, Sets, not_a_number};
use crate::learn::engines::cut::{bounds, pieces};
use crate::learn::engines::norm::EPSILON as NORM_EPSILON;
use crate::learn::engines::quantiles;
use crate::learn::engines::sequences::Sequences;
use crate::learn::engines::together::Together;
use crate::learn::loss::{
    EPSILON, Graph, Input, Layer, MASKED, MinibatchInfo, Net, Observed, Op, ParamSet, Reduction, Remembered,
    Rows, Stat, Value,
};
use crate::learn::params::{Encoding, LearningGroups, Params};
use crate::settings::Activation;
use rayon::prelude::*;
use std::cell::RefCell;
use std::sync::{Arc, Mutex, PoisonError};
use tch::{Device, Kind, Tensor};

/// Number of rows of a piece on the CPU: enough to be worth libtorch's overhead. A GPU gets one piece.
const PIECE: usize = 1024;

/// The leaf tensors of one thread, which share the memory of the parameters.
#[derive(Debug)]
pub(crate) struct Leaves {
    /// The network's parameters as tensors that get a gradient.
    online: Params,
    /// The network's parameters, in the same memory, as tensors without gradient.
    frozen: Params,
    target: Option<Params>,
    encoding: Arc<Encoding>,
}

impl Leaves {
    fn new(sets: &Sets, encoding: &Arc<Encoding>) -> Self {
        Self {
            online: sets[0].alias(),
            frozen: sets[0].frozen(),
            target: sets.get(1).map(Params::frozen),
            encoding: Arc::clone(encoding),
        }
    }
}

/// The results of the operations on one piece of a batch. A [`Value`] is an index into them, so that it can be `Copy`.
#[derive(Debug)]
struct TorchGraph<'t> {
    nodes: RefCell<Vec<Tensor>>,
    leaves: &'t Leaves,
    live: LearningGroups<'t>,
    noise: Option<RefCell<Stream>>,
    /// A tensor with the piece's number of rows. Values that are equal for every row take their length from it, so
    /// that an exported module accepts any number of rows.
    like: Option<Tensor>,
    rows: usize,
    /// Sequences of the rows, for recurrent layers.
    sequences: Option<Sequences>,
}

impl<'t> TorchGraph<'t> {
    fn new(leaves: &'t Leaves, live: LearningGroups<'t>, rows: usize) -> Self {
        Self { nodes: RefCell::default(), leaves, live, noise: None, like: None, rows, sequences: None }
    }

    fn leaf(&self, which: ParamSet, i: usize) -> &Tensor {
        match which {
            ParamSet::Online if self.live.at(self.leaves.online.layout().range(i).start) => {
                self.leaves.online.leaf(i)
            }
            ParamSet::Online | ParamSet::Frozen => self.leaves.frozen.leaf(i),
            ParamSet::Target => {
                let target = self.leaves.target.as_ref().expect("`Rows::target` was asked");
                target.leaf(i)
            }
        }
    }

    fn device(&self) -> Device {
        self.leaves.frozen.flat().device()
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
                Op::Gather => x.gather(-1, &other().to_kind(Kind::Int64), false),
                Op::Cat => Tensor::cat(&[x, other()], -1),
                Op::QuantileHuber => quantiles::huber(x, other()),
                Op::Mask => x.masked_fill(&other().eq(0), f64::from(MASKED)),
            }
        };
        self.insert(result)
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
        self.insert(result)
    }

    fn column(&self, batch: &SampleBatch, column: Column) -> Result<usize> {
        let data = batch.get(column)?;
        Ok(self.insert(match data.kind() {
            // u8 would wrap around, and bools cannot be subtracted. A column of i64 holds indices, so it stays i64.
            Kind::Uint8 | Kind::Bool => data.to_kind(Kind::Float),
            _ => data.shallow_clone(),
        }))
    }

    fn observation(&self, batch: &SampleBatch, column: Column) -> Result<usize> {
        self.leaves.encoding.check(batch.source(column)?.cols)?;
        Ok(self.insert(self.leaves.encoding.encode(batch.get(column)?)))
    }

    fn number(&self, number: f32) -> usize {
        self.insert(Tensor::from(number).to_device(self.device()))
    }

    fn columns(&self, id: usize) -> usize {
        self.nodes.borrow()[id].size().get(1).map_or(0, |&n| n as usize)
    }

    fn tensor(&self, id: usize) -> Tensor {
        self.nodes.borrow()[id].shallow_clone()
    }

    fn insert(&self, tensor: Tensor) -> usize {
        let mut nodes = self.nodes.borrow_mut();
        nodes.push(if tensor.dim() == 1 { tensor.unsqueeze(-1) } else { tensor });
        nodes.len() - 1
    }
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

/// The libtorch engine: a set of leaf tensors over the parameters for every thread.
#[derive(Debug)]
pub(crate) struct Torch {
    threads: Vec<Mutex<Leaves>>,
}

/// Gradient, statistics and TD errors of one piece, and the random stream of noisy layers after it.
struct Piece {
    gradient: Tensor,
    stats: Vec<(&'static str, Reduction, Tensor)>,
    errors: Option<Tensor>,
    noise: Option<Stream>,
}

impl Torch {
    pub(crate) fn new(sets: &Sets, encoding: &Arc<Encoding>) -> Self {
        let threads = rayon::current_num_threads().max(1);
        Self { threads: (0..threads).map(|_| Mutex::new(Leaves::new(sets, encoding))).collect() }
    }

    /// Runs `f` on all inputs in parallel, with the leaf tensors of each thread; results are in the order of `inputs`.
    fn on_threads<I: Send, O: Send>(
        &self,
        inputs: Vec<I>,
        f: impl Fn(&Leaves, I) -> Result<O> + Sync,
    ) -> Result<Vec<O>> {
        let on = |input| {
            let thread = rayon::current_thread_index().unwrap_or_default() % self.threads.len();
            f(&self.threads[thread].lock().unwrap_or_else(PoisonError::into_inner), input)
        };
        match inputs.len() {
            1 => inputs.into_iter().map(on).collect(),
            _ => inputs.into_par_iter().map(on).collect(),
        }
    }
}

impl Torch {
    /// Computes `head` at rows that form sequences. In `remembered` the recurrent state after each sequence replaces the
    /// state before it.
    fn evaluate_sequences(
        &mut self,
        obs: &Tensor,
        mask: Option<&Tensor>,
        remembered: Remembered<'_>,
        noise: Option<Stream>,
        head: &dyn HeadFn,
        device: Device,
    ) -> Tensor {
        let _guard = tch::no_grad_guard();
        let rows = obs.size()[0] as usize;
        let Remembered { memory, resets, lengths } = remembered;
        let lengths: Vec<i64> =
            lengths.map_or_else(|| vec![1; rows], |lengths| lengths.iter().map(|&n| n as i64).collect());
        let before = Tensor::from_slice(memory).view([lengths.len() as i64, -1]).to_device(device);
        let resets = Tensor::from_slice(resets).to_device(device);
        let leaves = self.threads[0].get_mut().unwrap_or_else(PoisonError::into_inner);
        let live = LearningGroups { groups: &[], learning: &[] };
        let mut graph = TorchGraph::new(leaves, live, rows);
        graph.noise = noise.map(RefCell::new);
        graph.sequences = Some(Sequences::new(lengths, before, resets));
        let value = head.at(Net::new(&graph, ParamSet::Frozen), input(&graph, obs, mask)).id();
        let value = graph.tensor(value).to_device(Device::Cpu).contiguous();
        if let Some(sequences) = graph.sequences {
            let behind = sequences.behind().to_device(Device::Cpu).contiguous();
            memory.copy_from_slice(host::read(&behind));
        }
        value
    }
}

fn piece_size(rows: usize, device: Device) -> usize {
    if device == Device::Cpu { PIECE } else { rows.max(1) }
}

impl Backend for Torch {
    fn name(&self) -> &'static str {
        "torch"
    }

    fn gradient(
        &mut self,
        sets: &Sets,
        batch: &SampleBatch,
        about: MinibatchInfo<'_>,
        (noise, together): (Option<&mut Stream>, Option<&Together>),
        loss: &dyn LossFn,
        gradient: &mut Tensor,
    ) -> Result<Report> {
        let rows = batch.rows();
        let device = sets[0].flat().device();
        let batch = batch.to_device(device);
        let size = piece_size(rows, device);
        let pieces = pieces(&batch, size);
        let shares: Vec<f32> = pieces.iter().map(|&(_, len)| len as f32 / rows as f32).collect();
        let shared = together.and_then(|together| Some((together, together.own(pieces.len())?)));
        let own = shared.as_ref().map_or(0..pieces.len(), |(_, own)| own.clone());
        let inputs = pieces[own.clone()].iter().map(|&(start, len)| batch.slice(start, len)).collect();
        let before = noise.as_ref().map(|stream| (**stream).clone());
        let mut pieces = self.on_threads(inputs, |leaves, batch: SampleBatch| {
            learn(leaves, &batch, about, before.clone(), loss)
        })?;
        if let (Some(stream), Some(after)) = (noise, pieces[0].noise.take()) {
            *stream = after;
        }
        let (first, more) = pieces.split_at(usize::from(own.start == 0));
        let mut sum =
            first.first().map_or_else(|| gradient.zeros_like(), |first| first.gradient.shallow_clone());
        match shared {
            None => more.iter().for_each(|piece| _ = sum.g_add_(&piece.gradient)),
            Some((together, _)) => {
                together.add_up(host::write(&mut sum), |sum| {
                    for piece in more {
                        let piece = host::read::<f32>(&piece.gradient);
                        sum.iter_mut().zip(piece).for_each(|(g, x)| *g += x);
                    }
                })?;
                pieces = share_reports(together, pieces, shares.len())?;
            }
        }
        *gradient = sum;
        let stats = join(&pieces, &shares, device);
        let errors: Vec<Tensor> = pieces.into_iter().filter_map(|piece| piece.errors).collect();
        let td_errors = (!errors.is_empty()).then(|| Tensor::cat(&errors, 0));
        Ok(Report { stats, td_errors, groups: about.live.learning.to_vec() })
    }

    fn evaluate(
        &mut self,
        sets: &Sets,
        seen: Observed<'_>,
        noise: Option<Stream>,
        columns: usize,
        head: &dyn HeadFn,
        out: &mut [f32],
    ) -> Result<()> {
        let Observed { obs, mask, remembered } = seen;
        let rows = obs.size()[0] as usize;
        let device = sets[0].flat().device();
        let mask = mask.map(|mask| Tensor::from_slice(mask).view([rows as i64, -1]));
        if let Some(remembered) = remembered {
            let value = self.evaluate_sequences(obs, mask.as_ref(), remembered, noise, head, device);
            out.copy_from_slice(host::read(&value));
            return Ok(());
        }
        let cut = |t: &Tensor, start: usize, len: usize| t.narrow(0, start as i64, len as i64);
        let inputs = bounds(rows, piece_size(rows, device))
            .map(|(start, len)| (cut(obs, start, len), mask.as_ref().map(|mask| cut(mask, start, len))));
        let live = LearningGroups { groups: &[], learning: &[] };
        let outputs =
            self.on_threads(inputs.collect(), |leaves, (obs, mask): (Tensor, Option<Tensor>)| {
                let _guard = tch::no_grad_guard();
                let mut graph = TorchGraph::new(leaves, live, obs.size()[0] as usize);
                graph.noise = noise.clone().map(RefCell::new);
                let x = input(&graph, &obs, mask.as_ref());
                let value = head.at(Net::new(&graph, ParamSet::Frozen), x);
                Ok(graph.tensor(value.id()).to_device(Device::Cpu).contiguous())
            })?;
        let mut start = 0;
        for from in &outputs {
            assert_eq!(from.size()[1], columns as i64, "columns of the head");
            out[start..start + from.numel()].copy_from_slice(host::read(from));
            start += from.numel();
        }
        Ok(())
    }

    fn per_row(
        &mut self,
        sets: &Sets,
        batch: &SampleBatch,
        about: MinibatchInfo<'_>,
        f: &dyn RowFn,
        out: &mut [f32],
    ) -> Result<()> {
        let _guard = tch::no_grad_guard();
        let batch = batch.to_device(sets[0].flat().device());
        let leaves = self.threads[0].get_mut().unwrap_or_else(PoisonError::into_inner);
        let mut graph = TorchGraph::new(leaves, about.live, batch.rows());
        graph.sequences = Sequences::of(&batch)?;
        let value = f.at(&Rows::new(&graph, &batch, about))?;
        out.copy_from_slice(host::read(&graph.tensor(value.id()).to_device(Device::Cpu).contiguous()));
        Ok(())
    }
}

fn input<'t>(graph: &'t TorchGraph<'t>, obs: &Tensor, mask: Option<&Tensor>) -> Input<'t> {
    let beside = |tensor: Tensor| Value::new(graph, graph.insert(tensor));
    let here = |tensor: &Tensor| tensor.to_device(graph.device());
    let obs = graph.leaves.encoding.encode(&here(obs));
    Input::new(beside(obs), mask.map(|mask| beside(here(mask))))
}

/// Computes `head` of the network on `inputs` (observations, then masks if there are any), for libtorch to trace.
pub(crate) fn forward(
    sets: &Sets,
    encoding: &Arc<Encoding>,
    inputs: &[Tensor],
    memory: Option<&Tensor>,
    head: &dyn HeadFn,
) -> Tensor {
    let leaves = Leaves::new(sets, encoding);
    let live = LearningGroups { groups: &[], learning: &[] };
    let mut graph = TorchGraph::new(&leaves, live, inputs[0].size()[0] as usize);
    graph.like = Some(encoding.rows(&inputs[0]));
    if let Some(memory) = memory {
        let rows = inputs[0].size()[0];
        let resets = Tensor::zeros([rows], (Kind::Float, inputs[0].device()));
        graph.sequences = Some(Sequences::new(vec![1; rows as usize], memory.shallow_clone(), resets));
    }
    let x = input(&graph, &inputs[0], inputs.get(1));
    let value = head.at(Net::new(&graph, ParamSet::Frozen), x);
    graph.tensor(value.id())
}

/// Computes gradient, statistics and TD errors of a piece. The gradient is weighted by the piece's share of all rows.
fn learn(
    leaves: &Leaves,
    batch: &SampleBatch,
    about: MinibatchInfo<'_>,
    noise: Option<Stream>,
    loss: &dyn LossFn,
) -> Result<Piece> {
    let share = batch.rows() as f64 / about.count as f64;
    let mut graph = TorchGraph::new(leaves, about.live, batch.rows());
    graph.noise = noise.map(RefCell::new);
    graph.sequences = Sequences::of(batch)?;
    let (gradient, stats, errors) = {
        let loss = loss.at(&Rows::new(&graph, batch, about))?;
        let total = graph.tensor(loss.total.id());
        if total.dim() > 0 {
            return Err(not_a_number("total", total.size()[1] as usize));
        }
        let gradient = leaves.online.gradient(&(total * share));
        let _guard = tch::no_grad_guard();
        let stats = loss.stats.iter().map(|stat| Ok((stat.name, stat.join, of_piece(&graph, stat)?)));
        let stats = stats.collect::<Result<Vec<_>>>()?;
        let errors = loss.td_errors.map(|errors| graph.tensor(errors.id()).detach().view([-1]));
        (gradient, stats, errors)
    };
    Ok(Piece { gradient, stats, errors, noise: graph.noise.map(RefCell::into_inner) })
}

/// Exchanges statistics and TD errors with the other learners. Returns the pieces of all learners, without gradients;
/// the first of them has the TD errors of all rows.
fn share_reports(together: &Together, own: Vec<Piece>, pieces: usize) -> Result<Vec<Piece>> {
    let numbers = |tensor: &Tensor| tensor.to_kind(Kind::Double).contiguous();
    let told: Vec<f64> = own
        .iter()
        .flat_map(|piece| piece.stats.iter().flat_map(|(.., stat)| host::read(&numbers(stat)).to_vec()))
        .collect();
    let errors: Option<Vec<f32>> = own.iter().try_fold(Vec::new(), |mut all, piece| {
        all.extend_from_slice(host::read(piece.errors.as_ref()?));
        Some(all)
    });
    let like = &own[0].stats;
    let mut told = together.gather(&told)?.into_iter().flatten();
    let mut piece = || {
        let stats = like.iter().map(|(name, join, stat)| {
            let numbers: Vec<f64> = told.by_ref().take(stat.numel()).collect();
            (*name, *join, Tensor::from_slice(&numbers).view_as(stat).to_kind(stat.kind()))
        });
        Piece { gradient: Tensor::new(), stats: stats.collect(), errors: None, noise: None }
    };
    let mut pieces: Vec<Piece> = (0..pieces).map(|_| piece()).collect();
    if let Some(errors) = errors {
        let of_all: Vec<f32> = together.gather(&errors)?.into_iter().flatten().collect();
        pieces[0].errors = Some(Tensor::from_slice(&of_all));
    }
    Ok(pieces)
}

/// A statistic of one piece: one number, or for an explained variance the five sums that [`explained`] takes.
fn of_piece(graph: &TorchGraph<'_>, stat: &Stat<'_>) -> Result<Tensor> {
    let value = graph.tensor(stat.of[0].id()).detach();
    Ok(match stat.join {
        Reduction::Mean if value.dim() > 0 => return Err(not_a_number(stat.name, value.size()[1] as usize)),
        Reduction::Mean => value.to_kind(Kind::Float),
        Reduction::Min => value.min(),
        Reduction::Max => value.max(),
        Reduction::ExplainedVariance => {
            let found = graph.tensor(stat.of[1].id()).detach().to_kind(Kind::Double);
            let wanted = value.to_kind(Kind::Double);
            let off = &wanted - found;
            let sum = |x: &Tensor| x.sum(Kind::Double);
            let sums = [wanted.ones_like(), wanted.shallow_clone(), wanted.square(), off.square(), off];
            let [n, w, ww, dd, d] = sums.map(|x| sum(&x));
            Tensor::stack(&[n, w, ww, d, dd], 0)
        }
    })
}

/// Joins the statistics of the pieces to those of all rows, on the device. `shares` are the pieces' shares of the rows.
fn join(pieces: &[Piece], shares: &[f32], device: Device) -> Stats {
    let names: Vec<&'static str> = pieces[0].stats.iter().map(|(name, ..)| *name).collect();
    let shares = Tensor::from_slice(shares).to_device(device);
    let joined: Vec<Tensor> = (0..names.len())
        .map(|i| {
            let join = pieces[0].stats[i].1;
            let all: Vec<&Tensor> = pieces.iter().map(|piece| &piece.stats[i].2).collect();
            let all = Tensor::stack(&all, 0);
            match join {
                Reduction::Mean if pieces.len() == 1 => all.get(0),
                Reduction::Mean => all.dot(&shares),
                Reduction::Min => all.min(),
                Reduction::Max => all.max(),
                Reduction::ExplainedVariance => explained(&all.sum_dim_intlist(0, false, Kind::Double)),
            }
        })
        .collect();
    if joined.is_empty() { Stats::default() } else { Stats::unread(names, Tensor::stack(&joined, 0)) }
}

/// The explained variance as [`explained`](crate::learn::loss::explained) computes it, with tensors on the device.
fn explained(sums: &Tensor) -> Tensor {
    let [rows, w, ww, d, dd] = [0, 1, 2, 3, 4].map(|i| sums.get(i));
    let variance = |sum: Tensor, squares: Tensor| (squares - sum.square() / &rows) / &rows;
    ((variance(d, dd) / (variance(w, ww) + EPSILON)) * -1.0 + 1.0).to_kind(Kind::Float)
}
