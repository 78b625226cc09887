//! A network with its parameters, gradients and optimizer: what most policies learn with.
//!
//! Heads and losses are closures over [`Value`]s. Two engines run them, with equal results up to the order of sums:
//!
//! * **Fused**, on the CPU, for fully connected networks: forward, loss and backward in plain memory that is used again,
//!   with the vector instructions that the processor has and no libtorch call and no allocation per row. The parameters
//!   are libtorch's own memory. Small networks spend most of libtorch's time on dispatch, not on arithmetic.
//! * **libtorch**, for everything else (a GPU, noisy layers, losses that use tensors).
//!
//! Rows are cut into pieces whose number depends on the rows alone; pieces run in parallel and their gradients are
//! added in order, so the bits do not depend on the number of cores (with vectors of another width the last digits of
//! sums differ: a run continues bit for bit on the kind of processor it began on). libtorch's own threads are not used: they spin at
//! barriers, and when another process holds one of the cores they run tens of times slower, while pieces only wait.

pub use crate::learn::rows::{Loss, Report, Rows};

use crate::{
    base::{
        batch::{SampleBatch, Selection},
        error::{Error, Result},
        host,
        rng::Stream,
        state::State,
        stats::Stats,
    },
    learn::{
        engines::{
            cut::{
                HOST_PIECE, Over, SLOTS, Slot, TORCH_PIECE, TorchPiece, bounds, host_weights, lock, on_slots,
                on_threads, slot_bounds, torch_piece,
            },
            tape::Tape,
        },
        nets::{HostWeights, Net, NetBuilder, Outputs, Params},
        optim::{Optimizer, OptimizerConfig, clip_grad_norm},
        rows::{Way, fill, scatter, tensor},
        value::Value,
    },
};
use std::{cell::RefCell, sync::Mutex};
use tch::{Device, Tensor};

#[derive(Debug)]
enum Engine {
    /// Leaves over the same parameters for every thread.
    Torch(Vec<Mutex<Vec<Params>>>),
    /// Memory of the slots, and where all but the first put their gradients.
    Host(Vec<Slot>, Vec<Vec<f32>>),
}

/// A network, its parameters (and those of its target copy), and how they learn.
#[derive(Debug)]
pub struct Learner {
    net: Net,
    /// The network's, then its target copy's.
    sets: Vec<Params>,
    optimizer: Optimizer,
    gradient: Tensor,
    engine: Engine,
    noise: Option<Stream>,
    /// Results of [`evaluate`](Self::evaluate), and errors of rows.
    out: Vec<f32>,
}

impl NetBuilder<'_> {
    /// The network and its parameters, ready to learn on `device`; `fused` as for [`Learner::new`].
    pub fn learner(self, device: Device, optimizer: OptimizerConfig, fused: bool) -> Learner {
        let (net, params) = self.finish(device);
        Learner::new(net, params, optimizer, fused)
    }
}

impl Learner {
    /// `fused` asks for the fused engine; networks it cannot run, and those on a GPU, are run by libtorch.
    pub fn new(net: Net, params: Params, optimizer: OptimizerConfig, fused: bool) -> Self {
        let optimizer = Optimizer::new(optimizer, params.flat());
        let gradient = params.flat().zeros_like();
        let fused = fused && params.flat().device() == Device::Cpu && net.fits_host();
        let engine = if fused { Engine::Host(Vec::new(), Vec::new()) } else { Engine::Torch(Vec::new()) };
        let learner =
            Self { net, sets: vec![params], optimizer, gradient, engine, noise: None, out: Vec::new() };
        learner.with_room()
    }

    /// Adds a copy of the parameters that stands still until [`update_target`](Self::update_target).
    #[must_use]
    pub fn with_target(mut self) -> Self {
        self.sets.push(self.sets[0].duplicate());
        self.with_room()
    }

    /// Noisy layers draw from `noise` while learning.
    #[must_use]
    pub fn with_noise(mut self, noise: Stream) -> Self {
        self.noise = Some(noise);
        self
    }

    fn with_room(mut self) -> Self {
        match &mut self.engine {
            Engine::Torch(threads) => {
                let alias = || Mutex::new(self.sets.iter().map(Params::alias).collect());
                *threads = (0..rayon::current_num_threads().max(1)).map(|_| alias()).collect();
            }
            Engine::Host(slots, _) => *slots = (0..SLOTS).map(|_| Slot::new()).collect(),
        }
        self
    }

    /// Computes `head`, `columns` numbers per row, for observations `[rows, width]`: `[rows, columns]`, row by row.
    /// Nothing is differentiated.
    pub fn evaluate<H>(&mut self, obs: &Tensor, columns: usize, head: H) -> Result<&[f32]>
    where
        H: for<'t> Fn(&Outputs<'t>) -> Value<'t> + Sync,
    {
        self.evaluate_with_noise(obs, columns, None, head)
    }

    /// As [`evaluate`](Self::evaluate), with noise in noisy layers.
    pub fn evaluate_with_noise<H>(
        &mut self,
        obs: &Tensor,
        columns: usize,
        noise: Option<Stream>,
        head: H,
    ) -> Result<&[f32]>
    where
        H: for<'t> Fn(&Outputs<'t>) -> Value<'t> + Sync,
    {
        let Self { net, sets, engine, out, .. } = self;
        let [rows, width, ..] = host::size(obs).map(|size| size as usize);
        out.resize(rows * columns, 0.0);
        if rows == 0 {
            return Ok(&self.out);
        }
        match engine {
            Engine::Host(slots, _) => {
                let contiguous;
                let obs = if obs.is_contiguous() {
                    obs
                } else {
                    contiguous = obs.contiguous();
                    &contiguous
                };
                let numbers = host::read::<f32>(obs);
                let weights = host_weights(&sets[0]);
                on_slots(slots, slot_bounds(rows), columns, out, |slot, part| {
                    for (start, len) in bounds(part.len, HOST_PIECE) {
                        slot.tape.reset(len);
                        let tape = &slot.tape;
                        let rows = Selection::Range(part.start + start, len);
                        let obs = fill(tape, numbers, width, &rows, |x| x);
                        let value = head(&net.on_host(weights, tape, obs, false));
                        scatter(&value, &mut part.out[start * columns..][..len * columns]);
                    }
                    Ok(())
                })?;
            }
            Engine::Torch(threads) => {
                let device = sets[0].flat().device();
                let inputs =
                    bounds(rows, TORCH_PIECE).map(|(start, len)| obs.narrow(0, start as i64, len as i64));
                let outputs = on_threads(threads, inputs.collect(), |sets, obs: Tensor| {
                    let _guard = tch::no_grad_guard();
                    let noise = noise.clone().map(RefCell::new);
                    let outputs = net.on_torch(&sets[0], &obs.to_device(device), noise.as_ref(), false);
                    Ok(tensor(&head(&outputs)).to_device(Device::Cpu).contiguous())
                })?;
                let mut start = 0;
                for from in &outputs {
                    out[start..start + from.numel()].copy_from_slice(host::read(from));
                    start += from.numel();
                }
            }
        }
        Ok(&self.out)
    }

    /// Computes one number per row of `batch`. Nothing is differentiated, and noisy layers are silent.
    pub fn per_row<F>(&mut self, batch: &SampleBatch, f: F) -> Result<&[f32]>
    where
        F: for<'t> Fn(&Rows<'t>) -> Result<Value<'t>> + Sync,
    {
        let Self { net, sets, engine, out, .. } = self;
        out.resize(batch.rows(), 0.0);
        if batch.rows() == 0 {
            return Ok(&self.out);
        }
        match engine {
            Engine::Host(slots, _) => {
                let weights: Vec<HostWeights<'_>> = sets.iter().map(host_weights).collect();
                for (start, len) in bounds(batch.rows(), HOST_PIECE) {
                    slots[0].tape.reset(len);
                    let (tape, piece) = (&slots[0].tape, batch.slice(start, len));
                    let rows = Rows { net, batch: &piece, way: Way::Host { weights: &weights, tape } };
                    scatter(&f(&rows)?, &mut out[start..start + len]);
                }
            }
            Engine::Torch(_) => {
                let _guard = tch::no_grad_guard();
                let batch = batch.to_device(sets[0].flat().device());
                let value = f(&Rows { net, batch: &batch, way: Way::Torch { sets, noise: None } })?;
                out.copy_from_slice(host::read(&tensor(&value).to_device(Device::Cpu).contiguous()));
            }
        }
        Ok(&self.out)
    }

    /// Takes the gradient of the mean of `loss` over the rows of `batch`, and keeps it for [`step`](Self::step).
    ///
    /// `loss` gets a piece of the rows and returns means over them; it must not depend on the other rows.
    pub fn gradient<L>(&mut self, batch: &SampleBatch, loss: L) -> Result<Report>
    where
        L: for<'t> Fn(&Rows<'t>) -> Result<Loss<'t>> + Sync,
    {
        let Self { net, sets, engine, out, gradient, noise, .. } = self;
        let rows = batch.rows();
        if rows == 0 {
            return Err(Error::state("a batch", "it has no rows to learn from"));
        }
        match engine {
            Engine::Host(slots, grads) => {
                out.resize(rows, 0.0);
                let weights: Vec<HostWeights<'_>> = sets.iter().map(host_weights).collect();
                let bounds = slot_bounds(rows);
                let (gradient, used) = (host::write::<f32>(gradient), bounds.len());
                grads.resize_with(grads.len().max(used - 1), || vec![0.0; gradient.len()]);
                let places = std::iter::once(&mut *gradient).chain(grads.iter_mut().map(Vec::as_mut_slice));
                let inputs: Vec<Mutex<(SampleBatch, &mut [f32])>> = bounds
                    .clone()
                    .zip(places)
                    .map(|((start, len), place)| Mutex::new((batch.slice(start, len), place)))
                    .collect();
                on_slots(slots, bounds, 1, out, |slot, part| {
                    let (batch, grads) = &mut *lock(&inputs[part.index]);
                    slot.learn(net, &weights, batch, rows, (grads, part.out), &loss)
                })?;
                drop(inputs);
                let (first, others) = slots[..used].split_at_mut(1);
                for (slot, grads) in others.iter().zip(grads) {
                    gradient.iter_mut().zip(grads).for_each(|(g, &mut x)| *g += x);
                    let Slot { names, stats, .. } = &mut first[0];
                    for ((sum, &x), name) in stats.iter_mut().zip(&slot.stats).zip(names) {
                        *sum = Over::of(name).join(*sum, x, 1.0);
                    }
                }
                let Slot { names, stats, .. } = &first[0];
                Ok(Report {
                    stats: Stats::new(names.iter().copied().zip(stats.iter().copied())),
                    td_errors: first[0].has_errors.then(|| Tensor::from_slice(out)),
                })
            }
            Engine::Torch(threads) => {
                let device = sets[0].flat().device();
                let batch = batch.to_device(device);
                let inputs = bounds(rows, TORCH_PIECE).map(|(start, len)| batch.slice(start, len)).collect();
                let before = noise.clone();
                let outputs = on_threads(threads, inputs, |sets, batch: SampleBatch| {
                    torch_piece(net, sets, &batch, rows, before.clone(), &loss)
                })?;
                let (mut errors, mut stats) = (Vec::new(), Vec::new());
                let mut sum: Option<TorchPiece> = None;
                for mut piece in outputs {
                    errors.extend(piece.report.td_errors.take());
                    stats.extend(piece.report.stats.tensor().map(Tensor::shallow_clone));
                    match &mut sum {
                        None => sum = Some(piece),
                        Some(sum) => {
                            let _ = sum.gradient.g_add_(&piece.gradient);
                        }
                    }
                }
                let mut sum = sum.expect("a batch has at least one piece");
                if stats.len() > 1 {
                    let share = |(_, len): (usize, usize)| len as f32 / rows as f32;
                    let shares: Vec<f32> = bounds(rows, TORCH_PIECE).map(share).collect();
                    let shares = Tensor::from_slice(&shares).to_device(device);
                    let all = Tensor::stack(&stats, 1);
                    let join =
                        |(i, name): (usize, &&str)| Over::of(name).join_tensors(&all.get(i as i64), &shares);
                    let names = sum.report.stats.names().to_vec();
                    let joined: Vec<Tensor> = names.iter().enumerate().map(join).collect();
                    sum.report.stats = Stats::unread(names, Tensor::stack(&joined, 0));
                }
                sum.report.td_errors = (!errors.is_empty()).then(|| Tensor::cat(&errors, 0));
                (*gradient, *noise) = (sum.gradient, sum.noise);
                Ok(sum.report)
            }
        }
    }

    /// Has the fused engine compute with these instructions rather than the best that the processor has. For tests.
    #[doc(hidden)]
    pub fn set_arch(&mut self, arch: pulp::Arch) {
        if let Engine::Host(slots, _) = &mut self.engine {
            slots.iter_mut().for_each(|slot| slot.tape = Tape::new(arch));
        }
    }

    /// What [`gradient`](Self::gradient) took last, `[total]`.
    pub fn last_gradient(&self) -> &Tensor {
        &self.gradient
    }

    /// Scales the gradient so that its norm is at most `max_norm`; adds the norm before to the report, as `grad_gnorm`.
    pub fn clip_grad_norm(&mut self, max_norm: f64, report: &mut Report) {
        clip_grad_norm(&mut self.gradient, max_norm, &mut report.stats);
    }

    /// One step of the optimizer along the gradient.
    pub fn step(&mut self, lr: f64) {
        self.optimizer.step(self.sets[0].flat_mut(), &self.gradient, lr);
    }

    /// `target += tau * (online - target)`; with `tau` 1 a copy. Nothing without a target.
    pub fn update_target(&mut self, tau: f64) {
        if let [online, target] = self.sets.as_mut_slice() {
            target.soft_update(online, tau);
        }
    }

    /// `head` of the network as a function that libtorch can trace, for export.
    pub fn forward<H>(&self, obs: &Tensor, head: H) -> Tensor
    where
        H: for<'t> Fn(&Outputs<'t>) -> Value<'t>,
    {
        let frozen = self.sets[0].frozen();
        tensor(&head(&self.net.on_torch(&frozen, obs, None, true)))
    }

    /// The parameters.
    pub fn params(&self) -> &Params {
        &self.sets[0]
    }

    /// The parameters by name, those of the target copy under `target` if asked for.
    pub fn weights(&self, with_target: bool) -> State {
        let mut weights = self.sets[0].weights();
        if let (true, Some(target)) = (with_target, self.sets.get(1)) {
            weights.nest("target", target.weights());
        }
        weights
    }

    /// Replaces the parameters, and the target copy's if they are there.
    pub fn set_weights(&mut self, weights: &State) -> Result<()> {
        self.sets[0].set_weights(weights)?;
        match (self.sets.get_mut(1), weights.nested("target")) {
            (Some(target), Ok(weights)) => target.set_weights(&weights),
            _ => Ok(()),
        }
    }

    /// Everything that learning depends on.
    pub fn state(&self) -> Result<State> {
        let mut state = State::default();
        state.nest("weights", self.sets[0].weights());
        if let Some(target) = self.sets.get(1) {
            state.nest("target", target.weights());
        }
        if let Some(noise) = &self.noise {
            state.set("noise", &noise.state())?;
        }
        state.nest("optimizer", self.optimizer.state()?);
        Ok(state)
    }

    /// Continues from [`state`](Self::state).
    pub fn set_state(&mut self, state: &State) -> Result<()> {
        self.sets[0].set_weights(&state.nested("weights")?)?;
        if let Some(target) = self.sets.get_mut(1) {
            target.set_weights(&state.nested("target")?)?;
        }
        if let Some(noise) = &mut self.noise {
            *noise = Stream::from_state(state.get("noise")?);
        }
        self.optimizer.set_state(&state.nested("optimizer")?)
    }
}
