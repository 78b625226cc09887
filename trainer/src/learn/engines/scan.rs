//! The forward and the backward pass of recurrent layers on the tape.
//!
//! All sequences advance together, step by step. A step is a product of the layer's weights with all recurrent
//! states, and a pass over the gates. The input's contribution is computed before, for all rows at once.

use crate::learn::engines::recurrence::ScanPlace;
use crate::learn::engines::tape::{Made, Node, Tape};
use crate::learn::kernels;
use crate::learn::kernels::Left;
use crate::learn::loss::Cell;

impl Tape {
    /// Adds a node with a recurrent layer's output at every row, computed with the parameters `flat`.
    pub(crate) fn scan(&self, place: ScanPlace, flat: &[f32]) -> usize {
        let sequences = &self.sequences;
        let spare = |n: usize| self.spare.take(n);
        let count = sequences.count;
        let stride = sequences.stride;
        assert!(count > 0, "rows for a recurrent network come with what it remembers");
        let mut trace = spare(sequences.steps() * place.columns() * stride);
        let mut state = spare(place.width() * stride);
        let mut input = spare(place.gates() * stride);
        let mut out = self.zeros(place.units);
        let own = place.memory * stride..(place.memory + place.width()) * stride;
        state.copy_from_slice(&sequences.before[own.clone()]);
        let left = Left::Weight(&flat[place.weights()], &flat[place.biases()]);
        for (t, step) in trace.chunks_exact_mut(place.columns() * stride).enumerate() {
            let mut step = place.parts(step, stride);
            sequences.reset(t, &mut state);
            step.before.copy_from_slice(&state);
            sequences.gather(&self.data(place.from), self.stride, t, &mut input);
            kernels::product(self.arch, left, &step.before[..step.n], step.gates, count);
            match place.cell {
                Cell::Gru => step.gru(self.arch, &input, &mut state),
                Cell::Lstm => step.lstm(self.arch, &input, &mut state),
            }
            sequences.scatter(&state[..step.n], t, &mut out, self.stride);
            // A sequence that continues overwrites this state at its next step.
            let behind = &mut sequences.behind.borrow_mut()[own.clone()];
            for (behind, state) in behind.chunks_exact_mut(stride).zip(state.chunks_exact(stride)) {
                for &(s, _) in sequences.at(t) {
                    behind[s] = state[s];
                }
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
        let spare = |n: usize| self.spare.take(n);
        let count = sequences.count;
        let stride = sequences.stride;
        let mut trace = std::mem::take(&mut nodes[place.trace].data);
        let mut to = self.summed_grad_of(nodes, place.from);
        let mut room = spare(kernels::outer_room(count, place.units, place.gates()));
        // Gradients of the recurrent state, and of the gates' contributions from the input and from the state.
        let mut by_state = spare(place.width() * stride);
        let mut by_input = spare(place.gates() * stride);
        let mut by_gates = spare(place.gates() * stride);
        by_state.fill(0.0);
        for (t, step) in trace.chunks_exact_mut(place.columns() * stride).enumerate().rev() {
            let step = place.parts(step, stride);
            for (by_unit, grad) in by_state.chunks_exact_mut(stride).zip(node.grad.chunks_exact(self.stride))
            {
                for &(s, row) in sequences.at(t) {
                    by_unit[s] += grad[row];
                }
            }
            match place.cell {
                Cell::Gru => step.through_gru(self.arch, &mut by_state, &mut by_input, &mut by_gates),
                Cell::Lstm => step.through_lstm(self.arch, &mut by_state, &mut by_input, &mut by_gates),
            }
            let before = &step.before[..step.n];
            if place.learns {
                let to = &mut grads[place.weight..place.biases().end];
                let (dw, db) = to.split_at_mut(place.weights().len());
                kernels::outer(self.arch, &by_gates, before, dw, db, count, &mut room);
            }
            let left = Left::Transposed { weight: &flat[place.weights()], panel: place.units, add: true };
            kernels::product(self.arch, left, &by_gates, &mut by_state[..step.n], count);
            sequences.reset(t, &mut by_state);
            if let Some(to) = &mut to {
                sequences.scatter(&by_input, t, to, self.stride);
            }
        }
        nodes[place.trace].data = trace;
        [room, by_state, by_input, by_gates].into_iter().for_each(|buffer| self.spare.put(buffer));
    }
}
