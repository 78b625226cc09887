//! What runs a network, and what it is asked.

use crate::base::{Error, Result, Stats, Stream};
use crate::experience::SampleBatch;
use crate::learn::engines::together::Together;
use crate::learn::loss::{Input, Loss, MinibatchInfo, Net, Observed, Rows, Value};
use crate::learn::params::{Group, Params};
use pulp::Arch;
use std::fmt::Debug;
use tch::Tensor;

/// A loss as an engine takes it; closures are losses.
pub(crate) trait LossFn: Sync {
    fn at<'t>(&self, rows: &Rows<'t>) -> Result<Loss<'t>>;
}

impl<F: for<'t> Fn(&Rows<'t>) -> Result<Loss<'t>> + Sync> LossFn for F {
    fn at<'t>(&self, rows: &Rows<'t>) -> Result<Loss<'t>> {
        self(rows)
    }
}

/// A number per row; closures are.
pub(crate) trait RowFn: Sync {
    fn at<'t>(&self, rows: &Rows<'t>) -> Result<Value<'t>>;
}

impl<F: for<'t> Fn(&Rows<'t>) -> Result<Value<'t>> + Sync> RowFn for F {
    fn at<'t>(&self, rows: &Rows<'t>) -> Result<Value<'t>> {
        self(rows)
    }
}

/// What a network says of an observation; closures are heads.
pub(crate) trait HeadFn: Sync {
    fn at<'t>(&self, net: Net<'t>, x: Input<'t>) -> Value<'t>;
}

impl<F: for<'t> Fn(Net<'t>, Input<'t>) -> Value<'t> + Sync> HeadFn for F {
    fn at<'t>(&self, net: Net<'t>, x: Input<'t>) -> Value<'t> {
        self(net, x)
    }
}

/// What came with a gradient.
#[derive(Debug)]
pub struct Report {
    /// The loss's statistics over all rows.
    pub stats: Stats,
    /// The error of each row.
    pub td_errors: Option<Tensor>,
    /// The groups that the gradient was taken by.
    pub(crate) groups: Vec<Group>,
}

/// The network's parameters and those of its target copy.
pub(crate) type Sets = [Params];

/// What runs a network.
///
/// # Contract
///
/// * Both engines give equal results up to the order of sums.
/// * The bits depend on the rows alone: not on cores, threads or what else runs.
pub(crate) trait Backend: Send + Debug {
    /// The gradient of the mean of `loss` over the rows of `batch`, `[total]`, written to `gradient`; zero outside of the
    /// groups that learn. `beside`: what noisy layers draw from, and the learners that compute some of its pieces.
    fn gradient(
        &mut self,
        sets: &Sets,
        batch: &SampleBatch,
        about: MinibatchInfo<'_>,
        beside: (Option<&mut Stream>, Option<&Together>),
        loss: &dyn LossFn,
        gradient: &mut Tensor,
    ) -> Result<Report>;

    /// `columns` numbers per row of `seen`, row by row. Nothing is differentiated.
    fn evaluate(
        &mut self,
        sets: &Sets,
        seen: Observed<'_>,
        noise: Option<Stream>,
        columns: usize,
        head: &dyn HeadFn,
        out: &mut [f32],
    ) -> Result<()>;

    /// One number per row of `batch`. Nothing is differentiated, and noisy layers are silent.
    fn per_row(
        &mut self,
        sets: &Sets,
        batch: &SampleBatch,
        about: MinibatchInfo<'_>,
        f: &dyn RowFn,
        out: &mut [f32],
    ) -> Result<()>;

    /// Computes with these instructions rather than the best that the processor has. For tests.
    fn set_arch(&mut self, _arch: Arch) {}
}

/// What both engines say when a loss gives a shape they cannot use.
pub(crate) fn not_a_number(name: &str, columns: usize) -> Error {
    let reason =
        format!("it has {columns} columns where one number for all rows is needed; take its `mean()`");
    Error::state(format!("the loss's `{name}`"), reason)
}
