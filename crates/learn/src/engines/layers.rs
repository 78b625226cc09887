//! Linear layers, forward and backward. They need nothing of the tape but its free memory, so any thread computes them, and
//! two threads share a large one: each computes some of the outputs. No sum is cut, so the bits are those of one thread.

use crate::engines::buffer::{Buffer, Side, Spare};
use crate::engines::places::LayerPlace;
use crate::kernels;
use crate::kernels::Left;
use crate::layers::Activation;
use pulp::Arch;

/// Least number of multiply-adds of a layer that two threads share: each of them must fetch what the other has written.
const SHARED_WORK: usize = 1 << 23;

/// What the layers of one batch have in common: vector instructions, rows, distance between features, and free memory.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Layers<'t> {
    pub(crate) arch: Arch,
    pub(crate) rows: usize,
    pub(crate) stride: usize,
    pub(crate) spare: &'t Spare,
    /// The thread that computes the layers, whose free memory is used.
    pub(crate) side: Side,
    /// Whether a second thread may compute a part of a layer.
    pub(crate) shared: bool,
}

impl Layers<'_> {
    /// Takes a buffer of `len` numbers, which may be old ones.
    pub(crate) fn take(self, len: usize) -> Buffer {
        self.spare.take_for(self.side, len)
    }

    /// The output of a linear layer with these weights and biases, and its activation.
    pub(crate) fn forward(self, place: LayerPlace, x: &[f32], weights: &[f32], biases: &[f32]) -> Buffer {
        let mut out = self.take(place.out * self.stride);
        let own = self.own_part(place, place.out, 4);
        let compute = |(weights, biases): (&[f32], &[f32]), out: &mut [f32]| {
            let left = Left::Weight(weights, biases);
            match place.activation {
                Activation::Relu => kernels::product_relu(self.arch, left, x, out, self.rows),
                _ => kernels::product(self.arch, left, x, out, self.rows),
            }
            self.activate(place.activation, out);
        };
        let (own_weights, other_weights) = weights.split_at(own * place.inputs);
        let (own_biases, other_biases) = biases.split_at(own);
        let (own_out, other_out) = out.split_at_mut(own * self.stride);
        let other = (!other_out.is_empty()).then_some(|| compute((other_weights, other_biases), other_out));
        self.both(place, || compute((own_weights, own_biases), own_out), other);
        out
    }

    /// How many of the `count` outputs or inputs of a layer this thread computes, a multiple of `unit`; the second thread
    /// computes the others.
    fn own_part(self, place: LayerPlace, count: usize, unit: usize) -> usize {
        let is_shared = self.shared && self.work(place) >= SHARED_WORK;
        if is_shared { (count / 2).next_multiple_of(unit).min(count) } else { count }
    }

    /// Number of multiply-adds of a product with the layer's weights.
    fn work(self, place: LayerPlace) -> usize {
        self.stride * place.inputs * place.out
    }

    /// Calls `own` on this thread, and `other`, if there is one, on the second.
    fn both(self, place: LayerPlace, own: impl FnOnce(), other: Option<impl FnOnce() + Send>) {
        match other {
            None => own(),
            Some(other) => kernels::join(self.work(place), own, other),
        }
    }

    /// Applies an activation to the result of a layer. The product has applied `Relu`, and `Swish` is a node of its own.
    pub(crate) fn activate(self, activation: Activation, out: &mut [f32]) {
        match activation {
            Activation::Tanh => kernels::tanh(self.arch, out),
            Activation::Elu => {
                out.iter_mut().for_each(|y| *y = if *y < 0.0 { libm::expm1f(*y) } else { *y });
            }
            Activation::Linear | Activation::Relu | Activation::Swish => {}
        }
    }

    /// Adds the gradients of a linear layer: those of its weights, then of its biases, to `grads`, and that of its input
    /// `x` to `to`, where it is wanted. `g` is the gradient of the layer's output before the activation.
    pub(crate) fn backward(
        self,
        place: LayerPlace,
        x: &[f32],
        weights: &[f32],
        g: &[f32],
        to: Option<(&mut [f32], bool)>,
        grads: &mut [f32],
    ) {
        if place.learns {
            self.add_to_weights(place, x, g, grads);
        }
        if let Some((to, fresh)) = to {
            self.add_to_input(place, weights, g, to, !fresh);
        }
    }

    /// Adds the gradients of a layer's weights, then of its biases, to `grads`.
    fn add_to_weights(self, place: LayerPlace, x: &[f32], g: &[f32], grads: &mut [f32]) {
        let own = self.own_part(place, place.out, 4);
        let helper = Layers { side: Side::Helper, ..self };
        let compute = |layers: Layers<'_>, g: &[f32], (dw, db): (&mut [f32], &mut [f32])| {
            let mut room = layers.take(kernels::outer_room(self.rows, place.inputs, place.out));
            kernels::outer(self.arch, g, x, dw, db, self.rows, &mut room);
            self.spare.put(room);
        };
        let (dw, db) = grads.split_at_mut(place.inputs * place.out);
        let (own_dw, other_dw) = dw.split_at_mut(own * place.inputs);
        let (own_db, other_db) = db.split_at_mut(own);
        let (own_g, other_g) = g.split_at(own * self.stride);
        let other = (!other_g.is_empty()).then_some(|| compute(helper, other_g, (other_dw, other_db)));
        self.both(place, || compute(self, own_g, (own_dw, own_db)), other);
    }

    /// Writes the gradient of a layer's input to `to`, or with `add` adds it.
    fn add_to_input(self, place: LayerPlace, weights: &[f32], g: &[f32], to: &mut [f32], add: bool) {
        let mut room = self.take(kernels::panels_room(place.inputs, place.out));
        let (weight, panel) = kernels::panels(weights, place.inputs, &mut room);
        let has_panels = panel < place.inputs;
        let own = self.own_part(place, place.inputs, if has_panels { panel } else { 4 });
        let compute = |first: usize, to: &mut [f32]| {
            // Without panels the rows of weights keep their distance.
            let (skipped, columns) =
                if has_panels { (first * place.out, place.inputs - first) } else { (first, place.inputs) };
            let left = Left::Transposed { weight: &weight[skipped..], columns, panel, add };
            kernels::product(self.arch, left, g, to, self.rows);
        };
        let (own_to, other_to) = to.split_at_mut(own * self.stride);
        let other = (!other_to.is_empty()).then_some(|| compute(own, other_to));
        self.both(place, || compute(0, own_to), other);
        self.spare.put(room);
    }

    /// Multiplies the gradient of a layer by the slope of its activation, which follows from the layer's result `y`.
    pub(crate) fn through_activation(self, activation: Activation, grad: &mut Buffer, y: &[f32]) {
        if activation == Activation::Relu {
            // Not in place, for the same reason as in `kernels::product_relu`.
            let mut kept = self.take(grad.len());
            let g = &grad[..];
            self.arch.dispatch(|| {
                let each = kept.iter_mut().zip(g).zip(y);
                each.for_each(|((to, &g), &y)| *to = if y > 0.0 { g } else { 0.0 });
            });
            self.spare.put(std::mem::replace(grad, kept));
        }
        let g = &mut grad[..];
        self.arch.dispatch(|| {
            let pairs = g.iter_mut().zip(y);
            match activation {
                Activation::Tanh => pairs.for_each(|(g, y)| *g *= 1.0 - y * y),
                Activation::Elu => pairs.for_each(|(g, &y)| *g *= if y > 0.0 { 1.0 } else { y + 1.0 }),
                Activation::Linear | Activation::Relu | Activation::Swish => {}
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The bits of a layer's outputs, of its gradients, and of that of its input.
    fn bits(inputs: usize, out: usize, activation: Activation, shared: bool) -> Vec<u32> {
        let rows = 250;
        let spare = Spare::default();
        let stride = kernels::stride(rows);
        let layers = Layers { arch: kernels::arch(), rows, stride, spare: &spare, side: Side::Own, shared };
        let place = LayerPlace { from: 0, set: 0, learns: true, weight: 0, inputs, out, activation };
        assert_eq!(layers.own_part(place, out, 4) < out, shared);
        let numbers = |count: usize, scale: f32| -> Vec<f32> {
            (0..count).map(|i| (i as f32 * scale).sin() * 0.5).collect()
        };
        let [x, g] = [(inputs, 0.3), (out, 0.9)].map(|(columns, scale)| numbers(columns * stride, scale));
        let weights = numbers(inputs * out, 0.01);
        let y = layers.forward(place, &x, &weights, &numbers(out, 0.2));
        let mut grads = vec![0.0; inputs * out + out];
        let mut to = x.clone();
        layers.backward(place, &x, &weights, &g, Some((&mut to, true)), &mut grads);
        let written = to.clone();
        layers.backward(place, &x, &weights, &g, Some((&mut to, false)), &mut grads);
        let parts = [&y[..], &grads, &written, &to];
        parts.into_iter().flatten().map(|x| x.to_bits()).collect()
    }

    #[test]
    fn two_threads_compute_the_bits_of_one() {
        // With panels and without; the second thread has fewer features than the first.
        for (inputs, out) in [(256, 192), (203, 301), (405, 409)] {
            for activation in [Activation::Tanh, Activation::Relu] {
                let alone = bits(inputs, out, activation, false);
                assert!(alone.iter().filter(|&&bits| f32::from_bits(bits) != 0.0).count() > alone.len() / 2);
                for _ in 0..5 {
                    assert!(
                        bits(inputs, out, activation, true) == alone,
                        "{inputs} to {out}, {activation:?}"
                    );
                }
            }
        }
    }
}
