//! The parameters and observations that a loss computes with.

#[cfg(feature = "torch")]
use crate::loss::graph::WithModule;
use crate::loss::graph::{Graph, Layer, ParamSet};
#[cfg(feature = "torch")]
use crate::loss::on_libtorch::OnLibtorch;
use crate::loss::value::Value;

/// A set of parameters for a loss: those that learn, the same without gradient, or the target copy's.
///
/// The gradient of a layer's output reaches the layer's parameters only if they are
/// [`online`](crate::loss::rows::Rows::online); it reaches the layer's input with any set. So frozen parameters
/// that are applied to stored columns need no backward pass.
#[derive(Clone, Copy, Debug)]
pub struct Net<'t> {
    graph: &'t (dyn Graph + 't),
    which: ParamSet,
}

impl<'t> Net<'t> {
    #[inline]
    pub(crate) fn new(graph: &'t (dyn Graph + 't), which: ParamSet) -> Self {
        Self { graph, which }
    }

    /// The same parameters, without gradient.
    pub(crate) fn frozen(self) -> Self {
        let which = if self.which == ParamSet::Online { ParamSet::Frozen } else { self.which };
        Self { which, ..self }
    }

    #[inline]
    pub(crate) fn apply(self, layer: Layer, operands: &[usize]) -> Value<'t> {
        Value::new(self.graph, self.graph.layer(layer, self.which, operands))
    }

    /// Applies a module in tch with this set of parameters to `x`.
    #[cfg(feature = "torch")]
    pub(crate) fn module(self, _: OnLibtorch, index: usize, x: Value<'t>, f: &WithModule<'_>) -> Value<'t> {
        Value::new(self.graph, self.graph.module(index, self.which, x.id(), f))
    }

    /// Applies a layer with this set of parameters to `operands`, as the steps of a
    /// [`Recording`](crate::recording::Recording) name them.
    #[must_use]
    pub fn layer(self, layer: Layer, operands: &[Value<'t>]) -> Value<'t> {
        match operands {
            [] => self.apply(layer, &[]),
            [one] => self.apply(layer, &[one.id()]),
            several => self.apply(layer, &several.iter().map(|operand| operand.id()).collect::<Vec<_>>()),
        }
    }
}

/// A network's input for some rows: observations and masks.
#[derive(Clone, Copy, Debug)]
pub struct Input<'t> {
    obs: Value<'t>,
    mask: Option<Value<'t>>,
}

impl<'t> Input<'t> {
    #[inline]
    pub(crate) fn new(obs: Value<'t>, mask: Option<Value<'t>>) -> Self {
        Self { obs, mask }
    }

    /// The encoded observations, `[rows, width]`: discrete observations are one-hot, pixels are from 0 to 1 with the
    /// channels first; see [`Encoding`](crate::params::Encoding).
    #[inline]
    pub fn obs(self) -> Value<'t> {
        self.obs
    }

    /// Replaces logits of illegal actions by -1e9; without masks logits stay unchanged.
    #[must_use]
    #[inline]
    pub fn masked(self, logits: Value<'t>) -> Value<'t> {
        self.mask.map_or(logits, |mask| logits.masked(mask))
    }
}
