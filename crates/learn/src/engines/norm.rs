//! Layer normalisation on the tape, forward and backward.

use crate::engines::places::NormPlace;
use crate::engines::tape::{Made, Node, Tape};
use crate::kernels;

/// Number that is added to the variance of a row before its root is taken (PyTorch's default).
pub const EPSILON: f64 = 1e-5;

impl Tape {
    /// Adds a node with each row normalised to mean 0 and variance 1 over its columns, then scaled and shifted by column.
    pub(crate) fn norm(&self, place: NormPlace, flat: &[f32]) -> usize {
        let n = self.stride;
        let share = 1.0 / place.width as f32;
        let mut moments = self.zeros(2);
        let mut out = self.buffer(place.width);
        {
            let x = self.data(place.from);
            assert_eq!(x.len(), place.width * n, "columns of what is normalised");
            let (mean, root) = moments.split_at_mut(n);
            let (weight, bias) = place.parameters(flat);
            self.arch.dispatch(|| {
                for x in x.chunks_exact(n) {
                    mean.iter_mut().zip(x).for_each(|(mean, &x)| *mean += x);
                }
                mean.iter_mut().for_each(|mean| *mean *= share);
                for x in x.chunks_exact(n) {
                    let each = root.iter_mut().zip(x).zip(&*mean);
                    each.for_each(|((sum, &x), &mean)| *sum += (x - mean) * (x - mean));
                }
                root.iter_mut().for_each(|root| *root = 1.0 / (*root * share + EPSILON as f32).sqrt());
                let columns = out.chunks_exact_mut(n).zip(x.chunks_exact(n));
                for ((out, x), (&weight, &bias)) in columns.zip(weight.iter().zip(bias)) {
                    let each = out.iter_mut().zip(x).zip(mean.iter().zip(&*root));
                    each.for_each(|((y, &x), (&mean, &root))| *y = (x - mean) * root * weight + bias);
                }
            });
        }
        let wants = place.learns || self.wants(place.from);
        let moments = self.push(Made::Leaf, 2, moments, false);
        self.push(Made::Norm(NormPlace { moments, ..place }), place.width, out, wants)
    }

    /// The backward pass of [`norm`](Self::norm): with `g` the gradient of the output, `z` the normalised row and
    /// `h = g * weight`, the gradient of the input row is `(h - mean(h) - z mean(h z)) / deviation`.
    pub(crate) fn through_norm(
        &self,
        place: NormPlace,
        nodes: &mut [Node],
        g: &[f32],
        flat: &[f32],
        grads: &mut [f32],
    ) {
        let n = self.stride;
        let share = 1.0 / place.width as f32;
        let (weight, _) = place.parameters(flat);
        let x = std::mem::take(&mut nodes[place.from].data);
        let moments = std::mem::take(&mut nodes[place.moments].data);
        let (mean, root) = moments.split_at(n);
        // `product` has g z of one column, `means` has the means of h and of h z.
        let mut product = self.buffer(1);
        let mut means = self.zeros(2);
        let (of_h, of_hz) = means.split_at_mut(n);
        for (c, (g, x)) in g.chunks_exact(n).zip(x.chunks_exact(n)).enumerate() {
            self.arch.dispatch(|| {
                let each = product.iter_mut().zip(g.iter().zip(x)).zip(mean.iter().zip(root));
                each.for_each(|((to, (&g, &x)), (&mean, &root))| *to = g * ((x - mean) * root));
                let share = weight[c] * share;
                of_h.iter_mut().zip(g).for_each(|(sum, &g)| *sum += g * share);
                of_hz.iter_mut().zip(&product[..]).for_each(|(sum, &gz)| *sum += gz * share);
            });
            if place.learns {
                grads[place.weight + c] += kernels::sum(&product[..self.rows], |x| x) as f32;
                grads[place.weight + place.width + c] += kernels::sum(&g[..self.rows], |x| x) as f32;
            }
        }
        if let Some(to) = self.summed_grad_of(nodes, place.from) {
            for (c, (to, (g, x))) in
                to.chunks_exact_mut(n).zip(g.chunks_exact(n).zip(x.chunks_exact(n))).enumerate()
            {
                self.arch.dispatch(|| {
                    let rows = mean.iter().zip(root).zip(of_h.iter().zip(&*of_hz));
                    let each = to.iter_mut().zip(g.iter().zip(x)).zip(rows);
                    each.for_each(|((to, (&g, &x)), ((&mean, &root), (&of_h, &of_hz)))| {
                        *to += (g * weight[c] - of_h - (x - mean) * root * of_hz) * root;
                    });
                });
            }
        }
        [product, means].into_iter().for_each(|buffer| self.spare.put(buffer));
        nodes[place.from].data = x;
        nodes[place.moments].data = moments;
    }
}
