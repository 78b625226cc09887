//! Values for losses and heads: numbers per row of a batch, written once and computed by either engine.
//!
//! The operations have libtorch's names.

use crate::layers::Activation;
use crate::loss::graph::{Graph, Op};
use crate::loss::widths::{check_one, check_two};
use std::ops::{Add, Div, Mul, Neg, Sub};

/// A matrix `[rows, columns]`, or one number for the whole batch. In an operation of two values, a single column is
/// repeated for the columns of the other value, and a single number for all its rows and columns.
///
/// A value is a handle: copying it copies no numbers.
///
/// An operation of values whose columns do not fit together ends the computation with an error.
#[derive(Clone, Copy, Debug)]
pub struct Value<'t> {
    pub(super) graph: &'t (dyn Graph + 't),
    pub(super) id: usize,
}

macro_rules! operations {
    ($($(#[$doc:meta])* $name:ident => $op:expr;)*) => {
        impl<'t> Value<'t> {
            $($(#[$doc])* #[must_use] pub fn $name(self) -> Self { self.unary($op) })*
        }
    };
}

operations! {
    /// `e^x` of each number `x`.
    exp => Op::Exp;
    /// The natural logarithm of each number.
    log => Op::Log;
    /// The square root of each number.
    sqrt => Op::Sqrt;
    /// `x^2` of each number `x`.
    square => Op::Square;
    /// `|x|` of each number `x`.
    abs => Op::Abs;
    /// The sign of each number: -1, 0 or 1; without gradient.
    sign => Op::Sign;
    /// The hyperbolic tangent of each number.
    tanh => Op::Tanh;
    /// `1 / (1 + e^-x)` of each number `x`.
    sigmoid => Op::Sigmoid;
    /// `log(1 + e^x)` of each number `x`.
    softplus => Op::Softplus;
    /// `max(x, 0)` of each number `x`.
    relu => Op::Relu;
    /// The logarithm of each row's softmax over the columns, `[rows, columns]`.
    log_softmax => Op::LogSoftmax;
    /// The logarithm of each row's sum of `e^x` over the columns, `[rows, 1]`.
    logsumexp => Op::LogSumExp;
    /// Sorts the numbers of each row, smallest first; without gradient.
    sort_columns => Op::SortColumns;
    /// The index of the column that holds each row's largest number (the first of equal ones), `[rows, 1]`; without
    /// gradient.
    argmax => Op::Argmax;
    /// The sum of each row over its columns, `[rows, 1]`.
    sum_columns => Op::SumColumns;
    /// The mean of each row over its columns, `[rows, 1]`.
    mean_columns => Op::MeanColumns;
    /// The mean over rows and columns, one number.
    mean => Op::Mean;
    /// The same numbers as a constant, through which no gradient flows.
    detach => Op::Detach;
}

macro_rules! operations_with {
    ($($(#[$doc:meta])* $name:ident($other:ident) => $op:expr;)*) => {
        impl<'t> Value<'t> {
            $($(#[$doc])* #[must_use] pub fn $name(self, $other: Self) -> Self { self.binary($op, $other) })*
        }
    };
}

operations_with! {
    /// The smaller of the two values' numbers at each row and column.
    minimum(other) => Op::Minimum;
    /// The larger of the two values' numbers at each row and column.
    maximum(other) => Op::Maximum;
    /// Takes from each row the number in the column that `index` (`[rows, 1]`) names for this row, `[rows, 1]`.
    gather(index) => Op::Gather(1);
    /// Joins the columns of this value and of `other`, in this order.
    cat(other) => Op::Cat;
    /// Replaces this value's numbers, which are logits, by -1e9 where `mask` is 0.
    masked(mask) => Op::Mask;
    /// The quantile Huber loss (Dabney et al. 2018) with threshold 1, `[rows, 1]`. Column `i` of this value's `N`
    /// columns is the quantile at `(i + 1/2) / N`; the columns of `samples` are draws from the distribution. The loss
    /// is the mean over all pairs of a quantile and a sample, without gradient for the samples.
    quantile_huber(samples) => Op::QuantileHuber;
}

impl<'t> Value<'t> {
    #[inline]
    pub(crate) fn new(graph: &'t (dyn Graph + 't), id: usize) -> Self {
        Self { graph, id }
    }

    /// The value's index in its graph.
    #[inline]
    pub(crate) fn id(self) -> usize {
        self.id
    }

    #[inline]
    pub(crate) fn unary(self, op: Op) -> Self {
        check_one(op, self.columns());
        Self { id: self.graph.apply(op, &[self.id]), ..self }
    }

    #[inline]
    pub(crate) fn binary(self, op: Op, other: Self) -> Self {
        check_two(op, self.columns(), other.columns());
        Self { id: self.graph.apply(op, &[self.id, other.id]), ..self }
    }

    /// Applies an operation to its one or two operands, as the steps of a
    /// [`Recording`](crate::recording::Recording) name them.
    ///
    /// # Panics
    /// Panics if there is no operand.
    #[must_use]
    pub fn of(op: Op, operands: &[Self]) -> Self {
        match operands {
            [first, second] => first.binary(op, *second),
            of => of[0].unary(op),
        }
    }

    /// Clamps the numbers between `low` and `high`; for numbers outside, the gradient is 0.
    #[must_use]
    pub fn clamp(self, low: f64, high: f64) -> Self {
        self.unary(Op::Clamp(low, high))
    }

    /// Limits the numbers to at most `high`.
    #[must_use]
    pub fn clamp_max(self, high: f64) -> Self {
        self.clamp(f64::NEG_INFINITY, high)
    }

    /// Selects columns `start..start + len`.
    #[must_use]
    pub fn narrow(self, start: usize, len: usize) -> Self {
        self.unary(Op::Narrow(start, len))
    }

    /// Takes from each row one of the blocks of `width` columns that lie side by side, `[rows, width]`: the one whose
    /// number `index` (`[rows, 1]`) names for this row. So a network with several numbers per choice, such as the
    /// quantiles of its return, gives those of the choice that was taken.
    #[must_use]
    pub fn gather_block(self, index: Self, width: usize) -> Self {
        self.binary(Op::Gather(width), index)
    }

    /// The mean of each row's distribution, `[rows, 1]`: this value's columns are the probabilities of equally spaced atoms,
    /// the first at `low` and the last at `high`.
    #[must_use]
    pub fn expectation(self, low: f64, high: f64) -> Self {
        self.unary(Op::Expectation(low, high))
    }

    /// The distribution of `reward + discount z`, where `z` has the distribution of this value's row: probabilities of
    /// equally spaced atoms, the first at `low` and the last at `high`. What falls between two atoms is shared by
    /// them (Bellemare et al. 2017, algorithm 1); without gradient. `reward` and `discount` are `[rows, 1]`.
    #[must_use]
    pub fn project(self, reward: Self, discount: Self, low: f64, high: f64) -> Self {
        self.binary(Op::Project(low, high), reward.cat(discount))
    }

    /// Huber's loss with threshold 1: `x^2 / 2` where `|x| <= 1`, otherwise `|x| - 1/2`.
    #[must_use]
    pub fn huber(self) -> Self {
        let size = self.abs();
        let inner = size.clamp_max(1.0);
        inner * (size - inner * 0.5)
    }

    /// Applies an activation function to every number, for networks with a normalisation between a linear layer and
    /// its activation.
    #[must_use]
    pub fn activate(self, activation: Activation) -> Self {
        match activation {
            Activation::Tanh => self.tanh(),
            Activation::Relu => self.relu(),
            Activation::Elu => self.relu() + (self.clamp_max(0.0).exp() - 1.0),
            Activation::Swish => self * self.sigmoid(),
            Activation::Linear => self,
        }
    }

    /// Number of columns; 0 for a single number.
    #[inline]
    pub fn columns(self) -> usize {
        self.graph.columns(self.id)
    }

    fn scale(self, scale: f64, shift: f64) -> Self {
        self.unary(Op::Scale(scale, shift))
    }
}

macro_rules! operator {
    ($trait:ident, $method:ident, |$x:ident, $n:ident| $with_number:expr) => {
        impl<'t> $trait for Value<'t> {
            type Output = Self;
            fn $method(self, other: Self) -> Self {
                self.binary(Op::$trait, other)
            }
        }

        impl<'t> $trait<f64> for Value<'t> {
            type Output = Self;
            fn $method(self, $n: f64) -> Self {
                let $x = self;
                $with_number
            }
        }
    };
}

operator!(Add, add, |x, n| x.scale(1.0, n));
operator!(Sub, sub, |x, n| x.scale(1.0, -n));
operator!(Mul, mul, |x, n| x.scale(n, 0.0));
operator!(Div, div, |x, n| x.scale(1.0 / n, 0.0));

impl Neg for Value<'_> {
    type Output = Self;
    fn neg(self) -> Self {
        self.scale(-1.0, 0.0)
    }
}

/// Adds a number and a value, as in `1.0 + x`.
impl<'t> Add<Value<'t>> for f64 {
    type Output = Value<'t>;
    fn add(self, x: Value<'t>) -> Value<'t> {
        x.scale(1.0, self)
    }
}

/// Subtracts a value from a number, as in `1.0 - x`.
impl<'t> Sub<Value<'t>> for f64 {
    type Output = Value<'t>;
    fn sub(self, x: Value<'t>) -> Value<'t> {
        x.scale(-1.0, self)
    }
}

/// Multiplies a number and a value, as in `2.0 * x`.
impl<'t> Mul<Value<'t>> for f64 {
    type Output = Value<'t>;
    fn mul(self, x: Value<'t>) -> Value<'t> {
        x.scale(self, 0.0)
    }
}

/// The sum of several values, for each row and column.
///
/// # Panics
/// Panics if the iterator is empty.
impl std::iter::Sum for Value<'_> {
    fn sum<I: Iterator<Item = Self>>(values: I) -> Self {
        values.reduce(|a, b| a + b).expect("at least one value")
    }
}

/// The smallest number of several values, for each row and column.
///
/// # Panics
/// Panics if the iterator is empty.
pub fn min<'t>(values: impl IntoIterator<Item = Value<'t>>) -> Value<'t> {
    values.into_iter().reduce(Value::minimum).expect("at least one value")
}
