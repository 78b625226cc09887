//! The operations that losses and networks are written in; an engine runs them.

use crate::base::Result;
use crate::experience::{Column, SampleBatch};
use crate::settings::Activation;
use std::fmt::Debug;
use tch::Tensor;

/// One operation on numbers of a graph. An engine says how it is computed and how its gradient flows.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Op {
    Exp,
    Log,
    Sqrt,
    Square,
    Abs,
    Sign,
    Tanh,
    Sigmoid,
    Softplus,
    Relu,
    /// Within two bounds; beyond them nothing flows back.
    Clamp(f64, f64),
    /// `x * scale + shift`.
    Scale(f64, f64),
    LogSoftmax,
    /// The logarithm of the sum of the exponentials of the columns.
    LogSumExp,
    Argmax,
    /// The columns of each row from the smallest to the largest; nothing flows back.
    SortColumns,
    SumColumns,
    MeanColumns,
    /// The mean over rows and columns.
    Mean,
    Detach,
    /// So many columns from there on.
    Narrow(usize, usize),
    Add,
    Sub,
    Mul,
    Div,
    Minimum,
    Maximum,
    /// Of each row the column that the second operand names.
    Gather,
    /// The columns of both.
    Cat,
    /// The loss of the first operand's quantiles at samples, the second operand's columns; nothing flows back to those.
    QuantileHuber,
    /// The first operand where the second is not 0, else -1e9: what an illegal action's logit becomes.
    Mask,
}

/// What an illegal action's logit becomes. With infinity, entropies would be 0 times infinity.
pub(crate) const MASKED: f32 = -1e9;

/// Parameters as a loss sees them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ParamSet {
    /// Those that learn.
    Online,
    /// The same, which this use does not change.
    Frozen,
    /// The target copy.
    Target,
}

/// A layer's place among the parameters, and its shape: all that an engine needs to apply it.
///
/// Parameters are numbered as the builder laid them out; a bias is the parameter behind its weight.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Layer {
    /// `weight` `[out, inputs]`.
    Dense { weight: usize, inputs: usize, out: usize, activation: Activation },
    /// As `Dense`, then the deviations of both; see [`NetBuilder::noisy`](crate::learn::nets::NetBuilder::noisy).
    Noisy { weight: usize, inputs: usize, out: usize, activation: Activation },
    /// `weight` `[channels out, channels in, kernel height, kernel width]`; `padding` is left, right, top, bottom.
    Conv2d {
        weight: usize,
        input: [usize; 3],
        stride: [usize; 2],
        padding: [usize; 4],
        activation: Activation,
    },
    /// A scale and a shift, `[width]` each.
    Norm { weight: usize, width: usize },
    /// Weights on the input `[gates * units, inputs]` and their bias, then those on the memory.
    Recurrent { weight: usize, units: usize, cell: Cell, memory: usize },
    /// Parameters that no layer reads, the same for every row.
    Free { parameter: usize },
}

/// What a recurrent layer is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cell {
    /// A gated recurrent unit (Cho et al. 2014); it remembers its output.
    Gru,
    /// Long short-term memory (Hochreiter and Schmidhuber 1997); it remembers its output and its cell state.
    Lstm,
}

impl Cell {
    /// Numbers that it remembers per row.
    pub(crate) fn memory(self, units: usize) -> usize {
        match self {
            Self::Gru => units,
            Self::Lstm => 2 * units,
        }
    }

    /// Gates, each of which has the units' weights.
    pub(crate) fn gates(self) -> usize {
        match self {
            Self::Gru => 3,
            Self::Lstm => 4,
        }
    }
}

/// Where values are computed: libtorch's graph of one piece, or a tape in plain memory.
pub(crate) trait Graph: Debug {
    fn apply(&self, op: Op, operands: &[usize]) -> usize;
    fn layer(&self, layer: Layer, which: ParamSet, operands: &[usize]) -> usize;
    /// A column of a batch, `[rows, columns]`.
    fn column(&self, batch: &SampleBatch, column: Column) -> Result<usize>;
    /// A column of observations in the network's numbers.
    fn observation(&self, batch: &SampleBatch, column: Column) -> Result<usize>;
    /// One number that is not differentiated.
    fn number(&self, number: f32) -> usize;
    /// Columns of a value; 0 for one number.
    fn columns(&self, id: usize) -> usize;
    /// The numbers of a value. Only libtorch has tensors.
    fn tensor(&self, id: usize) -> Tensor;
    /// A value of these numbers. Only libtorch has tensors.
    fn insert(&self, tensor: Tensor) -> usize;
}
