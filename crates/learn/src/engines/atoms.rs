//! Distributions on equally spaced atoms, on the tape: their mean, and what a step of the environment makes of them.

use crate::engines::tape::{Made, Node, Tape};
use crate::loss::Op;

/// The place of each of `count` atoms between `low` and `high`.
fn atoms((low, high): (f64, f64), count: usize) -> impl Iterator<Item = f32> {
    let step = (high - low) / (count.max(2) - 1) as f64;
    (0..count).map(move |i| (low + step * i as f64) as f32)
}

impl Tape {
    /// Adds a node with each row's sum of its numbers times the places of the atoms, `[rows, 1]`.
    pub(crate) fn expectation(&self, a: usize, (low, high): (f64, f64)) -> usize {
        let count = self.cols(a);
        let mut out = self.zeros(1);
        for (column, place) in self.data(a).chunks_exact(self.stride).zip(atoms((low, high), count)) {
            self.arch.dispatch(|| out.iter_mut().zip(column).for_each(|(y, &x)| *y += x * place));
        }
        self.push(Made::By(Op::Expectation(low, high), [a, a]), 1, out, self.wants(a))
    }

    /// Adds the gradient of [`expectation`](Self::expectation) to that of the probabilities.
    pub(crate) fn through_expectation(&self, nodes: &mut [Node], g: &[f32], a: usize, bounds: (f64, f64)) {
        let count = nodes[a].cols;
        let Some(to) = self.summed_grad_of(nodes, a) else { return };
        for (to, place) in to.chunks_exact_mut(self.stride).zip(atoms(bounds, count)) {
            self.arch.dispatch(|| to.iter_mut().zip(g).for_each(|(to, &g)| *to += g * place));
        }
    }

    /// Adds a node, without gradient, with the probabilities `probs` after each atom `z` moved to `reward + discount z`, and
    /// its probability was shared by the two atoms beside it (Bellemare et al. 2017, algorithm 1). The two columns of
    /// `moves` are reward and discount.
    pub(crate) fn project(&self, probs: usize, moves: usize, (low, high): (f64, f64)) -> usize {
        let count = self.cols(probs);
        let n = self.stride;
        let step = ((high - low) / (count.max(2) - 1) as f64) as f32;
        let last = (count - 1) as f32;
        let (first, end) = (low as f32, high as f32);
        self.leaf(count, |to| {
            to.fill(0.0);
            let probs = self.data(probs);
            let moves = self.data(moves);
            let (rewards, discounts) = moves.split_at(n);
            for (column, place) in probs.chunks_exact(n).zip(atoms((low, high), count)) {
                for (r, (&p, (&reward, &discount))) in
                    column.iter().zip(rewards.iter().zip(discounts)).enumerate()
                {
                    let moved = (reward + discount * place).clamp(first, end);
                    let position = ((moved - first) / step).clamp(0.0, last);
                    let below = position.floor();
                    let above = position - below;
                    let lower = below as usize;
                    to[lower * n + r] += p * (1.0 - above);
                    to[(lower + 1).min(count - 1) * n + r] += p * above;
                }
            }
        })
    }
}
