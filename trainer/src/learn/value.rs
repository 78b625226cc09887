//! Numbers per row of a batch, for losses and heads: the same formula on libtorch's tensors and in plain memory.
//!
//! A loss is written once, over [`Value`]s; whether libtorch differentiates it or the fused path of
//! [`learner`](crate::learn::learner) does is decided where the network is made. The operations carry libtorch's names.

use crate::learn::engines::{
    kernels::{exp, ln},
    tape::{Op, Tape},
};
use std::ops::{Add, Div, Mul, Neg, Sub};
use tch::{Kind, Tensor};

/// A matrix `[rows, columns]`, or one number for the whole batch.
///
/// One column goes together with several, one number with anything.
///
/// # Panics
///
/// Operations panic when shapes do not go together, or when operands come from different paths: bugs in a loss.
#[derive(Clone, Debug)]
pub struct Value<'t>(Repr<'t>);

#[derive(Debug)]
enum Repr<'t> {
    Torch(Tensor),
    Host(&'t Tape, usize),
}

impl Clone for Repr<'_> {
    fn clone(&self) -> Self {
        match self {
            Self::Torch(t) => Self::Torch(t.shallow_clone()),
            Self::Host(tape, id) => Self::Host(tape, *id),
        }
    }
}

impl<'t> Value<'t> {
    /// A tensor `[rows, columns]`, `[rows]` or `[]`.
    pub fn torch(tensor: Tensor) -> Self {
        Self(Repr::Torch(if tensor.dim() == 1 { tensor.unsqueeze(-1) } else { tensor }))
    }

    pub(crate) fn host(tape: &'t Tape, id: usize) -> Self {
        Self(Repr::Host(tape, id))
    }

    /// The tensor behind it, `[rows, columns]` or `[]`; none on the fused path.
    pub fn as_torch(&self) -> Option<&Tensor> {
        match &self.0 {
            Repr::Torch(t) => Some(t),
            Repr::Host(..) => None,
        }
    }

    /// Node and tape on the fused path.
    pub(crate) fn as_host(&self) -> Option<(&'t Tape, usize)> {
        match &self.0 {
            Repr::Torch(_) => None,
            Repr::Host(tape, id) => Some((tape, *id)),
        }
    }

    /// Its node.
    pub(crate) fn on_host(&self) -> usize {
        self.as_host().expect("a value of the fused engine").1
    }

    /// Columns; 0 for one number.
    pub fn columns(&self) -> usize {
        match &self.0 {
            Repr::Torch(t) => t.size().get(1).map_or(0, |&n| n as usize),
            Repr::Host(tape, id) => tape.cols(*id),
        }
    }

    fn unary(
        &self,
        torch: impl FnOnce(&Tensor) -> Tensor,
        op: impl FnOnce(usize) -> Op,
        f: impl Fn(f32) -> f32,
    ) -> Self {
        self.map(torch, |tape, a| tape.unary(op(a), a, f))
    }

    fn map(&self, torch: impl FnOnce(&Tensor) -> Tensor, host: impl FnOnce(&Tape, usize) -> usize) -> Self {
        Self(match &self.0 {
            Repr::Torch(t) => Repr::Torch(torch(t)),
            Repr::Host(tape, id) => Repr::Host(tape, host(tape, *id)),
        })
    }

    fn zip(
        &self,
        other: &Self,
        torch: impl FnOnce(&Tensor, &Tensor) -> Tensor,
        host: impl FnOnce(&Tape, usize, usize) -> usize,
    ) -> Self {
        Self(match (&self.0, &other.0) {
            (Repr::Torch(a), Repr::Torch(b)) => Repr::Torch(torch(a, b)),
            (Repr::Host(tape, a), Repr::Host(_, b)) => Repr::Host(tape, host(tape, *a, *b)),
            _ => panic!("one value is a tensor and the other is not"),
        })
    }

    fn binary(
        &self,
        other: &Self,
        torch: impl FnOnce(&Tensor, &Tensor) -> Tensor,
        op: fn(usize, usize) -> Op,
        f: impl Fn(f32, f32) -> f32,
    ) -> Self {
        self.zip(other, torch, |tape, a, b| {
            let (a, b) = tape.pair(a, b);
            tape.binary(op(a, b), a, b, f)
        })
    }

    /// `e^x`.
    pub fn exp(&self) -> Self {
        self.unary(Tensor::exp, Op::Exp, exp)
    }

    /// The natural logarithm.
    pub fn log(&self) -> Self {
        self.unary(Tensor::log, Op::Ln, ln)
    }

    /// `x^2`.
    pub fn square(&self) -> Self {
        self.unary(Tensor::square, Op::Square, |x| x * x)
    }

    /// `|x|`.
    pub fn abs(&self) -> Self {
        self.unary(Tensor::abs, Op::Abs, f32::abs)
    }

    /// Within `low` and `high`; beyond them nothing flows back.
    pub fn clamp(&self, low: f64, high: f64) -> Self {
        let (l, h) = (low as f32, high as f32);
        // Comparisons, not `f32::clamp`: what is not a number must stay so.
        let f = move |x: f32| {
            if x < l {
                l
            } else if x > h {
                h
            } else {
                x
            }
        };
        self.unary(|t| t.clamp(low, high), |a| Op::Clamp(a, l, h), f)
    }

    /// At most `high`.
    pub fn clamp_max(&self, high: f64) -> Self {
        let h = high as f32;
        let f = move |x: f32| if x > h { h } else { x };
        self.unary(|t| t.clamp_max(high), |a| Op::Clamp(a, f32::NEG_INFINITY, h), f)
    }

    /// The smaller of two.
    pub fn minimum(&self, other: &Self) -> Self {
        self.binary(other, Tensor::minimum, Op::Min, |a, b| if b < a || b.is_nan() { b } else { a })
    }

    /// The larger of two.
    pub fn maximum(&self, other: &Self) -> Self {
        self.binary(other, Tensor::maximum, Op::Max, |a, b| if b > a || b.is_nan() { b } else { a })
    }

    /// Logarithms of the softmax over the columns.
    pub fn log_softmax(&self) -> Self {
        self.map(|t| t.log_softmax(-1, Kind::Float), Tape::log_softmax)
    }

    /// Of each row the column whose number stands in `index` (one column), `[rows, 1]`.
    pub fn gather(&self, index: &Self) -> Self {
        self.zip(index, |t, index| t.gather(-1, &index.to_kind(Kind::Int64), false), Tape::pick)
    }

    /// The sum over the columns, `[rows, 1]`.
    pub fn sum_columns(&self) -> Self {
        self.map(|t| t.sum_dim_intlist(-1, true, Kind::Float), Tape::sum_cols)
    }

    /// The mean over the columns, `[rows, 1]`.
    pub fn mean_columns(&self) -> Self {
        let share = 1.0 / self.columns() as f64;
        self.map(
            |t| t.mean_dim(-1, true, Kind::Float),
            |tape, a| {
                let sum = tape.sum_cols(a);
                tape.unary(Op::Scale(sum, share as f32), sum, |x| x * share as f32)
            },
        )
    }

    /// Columns `start..start + len`.
    pub fn narrow(&self, start: usize, len: usize) -> Self {
        self.map(|t| t.narrow(-1, start as i64, len as i64), |tape, a| tape.narrow(a, start, len))
    }

    /// The columns of this and then of the other.
    pub fn cat(&self, other: &Self) -> Self {
        self.zip(other, |a, b| Tensor::cat(&[a, b], -1), Tape::cat)
    }

    /// The mean over rows and columns, one number.
    pub fn mean(&self) -> Self {
        self.map(|t| t.mean(None), Tape::mean)
    }

    /// The same numbers, from which nothing flows back.
    pub fn detach(&self) -> Self {
        self.map(Tensor::detach, |tape, a| tape.leaf(tape.cols(a), |to| to.copy_from_slice(&tape.data(a))))
    }

    /// The variance over all rows (of the population), one number; it is not differentiated.
    pub fn variance(&self) -> Self {
        self.map(
            |t| t.detach().var(false),
            |tape, a| {
                let (mut n, mut sum) = (0.0, 0.0);
                tape.numbers(a, |x| (n, sum) = (n + 1.0, sum + f64::from(x)));
                let mut squares = 0.0;
                tape.numbers(a, |x| squares += (f64::from(x) - sum / n).powi(2));
                tape.constant((squares / n) as f32)
            },
        )
    }

    /// The largest number; it is not differentiated.
    pub fn max(&self) -> Self {
        self.map(
            |t| t.detach().max(),
            |tape, a| {
                let mut max = f32::NEG_INFINITY;
                tape.numbers(a, |x| max = if x > max || x.is_nan() { x } else { max });
                tape.constant(max)
            },
        )
    }

    /// The smallest number; it is not differentiated.
    pub fn min(&self) -> Self {
        -(-self).max()
    }

    /// The column of the largest number of each row, the first of equal ones, `[rows, 1]`.
    pub fn argmax(&self) -> Self {
        self.map(
            |t| t.detach().argmax(-1, true),
            |tape, a| {
                let (cols, stride) = (tape.cols(a), tape.stride());
                tape.leaf(1, |to| {
                    let data = tape.data(a);
                    for (r, to) in to.iter_mut().enumerate() {
                        let better = |best: usize, c: usize| {
                            if data[c * stride + r] > data[best * stride + r] { c } else { best }
                        };
                        *to = (1..cols).fold(0, better) as f32;
                    }
                })
            },
        )
    }

    fn scale(&self, scale: f64, shift: f64) -> Self {
        let (a, b) = (scale as f32, shift as f32);
        self.unary(
            |t| match (scale == 1.0, shift == 0.0) {
                (false, true) => t * scale,
                (true, _) => t + shift,
                (false, false) => t * scale + shift,
            },
            |id| Op::Scale(id, a),
            move |x| x * a + b,
        )
    }
}

macro_rules! operator {
    ($trait:ident, $method:ident, $op:tt, $node:ident) => {
        impl<'t> $trait<&Value<'t>> for &Value<'t> {
            type Output = Value<'t>;
            fn $method(self, other: &Value<'t>) -> Value<'t> {
                self.binary(other, |a, b| a $op b, Op::$node, |a, b| a $op b)
            }
        }
        impl<'t> $trait<Value<'t>> for &Value<'t> {
            type Output = Value<'t>;
            fn $method(self, other: Value<'t>) -> Value<'t> {
                self $op &other
            }
        }
        impl<'t> $trait<&Value<'t>> for Value<'t> {
            type Output = Value<'t>;
            fn $method(self, other: &Value<'t>) -> Value<'t> {
                &self $op other
            }
        }
        impl<'t> $trait for Value<'t> {
            type Output = Value<'t>;
            fn $method(self, other: Value<'t>) -> Value<'t> {
                &self $op &other
            }
        }
    };
}

operator!(Add, add, +, Add);
operator!(Sub, sub, -, Sub);
operator!(Mul, mul, *, Mul);
operator!(Div, div, /, Div);

macro_rules! with_number {
    ($trait:ident, $method:ident, |$x:ident, $n:ident| $result:expr) => {
        impl<'t> $trait<f64> for &Value<'t> {
            type Output = Value<'t>;
            fn $method(self, $n: f64) -> Value<'t> {
                let $x = self;
                $result
            }
        }
        impl<'t> $trait<f64> for Value<'t> {
            type Output = Value<'t>;
            fn $method(self, n: f64) -> Value<'t> {
                (&self).$method(n)
            }
        }
    };
}

with_number!(Add, add, |x, n| x.scale(1.0, n));
with_number!(Sub, sub, |x, n| x.scale(1.0, -n));
with_number!(Mul, mul, |x, n| x.scale(n, 0.0));
with_number!(Div, div, |x, n| x.scale(1.0 / n, 0.0));

impl<'t> Neg for &Value<'t> {
    type Output = Value<'t>;
    fn neg(self) -> Value<'t> {
        self.scale(-1.0, 0.0)
    }
}

impl<'t> Neg for Value<'t> {
    type Output = Value<'t>;
    fn neg(self) -> Value<'t> {
        -&self
    }
}

/// `1.0 - x`.
impl<'t> Sub<Value<'t>> for f64 {
    type Output = Value<'t>;
    fn sub(self, x: Value<'t>) -> Value<'t> {
        x.scale(-1.0, self)
    }
}

/// `1.0 - &x`.
impl<'t> Sub<&Value<'t>> for f64 {
    type Output = Value<'t>;
    fn sub(self, x: &Value<'t>) -> Value<'t> {
        x.scale(-1.0, self)
    }
}
