//! Reverse-mode differentiation over columns of rows, in plain memory.
//!
//! A loss is a few dozen elementwise operations on a few hundred rows. Each costs libtorch a microsecond or two of
//! allocation, dispatch and graph; here it is one loop over memory that is used again for the next minibatch.

use crate::{
    kernels::{self, Left, exp, ln},
    models::Activation,
};
use pulp::Arch;
use std::{
    cell::{Ref, RefCell},
    ops::{Deref, DerefMut},
};

/// What a node was made by; the numbers are nodes.
#[derive(Clone, Copy, Debug)]
pub(super) enum Op {
    /// Given from outside: a column, an output of the network, a parameter.
    Leaf,
    Add(usize, usize),
    Sub(usize, usize),
    Mul(usize, usize),
    Div(usize, usize),
    Min(usize, usize),
    Max(usize, usize),
    /// `x * scale` and a shift that has no gradient.
    Scale(usize, f32),
    Exp(usize),
    Ln(usize),
    Square(usize),
    Abs(usize),
    Clamp(usize, f32, f32),
    LogSoftmax(usize),
    /// Of each row the column that the second node names.
    Pick(usize, usize),
    SumCols(usize),
    /// Columns from there on.
    Narrow(usize, usize),
    Cat(usize, usize),
    /// One number for every row.
    Expand(usize),
    /// The mean over rows and columns.
    Mean(usize),
    /// A linear layer and its activation.
    Layer(LayerPlace),
    /// Parameters from there on, the same for every row.
    Param(usize),
}

/// What a layer reads: nodes of the tape, places in the flat buffer of parameters.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LayerPlace {
    /// The observation and the number of the layer: by them a pass finds what it has computed before.
    pub(crate) key: (usize, usize),
    pub(crate) from: usize,
    pub(crate) weight: usize,
    pub(crate) bias: usize,
    pub(crate) inputs: usize,
    pub(crate) out: usize,
    pub(crate) activation: Activation,
}

impl LayerPlace {
    fn weights(self) -> std::ops::Range<usize> {
        self.weight..self.weight + self.inputs * self.out
    }

    fn biases(self) -> std::ops::Range<usize> {
        self.bias..self.bias + self.out
    }
}

/// The first `len` numbers of memory whose size is a power of two, so that it serves again for about as many without
/// being cleared.
#[derive(Debug, Default)]
struct Buffer {
    memory: Vec<f32>,
    len: usize,
}

impl Deref for Buffer {
    type Target = [f32];

    fn deref(&self) -> &[f32] {
        &self.memory[..self.len]
    }
}

impl DerefMut for Buffer {
    fn deref_mut(&mut self) -> &mut [f32] {
        &mut self.memory[..self.len]
    }
}

/// Memory that is free, by the power of two of its size.
#[derive(Debug, Default)]
struct Spare(Vec<Vec<Vec<f32>>>);

impl Spare {
    fn take(&mut self, len: usize) -> Buffer {
        let size = len.next_power_of_two();
        let free = self.0.get_mut(size.trailing_zeros() as usize).and_then(Vec::pop);
        Buffer { memory: free.unwrap_or_else(|| vec![0.0; size]), len }
    }

    fn put(&mut self, buffer: Buffer) {
        if buffer.memory.is_empty() {
            return;
        }
        let class = buffer.memory.len().trailing_zeros() as usize;
        if self.0.len() <= class {
            self.0.resize_with(class + 1, Vec::new);
        }
        self.0[class].push(buffer.memory);
    }
}

/// A matrix `[cols][stride]`, or one number (`cols` 0).
#[derive(Debug)]
struct Node {
    op: Op,
    cols: usize,
    data: Buffer,
    /// Empty while nothing has flowed back.
    grad: Buffer,
    /// Something that is differentiated stands behind it.
    wants: bool,
}

/// The operations of one loss.
#[derive(Debug)]
pub(crate) struct Tape {
    arch: Arch,
    rows: usize,
    stride: usize,
    nodes: RefCell<Vec<Node>>,
    spare: RefCell<Spare>,
}

impl Tape {
    /// Without memory yet.
    pub(crate) fn new(arch: Arch) -> Self {
        Self { arch, rows: 0, stride: 0, nodes: RefCell::default(), spare: RefCell::default() }
    }

    /// Forgets everything but the memory, for another batch of `rows` rows.
    pub(crate) fn reset(&mut self, rows: usize) {
        self.rows = rows;
        self.stride = kernels::stride(rows);
        let spare = self.spare.get_mut();
        for node in self.nodes.get_mut().drain(..) {
            spare.put(node.data);
            spare.put(node.grad);
        }
    }

    /// Rows that count; those up to the stride repeat the last one.
    pub(crate) fn rows(&self) -> usize {
        self.rows
    }

    pub(crate) fn stride(&self) -> usize {
        self.stride
    }

    /// Room for `cols` columns; what stands there is old.
    fn buffer(&self, cols: usize) -> Buffer {
        self.spare.borrow_mut().take(if cols == 0 { 1 } else { cols * self.stride })
    }

    fn zeros(&self, cols: usize) -> Buffer {
        let mut buffer = self.buffer(cols);
        buffer.fill(0.0);
        buffer
    }

    fn push(&self, op: Op, cols: usize, data: Buffer, wants: bool) -> usize {
        let mut nodes = self.nodes.borrow_mut();
        nodes.push(Node { op, cols, data, grad: Buffer::default(), wants });
        nodes.len() - 1
    }

    /// A node filled by `fill`, whose rows beyond the batch it must fill as well.
    pub(crate) fn leaf(&self, cols: usize, wants: bool, fill: impl FnOnce(&mut [f32])) -> usize {
        let mut data = self.buffer(cols);
        fill(&mut data);
        self.push(Op::Leaf, cols, data, wants)
    }

    /// The output of a layer that was computed before.
    pub(crate) fn find_layer(&self, obs: usize, layer: usize) -> Option<usize> {
        let found = |n: &Node| matches!(n.op, Op::Layer(place) if place.key == (obs, layer));
        self.nodes.borrow().iter().position(found)
    }

    /// A layer's output; `learn` differentiates its parameters.
    pub(crate) fn layer(&self, place: LayerPlace, flat: &[f32], learn: bool) -> usize {
        let mut out = self.buffer(place.out);
        {
            let x = self.data(place.from);
            let left = Left::Weight(&flat[place.weights()], &flat[place.biases()]);
            kernels::product(self.arch, left, &x, &mut out, self.rows);
        }
        let each = |out: &mut [f32], f: fn(f32) -> f32| out.iter_mut().for_each(|y| *y = f(*y));
        match place.activation {
            Activation::Tanh => kernels::tanh(self.arch, &mut out),
            // Not `f32::max`: what is not a number must stay so.
            Activation::Relu => self.arch.dispatch(|| {
                out.iter_mut().for_each(|y| *y = if *y < 0.0 { 0.0 } else { *y });
            }),
            Activation::Elu => each(&mut out, |y| if y < 0.0 { y.exp_m1() } else { y }),
            Activation::Linear => {}
            Activation::Swish => unreachable!("`fits_host` was asked"),
        }
        let wants = learn || self.wants(place.from);
        self.push(Op::Layer(place), place.out, out, wants)
    }

    /// Parameters from `start` on, the same for every row.
    pub(crate) fn param(&self, start: usize, values: &[f32], learn: bool) -> usize {
        let mut out = self.buffer(values.len());
        for (column, &value) in out.chunks_exact_mut(self.stride).zip(values) {
            column.fill(value);
        }
        self.push(Op::Param(start), values.len(), out, learn)
    }

    pub(super) fn cols(&self, id: usize) -> usize {
        self.nodes.borrow()[id].cols
    }

    fn wants(&self, id: usize) -> bool {
        self.nodes.borrow()[id].wants
    }

    /// `[cols][stride]`.
    pub(crate) fn data(&self, id: usize) -> Ref<'_, [f32]> {
        Ref::map(self.nodes.borrow(), |nodes| &*nodes[id].data)
    }

    pub(super) fn unary(&self, op: Op, a: usize, f: impl Fn(f32) -> f32) -> usize {
        let cols = self.cols(a);
        let mut out = self.buffer(cols);
        {
            let a = self.data(a);
            let a = &a[..out.len()];
            self.arch.dispatch(|| out.iter_mut().zip(a).for_each(|(y, &x)| *y = f(x)));
        }
        self.push(op, cols, out, self.wants(a))
    }

    /// Brings two operands to forms that go together: numbers become columns beside columns.
    pub(super) fn pair(&self, a: usize, b: usize) -> (usize, usize) {
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
        self.push(Op::Expand(a), 1, out, self.wants(a))
    }

    pub(super) fn binary(&self, op: Op, a: usize, b: usize, f: impl Fn(f32, f32) -> f32) -> usize {
        let (ca, cb) = (self.cols(a), self.cols(b));
        assert!(ca == cb || ca == 1 || cb == 1, "{ca} and {cb} columns do not go together");
        let cols = ca.max(cb);
        let mut out = self.buffer(cols);
        {
            let (a, b, n) = (self.data(a), self.data(b), out.len() / cols.max(1));
            for (c, out) in out.chunks_exact_mut(n).enumerate() {
                let (a, b) = (&a[part(c, ca, n)], &b[part(c, cb, n)]);
                self.arch.dispatch(|| {
                    out.iter_mut().zip(a.iter().zip(b)).for_each(|(y, (&a, &b))| *y = f(a, b));
                });
            }
        }
        self.push(op, cols, out, self.wants(a) || self.wants(b))
    }

    pub(super) fn log_softmax(&self, a: usize) -> usize {
        let cols = self.cols(a);
        let mut out = self.buffer(cols);
        let (mut max, mut sum) = (self.buffer(1), self.zeros(1));
        {
            let a = self.data(a);
            self.arch.dispatch(|| {
                max.copy_from_slice(&a[..self.stride]);
                for column in a.chunks_exact(self.stride).skip(1) {
                    max.iter_mut().zip(column).for_each(|(m, &x)| *m = if x > *m { x } else { *m });
                }
                for column in a.chunks_exact(self.stride) {
                    sum.iter_mut().zip(column).zip(&max[..]).for_each(|((s, &x), &m)| *s += exp(x - m));
                }
                sum.iter_mut().zip(&max[..]).for_each(|(s, &m)| *s = m + ln(*s));
                for (out, column) in out.chunks_exact_mut(self.stride).zip(a.chunks_exact(self.stride)) {
                    out.iter_mut().zip(column).zip(&sum[..]).for_each(|((y, &x), &s)| *y = x - s);
                }
            });
        }
        self.spare.borrow_mut().put(max);
        self.spare.borrow_mut().put(sum);
        self.push(Op::LogSoftmax(a), cols, out, self.wants(a))
    }

    pub(super) fn pick(&self, a: usize, index: usize) -> usize {
        let mut out = self.buffer(1);
        {
            let (data, index) = (self.data(a), self.data(index));
            for (r, (y, &i)) in out.iter_mut().zip(index.iter()).enumerate() {
                *y = data[i as usize * self.stride + r];
            }
        }
        self.push(Op::Pick(a, index), 1, out, self.wants(a))
    }

    pub(super) fn sum_cols(&self, a: usize) -> usize {
        let mut out = self.zeros(1);
        for column in self.data(a).chunks_exact(self.stride) {
            out.iter_mut().zip(column).for_each(|(y, &x)| *y += x);
        }
        self.push(Op::SumCols(a), 1, out, self.wants(a))
    }

    pub(super) fn narrow(&self, a: usize, start: usize, cols: usize) -> usize {
        let mut out = self.buffer(cols);
        out.copy_from_slice(&self.data(a)[start * self.stride..][..cols * self.stride]);
        self.push(Op::Narrow(a, start), cols, out, self.wants(a))
    }

    pub(super) fn cat(&self, a: usize, b: usize) -> usize {
        let cols = self.cols(a) + self.cols(b);
        let mut out = self.buffer(cols);
        {
            let (a, b) = (self.data(a), self.data(b));
            out[..a.len()].copy_from_slice(&a);
            out[a.len()..].copy_from_slice(&b);
        }
        self.push(Op::Cat(a, b), cols, out, self.wants(a) || self.wants(b))
    }

    /// Every number of the rows that count.
    pub(super) fn numbers(&self, id: usize, mut f: impl FnMut(f32)) {
        let (cols, data) = (self.cols(id), self.data(id));
        match cols {
            0 => f(data[0]),
            _ => data.chunks_exact(self.stride).for_each(|c| c[..self.rows].iter().for_each(|&x| f(x))),
        }
    }

    fn count(&self, cols: usize) -> usize {
        if cols == 0 { 1 } else { cols * self.rows }
    }

    pub(super) fn mean(&self, a: usize) -> usize {
        let (cols, data) = (self.cols(a), self.data(a));
        let sum: f64 = match cols {
            0 => f64::from(data[0]),
            _ => data.chunks_exact(self.stride).map(|c| kernels::sum(&c[..self.rows], |x| x)).sum(),
        };
        drop(data);
        self.number((sum / self.count(cols) as f64) as f32, Op::Mean(a), self.wants(a))
    }

    /// One number that is not differentiated.
    pub(super) fn constant(&self, value: f32) -> usize {
        self.number(value, Op::Leaf, false)
    }

    fn number(&self, value: f32, op: Op, wants: bool) -> usize {
        let mut data = self.buffer(0);
        data[0] = value;
        self.push(op, 0, data, wants)
    }

    /// Adds `share` times the gradient of node `of`, one number, by the parameters `flat` to `grads`.
    pub(crate) fn backward(&self, of: usize, share: f32, flat: &[f32], grads: &mut [f32]) {
        let mut nodes = self.nodes.borrow_mut();
        if !nodes[of].wants {
            return;
        }
        let mut grad = self.buffer(nodes[of].cols);
        grad.fill(share);
        nodes[of].grad = grad;
        for i in (0..=of).rev() {
            if nodes[i].grad.is_empty() {
                continue;
            }
            let (before, rest) = nodes.split_at_mut(i);
            match rest[0].op {
                Op::Layer(place) => self.through_layer(place, before, &mut rest[0], flat, grads),
                Op::Param(start) => {
                    for (to, g) in grads[start..].iter_mut().zip(rest[0].grad.chunks_exact(self.stride)) {
                        *to += kernels::sum(&g[..self.rows], |x| x) as f32;
                    }
                }
                _ => self.flow(before, &rest[0]),
            }
        }
    }

    fn through_layer(
        &self,
        place: LayerPlace,
        nodes: &mut [Node],
        node: &mut Node,
        flat: &[f32],
        grads: &mut [f32],
    ) {
        let (g, y) = (&mut node.grad[..], &node.data[..]);
        self.arch.dispatch(|| {
            let pairs = g.iter_mut().zip(y);
            match place.activation {
                Activation::Tanh => pairs.for_each(|(g, y)| *g *= 1.0 - y * y),
                Activation::Relu => pairs.for_each(|(g, &y)| *g = if y > 0.0 { *g } else { 0.0 }),
                Activation::Elu => pairs.for_each(|(g, &y)| *g *= if y > 0.0 { 1.0 } else { y + 1.0 }),
                Activation::Linear | Activation::Swish => {}
            }
        });
        let (first, second) = (place.weight.min(place.bias), place.weight.max(place.bias));
        let (low, high) = grads.split_at_mut(second);
        let (dw, db) =
            if place.weight == first { (&mut low[first..], high) } else { (high, &mut low[first..]) };
        let (dw, db) = (&mut dw[..place.inputs * place.out], &mut db[..place.out]);
        kernels::outer(self.arch, g, &nodes[place.from].data, dw, db, self.rows);
        let g = std::mem::take(&mut node.grad);
        if let Some((to, fresh)) = self.grad_of(nodes, place.from) {
            let left = Left::Transposed { weight: &flat[place.weights()], add: !fresh };
            kernels::product(self.arch, left, &g, to, self.rows);
        }
        self.spare.borrow_mut().put(g);
    }

    /// Adds to the gradients of a node's operands.
    fn flow(&self, nodes: &mut [Node], node: &Node) {
        let (g, y) = (&node.grad[..], &node.data[..]);
        match node.op {
            Op::Leaf | Op::Layer(_) | Op::Param(_) => {}
            Op::Add(a, b) => {
                self.pass(nodes, node, a, b, |g, _, _, _| g);
                self.pass(nodes, node, b, a, |g, _, _, _| g);
            }
            Op::Sub(a, b) => {
                self.pass(nodes, node, a, b, |g, _, _, _| g);
                self.pass(nodes, node, b, a, |g, _, _, _| -g);
            }
            Op::Mul(a, b) => {
                self.pass(nodes, node, a, b, |g, _, _, b| g * b);
                self.pass(nodes, node, b, a, |g, _, _, a| g * a);
            }
            Op::Div(a, b) => {
                self.pass(nodes, node, a, b, |g, _, _, b| g / b);
                self.pass(nodes, node, b, a, |g, y, b, _| -g * y / b);
            }
            // Equal operands share, as in libtorch.
            Op::Min(a, b) => {
                let less = |g: f32, _: f32, a: f32, b: f32| {
                    g * if a < b {
                        1.0
                    } else if a == b {
                        0.5
                    } else {
                        0.0
                    }
                };
                self.pass(nodes, node, a, b, less);
                self.pass(nodes, node, b, a, less);
            }
            Op::Max(a, b) => {
                let more = |g: f32, _: f32, a: f32, b: f32| {
                    g * if a > b {
                        1.0
                    } else if a == b {
                        0.5
                    } else {
                        0.0
                    }
                };
                self.pass(nodes, node, a, b, more);
                self.pass(nodes, node, b, a, more);
            }
            Op::Scale(a, scale) => self.pass(nodes, node, a, a, move |g, _, _, _| g * scale),
            Op::Exp(a) => self.pass(nodes, node, a, a, |g, y, _, _| g * y),
            Op::Ln(a) => self.pass(nodes, node, a, a, |g, _, x, _| g / x),
            Op::Square(a) => self.pass(nodes, node, a, a, |g, _, x, _| 2.0 * g * x),
            Op::Abs(a) => self.pass(nodes, node, a, a, |g, _, x, _| {
                g * if x > 0.0 {
                    1.0
                } else if x < 0.0 {
                    -1.0
                } else {
                    0.0
                }
            }),
            Op::Clamp(a, low, high) => {
                self.pass(nodes, node, a, a, move |g, _, x, _| if x >= low && x <= high { g } else { 0.0 });
            }
            Op::LogSoftmax(a) => {
                let mut sum = self.zeros(1);
                for column in g.chunks_exact(self.stride) {
                    sum.iter_mut().zip(column).for_each(|(s, &g)| *s += g);
                }
                self.add_to(nodes, a, |to, c| {
                    let range = part(c, node.cols, self.stride);
                    let (g, y) = (&g[range.clone()], &y[range]);
                    self.arch.dispatch(|| {
                        to.iter_mut()
                            .zip(g.iter().zip(y))
                            .zip(&sum[..])
                            .for_each(|((to, (&g, &y)), &s)| *to += g - exp(y) * s);
                    });
                });
                self.spare.borrow_mut().put(sum);
            }
            Op::Pick(a, by) => {
                let index = std::mem::take(&mut nodes[by].data);
                if let Some(to) = self.summed_grad_of(nodes, a) {
                    for (r, (&g, &i)) in g.iter().zip(&index[..]).enumerate() {
                        to[i as usize * self.stride + r] += g;
                    }
                }
                nodes[by].data = index;
            }
            Op::SumCols(a) => self.add_to(nodes, a, |to, _| add(to, g)),
            Op::Narrow(a, start) => self.add_to(nodes, a, |to, c| {
                if (start..start + node.cols).contains(&c) {
                    add(to, &g[part(c - start, node.cols, self.stride)]);
                }
            }),
            Op::Cat(a, b) => {
                let (left, right) = g.split_at(nodes[a].data.len());
                self.add_to(nodes, a, |to, c| add(to, &left[c * self.stride..][..self.stride]));
                self.add_to(nodes, b, |to, c| add(to, &right[c * self.stride..][..self.stride]));
            }
            Op::Expand(a) => {
                let sum = g[..self.rows].iter().sum::<f32>();
                self.add_to(nodes, a, |to, _| to[0] += sum);
            }
            Op::Mean(a) => {
                let share = g[0] / self.count(nodes[a].cols) as f32;
                // Rows beyond the batch are copies that count for nothing.
                let rows = if nodes[a].cols == 0 { 1 } else { self.rows };
                self.add_to(nodes, a, |to, _| to[..rows].iter_mut().for_each(|t| *t += share));
            }
        }
    }

    /// Room for the gradient of a node and whether it is fresh: old numbers stand in it then. Nothing if it is not wanted.
    fn grad_of<'n>(&self, nodes: &'n mut [Node], id: usize) -> Option<(&'n mut [f32], bool)> {
        let node = &mut nodes[id];
        if !node.wants {
            return None;
        }
        let fresh = node.grad.is_empty();
        if fresh {
            node.grad = self.buffer(node.cols);
        }
        Some((&mut node.grad, fresh))
    }

    /// As [`grad_of`](Self::grad_of), zero if it is fresh.
    fn summed_grad_of<'n>(&self, nodes: &'n mut [Node], id: usize) -> Option<&'n mut [f32]> {
        self.grad_of(nodes, id).map(|(grad, fresh)| {
            if fresh {
                grad.fill(0.0);
            }
            grad
        })
    }

    /// Calls `f` with every column of a node's gradient.
    fn add_to(&self, nodes: &mut [Node], id: usize, f: impl Fn(&mut [f32], usize)) {
        let n = if nodes[id].cols == 0 { 1 } else { self.stride };
        if let Some(grad) = self.summed_grad_of(nodes, id) {
            grad.chunks_exact_mut(n).enumerate().for_each(|(c, to)| f(to, c));
        }
    }

    /// Adds `f(gradient, result, operand, other operand)` to the gradient of operand `to`.
    fn pass(
        &self,
        nodes: &mut [Node],
        node: &Node,
        to: usize,
        other: usize,
        f: impl Fn(f32, f32, f32, f32) -> f32,
    ) {
        // A column that serves for several gets the sum of what flows back to it.
        let shared = nodes[to].cols != node.cols;
        let Some((grad, fresh)) = self.grad_of(nodes, to) else { return };
        if fresh && shared {
            grad.fill(0.0);
        }
        let first = fresh && !shared;
        let mut grad = std::mem::take(&mut nodes[to].grad);
        let (own, that) = (&nodes[to], &nodes[other]);
        let n = if node.cols == 0 { 1 } else { self.stride };
        for (c, (g, y)) in node.grad.chunks_exact(n).zip(node.data.chunks_exact(n)).enumerate() {
            let own_part = part(c, own.cols, n);
            let (x, o) = (&own.data[own_part.clone()], &that.data[part(c, that.cols, n)]);
            let grad = &mut grad[own_part];
            self.arch.dispatch(|| {
                let each = grad.iter_mut().zip(g.iter().zip(y)).zip(x.iter().zip(o));
                if first {
                    each.for_each(|((to, (&g, &y)), (&x, &o))| *to = f(g, y, x, o));
                } else {
                    each.for_each(|((to, (&g, &y)), (&x, &o))| *to += f(g, y, x, o));
                }
            });
        }
        nodes[to].grad = grad;
    }
}

/// Where column `c` stands; a single column serves for all.
fn part(c: usize, cols: usize, n: usize) -> std::ops::Range<usize> {
    let c = if cols <= 1 { 0 } else { c };
    c * n..(c + 1) * n
}

fn add(to: &mut [f32], from: &[f32]) {
    to.iter_mut().zip(from).for_each(|(t, &x)| *t += x);
}
