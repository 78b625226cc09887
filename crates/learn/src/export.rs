//! A learner's network with operations that libtorch can trace, for export.

use crate::base::Result;
use crate::engines::{forward, of_outputs};
use crate::learner::Learner;
use crate::loss::{Input, Net, Value};
use tch::Tensor;

impl Learner {
    /// Computes `head` of the network with operations that libtorch can trace, for export. `inputs` are observations
    /// `[rows, ...]` as the environment writes them, then masks if the head reads them.
    pub fn forward<H>(&self, inputs: &[Tensor], head: H) -> Tensor
    where
        H: for<'t> Fn(Net<'t>, Input<'t>) -> Value<'t> + Sync,
    {
        forward(&self.sets, &self.encoding, inputs, None, &head)
    }

    /// Computes a function of the outputs of [`forward`](Self::forward) with operations that libtorch can trace.
    pub fn of_outputs(
        &self,
        outputs: &Tensor,
        f: impl for<'t> Fn(Value<'t>) -> Option<Value<'t>>,
    ) -> Option<Tensor> {
        of_outputs(&self.sets, &self.encoding, outputs, &f)
    }

    /// Refuses observations whose rows do not fit the space.
    pub fn check_tensor(&self, obs: &Tensor) -> Result<()> {
        self.encoding.check(obs.size()[1..].iter().product::<i64>() as usize)
    }
}
