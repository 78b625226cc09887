//! The forward and the backward pass of recurrent layers on the tape.
//!
//! All sequences advance together, step by step. A step is a product of the layer's weights with all recurrent
//! states, and a pass over the gates. The input's contribution is computed before, for all rows at once.
//!
//! Two threads share the steps of a large layer: each computes some of the units. No sum is cut, so the bits are those of one
//! thread.

use crate::engines::recurrence::{Backward, Forward, Parts, ScanPlace, Step, Steps, divide};
use crate::engines::tape::{Made, Node, Tape};
use crate::kernels;
use crate::kernels::Left;
use crate::loss::Cell;
use pulp::Arch;
use std::ops::Range;

/// Least number of multiply-adds of a step that two threads share.
const SHARED_STEP: usize = 1 << 18;

/// What all steps of a recurrent layer have in common.
#[derive(Clone, Copy)]
struct Scan<'a> {
    arch: Arch,
    place: ScanPlace,
    steps: &'a Steps,
    /// Number of sequences.
    count: usize,
    /// Distance between the features of nodes, whose rows are those of all steps.
    rows: usize,
    flat: &'a [f32],
    /// Number of units that this thread computes; the second thread computes the others.
    own: usize,
}

impl<'a> Scan<'a> {
    fn new(tape: &'a Tape, place: ScanPlace, flat: &'a [f32]) -> Self {
        let steps = &tape.sequences.steps;
        let scan = Scan {
            arch: tape.arch,
            place,
            steps,
            count: tape.sequences.count,
            rows: tape.stride,
            flat,
            own: place.units,
        };
        let is_shared = tape.shared && scan.work() >= SHARED_STEP;
        // Tiles of a product have 4 features or a multiple of them.
        let own =
            if is_shared { (place.units / 2).next_multiple_of(4).min(place.units) } else { place.units };
        Scan { own, ..scan }
    }

    /// Number of multiply-adds of a step forward.
    fn work(self) -> usize {
        self.steps.stride * self.place.gates() * self.place.units
    }

    fn is_shared(self) -> bool {
        self.own < self.place.units
    }

    /// The units that each of the two threads computes.
    fn units(self) -> [Range<usize>; 2] {
        [0..self.own, self.own..self.place.units]
    }

    /// Number of parts of the recurrent state.
    fn memories(self) -> usize {
        self.place.cell.memory(1)
    }

    /// The numbers of some units in each part of a recurrent state.
    fn before<'s>(self, state: &'s [f32], units: &Range<usize>) -> [&'s [f32]; 2] {
        let mut parts: [&'s [f32]; 2] = Default::default();
        let size = self.place.units * self.steps.stride;
        for (to, part) in parts.iter_mut().zip(state.chunks_exact(size)) {
            *to = &part[units.start * self.steps.stride..units.end * self.steps.stride];
        }
        parts
    }

    /// Calls `f` once per thread, with what belongs to the thread.
    fn on_both<T: Send>(self, parts: [T; 2], f: impl Fn(Range<usize>, T) + Sync) {
        let [own, other] = parts;
        let [units, others] = self.units();
        if self.is_shared() {
            kernels::join(self.work(), || f(units, own), || f(others, other));
        } else {
            f(units, own);
        }
    }

    /// The contribution of the recurrent state `h` to the gates of some units.
    fn multiply(self, units: &Range<usize>, h: &[f32], gates: &mut Parts<'_>) {
        let inputs = self.place.units;
        let weights = &self.flat[self.place.weights()];
        let biases = &self.flat[self.place.biases()];
        for (gate, to) in gates.iter_mut().take(self.place.cell.gates()).enumerate() {
            let rows = gate * inputs + units.start..gate * inputs + units.end;
            let left = Left::Weight(&weights[rows.start * inputs..rows.end * inputs], &biases[rows]);
            kernels::product(self.arch, left, h, to, self.count);
        }
    }

    /// The columns of some units in the node with the input's contribution to the gates, gate by gate.
    fn columns(self, units: &Range<usize>, gate: usize) -> Range<usize> {
        let first = gate * self.place.units;
        (first + units.start) * self.rows..(first + units.end) * self.rows
    }
}

impl Tape {
    /// Adds a node with a recurrent layer's output at every row, computed with the parameters `flat`.
    pub(crate) fn scan(&self, place: ScanPlace, flat: &[f32]) -> usize {
        let sequences = &self.sequences;
        assert!(sequences.count > 0, "rows for a recurrent network come with what it remembers");
        let scan = Scan::new(self, place, flat);
        let steps = scan.steps;
        let stride = steps.stride;
        let spare = |n: usize| self.spare.take(n);
        let mut trace = spare(steps.count() * place.columns() * stride);
        let mut state = spare(place.width() * stride);
        let mut input = spare(place.gates() * stride);
        let mut out = self.zeros(place.units);
        let own = place.memory * stride..(place.memory + place.width()) * stride;
        state.copy_from_slice(&sequences.before[own.clone()]);
        {
            let from = &*self.data(place.from);
            let behind = &mut sequences.behind.borrow_mut()[own];
            for (t, step) in trace.chunks_exact_mut(place.columns() * stride).enumerate() {
                sequences.reset(t, &mut state);
                let Step { before, gates, inner } = place.parts(step, stride);
                before.copy_from_slice(&state);
                let before = &*before;
                let h = &before[..place.units * stride];
                if !scan.is_shared() {
                    let left = Left::Weight(&flat[place.weights()], &flat[place.biases()]);
                    kernels::product(self.arch, left, h, gates, scan.count);
                }
                let cut = |numbers, parts| divide(numbers, parts, scan.own * stride);
                let [gates, input] = [gates, &mut input].map(|numbers| cut(numbers, place.cell.gates()));
                let [state, behind] = [&mut state, &mut *behind].map(|numbers| cut(numbers, scan.memories()));
                let inner = cut(inner, 1);
                let out = divide(&mut out, 1, scan.own * self.stride);
                scan.on_both(
                    zip(zip(gates, input), zip(zip(state, behind), zip(inner, out))),
                    |units, parts| {
                        let ((mut gates, mut input), ((mut state, mut behind), ([inner, ..], [out, ..]))) =
                            parts;
                        for (gate, to) in input.iter_mut().take(place.cell.gates()).enumerate() {
                            steps.gather(&from[scan.columns(&units, gate)], scan.rows, t, to);
                        }
                        if scan.is_shared() {
                            scan.multiply(&units, h, &mut gates);
                        }
                        let before = scan.before(before, &units);
                        let each = Forward {
                            before,
                            input,
                            gates,
                            inner,
                            state: state.each_mut().map(|part| &mut **part),
                        };
                        match place.cell {
                            Cell::Gru => each.gru(scan.arch),
                            Cell::Lstm => each.lstm(scan.arch),
                        }
                        steps.scatter(state[0], t, out, scan.rows);
                        // A sequence that continues overwrites this state at its next step.
                        behind.iter_mut().zip(&state).for_each(|(to, from)| steps.keep(t, from, to));
                    },
                );
            }
        }
        for column in out.chunks_exact_mut(self.stride) {
            let (rows, padding) = column.split_at_mut(self.rows);
            padding.fill(rows[self.rows - 1]);
        }
        [state, input].into_iter().for_each(|buffer| self.spare.put(buffer));
        let wants = place.learns || self.wants(place.from);
        let trace = self.push(Made::Leaf, 0, trace, false);
        self.push(Made::Scan(ScanPlace { trace, ..place }), place.units, out, wants)
    }

    /// The backward pass of [`scan`](Self::scan).
    pub(crate) fn through_scan(
        &self,
        place: ScanPlace,
        nodes: &mut [Node],
        node: &Node,
        flat: &[f32],
        grads: &mut [f32],
    ) {
        let sequences = &self.sequences;
        let scan = Scan::new(self, place, flat);
        let steps = scan.steps;
        let (stride, count) = (steps.stride, scan.count);
        let spare = |n: usize| self.spare.take(n);
        let mut trace = std::mem::take(&mut nodes[place.trace].data);
        let mut to = self.summed_grad_of(nodes, place.from);
        let mut rooms = [(); 2].map(|()| spare(kernels::outer_room(count, place.units, place.gates())));
        // Gradients of the recurrent state, and of the gates' contributions from the input and from the state.
        let mut by_state = spare(place.width() * stride);
        let mut by_input = spare(place.gates() * stride);
        let mut by_gates = spare(place.gates() * stride);
        by_state.fill(0.0);
        let by_out = &*node.grad;
        for (t, step) in trace.chunks_exact_mut(place.columns() * stride).enumerate().rev() {
            let Step { before, gates, inner } = place.parts(step, stride);
            let before = &*before;
            {
                let cut = |numbers, parts| divide(numbers, parts, scan.own * stride);
                let [gates, by_input, by_gates] =
                    [gates, &mut by_input, &mut by_gates].map(|numbers| cut(numbers, place.cell.gates()));
                let by_state = cut(&mut by_state, scan.memories());
                let inner = cut(inner, 1);
                let to =
                    divide(to.as_deref_mut().unwrap_or_default(), place.cell.gates(), scan.own * self.stride);
                let parts = zip(zip(gates, inner), zip(zip(by_input, by_gates), zip(by_state, to)));
                scan.on_both(parts, |units, parts| {
                    let ((gates, [inner, ..]), ((mut by_input, by_gates), (mut by_state, to))) = parts;
                    steps.add(&by_out[scan.columns(&units, 0)], scan.rows, t, by_state[0]);
                    let each = Backward {
                        before: scan.before(before, &units),
                        gates,
                        inner,
                        by_state: by_state.each_mut().map(|part| &mut **part),
                        by_input: by_input.each_mut().map(|part| &mut **part),
                        by_gates,
                    };
                    match place.cell {
                        Cell::Gru => each.gru(scan.arch),
                        Cell::Lstm => each.lstm(scan.arch),
                    }
                    for (to, from) in to.into_iter().zip(by_input) {
                        steps.scatter(from, t, to, scan.rows);
                    }
                });
            }
            let h = &before[..place.units * stride];
            let by_gates = &*by_gates;
            // Each thread adds to the gradients of some gates' weights, and of some units of the recurrent state.
            let gates = scan.own * place.cell.gates();
            let (dw, db) = grads[place.weight..place.biases().end].split_at_mut(place.weights().len());
            let (dw, other_dw) = dw.split_at_mut(gates * place.units);
            let (db, other_db) = db.split_at_mut(gates);
            let (by_h, other_by_h) = by_state[..place.units * stride].split_at_mut(scan.own * stride);
            let [room, other_room] = &mut rooms;
            let parts = [
                (dw, db, by_h, room, 0..gates),
                (other_dw, other_db, other_by_h, other_room, gates..place.gates()),
            ];
            scan.on_both(parts, |units, (dw, db, by_h, room, gates)| {
                if place.learns {
                    let by_gates = &by_gates[gates.start * stride..gates.end * stride];
                    kernels::outer(scan.arch, by_gates, h, dw, db, count, room);
                }
                let weight = &flat[place.weights()][units.start..];
                let left = Left::Transposed { weight, columns: place.units, panel: place.units, add: true };
                kernels::product(scan.arch, left, by_gates, by_h, count);
            });
            sequences.reset(t, &mut by_state);
        }
        nodes[place.trace].data = trace;
        let [room, other] = rooms;
        [room, other, by_state, by_input, by_gates].into_iter().for_each(|buffer| self.spare.put(buffer));
    }
}

/// Pairs what belongs to the first thread, and what belongs to the second.
fn zip<A, B>([a, other_a]: [A; 2], [b, other_b]: [B; 2]) -> [(A, B); 2] {
    [(a, b), (other_a, other_b)]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The bits of a recurrent layer's outputs, of the state behind them, and of all gradients.
    fn bits(cell: Cell, units: usize, shared: bool) -> Vec<u32> {
        let lengths = [7, 12, 1, 12, 9, 3];
        let rows = lengths.iter().sum();
        let numbers = |count: usize, scale: f32| -> Vec<f32> {
            (0..count).map(|i| (i as f32 * scale).sin() * 0.5).collect()
        };
        let mut tape = Tape::new(kernels::arch());
        tape.reset(rows);
        tape.shared = shared;
        let memory = numbers(lengths.len() * cell.memory(units), 0.7);
        tape.sequences.set(lengths.into_iter(), &memory, (0..rows).map(|row| row % 11 == 3));
        let mut place =
            ScanPlace { from: 0, set: 0, learns: true, weight: 0, units, cell, memory: 0, trace: 0 };
        let mut input = tape.buffer(place.gates());
        let len = input.len();
        input.copy_from_slice(&numbers(len, 0.3));
        place.from = tape.push(Made::Leaf, place.gates(), input, true);
        let flat = numbers(place.biases().end, 0.01);
        assert_eq!(Scan::new(&tape, place, &flat).is_shared(), shared);
        let id = tape.scan(place, &flat);
        let mut grads = vec![0.0; flat.len()];
        let mut nodes = tape.nodes.borrow_mut();
        let mut by_out = tape.buffer(units);
        let len = by_out.len();
        by_out.copy_from_slice(&numbers(len, 0.9));
        nodes[id].grad = by_out;
        let Made::Scan(place) = nodes[id].made else { unreachable!("it is a recurrent layer") };
        let (before, rest) = nodes.split_at_mut(id);
        tape.through_scan(place, before, &rest[0], &flat, &mut grads);
        let behind = tape.sequences.behind.borrow();
        let parts = [&rest[0].data[..], &behind, &before[place.from].grad, &grads];
        parts.into_iter().flatten().map(|x| x.to_bits()).collect()
    }

    #[test]
    fn two_threads_compute_the_bits_of_one() {
        for cell in [Cell::Gru, Cell::Lstm] {
            // The second thread has fewer units than the first.
            for units in [96, 101] {
                let alone = bits(cell, units, false);
                assert!(alone.iter().filter(|&&bits| f32::from_bits(bits) != 0.0).count() > alone.len() / 2);
                for _ in 0..20 {
                    assert!(bits(cell, units, true) == alone, "{cell:?}, {units} units");
                }
            }
        }
    }
}
