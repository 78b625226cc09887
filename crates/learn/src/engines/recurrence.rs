//! Parts of recurrent layers on the tape: sequences of rows, places of parameters, gates.

use crate::kernels;
use crate::kernels::exp;
use crate::loss::Cell;
use pulp::Arch;
use std::cell::RefCell;

/// Where the rows of sequences lie, step by step.
#[derive(Debug, Default)]
pub(crate) struct Steps {
    /// For each step in turn, the sequences that are not over, each with its row at that step.
    places: Vec<(usize, usize)>,
    /// For each step, the index of its first entry in `places`; then the number of all entries.
    starts: Vec<usize>,
    /// Distance between the features of recurrent states: the number of sequences, rounded up by [`kernels::stride`].
    pub(crate) stride: usize,
}

/// The sequences that the rows of a piece form, in order.
#[derive(Debug, Default)]
pub(crate) struct TapeSequences {
    pub(crate) count: usize,
    pub(crate) steps: Steps,
    /// Recurrent state before each sequence, `[width][stride]`.
    pub(crate) before: Vec<f32>,
    /// Recurrent state after each sequence, written by recurrent layers, `[width][stride]`.
    pub(crate) behind: RefCell<Vec<f32>>,
    /// For each row, 0 if an episode begins with it, else 1.
    keep: Vec<f32>,
}

impl TapeSequences {
    /// Forgets the sequences but keeps the allocations.
    pub(crate) fn clear(&mut self) {
        self.count = 0;
    }

    /// Sets the lengths of the sequences, the recurrent state before each (`memory`, row-major), and for each row whether
    /// an episode begins with it.
    pub(crate) fn set(
        &mut self,
        lengths: impl Iterator<Item = usize> + Clone,
        memory: &[f32],
        begins: impl Iterator<Item = bool>,
    ) {
        self.count = lengths.clone().count();
        let Steps { places, starts, stride } = &mut self.steps;
        places.clear();
        starts.clear();
        for t in 0..lengths.clone().max().unwrap_or(0) {
            starts.push(places.len());
            let mut first = 0;
            for (s, len) in lengths.clone().enumerate() {
                if t < len {
                    places.push((s, first + t));
                }
                first += len;
            }
        }
        starts.push(places.len());
        let width = memory.len() / self.count;
        *stride = kernels::stride(self.count);
        self.before.clear();
        self.before.resize(width * *stride, 0.0);
        for (c, to) in self.before.chunks_exact_mut(*stride).enumerate() {
            to.iter_mut().zip(memory[c..].iter().step_by(width)).for_each(|(to, x)| *to = *x);
        }
        self.behind.get_mut().clone_from(&self.before);
        self.keep.clear();
        self.keep.extend(begins.map(|begins| if begins { 0.0 } else { 1.0 }));
    }

    /// Copies the recurrent state after each sequence to `memory`, row-major.
    pub(crate) fn recall(&self, memory: &mut [f32]) {
        let behind = self.behind.borrow();
        let width = memory.len() / self.count;
        for (s, to) in memory.chunks_exact_mut(width).enumerate() {
            to.iter_mut().enumerate().for_each(|(c, x)| *x = behind[c * self.steps.stride + s]);
        }
    }

    /// Zeroes the recurrent state of sequences in which an episode begins with step `t`.
    pub(crate) fn reset(&self, t: usize, memory: &mut [f32]) {
        for &(s, _) in self.steps.at(t).iter().filter(|(_, row)| self.keep[*row] == 0.0) {
            memory.chunks_exact_mut(self.steps.stride).for_each(|column| column[s] = 0.0);
        }
    }
}

impl Steps {
    /// Number of steps of the longest sequence.
    pub(crate) fn count(&self) -> usize {
        self.starts.len() - 1
    }

    /// The sequences that are not over at step `t`, each with its row at that step.
    pub(crate) fn at(&self, t: usize) -> &[(usize, usize)] {
        &self.places[self.starts[t]..self.starts[t + 1]]
    }

    /// In each column, copies the numbers of the rows of step `t` from `from` to the places of their sequences in `to`.
    /// Sequences that are over get zeros.
    pub(crate) fn gather(&self, from: &[f32], stride: usize, t: usize, to: &mut [f32]) {
        let places = self.at(t);
        for (from, to) in from.chunks_exact(stride).zip(to.chunks_exact_mut(self.stride)) {
            to.fill(0.0);
            for &(s, row) in places {
                to[s] = from[row];
            }
        }
    }

    /// Like [`gather`](Self::gather), but adds to the numbers in `to`, and leaves those of sequences that are over.
    pub(crate) fn add(&self, from: &[f32], stride: usize, t: usize, to: &mut [f32]) {
        let places = self.at(t);
        for (from, to) in from.chunks_exact(stride).zip(to.chunks_exact_mut(self.stride)) {
            for &(s, row) in places {
                to[s] += from[row];
            }
        }
    }

    /// Copies, column by column, the numbers of the sequences that are not over at step `t`.
    pub(crate) fn keep(&self, t: usize, from: &[f32], to: &mut [f32]) {
        let places = self.at(t);
        for (from, to) in from.chunks_exact(self.stride).zip(to.chunks_exact_mut(self.stride)) {
            for &(s, _) in places {
                to[s] = from[s];
            }
        }
    }

    /// Adds, column by column, the numbers of the sequences in `from` to their rows of step `t` in `to`.
    pub(crate) fn scatter(&self, from: &[f32], t: usize, to: &mut [f32], stride: usize) {
        let places = self.at(t);
        for (from, to) in from.chunks_exact(self.stride).zip(to.chunks_exact_mut(stride)) {
            for &(s, row) in places {
                to[row] += from[s];
            }
        }
    }
}

/// The operands and parameters of a recurrent layer on the tape. Another node, `from`, multiplies the input by its
/// weights.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ScanPlace {
    /// Index of the node with the input's contribution to the gates.
    pub(crate) from: usize,
    /// Set of parameters: 0 the network's, 1 the target copy's.
    pub(crate) set: usize,
    /// Whether the layer's parameters get a gradient.
    pub(crate) learns: bool,
    /// Index, in the flat buffer, of the first weight for the recurrent state; the biases follow these weights.
    pub(crate) weight: usize,
    pub(crate) units: usize,
    pub(crate) cell: Cell,
    /// Index of the layer's first number in the recurrent state of all layers.
    pub(crate) memory: usize,
    /// Node that stores every step for the backward pass.
    pub(crate) trace: usize,
}

impl ScanPlace {
    pub(crate) fn weights(self) -> std::ops::Range<usize> {
        self.weight..self.weight + self.gates() * self.units
    }

    pub(crate) fn biases(self) -> std::ops::Range<usize> {
        let end = self.weights().end;
        end..end + self.gates()
    }

    /// Number of columns of all gates together.
    pub(crate) fn gates(self) -> usize {
        self.cell.gates() * self.units
    }

    /// Number of columns of the layer's recurrent state.
    pub(crate) fn width(self) -> usize {
        self.cell.memory(self.units)
    }

    /// Number of columns that `trace` stores per step: the recurrent state before the step, gates, and inner units.
    pub(crate) fn columns(self) -> usize {
        self.width() + self.gates() + self.units
    }

    pub(crate) fn parts(self, step: &mut [f32], stride: usize) -> Step<'_> {
        let (before, rest) = step.split_at_mut(self.width() * stride);
        let (gates, inner) = rest.split_at_mut(self.gates() * stride);
        Step { before, gates, inner }
    }
}

/// The stored numbers of one step of all sequences.
pub(crate) struct Step<'a> {
    /// Recurrent state before the step, zeroed where an episode begins.
    pub(crate) before: &'a mut [f32],
    /// Values of the gates. The last gate of a GRU is the recurrent state's contribution to the new value.
    pub(crate) gates: &'a mut [f32],
    /// New value of a GRU; hyperbolic tangent of an LSTM's cell.
    pub(crate) inner: &'a mut [f32],
}

/// Numbers of the same units in each gate, or in each part of the recurrent state. A cell with fewer gates than an LSTM has
/// empty slices in the end.
pub(crate) type Parts<'a> = [&'a mut [f32]; 4];

/// Divides `parts` equal parts between two threads: the first `own` numbers of each part, and the others.
pub(crate) fn divide(all: &mut [f32], parts: usize, own: usize) -> [Parts<'_>; 2] {
    let mut sides: [Parts<'_>; 2] = Default::default();
    let size = all.len() / parts;
    if size > 0 {
        for (i, part) in all.chunks_exact_mut(size).enumerate() {
            (sides[0][i], sides[1][i]) = part.split_at_mut(own);
        }
    }
    sides
}

/// Numbers of some of a layer's units in a step forward: what the step reads, then what it writes.
pub(crate) struct Forward<'a> {
    /// Recurrent state before the step: the output, and the cell of an LSTM.
    pub(crate) before: [&'a [f32]; 2],
    /// Contribution of the input to each gate.
    pub(crate) input: Parts<'a>,
    /// Contribution of the recurrent state to each gate; then the gate's value. The last gate of a GRU keeps the contribution.
    pub(crate) gates: Parts<'a>,
    /// New value of a GRU; hyperbolic tangent of an LSTM's cell.
    pub(crate) inner: &'a mut [f32],
    /// Recurrent state after the step.
    pub(crate) state: Parts<'a>,
}

/// Numbers of some of a layer's units in a step backward: what the step reads, then what it writes.
pub(crate) struct Backward<'a> {
    /// Recurrent state before the step: the output, and the cell of an LSTM.
    pub(crate) before: [&'a [f32]; 2],
    pub(crate) gates: Parts<'a>,
    /// New value of a GRU; hyperbolic tangent of an LSTM's cell.
    pub(crate) inner: &'a [f32],
    /// Gradient of the recurrent state, after the step and then before it, but for what flows through the weights.
    pub(crate) by_state: Parts<'a>,
    /// Gradient of the input's contribution to each gate.
    pub(crate) by_input: Parts<'a>,
    /// Gradient of the recurrent state's contribution to each gate.
    pub(crate) by_gates: Parts<'a>,
}

#[inline(always)]
fn sigmoid(x: f32) -> f32 {
    1.0 / (1.0 + exp(-x))
}

/// Adds a contribution to a gate, and takes the sigmoid of the sum.
#[inline(always)]
fn open(gate: &mut [f32], input: &[f32]) {
    gate.iter_mut().zip(input).for_each(|(gate, x)| *gate = sigmoid(*gate + x));
}

impl Forward<'_> {
    /// Computes a GRU step with PyTorch's formulas: the new value `n` has `r` times the contribution of the recurrent
    /// state, and the new state is `(1 - z) n + z h`.
    pub(crate) fn gru(self, arch: Arch) {
        let [reset, update, from_memory, _] = self.gates;
        let [to_reset, to_update, to_new, _] = self.input;
        let [state, ..] = self.state;
        let inner = self.inner;
        arch.dispatch(|| {
            open(reset, to_reset);
            open(update, to_update);
            let each = inner.iter_mut().zip(&*to_new).zip(&*reset).zip(&*from_memory);
            each.for_each(|(((new, x), reset), h)| *new = x + reset * h);
        });
        kernels::tanh(arch, inner);
        arch.dispatch(|| {
            let each = state.iter_mut().zip(&*inner).zip(&*update).zip(self.before[0]);
            each.for_each(|(((state, new), update), h)| *state = new + update * (h - new));
        });
    }

    /// Computes an LSTM step with PyTorch's formulas. The gates are input, forget, new value and output; the state is
    /// `[h, c]`.
    pub(crate) fn lstm(self, arch: Arch) {
        let [take, forget, new, output] = self.gates;
        let [to_take, to_forget, to_new, to_output] = self.input;
        let [h, c, ..] = self.state;
        let inner = self.inner;
        arch.dispatch(|| {
            open(take, to_take);
            open(forget, to_forget);
            new.iter_mut().zip(&*to_new).for_each(|(gate, x)| *gate += x);
            open(output, to_output);
        });
        kernels::tanh(arch, new);
        arch.dispatch(|| {
            let each = c.iter_mut().zip(self.before[1]).zip(&*forget).zip(&*take).zip(&*new);
            each.for_each(|((((c, before), forget), take), new)| *c = forget * before + take * new);
        });
        inner.copy_from_slice(c);
        kernels::tanh(arch, inner);
        arch.dispatch(|| {
            h.iter_mut().zip(&*output).zip(&*inner).for_each(|((h, output), inner)| *h = output * inner);
        });
    }
}

impl Backward<'_> {
    /// Computes the gradients of a GRU step.
    pub(crate) fn gru(self, arch: Arch) {
        let n = self.inner.len();
        // Slices of equal length let the compiler vectorise the loops.
        let [reset, update, from_memory, _] = self.gates.map(|gate| &*gate);
        let [reset, update, from_memory] = [reset, update, from_memory].map(|gate| &gate[..n]);
        let [by_reset, by_update, by_new, _] = self.by_input;
        let [by_reset, by_update, by_new] = [by_reset, by_update, by_new].map(|by| &mut by[..n]);
        let [to_reset, to_update, to_memory, _] = self.by_gates;
        let [by_state, ..] = self.by_state;
        let by_state = &mut by_state[..n];
        let before = &self.before[0][..n];
        let inner = self.inner;
        arch.dispatch(|| {
            for i in 0..n {
                let g = by_state[i];
                let r = reset[i];
                let z = update[i];
                let new = inner[i];
                by_new[i] = g * (1.0 - z) * (1.0 - new * new);
                by_reset[i] = by_new[i] * from_memory[i] * r * (1.0 - r);
                by_update[i] = g * (before[i] - new) * z * (1.0 - z);
                by_state[i] = g * z;
            }
            to_reset.copy_from_slice(by_reset);
            to_update.copy_from_slice(by_update);
            let each = to_memory.iter_mut().zip(&*by_new).zip(reset);
            each.for_each(|((to, by_new), r)| *to = *by_new * r);
        });
    }

    /// Computes the gradients of an LSTM step.
    pub(crate) fn lstm(self, arch: Arch) {
        let n = self.inner.len();
        // Slices of equal length let the compiler vectorise the loop.
        let [take, forget, new, output] = self.gates.map(|gate| &gate[..n]);
        let [by_take, by_forget, by_new, by_output] = self.by_gates.map(|by| &mut by[..n]);
        let [by_h, by_c, ..] = self.by_state;
        let (by_h, by_c) = (&mut by_h[..n], &mut by_c[..n]);
        let before = &self.before[1][..n];
        let inner = self.inner;
        arch.dispatch(|| {
            for i in 0..n {
                let by_cell = by_c[i] + by_h[i] * output[i] * (1.0 - inner[i] * inner[i]);
                by_take[i] = by_cell * new[i] * take[i] * (1.0 - take[i]);
                by_forget[i] = by_cell * before[i] * forget[i] * (1.0 - forget[i]);
                by_new[i] = by_cell * take[i] * (1.0 - new[i] * new[i]);
                by_output[i] = by_h[i] * inner[i] * output[i] * (1.0 - output[i]);
                by_h[i] = 0.0;
                by_c[i] = by_cell * forget[i];
            }
        });
        let each = self.by_input.into_iter().zip([by_take, by_forget, by_new, by_output]);
        each.for_each(|(to, by)| to.copy_from_slice(by));
    }
}
