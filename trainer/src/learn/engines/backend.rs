//! The interface between a learner and the two engines that run its network.

use crate::base::{Error, Result, Stats, Stream};
use crate::experience::SampleBatch;
use crate::learn::engines::together::Together;
use crate::learn::loss::{Input, Loss, MinibatchInfo, Net, Observed, Rows, Value};
use crate::learn::params::{Group, Params};
use pulp::Arch;
use std::fmt::Debug;
use tch::Tensor;

/// A loss; closures implement it.
pub(crate) trait LossFn: Sync {
    fn at<'t>(&self, rows: &Rows<'t>) -> Result<Loss<'t>>;
}

impl<F: for<'t> Fn(&Rows<'t>) -> Result<Loss<'t>> + Sync> LossFn for F {
    fn at<'t>(&self, rows: &Rows<'t>) -> Result<Loss<'t>> {
        self(rows)
    }
}

/// One number per row; implemented for closures.
pub(crate) trait RowFn: Sync {
    fn at<'t>(&self, rows: &Rows<'t>) -> Result<Value<'t>>;
}

impl<F: for<'t> Fn(&Rows<'t>) -> Result<Value<'t>> + Sync> RowFn for F {
    fn at<'t>(&self, rows: &Rows<'t>) -> Result<Value<'t>> {
        self(rows)
    }
}

/// A head: computes outputs of a network from an observation; closures implement it.
pub(crate) trait HeadFn: Sync {
    fn at<'t>(&self, net: Net<'t>, x: Input<'t>) -> Value<'t>;
}

impl<F: for<'t> Fn(Net<'t>, Input<'t>) -> Value<'t> + Sync> HeadFn for F {
    fn at<'t>(&self, net: Net<'t>, x: Input<'t>) -> Value<'t> {
        self(net, x)
    }
}

/// Statistics and errors of the rows that a gradient was taken on.
#[derive(Debug)]
pub struct Report {
    /// The loss's statistics over all rows.
    pub stats: Stats,
    /// The TD error of each row, for prioritised replay.
    pub td_errors: Option<Tensor>,
    /// The parameter groups that the gradient was taken for.
    pub(crate) groups: Vec<Group>,
}

/// The network's parameters and those of its target copy.
pub(crate) type Sets = [Params];

/// An engine that runs a network.
///
/// # Contract
///
/// * Both engines give equal results up to the order of sums.
///
/// The bits depend on the rows alone: not on cores, threads or other programs.
pub(crate) trait Backend: Send + Debug {
    /// Writes the gradient of the mean of `loss` over the rows of `batch` to `gradient`, `[total]`; zero outside of
    /// the learning groups. `beside`: the random stream of noisy layers, and the other learners that compute some
    /// pieces.
    fn gradient(
        &mut self,
        sets: &Sets,
        batch: &SampleBatch,
        about: MinibatchInfo<'_>,
        beside: (Option<&mut Stream>, Option<&Together>),
        loss: &dyn LossFn,
        gradient: &mut Tensor,
    ) -> Result<Report>;

    /// Computes `columns` numbers per row of `seen`, row by row, without gradients.
    fn evaluate(
        &mut self,
        sets: &Sets,
        seen: Observed<'_>,
        noise: Option<Stream>,
        columns: usize,
        head: &dyn HeadFn,
        out: &mut [f32],
    ) -> Result<()>;

    /// Computes one number per row of `batch`, without gradients and without the noise of noisy layers.
    fn per_row(
        &mut self,
        sets: &Sets,
        batch: &SampleBatch,
        about: MinibatchInfo<'_>,
        f: &dyn RowFn,
        out: &mut [f32],
    ) -> Result<()>;

    /// Name of the engine: `fused` or `torch`.
    fn name(&self) -> &'static str;

    /// Sets the vector instructions, for tests; the default is the best that the processor has.
    fn set_arch(&mut self, _arch: Arch) {}
}

/// The error for a loss of a shape that neither engine can use.
pub(crate) fn not_a_number(name: &str, columns: usize) -> Error {
    let reason =
        format!("it has {columns} columns where one number for all rows is needed; take its `mean()`");
    Error::state(format!("the loss's `{name}`"), reason)
}
