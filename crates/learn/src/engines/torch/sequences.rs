//! Recurrent layers by libtorch: sequences of rows, and the recurrent states before and after them.

use crate::base::Result;
use crate::engines::torch::columns;
use crate::experience::{Column, SampleBatch};
use crate::loss::Cell;
use std::cell::RefCell;
use tch::{Device, Kind, Tensor};

/// The sequences that some rows form, in order.
#[derive(Debug)]
pub(crate) struct Sequences {
    /// Number of rows of each sequence. All are as long as the first, except shorter ones at the ends of fragments.
    lengths: Vec<i64>,
    /// Recurrent state before the first row of each sequence, `[sequences, width]`.
    memory: Tensor,
    /// For each row, 1 if an episode begins with it, else 0: `[rows, 1]`.
    resets: Tensor,
    /// Recurrent state after the last row of each sequence, written by recurrent layers.
    behind: RefCell<Tensor>,
}

impl Sequences {
    /// The sequences of a batch's rows; `None` if the rows form no sequences.
    pub(super) fn of(batch: &SampleBatch, device: Device) -> Result<Option<Self>> {
        let Some(lengths) = batch.sequences() else { return Ok(None) };
        let lengths = lengths.iter().map(|&n| n as i64).collect();
        let [memory, resets] =
            [Column::STATE_IN, Column::RESETS].map(|column| columns::tensor(batch, column, device));
        Ok(Some(Self::new(lengths, memory?, resets?)))
    }

    pub(crate) fn new(lengths: Vec<i64>, memory: Tensor, resets: Tensor) -> Self {
        let behind = RefCell::new(memory.detach().copy());
        let resets = resets.to_kind(Kind::Float).view([-1, 1]);
        Self { lengths, memory, resets, behind }
    }

    /// Recurrent state after the last row of each sequence, `[sequences, width]`.
    pub(crate) fn behind(self) -> Tensor {
        self.behind.into_inner()
    }

    /// Computes a recurrent layer's output at every row of `x`. `weights` are those of the input and their bias, then
    /// those of the recurrent state; the layer's state begins at column `memory`.
    pub(crate) fn scan(
        &self,
        x: &Tensor,
        weights: [&Tensor; 4],
        cell: Cell,
        units: usize,
        memory: usize,
    ) -> Tensor {
        let [weight_ih, bias_ih, weight_hh, bias_hh] = weights;
        let steps = self.lengths.iter().copied().max().unwrap_or(0);
        let from_input = self.by_step(&x.linear(weight_ih, Some(bias_ih)), steps);
        let keep = self.by_step(&self.resets, steps) * -1.0 + 1.0;
        let width = cell.memory(units) as i64;
        let mut state = self.memory.narrow(1, memory as i64, width);
        let mut outputs = Vec::with_capacity(steps as usize);
        let mut states = Vec::with_capacity(steps as usize);
        for t in 0..steps {
            // Not in place: the output of the step before shares this memory.
            let kept = &state * keep.get(t);
            state = step(cell, units as i64, &from_input.get(t), &kept, weight_hh, bias_hh);
            outputs.push(state.narrow(1, 0, units as i64));
            states.push(state.shallow_clone());
        }
        self.remember(&states, memory as i64, width);
        self.by_row(&Tensor::stack(&outputs, 0))
    }

    fn are_even(&self, steps: i64) -> bool {
        self.lengths.iter().all(|&length| length == steps)
    }

    /// Reorders `[rows, n]` to `[steps, sequences, n]`; rows beyond the end of a sequence are zeros.
    fn by_step(&self, x: &Tensor, steps: i64) -> Tensor {
        let n = x.size()[1];
        if self.are_even(steps) {
            return x.view([-1, steps, n]).transpose(0, 1).contiguous();
        }
        let sequences = x.split_with_sizes(&self.lengths, 0);
        let padded: Vec<Tensor> =
            sequences.iter().map(|s| s.constant_pad_nd([0, 0, 0, steps - s.size()[0]])).collect();
        Tensor::stack(&padded, 1)
    }

    /// Reorders `[steps, sequences, n]` to `[rows, n]`, as the inverse of [`by_step`](Self::by_step).
    fn by_row(&self, x: &Tensor) -> Tensor {
        let [steps, _, n] = x.size()[..] else { unreachable!("three axes were stacked") };
        let by_sequence = x.transpose(0, 1);
        if self.are_even(steps) {
            return by_sequence.reshape([-1, n]);
        }
        let rows: Vec<Tensor> = self
            .lengths
            .iter()
            .enumerate()
            .map(|(i, &length)| by_sequence.get(i as i64).narrow(0, 0, length))
            .collect();
        Tensor::cat(&rows, 0)
    }

    fn remember(&self, states: &[Tensor], memory: i64, width: i64) {
        let _guard = tch::no_grad_guard();
        let behind = self.behind.borrow_mut();
        if let (true, Some(last)) = (self.are_even(states.len() as i64), states.last()) {
            return behind.narrow(1, memory, width).copy_(last);
        }
        for (i, &length) in self.lengths.iter().enumerate().filter(|(_, length)| **length > 0) {
            let last = states[length as usize - 1].get(i as i64);
            behind.get(i as i64).narrow(0, memory, width).copy_(&last);
        }
    }
}

/// Computes one step of all sequences, with PyTorch's formulas.
fn step(
    cell: Cell,
    units: i64,
    from_input: &Tensor,
    state: &Tensor,
    weight: &Tensor,
    bias: &Tensor,
) -> Tensor {
    let h = state.narrow(1, 0, units);
    let from_memory = h.linear(weight, Some(bias));
    let gate = |of: &Tensor, i: i64| of.narrow(1, i * units, units);
    match cell {
        Cell::Gru => {
            let both = |i| gate(from_input, i) + gate(&from_memory, i);
            let reset = both(0).sigmoid();
            let update = both(1).sigmoid();
            let new = (gate(from_input, 2) + reset * gate(&from_memory, 2)).tanh();
            // (1 - z) n + z h
            &new + update * (h - &new)
        }
        Cell::Lstm => {
            let both = from_input + from_memory;
            let [input, forget, output] = [0, 1, 3].map(|i| gate(&both, i).sigmoid());
            let c = forget * state.narrow(1, units, units) + input * gate(&both, 2).tanh();
            Tensor::cat(&[output * c.tanh(), c], 1)
        }
    }
}
