//! Tensors in losses and heads, which only libtorch can run.

use crate::loss::value::Value;
use tch::Tensor;

/// Permission to use tensors in a loss or a head, which only libtorch can run.
/// [`NetBuilder::on_libtorch`](crate::nets::NetBuilder::on_libtorch) gives it and makes libtorch run the
/// network.
#[derive(Clone, Copy, Debug)]
pub struct OnLibtorch(pub(crate) ());

impl Value<'_> {
    /// The numbers as a tensor `[rows, columns]`, or `[]` for a single number.
    pub fn tensor(self, _: OnLibtorch) -> Tensor {
        self.graph.tensor(self.id)
    }

    /// Makes a value of the same graph from a tensor `[rows, columns]`, `[rows]` or `[]`.
    #[must_use]
    pub fn from_tensor(self, _: OnLibtorch, tensor: Tensor) -> Self {
        Self { id: self.graph.insert(tensor), ..self }
    }
}
