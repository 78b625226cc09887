//! Handles of layers: each refers to the layer's parameters and applies the layer to a value.

use crate::loss::{Layer, Net, Value, check_layer};

/// A linear layer and its activation.
#[derive(Clone, Copy, Debug)]
pub struct Dense {
    pub(crate) layer: Layer,
    pub(crate) name: &'static str,
    pub(crate) inputs: usize,
    /// Number of columns of the layer's output.
    pub out: usize,
}

impl Dense {
    /// The output of the layer, `[rows, out]`.
    pub fn on<'t>(self, net: Net<'t>, x: Value<'t>) -> Value<'t> {
        check_layer(self.name, self.inputs, x.columns());
        net.apply(self.layer, &[x.id()])
    }
}

/// A convolution and its activation, `[rows, channels * height * width]` in and out.
#[derive(Clone, Copy, Debug)]
pub struct Conv2d {
    pub(crate) layer: Layer,
    pub(crate) name: &'static str,
    pub(crate) inputs: usize,
    /// Channels, height and width of the layer's output.
    pub out: [usize; 3],
}

impl Conv2d {
    /// The output of the convolution, `[rows, channels * height * width]`.
    pub fn on<'t>(self, net: Net<'t>, x: Value<'t>) -> Value<'t> {
        check_layer(self.name, self.inputs, x.columns());
        net.apply(self.layer, &[x.id()])
    }
}

/// Layer normalisation: mean 0 and variance 1 over each row's columns, then a learned scale and shift (Ba et al.
/// 2016).
#[derive(Clone, Copy, Debug)]
pub struct LayerNorm {
    pub(crate) layer: Layer,
    pub(crate) name: &'static str,
    pub(crate) inputs: usize,
    /// Number of columns of the layer's output.
    pub out: usize,
}

impl LayerNorm {
    /// The output of the layer, `[rows, out]`.
    pub fn on<'t>(self, net: Net<'t>, x: Value<'t>) -> Value<'t> {
        check_layer(self.name, self.inputs, x.columns());
        net.apply(self.layer, &[x.id()])
    }
}

/// A recurrent layer. An episode that begins within a sequence begins with a state of zeros.
#[derive(Clone, Copy, Debug)]
pub struct Recurrent {
    pub(crate) layer: Layer,
    pub(crate) name: &'static str,
    pub(crate) inputs: usize,
    /// Number of columns of the layer's output.
    pub out: usize,
}

impl Recurrent {
    /// The layer's output at every row, `[rows, out]`. `x` must have one row for each row of the network's input.
    pub fn on<'t>(self, net: Net<'t>, x: Value<'t>) -> Value<'t> {
        check_layer(self.name, self.inputs, x.columns());
        net.apply(self.layer, &[x.id()])
    }
}

/// A vector of parameters that learns and depends on no input.
#[derive(Clone, Copy, Debug)]
pub struct Free {
    pub(crate) layer: Layer,
}

impl Free {
    /// The vector, repeated for every row.
    pub fn on(self, net: Net<'_>) -> Value<'_> {
        net.apply(self.layer, &[])
    }
}
