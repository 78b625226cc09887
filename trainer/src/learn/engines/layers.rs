//! Linear layers, forward and backward. They need nothing of the tape but its free memory, so any thread computes them.

use crate::learn::engines::buffer::{Buffer, Side, Spare};
use crate::learn::engines::places::LayerPlace;
use crate::learn::kernels;
use crate::learn::kernels::Left;
use crate::settings::Activation;
use pulp::Arch;

/// What the layers of one batch have in common: vector instructions, rows, distance between features, and free memory.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Layers<'t> {
    pub(crate) arch: Arch,
    pub(crate) rows: usize,
    pub(crate) stride: usize,
    pub(crate) spare: &'t Spare,
    /// The thread that computes the layers, whose free memory is used.
    pub(crate) side: Side,
}

impl Layers<'_> {
    /// Takes a buffer of `len` numbers, which may be old ones.
    pub(crate) fn take(self, len: usize) -> Buffer {
        self.spare.take_for(self.side, len)
    }

    /// The output of a linear layer with these weights and biases, and its activation.
    pub(crate) fn forward(self, place: LayerPlace, x: &[f32], weights: &[f32], biases: &[f32]) -> Buffer {
        let mut out = self.take(place.out * self.stride);
        let left = Left::Weight(weights, biases);
        match place.activation {
            Activation::Relu => kernels::product_relu(self.arch, left, x, &mut out, self.rows),
            _ => kernels::product(self.arch, left, x, &mut out, self.rows),
        }
        self.activate(place.activation, &mut out);
        out
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
            let (dw, db) = grads.split_at_mut(weights.len());
            let mut room = self.take(kernels::outer_room(self.rows, place.inputs, place.out));
            kernels::outer(self.arch, g, x, dw, db, self.rows, &mut room);
            self.spare.put(room);
        }
        if let Some((to, fresh)) = to {
            let mut room = self.take(kernels::panels_room(place.inputs, place.out));
            let (weight, panel) = kernels::panels(weights, place.inputs, &mut room);
            kernels::product(self.arch, Left::Transposed { weight, panel, add: !fresh }, g, to, self.rows);
            self.spare.put(room);
        }
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
