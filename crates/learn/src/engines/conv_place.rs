//! Where the operands of a convolution are, and which pixels its kernel sees.

use crate::layers::Activation;
use std::ops::Range;

/// The operands of a convolution: the node of its input, the place of its parameters in the flat buffer, and its shape.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ConvPlace {
    pub(crate) from: usize,
    /// Set of parameters: 0 the network's, 1 the target copy's.
    pub(crate) set: usize,
    /// Whether the layer's parameters get a gradient.
    pub(crate) learns: bool,
    /// Index of the layer's first weight in the flat buffer; the biases follow the weights.
    pub(crate) weight: usize,
    /// Channels, height and width of the input.
    pub(crate) input: [usize; 3],
    /// Channels, height and width of the output.
    pub(crate) out: [usize; 3],
    /// Height and width of the kernel.
    pub(crate) kernel: [usize; 2],
    pub(crate) stride: [usize; 2],
    /// Zeros to the left of the input and above it.
    pub(crate) before: [usize; 2],
    pub(crate) activation: Activation,
}

impl ConvPlace {
    /// The place of a convolution that is no target copy's and learns nothing, from the shape of its weights, `[channels out,
    /// channels in, kernel height, kernel width]`, that of its input and the padding on the left, right, top and bottom.
    pub(crate) fn new(
        shape: &[i64],
        input: [usize; 3],
        stride: [usize; 2],
        [left, right, top, bottom]: [usize; 4],
        activation: Activation,
    ) -> Self {
        let kernel = [shape[2] as usize, shape[3] as usize];
        let height = (input[1] + top + bottom - kernel[0]) / stride[0] + 1;
        let width = (input[2] + left + right - kernel[1]) / stride[1] + 1;
        let out = [shape[0] as usize, height, width];
        let before = [left, top];
        Self { from: 0, set: 0, learns: false, weight: 0, input, out, kernel, stride, before, activation }
    }

    /// Number of numbers that the kernel sees at once.
    pub(crate) fn patch(self) -> usize {
        self.input[0] * self.kernel[0] * self.kernel[1]
    }

    /// Number of pixels of the output.
    pub(crate) fn pixels(self) -> usize {
        self.out[1] * self.out[2]
    }

    pub(crate) fn weights(self) -> Range<usize> {
        self.weight..self.weight + self.patch() * self.out[0]
    }

    pub(crate) fn biases(self) -> Range<usize> {
        let end = self.weights().end;
        end..end + self.out[0]
    }

    /// The column of the input that stands at index `at` of the patch of each of these pixels; `None` beyond the border.
    pub(crate) fn seen(self, at: usize, pixels: Range<usize>) -> impl Iterator<Item = Option<usize>> {
        let [_, height, width] = self.input;
        let [up, along] = self.stride;
        let [left, top] = self.before;
        let per_channel = self.kernel[0] * self.kernel[1];
        let channel = at / per_channel;
        let within = at % per_channel;
        let [down, right] = [within / self.kernel[1], within % self.kernel[1]];
        let mut row = pixels.start / self.out[2];
        let mut place = pixels.start % self.out[2];
        pixels.map(move |_| {
            let y = (row * up + down).wrapping_sub(top);
            let x = (place * along + right).wrapping_sub(left);
            place += 1;
            if place == self.out[2] {
                place = 0;
                row += 1;
            }
            (y < height && x < width).then(|| (channel * height + y) * width + x)
        })
    }
}
