//! Layers: handles that know their place among the parameters and are applied to values.

use crate::learn::Value;
use crate::learn::engines::Layer;
use crate::learn::nets::view::Net;

/// How a layer's weights start; see [`Initializer`](crate::learn::nets::config::Initializer).
#[derive(Clone, Copy, Debug)]
pub enum Init {
    /// Normal numbers, each row scaled to this norm; bias 0.
    Normc(f64),
    /// Orthogonal, scaled by this gain; bias 0.
    Orthogonal(f64),
    /// Weights and bias uniform in plus and minus `1 / sqrt(inputs)` (PyTorch's default).
    Uniform,
}

/// A linear layer and its activation.
#[derive(Clone, Copy, Debug)]
pub struct Dense {
    pub(crate) layer: Layer,
    /// Columns of the layer's output.
    pub out: usize,
}

impl Dense {
    /// The output of the layer, `[rows, out]`.
    pub fn on<'t>(self, net: Net<'t>, x: Value<'t>) -> Value<'t> {
        net.apply(self.layer, &[x.id()])
    }
}

/// A convolution and its activation, `[rows, channels * height * width]` in and out.
#[derive(Clone, Copy, Debug)]
pub struct Conv2d {
    pub(crate) layer: Layer,
    /// Channels, height and width of the layer's output.
    pub out: [usize; 3],
}

impl Conv2d {
    /// The output of the convolution, `[rows, channels * height * width]`.
    pub fn on<'t>(self, net: Net<'t>, x: Value<'t>) -> Value<'t> {
        net.apply(self.layer, &[x.id()])
    }
}

/// Channels of a convolution's output, the sides of its kernel, how far it moves, and what stands around the image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Filter {
    /// Channels of the output.
    pub channels: usize,
    /// Height and width of the kernel.
    pub kernel: [usize; 2],
    /// How far the kernel moves, down and to the right.
    pub stride: [usize; 2],
    /// Zeros around the image, or none.
    pub padding: Padding,
}

impl Filter {
    /// For an image of this height and width: zeros to the left, to the right, above and below it, then height and width of
    /// the output. `None`: the kernel does not fit.
    pub(crate) fn on(&self, image: [usize; 2]) -> Option<([usize; 4], [usize; 2])> {
        let (mut around, mut sides) = ([0; 4], [0; 2]);
        for (axis, side) in image.into_iter().enumerate() {
            let (kernel, stride) = (self.kernel[axis], self.stride[axis]);
            if [kernel, stride, side].contains(&0) {
                return None;
            }
            let padded = match self.padding {
                Padding::Valid => side,
                Padding::Same => {
                    let covered = ((side.div_ceil(stride) - 1) * stride).checked_add(kernel)?;
                    let zeros = covered.saturating_sub(side);
                    // Left and right stand before top and bottom.
                    (around[2 - 2 * axis], around[3 - 2 * axis]) = (zeros / 2, zeros - zeros / 2);
                    side.checked_add(zeros)?
                }
            };
            sides[axis] = padded.checked_sub(kernel)? / stride + 1;
        }
        Some((around, sides))
    }
}

/// What stands around an image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Padding {
    /// There are so many zeros that the output has the input's size over the stride, rounded up.
    Same,
    /// There is nothing: the kernel stays within the image.
    Valid,
}

/// Mean 0 and variance 1 over the columns of each row, then a learned scale and shift (Ba et al. 2016).
#[derive(Clone, Copy, Debug)]
pub struct LayerNorm {
    pub(crate) layer: Layer,
    /// Columns of the layer's output.
    pub out: usize,
}

impl LayerNorm {
    /// The output of the layer, `[rows, out]`.
    pub fn on<'t>(self, net: Net<'t>, x: Value<'t>) -> Value<'t> {
        net.apply(self.layer, &[x.id()])
    }
}

/// A recurrent layer. Episodes that begin within a sequence begin with an empty memory.
#[derive(Clone, Copy, Debug)]
pub struct Recurrent {
    pub(crate) layer: Layer,
    /// Columns of the layer's output.
    pub out: usize,
}

impl Recurrent {
    /// The output at every row, `[rows, out]`. `x` stands at the rows of the input that the network looks at.
    pub fn on<'t>(self, net: Net<'t>, x: Value<'t>) -> Value<'t> {
        net.apply(self.layer, &[x.id()])
    }
}

/// A vector of parameters that no layer reads.
#[derive(Clone, Copy, Debug)]
pub struct Free {
    pub(crate) layer: Layer,
}

impl Free {
    /// The vector, which is the same for every row.
    pub fn on(self, net: Net<'_>) -> Value<'_> {
        net.apply(self.layer, &[])
    }
}
