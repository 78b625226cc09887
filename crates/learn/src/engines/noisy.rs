//! Noisy layers (Fortunato et al. 2018) on the tape, forward and backward.

use crate::base::Stream;
use crate::engines::places::{LayerPlace, NoisyPlace};
use crate::engines::tape::{Made, Node, Tape};

/// Fills `to` with factorised noise: the signed roots of the sizes of normal numbers.
fn draw(stream: &mut Stream, to: &mut [f32]) {
    to.iter_mut().for_each(|to| {
        let x: f32 = stream.normal();
        *to = x.signum() * x.abs().sqrt();
    });
}

impl Tape {
    /// Adds a node with the output of a noisy layer and its activation: `x (W + S e)^T + b + s e` with noise `e` from
    /// `stream`, and the parameters `flat`.
    pub(crate) fn noisy(&self, place: LayerPlace, stream: &mut Stream, flat: &[f32]) -> usize {
        let LayerPlace { inputs, out, .. } = place;
        let means = place.weight..place.biases().end;
        let mut noise = self.spare.take(inputs + out);
        let (from, to) = noise.split_at_mut(inputs);
        draw(stream, from);
        draw(stream, to);
        let mut drawn = self.spare.take(means.len());
        drawn.copy_from_slice(&flat[means.clone()]);
        let sizes = &flat[means.end..][..means.len()];
        let (weights, biases) = drawn.split_at_mut(inputs * out);
        let (of_weights, of_biases) = sizes.split_at(inputs * out);
        for ((weights, sizes), &to) in
            weights.chunks_exact_mut(inputs).zip(of_weights.chunks_exact(inputs)).zip(&*to)
        {
            weights.iter_mut().zip(sizes).zip(&*from).for_each(|((w, &s), &e)| *w += s * (to * e));
        }
        biases.iter_mut().zip(of_biases).zip(&*to).for_each(|((b, &s), &e)| *b += s * e);
        let y = self.linear(place, weights, biases);
        let noise = self.push(Made::Leaf, 0, noise, false);
        let drawn = self.push(Made::Leaf, 0, drawn, false);
        let wants = place.learns || self.wants(place.from);
        self.push(Made::Noisy(NoisyPlace { layer: place, noise, drawn }), out, y, wants)
    }

    /// Adds the gradients of the parameters and of the input of [`noisy`](Self::noisy): the sizes of the noise get the gradient of the drawn parameters times the
    /// noise.
    pub(crate) fn through_noisy(
        &self,
        place: NoisyPlace,
        nodes: &mut [Node],
        node: &mut Node,
        grads: &mut [f32],
    ) {
        let layer = place.layer;
        let drawn = std::mem::take(&mut nodes[place.drawn].data);
        let noise = std::mem::take(&mut nodes[place.noise].data);
        let mut of_drawn = self.spare.take(drawn.len());
        of_drawn.fill(0.0);
        self.through_linear(layer, nodes, node, &drawn[..layer.weights().len()], &mut of_drawn);
        if layer.learns {
            let (means, sizes) = grads[layer.weight..][..2 * drawn.len()].split_at_mut(drawn.len());
            means.iter_mut().zip(&of_drawn[..]).for_each(|(g, &d)| *g += d);
            let (from, to) = noise.split_at(layer.inputs);
            let (of_weights, of_biases) = of_drawn.split_at(layer.weights().len());
            let (weights, biases) = sizes.split_at_mut(layer.weights().len());
            let rows = weights.chunks_exact_mut(layer.inputs).zip(of_weights.chunks_exact(layer.inputs));
            for ((g, d), &to) in rows.zip(to) {
                g.iter_mut().zip(d).zip(from).for_each(|((g, &d), &e)| *g += d * (to * e));
            }
            biases.iter_mut().zip(of_biases).zip(to).for_each(|((g, &d), &e)| *g += d * e);
        }
        self.spare.put(of_drawn);
        nodes[place.drawn].data = drawn;
        nodes[place.noise].data = noise;
    }
}
