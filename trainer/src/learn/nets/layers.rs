//! Layers: handles that know their place among the parameters and are applied to values.

use crate::learn::loss::{Layer, Net, Value};

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
