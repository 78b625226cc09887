//! The libtorch engine, which keeps the tensors of a piece of a batch until the piece is computed.

mod columns;
mod forward;
mod graph;
mod huber;
mod leaves;
mod reports;
mod sequences;

pub(crate) use forward::{forward, of_outputs};

use crate::base::torch::{read, write};
use crate::base::{Array, Result, Stream};
use crate::engines::backend::{Backend, HeadFn, LossFn, Report, RowFn, Sets, not_a_number, reaches_nothing};
use crate::engines::cut::{bounds, pieces};
use crate::engines::together::Together;
use crate::engines::torch::forward::input;
use crate::engines::torch::graph::TorchGraph;
use crate::engines::torch::leaves::Leaves;
use crate::engines::torch::reports::{Piece, join, of_piece, share_reports};
use crate::engines::torch::sequences::Sequences;
use crate::experience::SampleBatch;
use crate::loss::{Graph, MinibatchInfo, Net, Observed, ParamSet, Remembered, Rows};
use crate::params::{Buffer, Encoding, Group, LearningGroups};
use rayon::prelude::*;
use std::cell::RefCell;
use std::sync::{Arc, Mutex, PoisonError};
use tch::{Device, Tensor};

/// Number of rows of a piece on the CPU: enough to be worth libtorch's overhead. A GPU gets one piece.
const PIECE: usize = 1024;

/// The libtorch engine: a set of leaf tensors over the parameters for every thread.
#[derive(Debug)]
pub(crate) struct Torch {
    threads: Vec<Mutex<Leaves>>,
    encoding: Arc<Encoding>,
    /// The groups whose losses were looked at for foreign variables.
    looked_at: Vec<Vec<Group>>,
}

/// Makes the libtorch engine. It returns no error; the function of this name in a build without libtorch always does.
pub(crate) fn libtorch(
    sets: &Sets,
    encoding: &Arc<Encoding>,
    _why: impl FnOnce() -> (String, &'static str),
) -> Result<Box<dyn Backend>> {
    Ok(Box::new(Torch::new(sets, encoding)))
}

impl Torch {
    pub(crate) fn new(sets: &Sets, encoding: &Arc<Encoding>) -> Self {
        let threads = rayon::current_num_threads().max(1);
        Self {
            threads: (0..threads).map(|_| Mutex::new(Leaves::new(sets, encoding))).collect(),
            encoding: Arc::clone(encoding),
            looked_at: Vec::new(),
        }
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
    /// Refuses a loss with tensors that need a gradient though no parameter here does. It computes the loss of `batch` once
    /// for every set of groups, with parameters that get no gradient.
    fn look_for_foreign(
        &mut self,
        batch: &SampleBatch,
        about: MinibatchInfo<'_>,
        noise: Option<Stream>,
        loss: &dyn LossFn,
    ) -> Result<()> {
        if self.looked_at.iter().any(|groups| groups == about.live.learning) {
            return Ok(());
        }
        let leaves = self.threads[0].get_mut().unwrap_or_else(PoisonError::into_inner);
        let none = LearningGroups { learning: &[], ..about.live };
        let mut graph = TorchGraph::new(leaves, none, batch.rows());
        graph.noise = noise.map(RefCell::new);
        graph.sequences = Sequences::of(batch, graph.device())?;
        loss.at(&Rows::new(&graph, batch, about))?;
        self.looked_at.push(about.live.learning.to_vec());
        Ok(())
    }

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
            memory.copy_from_slice(read(&behind));
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

    fn columns(&mut self, sets: &Sets, memory_width: usize, head: &dyn HeadFn) -> Result<usize> {
        let encoding = Arc::clone(&self.encoding);
        let device = sets[0].buffer().tensor().device();
        let zeros = encoding.zeros(1).to_tensor().to_device(device);
        let memory = || Tensor::zeros([1, memory_width as i64], (tch::Kind::Float, device));
        let memory = (memory_width > 0).then(memory);
        // With gradients, so that a tensor which needs one, of a variable that nothing knows of, is refused.
        Ok(forward(sets, &encoding, &[zeros], memory.as_ref(), head).size()[1] as usize)
    }

    fn gradient(
        &mut self,
        sets: &Sets,
        batch: &SampleBatch,
        about: MinibatchInfo<'_>,
        (noise, together): (Option<&mut Stream>, Option<&Together>),
        loss: &dyn LossFn,
        gradient: &mut Buffer,
    ) -> Result<Report> {
        let rows = batch.rows();
        let device = sets[0].buffer().tensor().device();
        let size = piece_size(rows, device);
        let pieces = pieces(batch, size);
        let shares: Vec<f32> = pieces.iter().map(|&(_, len)| len as f32 / rows as f32).collect();
        let shared = together.and_then(|together| Some((together, together.own(pieces.len())?)));
        let own = shared.as_ref().map_or(0..pieces.len(), |(_, own)| own.clone());
        let inputs = pieces[own.clone()].iter().map(|&(start, len)| batch.slice(start, len)).collect();
        let before = noise.as_ref().map(|stream| (**stream).clone());
        self.look_for_foreign(&batch.slice(0, pieces[0].1), about, before.clone(), loss)?;
        let mut pieces = self.on_threads(inputs, |leaves, batch: SampleBatch| {
            learn(leaves, &batch, about, before.clone(), loss)
        })?;
        if let (Some(stream), Some(after)) = (noise, pieces[0].noise.take()) {
            *stream = after;
        }
        let (first, more) = pieces.split_at(usize::from(own.start == 0));
        let mut sum = first
            .first()
            .map_or_else(|| sets[0].buffer().tensor().zeros_like(), |first| first.gradient.shallow_clone());
        match shared {
            None => more.iter().for_each(|piece| _ = sum.g_add_(&piece.gradient)),
            Some((together, _)) => {
                together.add_up(write(&mut sum), |sum| {
                    for piece in more {
                        let piece = read::<f32>(&piece.gradient);
                        sum.iter_mut().zip(piece).for_each(|(g, x)| *g += x);
                    }
                })?;
                pieces = share_reports(together, pieces, shares.len())?;
            }
        }
        *gradient = Buffer::of_tensor(sum);
        let stats = join(&pieces, &shares, device);
        let errors: Vec<Tensor> = pieces.into_iter().filter_map(|piece| piece.errors).collect();
        let td_errors = (!errors.is_empty()).then(|| Array::from(Tensor::cat(&errors, 0)));
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
        let rows = obs.len();
        let obs = &obs.to_tensor();
        let device = sets[0].buffer().tensor().device();
        let mask = mask.map(|mask| Tensor::from_slice(mask).view([rows as i64, -1]));
        if let Some(remembered) = remembered {
            let value = self.evaluate_sequences(obs, mask.as_ref(), remembered, noise, head, device);
            out.copy_from_slice(read(&value));
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
            out[start..start + from.numel()].copy_from_slice(read(from));
            start += from.numel();
        }
        Ok(())
    }

    fn per_row(
        &mut self,
        _sets: &Sets,
        batch: &SampleBatch,
        about: MinibatchInfo<'_>,
        f: &dyn RowFn,
        out: &mut [f32],
    ) -> Result<()> {
        let _guard = tch::no_grad_guard();
        let leaves = self.threads[0].get_mut().unwrap_or_else(PoisonError::into_inner);
        let mut graph = TorchGraph::new(leaves, about.live, batch.rows());
        graph.sequences = Sequences::of(batch, graph.device())?;
        let value = f.at(&Rows::new(&graph, batch, about))?;
        out.copy_from_slice(read(&graph.tensor(value.id()).to_device(Device::Cpu).contiguous()));
        Ok(())
    }
}

/// Computes gradient, statistics and TD errors of a piece. The gradient is weighted by the piece's share of all rows.
fn learn(
    leaves: &Leaves,
    batch: &SampleBatch,
    about: MinibatchInfo<'_>,
    noise: Option<Stream>,
    loss: &dyn LossFn,
) -> Result<Piece> {
    let share = batch.rows() as f64 / about.mean_rows;
    let mut graph = TorchGraph::new(leaves, about.live, batch.rows());
    graph.noise = noise.map(RefCell::new);
    graph.sequences = Sequences::of(batch, graph.device())?;
    let (gradient, stats, errors) = {
        let loss = loss.at(&Rows::new(&graph, batch, about))?;
        let total = graph.tensor(loss.total.id());
        if total.dim() > 0 {
            return Err(not_a_number("total", total.size()[1] as usize));
        }
        if !total.requires_grad() && !about.live.learning.is_empty() {
            return Err(reaches_nothing());
        }
        let gradient = leaves.gradient(&(total * share));
        let _guard = tch::no_grad_guard();
        let stats = loss.stats.iter().map(|stat| Ok((stat.name, stat.join, of_piece(&graph, stat)?)));
        let stats = stats.collect::<Result<Vec<_>>>()?;
        let errors = loss.td_errors.map(|errors| graph.tensor(errors.id()).detach().view([-1]));
        (gradient, stats, errors)
    };
    Ok(Piece { gradient, stats, errors, noise: graph.noise.map(RefCell::into_inner) })
}
