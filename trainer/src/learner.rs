//! A network with its parameters, gradients and optimizer: what most policies learn with.
//!
//! Heads and losses are closures over [`Value`]s. Two engines run them, with equal results up to the order of sums:
//!
//! * **Fused**, on the CPU, for fully connected networks: forward, loss and backward in plain memory that is used again
//!   ([`kernels`](crate::kernels)), with no libtorch call and no allocation per row. The parameters are libtorch's own
//!   memory. Small networks spend most of libtorch's time on dispatch, not on arithmetic.
//! * **libtorch**, for everything else (a GPU, noisy layers, losses that use tensors).
//!
//! Rows are cut into pieces whose number depends on the rows alone; pieces run in parallel and their gradients are
//! added in order, so the bits do not depend on the number of cores. libtorch's own threads are not used: they spin at
//! barriers, and when another process holds one of the cores they run tens of times slower, while pieces only wait.

use crate::{
    batch::{Column, Rows as Which, SampleBatch},
    error::Result,
    host,
    models::{HostWeights, Net, NetBuilder, Outputs, Params},
    optim::{Optimizer, OptimizerConfig, clip_grad_norm, clip_on_host},
    rng::Stream,
    state::State,
    stats::Stats,
    value::{Tape, Value},
};
use pulp::Arch;
use rayon::prelude::*;
use std::{
    cell::RefCell,
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
};
use tch::{Device, Kind, Tensor};

/// Rows of a piece of the fused engine, about: small enough for the second-level cache.
const HOST_PIECE: usize = 256;
/// Rows of a piece of libtorch's, which needs more to be worth its overhead.
const TORCH_PIECE: usize = 1024;
/// The fused engine adds up gradients in at most so many places, each of at least so many rows.
const SLOTS: usize = 16;
const SLOT: usize = 256;

/// What a loss says about a piece of a batch; means over its rows.
#[derive(Debug)]
pub struct Loss<'t> {
    /// What is made smaller.
    pub total: Value<'t>,
    /// Named statistics, each one number: means over the rows, but the least of `min_...` and the largest of `max_...`.
    pub stats: Vec<(&'static str, Value<'t>)>,
    /// The error of each row, for prioritised replay.
    pub td_errors: Option<Value<'t>>,
}

/// What came with a gradient.
#[derive(Debug)]
pub struct Report {
    /// The loss's statistics over all rows.
    pub stats: Stats,
    /// The error of each row.
    pub td_errors: Option<Tensor>,
}

/// A piece of a batch, and the network on it.
#[derive(Debug)]
pub struct Rows<'t> {
    net: &'t Net,
    batch: &'t SampleBatch,
    way: Way<'t>,
}

#[derive(Debug)]
enum Way<'t> {
    Torch { sets: &'t [Params], noise: Option<&'t RefCell<Stream>> },
    Host { weights: &'t [HostWeights<'t>], tape: &'t Tape },
}

impl<'t> Rows<'t> {
    /// A column.
    pub fn get(&self, column: Column) -> Result<Value<'t>> {
        Ok(match self.way {
            Way::Torch { .. } => Value::torch(self.batch.get(column)?.shallow_clone()),
            Way::Host { tape, .. } => Value::host(tape, load(tape, self.batch, column)?),
        })
    }

    /// Whether there is such a column.
    pub fn has(&self, column: Column) -> bool {
        self.batch.has(column)
    }

    /// The network on a column of observations, differentiated.
    pub fn net(&self, column: Column) -> Result<Outputs<'t>> {
        self.outputs(0, column, true)
    }

    /// The network on a column of observations, not differentiated.
    pub fn frozen(&self, column: Column) -> Result<Outputs<'t>> {
        self.outputs(0, column, false)
    }

    /// The target network on a column of observations.
    ///
    /// # Panics
    ///
    /// Without [`Learner::with_target`].
    pub fn target(&self, column: Column) -> Result<Outputs<'t>> {
        self.outputs(1, column, false)
    }

    fn outputs(&self, set: usize, column: Column, learn: bool) -> Result<Outputs<'t>> {
        Ok(match self.way {
            Way::Torch { sets, noise } => {
                self.net.on_torch(&sets[set], self.batch.get(column)?, noise, learn)
            }
            Way::Host { weights, tape } => {
                self.net.on_host(weights[set], tape, load(tape, self.batch, column)?, learn)
            }
        })
    }
}

/// A column's rows, feature by feature.
fn load(tape: &Tape, batch: &SampleBatch, column: Column) -> Result<usize> {
    let source = batch.source(column)?;
    let (cols, rows) = (source.cols, source.rows);
    let contiguous;
    let base = if source.base.is_contiguous() {
        source.base
    } else {
        contiguous = source.base.contiguous();
        &contiguous
    };
    Ok(match base.kind() {
        Kind::Float => fill(tape, host::read::<f32>(base), cols, rows, |x| x),
        Kind::Int64 => fill(tape, host::read::<i64>(base), cols, rows, |x| x as f32),
        _ => fill(tape, host::read::<f32>(&base.to_kind(Kind::Float)), cols, rows, |x| x),
    })
}

fn fill<T: Copy>(tape: &Tape, from: &[T], cols: usize, rows: &Which, number: fn(T) -> f32) -> usize {
    let (stride, count) = (tape.stride(), tape.rows());
    tape.leaf(cols, false, |to: &mut [f32]| {
        let mut put = |r: usize, source: usize| {
            for (c, &x) in from[source * cols..][..cols].iter().enumerate() {
                to[c * stride + r] = number(x);
            }
        };
        match rows {
            Which::Range(start, _) => (0..count).for_each(|r| put(r, start + r)),
            Which::Index(list, start, _) => {
                list[*start..start + count].iter().enumerate().for_each(|(r, &i)| put(r, i as usize));
            }
        }
        for column in to.chunks_exact_mut(stride) {
            let last = column[count - 1];
            column[count..].fill(last);
        }
    })
}

/// Memory of the fused engine for some of the pieces.
#[derive(Debug)]
struct Slot {
    tape: Tape,
    grads: Vec<f32>,
    names: Vec<&'static str>,
    stats: Vec<f64>,
    has_errors: bool,
}

/// The rows of a slot.
struct Part<'a> {
    index: usize,
    start: usize,
    len: usize,
    out: &'a mut [f32],
}

#[derive(Debug)]
enum Engine {
    /// Leaves over the same parameters for every thread.
    Torch(Vec<Mutex<Vec<Params>>>),
    Host(Vec<Slot>),
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
        let engine = if fused { Engine::Host(Vec::new()) } else { Engine::Torch(Vec::new()) };
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
            Engine::Host(slots) => *slots = (0..SLOTS).map(|_| Slot::new()).collect(),
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
        let rows = obs.size()[0] as usize;
        out.resize(rows * columns, 0.0);
        if rows == 0 {
            return Ok(&self.out);
        }
        match engine {
            Engine::Host(slots) => {
                let obs = obs.contiguous();
                let (numbers, width) = (host::read::<f32>(&obs), obs.size()[1] as usize);
                let weights = host_weights(&sets[0]);
                on_slots(slots, rows, columns, out, |slot, part| {
                    for (start, len) in bounds(part.len, HOST_PIECE) {
                        slot.tape.reset(len);
                        let tape = &slot.tape;
                        let rows = Which::Range(part.start + start, len);
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
        match engine {
            Engine::Host(slots) => {
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
        match engine {
            Engine::Host(slots) => {
                out.resize(rows, 0.0);
                let weights: Vec<HostWeights<'_>> = sets.iter().map(host_weights).collect();
                let inputs: Vec<Mutex<SampleBatch>> =
                    slot_bounds(rows).map(|(start, len)| Mutex::new(batch.slice(start, len))).collect();
                let used = on_slots(slots, rows, 1, out, |slot, part| {
                    let batch = lock(&inputs[part.index]);
                    slot.learn(net, &weights, &batch, rows, part.out, &loss)
                })?;
                let gradient = host::write::<f32>(gradient);
                let (first, others) = slots[..used].split_at_mut(1);
                gradient.copy_from_slice(&first[0].grads);
                for slot in others {
                    gradient.iter_mut().zip(&slot.grads).for_each(|(g, &x)| *g += x);
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

    /// What [`gradient`](Self::gradient) took last, `[total]`.
    pub fn last_gradient(&self) -> &Tensor {
        &self.gradient
    }

    /// Scales the gradient so that its norm is at most `max_norm`; adds the norm before to the report, as `grad_gnorm`.
    pub fn clip_grad_norm(&mut self, max_norm: f64, report: &mut Report) {
        match self.engine {
            Engine::Host(_) => {
                let norm = clip_on_host(&mut self.gradient, max_norm);
                report.stats.push_number("grad_gnorm", norm);
            }
            Engine::Torch(_) => {
                let norm = clip_grad_norm(&mut self.gradient, max_norm);
                report.stats.push("grad_gnorm", &norm);
            }
        }
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

impl Slot {
    fn new() -> Self {
        let tape = Tape::new(Arch::new());
        Self { tape, grads: Vec::new(), names: Vec::new(), stats: Vec::new(), has_errors: false }
    }

    /// Gradient and statistics of a slot's rows, as their share of all `rows`.
    fn learn<L>(
        &mut self,
        net: &Net,
        weights: &[HostWeights<'_>],
        batch: &SampleBatch,
        rows: usize,
        errors: &mut [f32],
        loss: &L,
    ) -> Result<()>
    where
        L: for<'t> Fn(&Rows<'t>) -> Result<Loss<'t>> + Sync,
    {
        self.grads.clear();
        self.grads.resize(weights[0].flat.len(), 0.0);
        self.names.clear();
        self.stats.clear();
        for (start, len) in bounds(batch.rows(), HOST_PIECE) {
            self.tape.reset(len);
            let (tape, piece);
            let batch = if len == batch.rows() {
                batch
            } else {
                piece = batch.slice(start, len);
                &piece
            };
            tape = &self.tape;
            let loss = loss(&Rows { net, batch, way: Way::Host { weights, tape } })?;
            let share = len as f64 / rows as f64;
            if self.names.is_empty() {
                self.names.extend(loss.stats.iter().map(|(name, _)| *name));
                self.stats.extend(self.names.iter().map(|name| Over::of(name).none()));
            }
            for (sum, (name, value)) in self.stats.iter_mut().zip(&loss.stats) {
                let value = f64::from(tape.data(value.on_host())[0]);
                *sum = Over::of(name).join(*sum, value, share);
            }
            self.has_errors = loss.td_errors.is_some();
            if let Some(of_rows) = &loss.td_errors {
                scatter(of_rows, &mut errors[start..start + len]);
            }
            tape.backward(loss.total.on_host(), share as f32, weights[0].flat, &mut self.grads);
        }
        Ok(())
    }
}

/// How a statistic of pieces becomes that of all rows; a name says it.
#[derive(Clone, Copy)]
enum Over {
    Mean,
    Min,
    Max,
}

impl Over {
    fn of(name: &str) -> Self {
        match () {
            () if name.starts_with("min_") => Self::Min,
            () if name.starts_with("max_") => Self::Max,
            () => Self::Mean,
        }
    }

    fn none(self) -> f64 {
        match self {
            Self::Mean => 0.0,
            Self::Min => f64::INFINITY,
            Self::Max => f64::NEG_INFINITY,
        }
    }

    /// Adds the value of some rows, a `share` of all.
    fn join(self, sum: f64, value: f64, share: f64) -> f64 {
        match self {
            Self::Mean => sum + share * value,
            Self::Min => sum.min(value),
            Self::Max => sum.max(value),
        }
    }

    /// The same of pieces' tensors, `[pieces]` each.
    fn join_tensors(self, values: &Tensor, shares: &Tensor) -> Tensor {
        match self {
            Self::Mean => values.dot(shares),
            Self::Min => values.min(),
            Self::Max => values.max(),
        }
    }
}

/// A piece's gradient and report by libtorch.
struct TorchPiece {
    gradient: Tensor,
    report: Report,
    noise: Option<Stream>,
}

fn torch_piece<L>(
    net: &Net,
    sets: &[Params],
    batch: &SampleBatch,
    rows: usize,
    noise: Option<Stream>,
    loss: &L,
) -> Result<TorchPiece>
where
    L: for<'t> Fn(&Rows<'t>) -> Result<Loss<'t>> + Sync,
{
    let noise = noise.map(RefCell::new);
    let share = batch.rows() as f64 / rows as f64;
    let (gradient, report) = {
        let loss = loss(&Rows { net, batch, way: Way::Torch { sets, noise: noise.as_ref() } })?;
        let gradient = sets[0].gradient(&(tensor(&loss.total) * share));
        let _guard = tch::no_grad_guard();
        let names = loss.stats.iter().map(|(name, _)| *name).collect();
        let values: Vec<Tensor> =
            loss.stats.iter().map(|(_, value)| tensor(value).detach().to_kind(Kind::Float)).collect();
        let stats = Stats::unread(names, Tensor::stack(&values, 0));
        let td_errors = loss.td_errors.map(|errors| tensor(&errors).detach().view([-1]));
        (gradient, Report { stats, td_errors })
    };
    Ok(TorchPiece { gradient, report, noise: noise.map(RefCell::into_inner) })
}

/// Starts and lengths of pieces of about `size` rows; one piece for less than two.
fn bounds(rows: usize, size: usize) -> impl Iterator<Item = (usize, usize)> {
    even(rows, if rows < 2 * size { 1 } else { rows.div_ceil(size) })
}

/// Starts and lengths of the slots' rows.
fn slot_bounds(rows: usize) -> impl Iterator<Item = (usize, usize)> {
    even(rows, (rows / SLOT).clamp(1, SLOTS))
}

fn even(rows: usize, parts: usize) -> impl Iterator<Item = (usize, usize)> {
    (0..parts).map(move |i| (i * rows / parts, (i + 1) * rows / parts - i * rows / parts))
}

/// Runs `f` on the rows of every slot; each writes into its own part of `out` (`columns` numbers per row). Says how many
/// slots there were.
///
/// The calling thread works too, and other threads take what is left: a thread that gets no core is not waited for
/// longer than one slot.
fn on_slots<F>(slots: &mut [Slot], rows: usize, columns: usize, out: &mut [f32], f: F) -> Result<usize>
where
    F: Fn(&mut Slot, Part<'_>) -> Result<()> + Sync,
{
    if rows < 2 * SLOT {
        f(&mut slots[0], Part { index: 0, start: 0, len: rows, out })?;
        return Ok(1);
    }
    let mut rest = out;
    let mut jobs: Vec<Mutex<Option<(&mut Slot, Part<'_>)>>> = Vec::with_capacity(SLOTS);
    for (index, ((start, len), slot)) in slot_bounds(rows).zip(slots).enumerate() {
        let (out, behind) = rest.split_at_mut(len * columns);
        jobs.push(Mutex::new(Some((slot, Part { index, start, len, out }))));
        rest = behind;
    }
    let (next, failed) = (AtomicUsize::new(0), Mutex::new(Ok(())));
    let work = || {
        while let Some(job) = jobs.get(next.fetch_add(1, Relaxed)) {
            let Some((slot, part)) = lock(job).take() else { continue };
            if let Err(error) = f(slot, part) {
                *lock(&failed) = Err(error);
            }
        }
    };
    rayon::in_place_scope(|scope| {
        for _ in 1..rayon::current_num_threads().min(jobs.len()) {
            scope.spawn(|_| work());
        }
        work();
    });
    let used = jobs.len();
    drop(jobs);
    failed.into_inner().unwrap_or_else(PoisonError::into_inner).map(|()| used)
}

/// Runs `f` on every input with the leaves of the thread it is on, in parallel; results are in order.
fn on_threads<I: Send, O: Send>(
    threads: &[Mutex<Vec<Params>>],
    inputs: Vec<I>,
    f: impl Fn(&[Params], I) -> Result<O> + Sync,
) -> Result<Vec<O>> {
    let on = |input| {
        let thread = rayon::current_thread_index().unwrap_or_default() % threads.len();
        f(&lock(&threads[thread]), input)
    };
    match inputs.len() {
        1 => inputs.into_iter().map(on).collect(),
        _ => inputs.into_par_iter().map(on).collect(),
    }
}

fn host_weights(params: &Params) -> HostWeights<'_> {
    HostWeights { layout: params.layout(), flat: host::read(params.flat()) }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A value of the fused engine, row by row.
fn scatter(value: &Value<'_>, to: &mut [f32]) {
    let (tape, id) = value.as_host().expect("a value of the fused engine");
    let (data, stride) = (tape.data(id), tape.stride());
    let columns = data.len() / stride;
    assert_eq!(to.len(), columns * tape.rows(), "the head has {columns} columns");
    for (r, row) in to.chunks_exact_mut(columns.max(1)).enumerate() {
        row.iter_mut().enumerate().for_each(|(c, x)| *x = data[c * stride + r]);
    }
}

/// A value of the libtorch engine.
fn tensor(value: &Value<'_>) -> Tensor {
    value.as_torch().map(Tensor::shallow_clone).expect("a value of the libtorch engine")
}
