//! The operations and layers of which losses and networks consist, and the trait of the engines that compute them.

use crate::base::Result;
use crate::experience::{Column, SampleBatch};
use crate::layers::Activation;
use std::fmt::Debug;

/// An operation on values of a graph. Each engine computes its result and its gradient.
#[derive(Clone, Copy, Debug)]
pub enum Op {
    /// The exponential of each number.
    Exp,
    /// The natural logarithm of each number.
    Log,
    /// The square root of each number.
    Sqrt,
    /// The square of each number.
    Square,
    /// The absolute value of each number.
    Abs,
    /// The sign of each number: -1, 0 or 1.
    Sign,
    /// The hyperbolic tangent of each number.
    Tanh,
    /// The function `1 / (1 + exp(-x))` of each number.
    Sigmoid,
    /// The function `ln(1 + exp(x))` of each number.
    Softplus,
    /// The function `max(x, 0)` of each number.
    Relu,
    /// Clamps between a lower and an upper bound; beyond them the gradient is 0.
    Clamp(f64, f64),
    /// Computes `x * scale + shift`.
    Scale(f64, f64),
    /// The logarithms of the softmax over the columns of each row.
    LogSoftmax,
    /// The logarithm of the sum of the exponentials of the columns.
    LogSumExp,
    /// The index of the largest column of each row; without gradient.
    Argmax,
    /// Sorts the columns of each row, smallest first; without gradient.
    SortColumns,
    /// The sum of the columns of each row.
    SumColumns,
    /// The mean of the columns of each row.
    MeanColumns,
    /// The mean over rows and columns.
    Mean,
    /// The numbers themselves, without gradient.
    Detach,
    /// Selects columns: `(start, len)`.
    Narrow(usize, usize),
    /// The sum of both operands.
    Add,
    /// The first operand minus the second.
    Sub,
    /// The product of both operands, number by number.
    Mul,
    /// The first operand divided by the second, number by number.
    Div,
    /// The smaller number of both operands.
    Minimum,
    /// The larger number of both operands.
    Maximum,
    /// Selects one block of so many columns per row; the second operand holds its index.
    Gather(usize),
    /// Joins the columns of both operands.
    Cat,
    /// The quantile Huber loss: quantiles in the first operand, samples in the second, which gets no gradient.
    QuantileHuber,
    /// The sum over the columns, each times the place of its atom between two bounds.
    Expectation(f64, f64),
    /// Moves the probabilities of atoms between two bounds by reward and discount, which the second operand holds; without
    /// gradient.
    Project(f64, f64),
    /// Replaces the first operand by -1e9, as logits of illegal actions, where the second is 0.
    Mask,
}

/// Logit of illegal actions. It is finite, because an entropy with minus infinity would have 0 times infinity.
pub const MASKED: f32 = -1e9;

/// The set of parameters that a layer uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ParamSet {
    /// Parameters that learn.
    Online,
    /// Parameters that learn, but get no gradient through this layer.
    Frozen,
    /// Parameters of the target copy.
    Target,
}

/// A layer's parameters, by index, and its shape: all that an engine needs to apply the layer.
///
/// Parameters are numbered in the order they were laid out; a bias follows its weight.
#[derive(Clone, Copy, Debug)]
pub enum Layer {
    /// A linear layer: `weight` is `[out, inputs]`.
    Dense {
        /// Index of the weight; the bias is the next parameter.
        weight: usize,
        /// Number of columns of the input.
        inputs: usize,
        /// Number of columns of the result.
        out: usize,
        /// Activation of the result.
        activation: Activation,
    },
    /// A noisy linear layer: weight and bias as of `Dense`, then the sizes of their noise; see
    /// [`NetBuilder::noisy`](crate::nets::NetBuilder::noisy).
    Noisy {
        /// Index of the weight; the bias and the sizes of the noise of both are the next parameters.
        weight: usize,
        /// Number of columns of the input.
        inputs: usize,
        /// Number of columns of the result.
        out: usize,
        /// Activation of the result.
        activation: Activation,
    },
    /// A convolution: `weight` is `[channels out, channels in, kernel height, kernel width]`; `padding` is left,
    /// right, top, bottom.
    Conv2d {
        /// Index of the weight; the bias is the next parameter.
        weight: usize,
        /// Channels, height and width of the input.
        input: [usize; 3],
        /// Number of pixels by which the kernel moves down and to the right.
        stride: [usize; 2],
        /// Number of pixels of zeros that are added left, right, on top and at the bottom.
        padding: [usize; 4],
        /// Activation of the result.
        activation: Activation,
    },
    /// Layer normalisation: a scale and a shift, `[width]` each.
    Norm {
        /// Index of the scale; the shift is the next parameter.
        weight: usize,
        /// Number of columns of the input and of the result.
        width: usize,
    },
    /// A recurrent layer: weights on the input `[gates * units, inputs]` and their bias, then those on the recurrent
    /// state.
    Recurrent {
        /// Index of the weights on the input; three more parameters follow.
        weight: usize,
        /// Number of units, which is the number of columns of the result.
        units: usize,
        /// The kind of layer.
        cell: Cell,
        /// Index of the layer's first scalar in the recurrent state of a row.
        memory: usize,
    },
    /// Parameters that belong to no layer: the result is their values, repeated for every row.
    Free {
        /// Index of the parameter.
        parameter: usize,
    },
}

/// The kind of a recurrent layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cell {
    /// Gated recurrent unit (Cho et al. 2014); its state is its output.
    Gru,
    /// Long short-term memory (Hochreiter and Schmidhuber 1997); its state is its output and its cell.
    Lstm,
}

impl Cell {
    /// Number of scalars of the recurrent state per row.
    #[inline]
    pub fn memory(self, units: usize) -> usize {
        self.parts() * units
    }

    /// Number of parts of the recurrent state, each of which has a scalar per unit.
    #[inline]
    pub fn parts(self) -> usize {
        match self {
            Self::Gru => 1,
            Self::Lstm => 2,
        }
    }

    /// Number of gates; each has weights for all units.
    #[inline]
    pub fn gates(self) -> usize {
        match self {
            Self::Gru => 3,
            Self::Lstm => 4,
        }
    }
}

/// What applies a module in tch, of whatever type it is, to a tensor.
#[cfg(feature = "torch")]
pub(crate) type WithModule<'a> = dyn Fn(&dyn std::any::Any, &tch::Tensor) -> tch::Tensor + 'a;

/// An engine's record of operations: libtorch's graph of one piece, or a tape in plain memory.
pub(crate) trait Graph: Debug {
    fn apply(&self, op: Op, operands: &[usize]) -> usize;
    fn layer(&self, layer: Layer, which: ParamSet, operands: &[usize]) -> usize;
    /// Adds a batch's column, `[rows, columns]`, and returns its node.
    fn column(&self, batch: &SampleBatch, column: Column) -> Result<usize>;
    /// Adds a batch's column of observations, encoded for the network, and returns its node.
    fn observation(&self, batch: &SampleBatch, column: Column) -> Result<usize>;
    /// Adds one number, without gradient, and returns its node.
    fn number(&self, number: f32) -> usize;
    /// Number of columns of a node; 0 for one number.
    fn columns(&self, id: usize) -> usize;
    /// The tensor of a node. Panics on the fused engine, which has no tensors.
    #[cfg(feature = "torch")]
    fn tensor(&self, id: usize) -> tch::Tensor;
    /// Adds a tensor and returns its node. Panics on the fused engine, which has no tensors.
    #[cfg(feature = "torch")]
    fn insert(&self, tensor: tch::Tensor) -> usize;
    /// Applies a module in tch to the node `x` by `f`. Panics on the fused engine, which has no modules.
    #[cfg(feature = "torch")]
    fn module(&self, index: usize, which: ParamSet, x: usize, f: &WithModule<'_>) -> usize;
}
