//! Distributions of returns are computed by libtorch, which this build is without.

use pavlov_trainer::learner::{Rows, Value};
use pavlov_trainer::models::{Input, Net, NetBuilder};
use pavlov_trainer::{Error, Result};

/// Distributions of returns: there are none.
#[derive(Clone, Copy, Debug)]
pub(super) enum Atoms {}

impl Atoms {
    pub(super) fn new(atoms: usize, _: [f64; 2], _: bool, _: usize, _: &mut NetBuilder<'_>) -> Result<Self> {
        Err(Error::NeedsTorch {
            what: format!("`num_atoms` is {atoms}: it asks for distributions of returns"),
            instead: "Set it to 1, or take SAC with quantiles (the algorithm TQC)".into(),
        })
    }

    pub(super) fn means<'t>(self, _: Value<'t>, _: Option<Value<'t>>) -> Value<'t> {
        match self {}
    }

    pub(super) fn td_error<'t>(
        self,
        _: &Rows<'t>,
        _: &dyn Fn(Net<'t>, Input<'t>) -> (Value<'t>, Option<Value<'t>>),
        _: (Input<'t>, Input<'t>),
        _: (Value<'t>, Value<'t>, Value<'t>),
    ) -> (Value<'t>, Value<'t>) {
        match self {}
    }
}
