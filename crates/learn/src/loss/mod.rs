//! A loss of some rows: the value to minimise, and statistics that can be joined over pieces.

mod graph;
mod net;
#[cfg(feature = "torch")]
mod on_libtorch;
mod rows;
mod seen;
pub(crate) mod value;
mod widths;

pub use graph::{Cell, Layer, MASKED, Op};
pub(crate) use graph::{Graph, ParamSet};
pub use net::{Input, Net};
#[cfg(feature = "torch")]
pub use on_libtorch::OnLibtorch;
pub(crate) use rows::MinibatchInfo;
pub use rows::Rows;
pub use seen::{Observed, Remembered, Seen};
pub use value::{Value, min};
pub(crate) use widths::{check_layer, refusals};
#[cfg(feature = "torch")]
pub(crate) use {graph::WithModule, widths::refuse};

/// A loss of some rows of a minibatch, with statistics and TD errors to report.
#[derive(Debug)]
pub struct Loss<'t> {
    pub(crate) total: Value<'t>,
    pub(crate) stats: Vec<Stat<'t>>,
    pub(crate) td_errors: Option<Value<'t>>,
}

/// A number to report about some rows, by name. `join` says how the numbers of several pieces become that of all rows.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stat<'t> {
    pub(crate) name: &'static str,
    pub(crate) join: Reduction,
    /// The value to report, twice; for an explained variance the wanted value and the prediction.
    pub(crate) of: [Value<'t>; 2],
}

/// How the statistics of several pieces are joined to the statistic of all rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reduction {
    Mean,
    Min,
    Max,
    ExplainedVariance,
}

/// Share of the mean square below which a variance, computed from sums, is that of equal numbers and not yet rounding.
pub(crate) const EQUAL: f64 = 1e-12;

impl<'t> Loss<'t> {
    /// Makes a loss to minimise: the mean over the rows of one number per row, or a sum of such means.
    pub fn new(total: Value<'t>) -> Self {
        Self { total, stats: Vec::new(), td_errors: None }
    }

    /// Makes a loss that is the sum of named losses; each is reported.
    ///
    /// # Panics
    /// Panics if `losses` is empty.
    pub fn sum<const N: usize>(losses: [(&'static str, Value<'t>); N]) -> Self {
        let total = losses.iter().map(|(_, loss)| *loss).sum();
        losses.into_iter().fold(Self::new(total), |loss, (name, value)| loss.mean(name, value))
    }

    /// Adds another loss to the sum, and reports it under `name`.
    #[must_use]
    pub fn plus(self, name: &'static str, value: Value<'t>) -> Self {
        Self { total: self.total + value, ..self }.mean(name, value)
    }

    /// Reports the mean over all rows of the minibatch. `value` is a number per row, or already the mean over these rows.
    #[must_use]
    pub fn mean(self, name: &'static str, value: Value<'t>) -> Self {
        let mean = if value.columns() == 0 { value } else { value.mean() };
        self.with(name, Reduction::Mean, [mean, mean])
    }

    /// Reports the smallest number of `value` over all rows of the minibatch.
    #[must_use]
    pub fn min(self, name: &'static str, value: Value<'t>) -> Self {
        self.with(name, Reduction::Min, [value, value])
    }

    /// Reports the largest number of `value` over all rows of the minibatch.
    #[must_use]
    pub fn max(self, name: &'static str, value: Value<'t>) -> Self {
        self.with(name, Reduction::Max, [value, value])
    }

    /// Reports how well `found` predicts `wanted`: `1 - var(wanted - found) / var(wanted)` over all rows of the minibatch.
    #[must_use]
    pub fn explained_variance(self, name: &'static str, wanted: Value<'t>, found: Value<'t>) -> Self {
        self.with(name, Reduction::ExplainedVariance, [wanted, found])
    }

    /// Reports the TD error of each row, for prioritised replay.
    #[must_use]
    pub fn td_errors(self, errors: Value<'t>) -> Self {
        Self { td_errors: Some(errors), ..self }
    }

    fn with(mut self, name: &'static str, join: Reduction, of: [Value<'t>; 2]) -> Self {
        self.stats.push(Stat { name, join, of });
        self
    }
}

/// The explained variance of wanted values `w` by predictions `f`, from the number of rows and the sums of `w`, `w^2`,
/// `w - f` and `(w - f)^2`. It is not a number if all wanted values are equal: there is no variance to explain.
pub(crate) fn explained([rows, w, ww, d, dd]: [f64; 5]) -> f64 {
    let variance = |sum: f64, squares: f64| (squares - sum * sum / rows) / rows;
    let wanted = variance(w, ww);
    if wanted <= EQUAL * ww / rows { f64::NAN } else { 1.0 - variance(d, dd) / wanted }
}
