//! The backward pass through a [`Tape`]: each operation adds to the gradients of its operands.

use crate::engines::places::LayerPlace;
use crate::engines::tape::{Made, Node, Tape, part};
use crate::kernels;
use crate::kernels::exp;
use crate::loss::Op;

impl Tape {
    /// Adds `share` times the gradient of the scalar node `of` to `grads`, for the parameters that learn. `flats` are
    /// the parameters of the network and of the target copy.
    pub(crate) fn backward(&self, of: usize, share: f32, flats: &[&[f32]], grads: &mut [f32]) {
        let mut nodes = self.nodes.borrow_mut();
        if !nodes[of].wants {
            return;
        }
        let mut grad = self.buffer(nodes[of].cols);
        grad.fill(share);
        nodes[of].grad = grad;
        // Layers before this node were looked at together already.
        let mut alone = of + 1;
        for i in (0..=of).rev() {
            if nodes[i].grad.is_empty() {
                continue;
            }
            if self.joint && i < alone && matches!(nodes[i].made, Made::Layer(_)) {
                alone = self.through_layers(&mut nodes, i, flats, grads);
            }
            if nodes[i].grad.is_empty() {
                continue;
            }
            let (before, rest) = nodes.split_at_mut(i);
            match rest[0].made {
                Made::Layer(place) => {
                    let weights = &flats[place.set][place.weights()];
                    let own = &mut grads[place.weight..place.biases().end];
                    self.through_linear(place, before, &mut rest[0], weights, own);
                }
                Made::Noisy(place) => self.through_noisy(place, before, &mut rest[0], grads),
                Made::Conv(place) => {
                    self.through_convolution(place, before, &mut rest[0], flats[place.set], grads);
                }
                Made::Scan(place) => {
                    self.through_scan(place, before, &rest[0], flats[place.set], grads);
                }
                Made::Norm(place) => {
                    self.through_norm(place, before, &rest[0].grad, flats[place.set], grads);
                }
                Made::Param(start) => {
                    for (to, g) in grads[start..].iter_mut().zip(rest[0].grad.chunks_exact(self.stride)) {
                        *to += kernels::sum(&g[..self.rows], |x| x) as f32;
                    }
                }
                _ => self.flow(before, &rest[0]),
            }
        }
    }

    /// The backward pass of a linear layer with these weights; `grads` are those of its weights, then of its biases.
    pub(crate) fn through_linear(
        &self,
        place: LayerPlace,
        nodes: &mut [Node],
        node: &mut Node,
        weights: &[f32],
        grads: &mut [f32],
    ) {
        self.layers().through_activation(place.activation, &mut node.grad, &node.data);
        let g = std::mem::take(&mut node.grad);
        let x = std::mem::take(&mut nodes[place.from].data);
        self.layers().backward(place, &x, weights, &g, self.grad_of(nodes, place.from), grads);
        nodes[place.from].data = x;
        self.spare.put(g);
    }

    /// Adds the contribution of `node`, made by an elementwise or joining operation, to the gradients of its operands.
    fn flow(&self, nodes: &mut [Node], node: &Node) {
        let g = &node.grad[..];
        let y = &node.data[..];
        let (op, [a, b]) = match node.made {
            Made::By(op, operands) => (op, operands),
            Made::Expand(a) => {
                let sum = g[..self.rows].iter().sum::<f32>();
                return self.add_to(nodes, a, |to, _| to[0] += sum);
            }
            Made::Leaf
            | Made::Layer(_)
            | Made::Conv(_)
            | Made::Noisy(_)
            | Made::Norm(_)
            | Made::Scan(_)
            | Made::Param(_) => {
                return;
            }
        };
        match op {
            Op::Argmax | Op::Detach | Op::Sign | Op::SortColumns | Op::Project(..) => {}
            Op::Add => {
                self.pass(nodes, node, a, b, |g, _, _, _| g);
                self.pass(nodes, node, b, a, |g, _, _, _| g);
            }
            Op::Sub => {
                self.pass(nodes, node, a, b, |g, _, _, _| g);
                self.pass(nodes, node, b, a, |g, _, _, _| -g);
            }
            Op::Mul => {
                self.pass(nodes, node, a, b, |g, _, _, b| g * b);
                self.pass(nodes, node, b, a, |g, _, _, a| g * a);
            }
            Op::Div => {
                self.pass(nodes, node, a, b, |g, _, _, b| g / b);
                self.pass(nodes, node, b, a, |g, y, b, _| -g * y / b);
            }
            Op::Minimum => {
                let less = |g: f32, _: f32, a: f32, b: f32| g * chosen(a < b, a == b);
                self.pass(nodes, node, a, b, less);
                self.pass(nodes, node, b, a, less);
            }
            Op::Maximum => {
                let more = |g: f32, _: f32, a: f32, b: f32| g * chosen(a > b, a == b);
                self.pass(nodes, node, a, b, more);
                self.pass(nodes, node, b, a, more);
            }
            Op::Mask => self.pass(nodes, node, a, b, |g, _, _, mask| if mask == 0.0 { 0.0 } else { g }),
            Op::Scale(scale, _) => {
                let scale = scale as f32;
                self.pass(nodes, node, a, a, move |g, _, _, _| g * scale);
            }
            Op::Exp => self.pass(nodes, node, a, a, |g, y, _, _| g * y),
            Op::Log => self.pass(nodes, node, a, a, |g, _, x, _| g / x),
            Op::Sqrt => self.pass(nodes, node, a, a, |g, y, _, _| g / (2.0 * y)),
            Op::Square => self.pass(nodes, node, a, a, |g, _, x, _| 2.0 * g * x),
            Op::Abs => self.pass(nodes, node, a, a, |g, _, x, _| g * sign(x)),
            Op::Tanh => self.pass(nodes, node, a, a, |g, y, _, _| g * (1.0 - y * y)),
            Op::Sigmoid => self.pass(nodes, node, a, a, |g, y, _, _| g * y * (1.0 - y)),
            Op::Softplus => self.pass(nodes, node, a, a, |g, _, x, _| g * sigmoid(x)),
            Op::Relu => self.pass(nodes, node, a, a, |g, y, _, _| if y > 0.0 { g } else { 0.0 }),
            Op::Clamp(low, high) => {
                let low = low as f32;
                let high = high as f32;
                self.pass(nodes, node, a, a, move |g, _, x, _| if x >= low && x <= high { g } else { 0.0 });
            }
            Op::LogSoftmax => {
                let mut sum = self.zeros(1);
                for column in g.chunks_exact(self.stride) {
                    sum.iter_mut().zip(column).for_each(|(s, &g)| *s += g);
                }
                self.add_to(nodes, a, |to, c| {
                    let range = part(c, node.cols, self.stride);
                    let g = &g[range.clone()];
                    let y = &y[range];
                    self.arch.dispatch(|| {
                        to.iter_mut()
                            .zip(g.iter().zip(y))
                            .zip(&sum[..])
                            .for_each(|((to, (&g, &y)), &s)| *to += g - exp(y) * s);
                    });
                });
                self.spare.put(sum);
            }
            Op::LogSumExp => {
                let x = std::mem::take(&mut nodes[a].data);
                self.add_to(nodes, a, |to, c| {
                    let x = &x[c * self.stride..][..self.stride];
                    self.arch.dispatch(|| {
                        let each = to.iter_mut().zip(x).zip(g.iter().zip(y));
                        each.for_each(|((to, &x), (&g, &y))| *to += g * exp(x - y));
                    });
                });
                nodes[a].data = x;
            }
            Op::Expectation(low, high) => self.through_expectation(nodes, g, a, (low, high)),
            Op::QuantileHuber => self.through_quantile_huber(nodes, g, [a, b]),
            Op::Gather(width) => {
                let index = std::mem::take(&mut nodes[b].data);
                if let Some(to) = self.summed_grad_of(nodes, a) {
                    for (c, g) in g.chunks_exact(self.stride).enumerate() {
                        for (r, (&g, &i)) in g.iter().zip(&index[..]).enumerate() {
                            to[(i as usize * width + c) * self.stride + r] += g;
                        }
                    }
                }
                nodes[b].data = index;
            }
            Op::SumColumns => self.add_to(nodes, a, |to, _| add(to, g)),
            Op::MeanColumns => unreachable!("it is made of a sum and a scale"),
            Op::Narrow(start, _) => self.add_to(nodes, a, |to, c| {
                if (start..start + node.cols).contains(&c) {
                    add(to, &g[part(c - start, node.cols, self.stride)]);
                }
            }),
            Op::Cat => {
                let (left, right) = g.split_at(nodes[a].data.len());
                self.add_to(nodes, a, |to, c| add(to, &left[c * self.stride..][..self.stride]));
                self.add_to(nodes, b, |to, c| add(to, &right[c * self.stride..][..self.stride]));
            }
            Op::Mean => {
                let share = g[0] / self.count(nodes[a].cols) as f32;
                // Rows beyond the batch are copies without effect.
                let rows = if nodes[a].cols == 0 { 1 } else { self.rows };
                self.add_to(nodes, a, |to, _| to[..rows].iter_mut().for_each(|t| *t += share));
            }
        }
    }

    /// The buffer of a node's gradient, and whether it was taken just now, so that its numbers have no meaning yet. `None`
    /// if the node needs no gradient.
    fn grad_of<'n>(&self, nodes: &'n mut [Node], id: usize) -> Option<(&'n mut [f32], bool)> {
        nodes[id].gradient(|cols| self.buffer(cols))
    }

    /// The buffer of a node's gradient, filled with zeros if it was taken just now; `None` if the node needs no gradient.
    pub(crate) fn summed_grad_of<'n>(&self, nodes: &'n mut [Node], id: usize) -> Option<&'n mut [f32]> {
        self.grad_of(nodes, id).map(|(grad, fresh)| {
            if fresh {
                grad.fill(0.0);
            }
            grad
        })
    }

    /// Calls `f` with every column of a node's gradient and the index of the column, if the node needs a gradient.
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
        // A single column that was combined with several columns gets the sum of their gradients.
        let shared = nodes[to].cols != node.cols;
        let Some((grad, fresh)) = self.grad_of(nodes, to) else { return };
        if fresh && shared {
            grad.fill(0.0);
        }
        let first = fresh && !shared;
        let mut grad = std::mem::take(&mut nodes[to].grad);
        let own = &nodes[to];
        let that = &nodes[other];
        let n = if node.cols == 0 { 1 } else { self.stride };
        for (c, (g, y)) in node.grad.chunks_exact(n).zip(node.data.chunks_exact(n)).enumerate() {
            let own_part = part(c, own.cols, n);
            let x = &own.data[own_part.clone()];
            let o = &that.data[part(c, that.cols, n)];
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

/// Share of the gradient that an operand of minimum or maximum gets: half if both are equal, as in libtorch.
fn chosen(won: bool, equal: bool) -> f32 {
    match (won, equal) {
        (true, _) => 1.0,
        (_, true) => 0.5,
        _ => 0.0,
    }
}

fn sign(x: f32) -> f32 {
    if x > 0.0 {
        1.0
    } else if x < 0.0 {
        -1.0
    } else {
        0.0
    }
}

/// The logistic function, `1 / (1 + e^-x)`.
fn sigmoid(x: f32) -> f32 {
    1.0 / (1.0 + exp(-x))
}

fn add(to: &mut [f32], from: &[f32]) {
    to.iter_mut().zip(from).for_each(|(t, &x)| *t += x);
}
