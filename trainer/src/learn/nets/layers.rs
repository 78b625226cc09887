//! Layers: handles that know their place among the parameters and are applied to values.

use super::view::Net;
use crate::learn::{engines::Layer, value::Value};

/// How a layer's weights start; see [`Initializer`](super::Initializer).
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
    /// Columns of its output.
    pub out: usize,
}

impl Dense {
    /// Its output, `[rows, out]`.
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
    /// The same numbers for every row.
    pub fn on(self, net: Net<'_>) -> Value<'_> {
        net.apply(self.layer, &[])
    }
}
