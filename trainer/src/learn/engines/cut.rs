//! Pieces of a batch: how rows are cut, run in parallel, and put together again.

use crate::{
    base::{batch::SampleBatch, error::Result, host, rng::Stream, stats::Stats},
    learn::{
        engines::tape::Tape,
        nets::{HostWeights, Net, Params},
        rows::{Loss, Report, Rows, Way, scatter, tensor},
    },
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
use tch::{Kind, Tensor};

/// Rows of a piece of the fused engine, about: small enough for the second-level cache.
pub(crate) const HOST_PIECE: usize = 256;
/// Rows of a piece of libtorch's, which needs more to be worth its overhead.
pub(crate) const TORCH_PIECE: usize = 1024;
/// The fused engine adds up gradients in at most so many places.
pub(crate) const SLOTS: usize = 16;
/// Rows of a slot, at least: waking another thread for fewer costs more than it brings.
const SLOT_ROWS: usize = 256;

/// Memory of the fused engine for some of the pieces.
#[derive(Debug)]
pub(crate) struct Slot {
    pub(crate) tape: Tape,
    pub(crate) names: Vec<&'static str>,
    pub(crate) stats: Vec<f64>,
    pub(crate) has_errors: bool,
}

/// The rows of a slot.
pub(crate) struct Part<'a> {
    pub(crate) index: usize,
    pub(crate) start: usize,
    pub(crate) len: usize,
    pub(crate) out: &'a mut [f32],
}

impl Slot {
    pub(crate) fn new() -> Self {
        let tape = Tape::new(Arch::new());
        Self { tape, names: Vec::new(), stats: Vec::new(), has_errors: false }
    }

    /// Gradient, written to `grads`, and statistics of a slot's rows, as their share of all `rows`.
    pub(crate) fn learn<L>(
        &mut self,
        net: &Net,
        weights: &[HostWeights<'_>],
        batch: &SampleBatch,
        rows: usize,
        (grads, errors): (&mut [f32], &mut [f32]),
        loss: &L,
    ) -> Result<()>
    where
        L: for<'t> Fn(&Rows<'t>) -> Result<Loss<'t>> + Sync,
    {
        grads.fill(0.0);
        self.names.clear();
        self.stats.clear();
        for (start, len) in bounds(batch.rows(), HOST_PIECE) {
            self.tape.reset(len);
            let tape = &self.tape;
            let piece = (len < batch.rows()).then(|| batch.slice(start, len));
            let piece = piece.as_ref().unwrap_or(batch);
            let loss = loss(&Rows { net, batch: piece, way: Way::Host { weights, tape } })?;
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
            tape.backward(loss.total.on_host(), share as f32, weights[0].flat, grads);
        }
        Ok(())
    }
}

/// How a statistic of pieces becomes that of all rows; a name says it.
#[derive(Clone, Copy)]
pub(crate) enum Over {
    Mean,
    Min,
    Max,
}

impl Over {
    pub(crate) fn of(name: &str) -> Self {
        if name.starts_with("min_") {
            Self::Min
        } else if name.starts_with("max_") {
            Self::Max
        } else {
            Self::Mean
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
    pub(crate) fn join(self, sum: f64, value: f64, share: f64) -> f64 {
        match self {
            Self::Mean => sum + share * value,
            Self::Min => sum.min(value),
            Self::Max => sum.max(value),
        }
    }

    /// The same of pieces' tensors, `[pieces]` each.
    pub(crate) fn join_tensors(self, values: &Tensor, shares: &Tensor) -> Tensor {
        match self {
            Self::Mean => values.dot(shares),
            Self::Min => values.min(),
            Self::Max => values.max(),
        }
    }
}

/// A piece's gradient and report by libtorch.
pub(crate) struct TorchPiece {
    pub(crate) gradient: Tensor,
    pub(crate) report: Report,
    pub(crate) noise: Option<Stream>,
}

pub(crate) fn torch_piece<L>(
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
pub(crate) fn bounds(rows: usize, size: usize) -> impl Iterator<Item = (usize, usize)> {
    even(rows, if rows < 2 * size { 1 } else { rows.div_ceil(size) })
}

/// Starts and lengths of the slots' rows.
pub(crate) fn slot_bounds(rows: usize) -> impl ExactSizeIterator<Item = (usize, usize)> + Clone {
    even(rows, (rows / SLOT_ROWS).clamp(1, SLOTS))
}

fn even(rows: usize, parts: usize) -> impl ExactSizeIterator<Item = (usize, usize)> + Clone {
    (0..parts).map(move |i| (i * rows / parts, (i + 1) * rows / parts - i * rows / parts))
}

/// Runs `f` on the rows of every slot (`bounds`); each writes into its own part of `out` (`columns` numbers per row).
///
/// The calling thread works too and every thread takes the next slot that is left, so one that gets little of its core
/// holds the others up for the slot it has begun and no more.
pub(crate) fn on_slots<F>(
    slots: &mut [Slot],
    bounds: impl ExactSizeIterator<Item = (usize, usize)>,
    columns: usize,
    out: &mut [f32],
    f: F,
) -> Result<()>
where
    F: Fn(&mut Slot, Part<'_>) -> Result<()> + Sync,
{
    if bounds.len() == 1 {
        let len = out.len() / columns;
        return f(&mut slots[0], Part { index: 0, start: 0, len, out });
    }
    let mut rest = out;
    let mut jobs: Vec<Mutex<Option<(&mut Slot, Part<'_>)>>> = Vec::with_capacity(SLOTS);
    for (index, ((start, len), slot)) in bounds.zip(slots).enumerate() {
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
    failed.into_inner().unwrap_or_else(PoisonError::into_inner)
}

/// Runs `f` on every input with the leaves of the thread it is on, in parallel; results are in order.
pub(crate) fn on_threads<I: Send, O: Send>(
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

pub(crate) fn host_weights(params: &Params) -> HostWeights<'_> {
    HostWeights { layout: params.layout(), flat: host::read(params.flat()) }
}

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
