//! The fused engine: runs fully connected, convolutional and recurrent networks and their losses in reused plain memory.

use crate::base::{Array, Result, Stats, Stream, lock};
use crate::engines::backend::{Backend, HeadFn, LossFn, Report, RowFn, Sets, not_a_number, reaches_nothing};
use crate::engines::chains::JOINT_WORK;
use crate::engines::cut::{bounds, even, sequence_parts};
use crate::engines::fused_graph::FusedGraph;
use crate::engines::joined::Joined;
use crate::engines::load::{encoded, fill, scatter, sequences};
use crate::engines::tape::Tape;
use crate::engines::together::Together;
use crate::experience::{SampleBatch, Selection};
use crate::kernels;
use crate::kernels::{LANES, share_out};
use crate::loss::{Input, MinibatchInfo, Net, Observed, ParamSet, Remembered, Rows, Value};
use crate::params::{Buffer, Encoding, Layout, LearningGroups, Params, Raw, readable};
use pulp::Arch;
use std::cell::RefCell;
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

/// Approximate number of rows of a piece: small enough for the second-level cache.
const PIECE: usize = 256;
/// Largest number of slots of a batch. A slot is a range of its rows, cut into pieces, with a gradient of its own; slots
/// run in parallel.
const SLOTS: usize = 16;
/// Least number of rows of each of several slots (see `SLOTS`), for any network: with fewer the matrix products are slow.
const SLOT_ROWS: usize = 128;
/// Least number of rows times parameters of the network for each of several slots (see `SLOTS`), though [`PIECE`] rows are
/// enough for any network: waking another thread for less work costs more than it saves.
const SLOT_WORK: usize = PIECE << 14;

/// The fused engine: its memory for each slot, and the gradients of all slots but the first.
#[derive(Debug)]
pub(crate) struct Fused {
    encoding: Arc<Encoding>,
    slots: Vec<Slot>,
    gradients: Vec<Vec<f32>>,
    errors: Vec<f32>,
}

/// Memory for the computation of one slot, which is a range of a batch's rows.
#[derive(Debug)]
struct Slot {
    tape: Tape,
    stats: Vec<Joined>,
    has_errors: bool,
    /// The random stream of noisy layers behind the slot's rows. All slots draw the same.
    noise: Option<Stream>,
}

/// The rows of one slot, and the slot's part of the output.
struct Part<'a> {
    index: usize,
    start: usize,
    len: usize,
    out: &'a mut [f32],
}

impl Fused {
    pub(crate) fn new(encoding: &Arc<Encoding>) -> Self {
        let slot =
            || Slot { tape: Tape::new(kernels::arch()), stats: Vec::new(), has_errors: false, noise: None };
        Self {
            encoding: Arc::clone(encoding),
            slots: (0..SLOTS).map(|_| slot()).collect(),
            gradients: Vec::new(),
            errors: Vec::new(),
        }
    }
}

impl Backend for Fused {
    fn gradient(
        &mut self,
        sets: &Sets,
        batch: &SampleBatch,
        about: MinibatchInfo<'_>,
        (noise, together): (Option<&mut Stream>, Option<&Together>),
        loss: &dyn LossFn,
        gradient: &mut Buffer,
    ) -> Result<Report> {
        let Self { encoding, slots, gradients, errors } = self;
        let encoding = &**encoding;
        errors.resize(batch.rows(), 0.0);
        let flats: Vec<&[f32]> = sets.iter().map(Params::flat).collect();
        let layout = sets[0].layout();
        let bounds = slots_of(batch, layout);
        let gradient = gradient.write().expect("this engine computes in the main memory");
        let used = bounds.len();
        gradients.resize_with(gradients.len().max(used - 1), || vec![0.0; gradient.len()]);
        let shared = together.and_then(|together| Some((together, together.own(used)?)));
        let own = shared.as_ref().map_or(0..used, |(_, own)| own.clone());
        let rows = rows_of(&bounds[own.clone()]);
        let places = std::iter::once(&mut *gradient).chain(gradients.iter_mut().map(Vec::as_mut_slice));
        let inputs: Vec<Mutex<(SampleBatch, &mut [f32])>> = bounds
            .iter()
            .zip(places)
            .map(|(&(start, len), place)| Mutex::new((batch.slice(start, len), place)))
            .collect();
        let parts = bounds[own.clone()].iter().copied();
        // Several slots have a thread each; two threads share the layers of a single one.
        let joint = own.len() == 1 && is_for_two(batch.rows(), layout);
        let before = noise.as_deref();
        on_slots(&mut slots[own.clone()], parts, 1, &mut errors[rows.clone()], |slot, part| {
            let (batch, gradient) = &mut *lock(&inputs[own.start + part.index]);
            slot.noise = before.cloned();
            slot.learn((layout, encoding), (&flats, joint), batch, about, (gradient, part.out), loss)
        })?;
        drop(inputs);
        if let (Some(noise), Some(after)) = (noise, slots[own.start].noise.take()) {
            *noise = after;
        }
        // The first slot wrote its gradient to the sum itself.
        let add = |sum: &mut [f32]| {
            for more in &gradients[own.start.max(1) - 1..own.end - 1] {
                sum.iter_mut().zip(more).for_each(|(g, &x)| *g += x);
            }
        };
        match &shared {
            None => add(gradient),
            Some((together, own)) => {
                together.add_up(gradient, add)?;
                share_reports(together, &mut slots[..used], own, (errors, rows))?;
            }
        }
        let (first, others) = slots[..used].split_at_mut(1);
        for slot in others {
            first[0].stats.iter_mut().zip(&slot.stats).for_each(|(sum, more)| sum.join(more));
        }
        Ok(Report {
            stats: Stats::new(first[0].stats.iter().map(|stat| (stat.name, stat.value())))
                .undefined(first[0].stats.iter().filter_map(Joined::may_be_undefined)),
            td_errors: first[0].has_errors.then(|| Array::from_slice(errors)),
            groups: about.live.learning.to_vec(),
        })
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
        let rows = seen.obs.len();
        let mut own = None;
        let raw = Raw::of(readable(seen.obs, &mut own));
        let encoding = &*self.encoding;
        let layout = sets[0].layout();
        let flats = [sets[0].flat()];
        let live = LearningGroups { groups: &[], learning: &[] };
        let choices = seen.mask.map_or(0, |mask| mask.len() / rows);
        let look = |tape: &Tape, rows: &Selection, out: &mut [f32]| {
            let noise = noise.clone().map(RefCell::new);
            let graph = FusedGraph { tape, layout, encoding, flats: &flats, live, noise };
            let obs = encoded(tape, encoding, raw, rows);
            let mask = seen.mask.map(|mask| fill(tape, mask, choices, rows, f32::from));
            let of = |id| Value::new(&graph, id);
            let value = head.at(Net::new(&graph, ParamSet::Frozen), Input::new(of(obs), mask.map(of)));
            scatter(tape, value.id(), out);
        };
        if let Some(Remembered { memory, resets, lengths }) = seen.remembered {
            let tape = &mut self.slots[0].tape;
            let count = lengths.map_or(rows, <[usize]>::len);
            let width = memory.len() / count;
            let mut start = 0;
            for (first, count) in bounds(count, if lengths.is_some() { LANES } else { PIECE }) {
                let lengths = (first..first + count).map(|s| lengths.map_or(1, |lengths| lengths[s]));
                let memory = &mut memory[first * width..][..count * width];
                let len = lengths.clone().sum();
                tape.reset(len);
                // Layers that wait would allocate.
                tape.shared = is_for_two(len, layout);
                tape.sequences.set(lengths, memory, resets[start..][..len].iter().copied());
                look(tape, &Selection::Range(start, len), &mut out[start * columns..][..len * columns]);
                tape.sequences.recall(memory);
                start += len;
            }
            return Ok(());
        }
        on_slots(&mut self.slots, slot_bounds(rows, layout), columns, out, |slot, part| {
            for (start, len) in bounds(part.len, PIECE) {
                slot.tape.reset(len);
                let rows = Selection::Range(part.start + start, len);
                look(&slot.tape, &rows, &mut part.out[start * columns..][..len * columns]);
            }
            Ok(())
        })
    }

    fn per_row(
        &mut self,
        sets: &Sets,
        batch: &SampleBatch,
        about: MinibatchInfo<'_>,
        f: &dyn RowFn,
        out: &mut [f32],
    ) -> Result<()> {
        let flats: Vec<&[f32]> = sets.iter().map(Params::flat).collect();
        let tape = &mut self.slots[0].tape;
        for (start, len) in pieces_of(batch) {
            tape.reset(len);
            let piece = batch.slice(start, len);
            sequences(tape, &piece)?;
            let layout = sets[0].layout();
            let encoding = &*self.encoding;
            let graph = FusedGraph { tape, layout, encoding, flats: &flats, live: about.live, noise: None };
            let id = f.at(&Rows::new(&graph, &piece, about))?.id();
            scatter(tape, id, &mut out[start..start + len]);
        }
        Ok(())
    }

    fn columns(&mut self, sets: &Sets, memory_width: usize, head: &dyn HeadFn) -> Result<usize> {
        let encoding = &*self.encoding;
        let zeros = encoding.zeros(1);
        let tape = &mut self.slots[0].tape;
        tape.reset(1);
        if memory_width > 0 {
            tape.sequences.set([1].into_iter(), &vec![0.0; memory_width], [false].into_iter());
        }
        let live = LearningGroups { groups: &[], learning: &[] };
        let flats = [sets[0].flat()];
        let graph = FusedGraph { tape, layout: sets[0].layout(), encoding, flats: &flats, live, noise: None };
        let obs = encoded(tape, encoding, Raw::of(zeros.lend()), &Selection::Range(0, 1));
        let x = Input::new(Value::new(&graph, obs), None);
        Ok(head.at(Net::new(&graph, ParamSet::Frozen), x).columns())
    }

    fn name(&self) -> &'static str {
        "fused"
    }

    fn set_arch(&mut self, arch: Arch) {
        self.slots.iter_mut().for_each(|slot| slot.tape = Tape::new(arch));
    }
}

impl Slot {
    /// Computes the gradient, the TD errors and the statistics of the slot's rows, which are `batch`. Gradient and means
    /// are weighted by the rows' share of all rows of the minibatch.
    fn learn(
        &mut self,
        (layout, encoding): (&Layout, &Encoding),
        (flats, joint): (&[&[f32]], bool),
        batch: &SampleBatch,
        about: MinibatchInfo<'_>,
        (gradient, errors): (&mut [f32], &mut [f32]),
        loss: &dyn LossFn,
    ) -> Result<()> {
        gradient.fill(0.0);
        self.stats.clear();
        let before = self.noise.clone();
        for (start, len) in pieces_of(batch) {
            self.tape.reset(len);
            self.tape.shared = joint;
            self.tape.joint = joint;
            let piece = (len < batch.rows()).then(|| batch.slice(start, len));
            sequences(&mut self.tape, piece.as_ref().unwrap_or(batch))?;
            let tape = &self.tape;
            let noise = before.clone().map(RefCell::new);
            let graph = FusedGraph { tape, layout, encoding, flats, live: about.live, noise };
            let loss = loss.at(&Rows::new(&graph, piece.as_ref().unwrap_or(batch), about))?;
            tape.settle(flats);
            let share = len as f64 / about.mean_rows;
            if self.stats.is_empty() {
                self.stats.extend(loss.stats.iter().map(Joined::none));
            }
            for (sum, stat) in self.stats.iter_mut().zip(&loss.stats) {
                sum.add(tape, stat, len as f64 / about.rows as f64)?;
            }
            self.has_errors = loss.td_errors.is_some();
            if let Some(of_rows) = &loss.td_errors {
                scatter(tape, of_rows.id(), &mut errors[start..start + len]);
            }
            let total = loss.total.id();
            if tape.cols(total) > 0 {
                return Err(not_a_number("total", tape.cols(total)));
            }
            if !tape.wants(total) && !about.live.learning.is_empty() {
                return Err(reaches_nothing());
            }
            tape.backward(total, share as f32, flats, gradient);
            self.noise = graph.noise.map(RefCell::into_inner);
        }
        Ok(())
    }
}

/// The range of rows that consecutive slots cover together.
fn rows_of(bounds: &[(usize, usize)]) -> Range<usize> {
    let first = bounds[0];
    let last = bounds[bounds.len() - 1];
    first.0..last.0 + last.1
}

/// Exchanges statistics and TD errors with the other learners. This learner gives those of its slots `own` and its rows
/// `rows`; then it has those of all slots and rows.
fn share_reports(
    together: &Together,
    slots: &mut [Slot],
    own: &Range<usize>,
    (errors, rows): (&mut [f32], Range<usize>),
) -> Result<()> {
    let told: Vec<[f64; 5]> =
        slots[own.clone()].iter().flat_map(|slot| slot.stats.iter().map(|stat| stat.sums)).collect();
    let names = slots[own.start].stats.clone();
    let has_errors = slots[own.start].has_errors;
    let mut told = together.gather(&told)?.into_iter().flatten();
    for slot in slots {
        slot.stats.clone_from(&names);
        slot.stats.iter_mut().zip(&mut told).for_each(|(stat, sums)| stat.sums = sums);
        slot.has_errors = has_errors;
    }
    if has_errors {
        let of_all = together.gather(&errors[rows])?;
        errors.iter_mut().zip(of_all.into_iter().flatten()).for_each(|(error, told)| *error = told);
    }
    Ok(())
}

/// Whether the layers of so many rows are large enough for two threads, and there are two.
fn is_for_two(rows: usize, layout: &Layout) -> bool {
    rows * layout.size() >= 2 * JOINT_WORK && rayon::current_num_threads() > 1
}

/// Starts and lengths, in rows, of the slots of a batch without sequences. Their number depends on the rows and on the
/// size of the network, not on the number of threads.
fn slot_bounds(rows: usize, layout: &Layout) -> impl ExactSizeIterator<Item = (usize, usize)> + Clone {
    let slot_rows = (SLOT_WORK / layout.size().max(1)).clamp(SLOT_ROWS, PIECE);
    even(rows, (rows / slot_rows).clamp(1, SLOTS))
}

/// Cuts a batch into slots (see `SLOTS`); returns the start and the length of each, in rows. Sequences are never cut, and a
/// slot has at least [`LANES`] of them if the batch does.
fn slots_of(batch: &SampleBatch, layout: &Layout) -> Vec<(usize, usize)> {
    match batch.sequences() {
        None => slot_bounds(batch.rows(), layout).collect(),
        Some(lengths) => sequence_parts(lengths, (lengths.len() / LANES).clamp(1, SLOTS)),
    }
}

/// Cuts the rows of a slot, `batch`, into pieces; returns the start and the length of each, in rows.
fn pieces_of(batch: &SampleBatch) -> Vec<(usize, usize)> {
    match batch.sequences() {
        None => bounds(batch.rows(), PIECE).collect(),
        Some(lengths) => sequence_parts(lengths, (lengths.len() / LANES).max(1)),
    }
}

/// Runs `f` for every slot, in parallel: on its rows (`bounds`) and its part of `out`, `columns` numbers per row.
fn on_slots<F>(
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
    let mut jobs = Vec::with_capacity(SLOTS);
    for (index, ((start, len), slot)) in bounds.zip(slots).enumerate() {
        let (out, behind) = rest.split_at_mut(len * columns);
        jobs.push((slot, Part { index, start, len, out }));
        rest = behind;
    }
    let failed = Mutex::new(Ok(()));
    share_out(jobs, |(slot, part)| {
        if let Err(error) = f(slot, part) {
            *lock(&failed) = Err(error);
        }
    });
    failed.into_inner().unwrap_or_else(PoisonError::into_inner)
}
