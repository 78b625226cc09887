//! Parameters and observations as a loss sees them.

use crate::learn::loss::graph::{Graph, Layer, ParamSet};
use crate::learn::loss::value::Value;

/// Parameters as a loss sees them: those that learn, the same without their gradient, or the target copy's.
///
/// What flows back through a layer goes to its parameters if they are [`online`](crate::learn::loss::rows::Rows::online), and to its
/// input if that wants it, whichever they are. Frozen parameters on stored columns want nothing: nothing is kept for
/// them.
#[derive(Clone, Copy, Debug)]
pub struct Net<'t> {
    graph: &'t (dyn Graph + 't),
    which: ParamSet,
}

impl<'t> Net<'t> {
    pub(crate) fn new(graph: &'t (dyn Graph + 't), which: ParamSet) -> Self {
        Self { graph, which }
    }

    pub(crate) fn apply(self, layer: Layer, operands: &[usize]) -> Value<'t> {
        Value::new(self.graph, self.graph.layer(layer, self.which, operands))
    }
}

/// What a network may look at, for some rows.
#[derive(Clone, Copy, Debug)]
pub struct Input<'t> {
    obs: Value<'t>,
    mask: Option<Value<'t>>,
}

impl<'t> Input<'t> {
    pub(crate) fn new(obs: Value<'t>, mask: Option<Value<'t>>) -> Self {
        Self { obs, mask }
    }

    /// The observation in numbers, `[rows, width]`: discrete ones one-hot, pixels from 0 to 1 with the channels first; see
    /// [`Encoding`](crate::learn::params::Encoding).
    pub fn obs(self) -> Value<'t> {
        self.obs
    }

    /// Logits with those of illegal actions at -1e9; as they are where the environment has no masks.
    #[must_use]
    pub fn masked(self, logits: Value<'t>) -> Value<'t> {
        self.mask.map_or(logits, |mask| logits.masked(mask))
    }
}
