//! Reverse-mode differentiation in plain memory, of operations on columns that have a number for each row.
//!
//! A loss is a few dozen elementwise operations on a few hundred rows. Each operation costs libtorch a microsecond or
//! two of allocation, dispatch and graph; here it is one loop over memory that the next minibatch reuses.

use crate::engines::buffer::{Buffer, Side, Spare};
use crate::engines::conv_place::ConvPlace;
use crate::engines::layers::Layers;
use crate::engines::places::{LayerPlace, NoisyPlace, NormPlace};
use crate::engines::recurrence::{ScanPlace, TapeSequences};
use crate::kernels;
use crate::kernels::{LANES, exp, ln};
use crate::loss::Op;
use pulp::Arch;
use std::cell::{Ref, RefCell};

/// The operation that made a node, with the indices of its operands' nodes.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) enum Made {
    /// Numbers without operands and without gradient, such as a column of the batch.
    #[default]
    Leaf,
    By(Op, [usize; 2]),
    /// One number, repeated for every row.
    Expand(usize),
    /// A linear layer and its activation.
    Layer(LayerPlace),
    /// A convolution and its activation.
    Conv(ConvPlace),
    /// A noisy layer and its activation.
    Noisy(NoisyPlace),
    /// Layer normalisation.
    Norm(NormPlace),
    /// A recurrent layer. Another node multiplies the input by its weights.
    Scan(ScanPlace),
    /// Parameters from this index of the flat buffer on, repeated for every row.
    Param(usize),
}

/// The result of an operation: a matrix `[cols][stride]`, or one number if `cols` is 0.
#[derive(Debug, Default)]
pub(crate) struct Node {
    pub(crate) made: Made,
    pub(crate) cols: usize,
    pub(crate) data: Buffer,
    /// Gradient of the node; empty until the backward pass reaches the node.
    pub(crate) grad: Buffer,
    /// Whether the node needs a gradient, because it depends on a parameter that learns.
    pub(crate) wants: bool,
}

impl Node {
    /// The buffer of the node's gradient, and whether `buffer` made it just now, so that its numbers have no meaning yet.
    /// `None` if the node needs no gradient.
    pub(crate) fn gradient(&mut self, buffer: impl FnOnce(usize) -> Buffer) -> Option<(&mut [f32], bool)> {
        if !self.wants {
            return None;
        }
        let fresh = self.grad.is_empty();
        if fresh {
            self.grad = buffer(self.cols);
        }
        Some((&mut self.grad, fresh))
    }
}

/// The operations of one loss and their results, recorded for the backward pass.
#[derive(Debug)]
pub(crate) struct Tape {
    pub(crate) arch: Arch,
    pub(crate) rows: usize,
    pub(crate) stride: usize,
    /// Whether two threads may share a large layer.
    pub(crate) shared: bool,
    /// Whether linear layers wait for [`settle`](Self::settle), which divides them between two threads.
    pub(crate) joint: bool,
    pub(crate) nodes: RefCell<Vec<Node>>,
    /// The layers that wait, whose nodes are still empty.
    pub(crate) waiting: RefCell<Vec<usize>>,
    pub(crate) spare: Spare,
    /// Sequences of the rows, for recurrent layers.
    pub(crate) sequences: TapeSequences,
}

impl Tape {
    /// Makes a tape that has allocated nothing yet.
    pub(crate) fn new(arch: Arch) -> Self {
        let nodes = RefCell::default();
        let waiting = RefCell::default();
        let spare = Spare::default();
        let sequences = TapeSequences::default();
        Self { arch, rows: 0, stride: 0, shared: false, joint: false, nodes, waiting, spare, sequences }
    }

    /// Forgets all nodes but keeps the allocations, for another batch of `rows` rows, which one thread computes.
    pub(crate) fn reset(&mut self, rows: usize) {
        self.rows = rows;
        self.shared = false;
        self.joint = false;
        self.waiting.get_mut().clear();
        self.stride = kernels::stride(rows);
        self.sequences.clear();
        for node in self.nodes.get_mut().drain(..) {
            self.spare.put(node.data);
            self.spare.put(node.grad);
        }
    }

    /// What linear layers need of this tape.
    pub(crate) fn layers(&self) -> Layers<'_> {
        let Self { arch, rows, stride, spare, shared, .. } = self;
        Layers { arch: *arch, rows: *rows, stride: *stride, spare, side: Side::Own, shared: *shared }
    }

    /// Number of rows of the batch; further rows up to the stride repeat the last one.
    pub(crate) fn rows(&self) -> usize {
        self.rows
    }

    pub(crate) fn stride(&self) -> usize {
        self.stride
    }

    /// Takes a buffer for `cols` columns, or for one number if `cols` is 0. It may hold old numbers.
    pub(crate) fn buffer(&self, cols: usize) -> Buffer {
        self.spare.take(if cols == 0 { 1 } else { cols * self.stride })
    }

    pub(crate) fn zeros(&self, cols: usize) -> Buffer {
        let mut buffer = self.buffer(cols);
        buffer.fill(0.0);
        buffer
    }

    pub(crate) fn push(&self, made: Made, cols: usize, data: Buffer, wants: bool) -> usize {
        let mut nodes = self.nodes.borrow_mut();
        nodes.push(Node { made, cols, data, grad: Buffer::default(), wants });
        nodes.len() - 1
    }

    /// Adds a node without gradient whose `cols` columns are written by `fill`, also in the rows beyond the batch.
    pub(crate) fn leaf(&self, cols: usize, fill: impl FnOnce(&mut [f32])) -> usize {
        let mut data = self.buffer(cols);
        fill(&mut data);
        self.push(Made::Leaf, cols, data, false)
    }

    /// Adds a node with the output of a linear layer and its activation, computed with the parameters `flat`. With
    /// [`joint`](Self::joint) the layer waits.
    pub(crate) fn layer(&self, place: LayerPlace, flat: &[f32]) -> usize {
        let wants = place.learns || self.wants(place.from);
        if self.joint {
            let id = self.push(Made::Layer(place), place.out, Buffer::default(), wants);
            self.waiting.borrow_mut().push(id);
            return id;
        }
        let out = self.linear(place, &flat[place.weights()], &flat[place.biases()]);
        self.push(Made::Layer(place), place.out, out, wants)
    }

    /// The output of a linear layer with these weights and biases, and its activation.
    pub(crate) fn linear(&self, place: LayerPlace, weights: &[f32], biases: &[f32]) -> Buffer {
        self.layers().forward(place, &self.data(place.from), weights, biases)
    }

    /// Adds a node that holds `values`, the parameters from index `start` on, repeated for every row.
    pub(crate) fn param(&self, start: usize, values: &[f32], learns: bool) -> usize {
        let mut out = self.buffer(values.len());
        for (column, &value) in out.chunks_exact_mut(self.stride).zip(values) {
            column.fill(value);
        }
        self.push(Made::Param(start), values.len(), out, learns)
    }

    pub(crate) fn cols(&self, id: usize) -> usize {
        self.nodes.borrow()[id].cols
    }

    pub(crate) fn wants(&self, id: usize) -> bool {
        self.nodes.borrow()[id].wants
    }

    /// The numbers of a node, `[cols][stride]`.
    pub(crate) fn data(&self, id: usize) -> Ref<'_, [f32]> {
        debug_assert!(self.waiting.borrow().is_empty(), "layers wait");
        Ref::map(self.nodes.borrow(), |nodes| &*nodes[id].data)
    }

    pub(crate) fn unary(&self, op: Op, a: usize, f: impl Fn(f32) -> f32) -> usize {
        let cols = self.cols(a);
        let mut out = self.buffer(cols);
        {
            let a = self.data(a);
            let a = &a[..out.len()];
            self.arch.dispatch(|| out.iter_mut().zip(a).for_each(|(y, &x)| *y = f(x)));
        }
        self.push(Made::By(op, [a, a]), cols, out, self.wants(a))
    }

    /// Makes two operands compatible: a single number becomes a column if the other operand has columns.
    pub(crate) fn pair(&self, a: usize, b: usize) -> (usize, usize) {
        match (self.cols(a), self.cols(b)) {
            (0, 0) => (a, b),
            (0, _) => (self.expand(a), b),
            (_, 0) => (a, self.expand(b)),
            _ => (a, b),
        }
    }

    fn expand(&self, a: usize) -> usize {
        let value = self.data(a)[0];
        let mut out = self.buffer(1);
        out.fill(value);
        self.push(Made::Expand(a), 1, out, self.wants(a))
    }

    pub(crate) fn binary(&self, op: Op, a: usize, b: usize, f: impl Fn(f32, f32) -> f32) -> usize {
        let ca = self.cols(a);
        let cb = self.cols(b);
        assert!(ca == cb || ca == 1 || cb == 1, "{ca} and {cb} columns do not go together");
        let cols = ca.max(cb);
        let mut out = self.buffer(cols);
        {
            let a = self.data(a);
            let b = self.data(b);
            let n = out.len() / cols.max(1);
            for (c, out) in out.chunks_exact_mut(n).enumerate() {
                let a = &a[part(c, ca, n)];
                let b = &b[part(c, cb, n)];
                self.arch.dispatch(|| {
                    out.iter_mut().zip(a.iter().zip(b)).for_each(|(y, (&a, &b))| *y = f(a, b));
                });
            }
        }
        self.push(Made::By(op, [a, b]), cols, out, self.wants(a) || self.wants(b))
    }

    pub(crate) fn log_softmax(&self, a: usize) -> usize {
        let cols = self.cols(a);
        let mut out = self.buffer(cols);
        let sum = self.log_sum(a);
        {
            let a = self.data(a);
            self.arch.dispatch(|| {
                for (out, column) in out.chunks_exact_mut(self.stride).zip(a.chunks_exact(self.stride)) {
                    out.iter_mut().zip(column).zip(&sum[..]).for_each(|((y, &x), &s)| *y = x - s);
                }
            });
        }
        self.spare.put(sum);
        self.push(Made::By(Op::LogSoftmax, [a, a]), cols, out, self.wants(a))
    }

    pub(crate) fn logsumexp(&self, a: usize) -> usize {
        let sum = self.log_sum(a);
        self.push(Made::By(Op::LogSumExp, [a, a]), 1, sum, self.wants(a))
    }

    /// For each row, the logarithm of the sum of the exponentials of its columns.
    fn log_sum(&self, a: usize) -> Buffer {
        let mut max = self.buffer(1);
        let mut sum = self.zeros(1);
        let a = self.data(a);
        self.arch.dispatch(|| {
            // In registers, one block of rows after the other: with AVX2, a conditional pass over `max` in place has masked
            // stores, which take 12 cycles per vector on AMD's processors.
            for (i, max) in max.as_chunks_mut::<LANES>().0.iter_mut().enumerate() {
                let mut most = [f32::NEG_INFINITY; LANES];
                for column in a.chunks_exact(self.stride) {
                    // `f32::max` drops a NaN, but the sum of the exponentials has it still.
                    most.iter_mut().zip(&column[i * LANES..]).for_each(|(m, &x)| *m = m.max(x));
                }
                *max = most;
            }
            for column in a.chunks_exact(self.stride) {
                sum.iter_mut().zip(column).zip(&max[..]).for_each(|((s, &x), &m)| *s += exp(x - m));
            }
            sum.iter_mut().zip(&max[..]).for_each(|(s, &m)| *s = m + ln(*s));
        });
        self.spare.put(max);
        sum
    }

    pub(crate) fn pick(&self, a: usize, index: usize, width: usize) -> usize {
        let mut out = self.buffer(width);
        {
            let data = self.data(a);
            let index = self.data(index);
            for (c, out) in out.chunks_exact_mut(self.stride).enumerate() {
                for (r, (y, &i)) in out.iter_mut().zip(index.iter()).enumerate() {
                    *y = data[(i as usize * width + c) * self.stride + r];
                }
            }
        }
        self.push(Made::By(Op::Gather(width), [a, index]), width, out, self.wants(a))
    }

    pub(crate) fn sum_cols(&self, a: usize) -> usize {
        let mut out = self.zeros(1);
        for column in self.data(a).chunks_exact(self.stride) {
            out.iter_mut().zip(column).for_each(|(y, &x)| *y += x);
        }
        self.push(Made::By(Op::SumColumns, [a, a]), 1, out, self.wants(a))
    }

    pub(crate) fn narrow(&self, a: usize, start: usize, cols: usize) -> usize {
        let mut out = self.buffer(cols);
        out.copy_from_slice(&self.data(a)[start * self.stride..][..cols * self.stride]);
        self.push(Made::By(Op::Narrow(start, cols), [a, a]), cols, out, self.wants(a))
    }

    pub(crate) fn cat(&self, a: usize, b: usize) -> usize {
        let cols = self.cols(a) + self.cols(b);
        let mut out = self.buffer(cols);
        {
            let a = self.data(a);
            let b = self.data(b);
            out[..a.len()].copy_from_slice(&a);
            out[a.len()..].copy_from_slice(&b);
        }
        self.push(Made::By(Op::Cat, [a, b]), cols, out, self.wants(a) || self.wants(b))
    }

    /// Calls `f` with every number of a node, except those of rows beyond the batch.
    pub(crate) fn numbers(&self, id: usize, mut f: impl FnMut(f32)) {
        let cols = self.cols(id);
        let data = self.data(id);
        match cols {
            0 => f(data[0]),
            _ => data.chunks_exact(self.stride).for_each(|c| c[..self.rows].iter().for_each(|&x| f(x))),
        }
    }

    pub(crate) fn count(&self, cols: usize) -> usize {
        if cols == 0 { 1 } else { cols * self.rows }
    }

    pub(crate) fn mean(&self, a: usize) -> usize {
        let cols = self.cols(a);
        let data = self.data(a);
        let sum: f64 = match cols {
            0 => f64::from(data[0]),
            _ => data.chunks_exact(self.stride).map(|c| kernels::sum(&c[..self.rows], |x| x)).sum(),
        };
        drop(data);
        self.number((sum / self.count(cols) as f64) as f32, Made::By(Op::Mean, [a, a]), self.wants(a))
    }

    fn number(&self, value: f32, made: Made, wants: bool) -> usize {
        let mut data = self.buffer(0);
        data[0] = value;
        self.push(made, 0, data, wants)
    }

    /// Adds a node of one number, without gradient.
    pub(crate) fn constant(&self, value: f32) -> usize {
        self.number(value, Made::Leaf, false)
    }

    pub(crate) fn detach(&self, a: usize) -> usize {
        self.leaf(self.cols(a), |to| to.copy_from_slice(&self.data(a)))
    }

    pub(crate) fn argmax(&self, a: usize) -> usize {
        let cols = self.cols(a);
        let stride = self.stride();
        self.leaf(1, |to| {
            let data = self.data(a);
            for (r, to) in to.iter_mut().enumerate() {
                let better = |best: usize, c: usize| {
                    if data[c * stride + r] > data[best * stride + r] { c } else { best }
                };
                *to = (1..cols).fold(0, better) as f32;
            }
        })
    }

    pub(crate) fn tanh(&self, a: usize) -> usize {
        let cols = self.cols(a);
        let mut out = self.buffer(cols);
        out.copy_from_slice(&self.data(a));
        kernels::tanh(self.arch, &mut out);
        self.push(Made::By(Op::Tanh, [a, a]), cols, out, self.wants(a))
    }
}

/// The range of column `c` in the memory of a node with `cols` columns of `n` numbers. A single column is used for
/// every `c`.
pub(crate) fn part(c: usize, cols: usize, n: usize) -> std::ops::Range<usize> {
    let c = if cols <= 1 { 0 } else { c };
    c * n..(c + 1) * n
}
