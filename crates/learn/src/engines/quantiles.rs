//! Quantiles of a distribution on the tape: sorting each row's columns, and the quantile loss.

use crate::engines::tape::{Made, Node, Tape};
use crate::kernels::LANES;
use crate::loss::Op;

/// Calls `exchange` with pairs of columns. If each call puts its two columns in order, all `columns` columns are sorted
/// at the end (Batcher's merge exchange; Knuth, The Art of Computer Programming 3, algorithm 5.2.2M).
fn exchanges(columns: usize, mut exchange: impl FnMut(usize, usize)) {
    let mut run = 1;
    while run < columns {
        let mut apart = run;
        while apart > 0 {
            for start in (apart % run..columns.saturating_sub(apart)).step_by(2 * apart) {
                for low in start..(start + apart).min(columns - apart) {
                    // Both columns belong to the same pair of runs.
                    if low / (2 * run) == (low + apart) / (2 * run) {
                        exchange(low, low + apart);
                    }
                }
            }
            apart /= 2;
        }
        run *= 2;
    }
}

impl Tape {
    /// Adds a node with the numbers of each row sorted, smallest first. Whole columns are compared, so that vector
    /// instructions work on several rows at once.
    pub(crate) fn sort_columns(&self, a: usize) -> usize {
        let columns = self.cols(a);
        let n = self.stride;
        self.leaf(columns, |to| {
            to.copy_from_slice(&self.data(a));
            exchanges(columns, |low, high| {
                let (before, behind) = to.split_at_mut(high * n);
                let low = &mut before[low * n..][..n];
                let high = &mut behind[..n];
                self.arch.dispatch(|| {
                    // In registers, 16 rows at a time: with AVX2, a conditional pass in place has masked stores, which take
                    // 12 cycles per vector on AMD's processors.
                    let blocks =
                        low.as_chunks_mut::<LANES>().0.iter_mut().zip(high.as_chunks_mut::<LANES>().0);
                    for (low, high) in blocks {
                        let a = *low;
                        let b = *high;
                        for r in 0..LANES {
                            low[r] = if b[r] < a[r] { b[r] } else { a[r] };
                            high[r] = if b[r] < a[r] { a[r] } else { b[r] };
                        }
                    }
                });
            });
        })
    }

    /// Adds a node with the quantile Huber loss of each row: the mean over all pairs of a quantile and a sample.
    pub(crate) fn quantile_huber(&self, quantiles: usize, samples: usize) -> usize {
        let mut out = self.zeros(1);
        {
            let of = self.data(quantiles);
            let at = self.data(samples);
            self.pairs(&of, &at, |level, _, x, y| {
                self.arch.dispatch(|| {
                    out.iter_mut().zip(x.iter().zip(y)).for_each(|(sum, (&x, &y))| {
                        let (error, weight) = weighted(level, x, y);
                        let size = error.abs();
                        let inner = if size > 1.0 { 1.0 } else { size };
                        *sum += weight * inner * (size - 0.5 * inner);
                    });
                });
            });
            let share = self.share_of_pair(&of, &at);
            out.iter_mut().for_each(|sum| *sum *= share);
        }
        let made = Made::By(Op::QuantileHuber, [quantiles, samples]);
        self.push(made, 1, out, self.wants(quantiles))
    }

    /// The backward pass of [`quantile_huber`](Self::quantile_huber).
    pub(crate) fn through_quantile_huber(
        &self,
        nodes: &mut [Node],
        g: &[f32],
        [quantiles, samples]: [usize; 2],
    ) {
        let of = std::mem::take(&mut nodes[quantiles].data);
        // Quantiles and samples may be the same node.
        let at = if samples == quantiles { None } else { Some(std::mem::take(&mut nodes[samples].data)) };
        let seen = at.as_deref().unwrap_or(&of);
        let share = self.share_of_pair(&of, seen);
        if let Some(to) = self.summed_grad_of(nodes, quantiles) {
            self.pairs(&of, seen, |level, i, x, y| {
                let to = &mut to[i * self.stride..][..self.stride];
                self.arch.dispatch(|| {
                    to.iter_mut().zip(g).zip(x.iter().zip(y)).for_each(|((to, &g), (&x, &y))| {
                        let (error, weight) = weighted(level, x, y);
                        let slope = error.clamp(-1.0, 1.0);
                        *to -= g * share * weight * slope;
                    });
                });
            });
        }
        if let Some(at) = at {
            nodes[samples].data = at;
        }
        nodes[quantiles].data = of;
    }

    /// Calls `f` for every pair of a quantile and a sample: with the quantile's level, index and column, and the sample's
    /// column.
    fn pairs(&self, quantiles: &[f32], samples: &[f32], mut f: impl FnMut(f32, usize, &[f32], &[f32])) {
        let n = quantiles.len() / self.stride;
        for (i, x) in quantiles.chunks_exact(self.stride).enumerate() {
            let level = (i as f32 + 0.5) / n as f32;
            samples.chunks_exact(self.stride).for_each(|y| f(level, i, x, y));
        }
    }

    fn share_of_pair(&self, quantiles: &[f32], samples: &[f32]) -> f32 {
        let pairs = (quantiles.len() / self.stride) * (samples.len() / self.stride);
        1.0 / pairs as f32
    }
}

/// The difference between a sample and the quantile of this level, and the weight of the difference in the loss.
#[inline(always)]
fn weighted(level: f32, quantile: f32, sample: f32) -> (f32, f32) {
    let error = sample - quantile;
    (error, if error < 0.0 { 1.0 - level } else { level })
}
