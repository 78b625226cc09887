//! The interface between a learner and the two engines that run its network.

use crate::base::{Array, Error, Result, Stats, Stream};
use crate::engines::together::Together;
use crate::experience::SampleBatch;
use crate::loss::{Input, Loss, MinibatchInfo, Net, Observed, Rows, Value};
use crate::params::{Buffer, Group, Params};
use pulp::Arch;
use std::fmt::Debug;

/// A function from rows to their loss; closures implement it.
pub(crate) trait LossFn: Sync {
    fn at<'t>(&self, rows: &Rows<'t>) -> Result<Loss<'t>>;
}

impl<F: for<'t> Fn(&Rows<'t>) -> Result<Loss<'t>> + Sync> LossFn for F {
    fn at<'t>(&self, rows: &Rows<'t>) -> Result<Loss<'t>> {
        self(rows)
    }
}

/// A function from rows to one number per row; closures implement it.
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

/// Statistics and TD errors of the rows that a gradient was taken on.
#[derive(Debug)]
pub struct Report {
    /// The loss's statistics over all rows.
    pub stats: Stats,
    /// The TD error of each row, for prioritised replay; `None` if the loss has none.
    pub td_errors: Option<Array>,
    /// The parameter groups that the gradient was taken for.
    pub(crate) groups: Vec<Group>,
}

impl Report {
    /// This report with the statistics and groups of another part of the same learning step added. The TD errors are
    /// those of the first part that has any.
    #[must_use]
    pub fn and(mut self, other: Self) -> Self {
        self.stats.extend(other.stats);
        self.groups.extend(other.groups);
        Self { td_errors: self.td_errors.or(other.td_errors), ..self }
    }
}

/// The network's parameters, followed by those of its target copy if it has one.
pub(crate) type Sets = [Params];

/// An engine that runs a network.
///
/// # Contract
///
/// * Both engines give equal results up to the order of sums.
/// * The bits of an engine's results depend on the rows alone, not on cores, threads or other programs.
pub(crate) trait Backend: Send + Debug {
    /// Writes the gradient of the mean of `loss` over the rows of `batch` to `gradient`, `[total]`; outside of the
    /// learning groups it is 0. `beside` has the random stream of noisy layers, and the connection to the other
    /// learners, which compute some of the pieces.
    fn gradient(
        &mut self,
        sets: &Sets,
        batch: &SampleBatch,
        about: MinibatchInfo<'_>,
        beside: (Option<&mut Stream>, Option<&Together>),
        loss: &dyn LossFn,
        gradient: &mut Buffer,
    ) -> Result<Report>;

    /// Writes the output of `head` for each observation in `seen` to `out`, `columns` numbers per row, without
    /// gradients. `noise` is the random stream of noisy layers.
    fn evaluate(
        &mut self,
        sets: &Sets,
        seen: Observed<'_>,
        noise: Option<Stream>,
        columns: usize,
        head: &dyn HeadFn,
        out: &mut [f32],
    ) -> Result<()>;

    /// Writes the result of `f` to `out`, one number per row of `batch`, without gradients and without the noise of
    /// noisy layers.
    fn per_row(
        &mut self,
        sets: &Sets,
        batch: &SampleBatch,
        about: MinibatchInfo<'_>,
        f: &dyn RowFn,
        out: &mut [f32],
    ) -> Result<()>;

    /// Number of columns that `head` computes, found by computing it for one row of zeros. `memory_width` is the number
    /// of scalars of the recurrent state.
    fn columns(&mut self, sets: &Sets, memory_width: usize, head: &dyn HeadFn) -> Result<usize>;

    /// Name of the engine: `fused` or `torch`.
    fn name(&self) -> &'static str;

    /// Sets the vector instructions to use, for tests; the default is the best set that the processor has.
    fn set_arch(&mut self, _arch: Arch) {}
}

/// The error for a loss that depends on no parameter that learns, so that it would train nothing.
pub(crate) fn reaches_nothing() -> Error {
    let reason = "it depends on no parameter of the groups that learn, so nothing would be trained; compute it from layers \
                  applied with `rows.online()`, and detach nothing in between";
    Error::state("the loss", reason)
}

/// The error for a part `name` of a loss that has `columns` columns instead of one number for all rows.
pub(crate) fn not_a_number(name: &str, columns: usize) -> Error {
    let reason =
        format!("it has {columns} columns where one number for all rows is needed; take its `mean()`");
    Error::state(format!("the loss's `{name}`"), reason)
}
