//! Where the operands of a layer are: nodes of the tape, and ranges of the flat buffer of parameters.

use crate::layers::Activation;
use std::ops::Range;

/// The operands of a linear layer: the node of its input, and the place of its parameters in the flat buffer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LayerPlace {
    pub(crate) from: usize,
    /// Set of parameters: 0 the network's, 1 the target copy's.
    pub(crate) set: usize,
    /// Whether the layer's parameters get a gradient.
    pub(crate) learns: bool,
    /// Index of the layer's first weight in the flat buffer; the biases follow the weights.
    pub(crate) weight: usize,
    pub(crate) inputs: usize,
    pub(crate) out: usize,
    pub(crate) activation: Activation,
}

impl LayerPlace {
    pub(crate) fn weights(self) -> Range<usize> {
        self.weight..self.weight + self.inputs * self.out
    }

    pub(crate) fn biases(self) -> Range<usize> {
        let end = self.weights().end;
        end..end + self.out
    }
}

/// The operands of a noisy layer on the tape.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NoisyPlace {
    /// The layer without its noise. Behind its weights and biases in the flat buffer are the sizes of their noise.
    pub(crate) layer: LayerPlace,
    /// Node with the noise of the inputs, then that of the outputs.
    pub(crate) noise: usize,
    /// Node with the weights and biases after their noise was added.
    pub(crate) drawn: usize,
}

/// The operands of a layer normalisation on the tape.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NormPlace {
    pub(crate) from: usize,
    /// Set of parameters: 0 the network's, 1 the target copy's.
    pub(crate) set: usize,
    /// Whether the scales and shifts get a gradient.
    pub(crate) learns: bool,
    /// Index of the first scale in the flat buffer; the shifts follow the scales.
    pub(crate) weight: usize,
    pub(crate) width: usize,
    /// Node that stores each row's mean and the inverse of its deviation for the backward pass.
    pub(crate) moments: usize,
}

impl NormPlace {
    /// The scales and the shifts, as slices of `flat`.
    pub(crate) fn parameters(self, flat: &[f32]) -> (&[f32], &[f32]) {
        flat[self.weight..self.weight + 2 * self.width].split_at(self.width)
    }
}
