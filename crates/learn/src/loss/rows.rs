//! The arguments of a loss: a piece of a batch's rows, and the network.

use crate::base::Result;
use crate::experience::{Column, SampleBatch};
use crate::loss::graph::{Graph, ParamSet};
use crate::loss::net::{Input, Net};
use crate::loss::value::Value;
use crate::params::{Group, LearningGroups};
use std::cell::Cell;

/// A piece of a batch's rows, and the network to apply to them.
#[derive(Debug)]
pub struct Rows<'t> {
    graph: &'t (dyn Graph + 't),
    batch: &'t SampleBatch,
    about: MinibatchInfo<'t>,
    obs: Cell<Option<Input<'t>>>,
    next_obs: Cell<Option<Input<'t>>>,
}

/// Facts about the whole minibatch.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MinibatchInfo<'t> {
    /// Number of rows of the whole minibatch.
    pub(crate) rows: usize,
    /// Number by which the mean loss of the minibatch is divided; see [`SampleBatch::mean_rows`].
    pub(crate) mean_rows: f64,
    pub(crate) timestep: u64,
    pub(crate) has_target: bool,
    pub(crate) live: LearningGroups<'t>,
}

impl<'t> Rows<'t> {
    pub(crate) fn new(graph: &'t (dyn Graph + 't), batch: &'t SampleBatch, about: MinibatchInfo<'t>) -> Self {
        Self { graph, batch, about, obs: Cell::default(), next_obs: Cell::default() }
    }

    /// A column of the batch, at the rows of this piece.
    ///
    /// # Errors
    /// Returns [`Error::MissingColumn`](crate::base::Error::MissingColumn) if the batch has no such column.
    pub fn get(&self, column: Column) -> Result<Value<'t>> {
        Ok(Value::new(self.graph, self.graph.column(self.batch, column)?))
    }

    /// Several columns of the batch, at the rows of this piece.
    ///
    /// # Errors
    /// Returns [`Error::MissingColumn`](crate::base::Error::MissingColumn) if the batch lacks one of them.
    pub fn columns<const N: usize>(&self, columns: [Column; N]) -> Result<[Value<'t>; N]> {
        let mut values = [Value::new(self.graph, 0); N];
        for (value, column) in values.iter_mut().zip(columns) {
            *value = self.get(column)?;
        }
        Ok(values)
    }

    /// Whether the batch has the column.
    #[inline]
    pub fn has(&self, column: Column) -> bool {
        self.batch.has(column)
    }

    /// The network's input at the rows: observations `obs` and masks.
    ///
    /// # Errors
    /// Returns [`Error::MissingColumn`](crate::base::Error::MissingColumn) if the batch has no `obs`, and
    /// [`Error::State`](crate::base::Error::State) if its rows are not as wide as the space's.
    pub fn obs(&self) -> Result<Input<'t>> {
        self.input(&self.obs, Column::OBS, Column::ACTION_MASK)
    }

    /// The network's input after the step of each row: observations `new_obs` and masks.
    ///
    /// # Errors
    /// Returns [`Error::MissingColumn`](crate::base::Error::MissingColumn) if the batch has no `new_obs`, and
    /// [`Error::State`](crate::base::Error::State) if its rows are not as wide as the space's.
    pub fn next_obs(&self) -> Result<Input<'t>> {
        self.input(&self.next_obs, Column::NEW_OBS, Column::NEW_ACTION_MASK)
    }

    fn input(&self, ready: &Cell<Option<Input<'t>>>, obs: Column, mask: Column) -> Result<Input<'t>> {
        if let Some(input) = ready.get() {
            return Ok(input);
        }
        let mask = if self.has(mask) { Some(self.get(mask)?) } else { None };
        let obs = Value::new(self.graph, self.graph.observation(self.batch, obs)?);
        let input = Input::new(obs, mask);
        ready.set(Some(input));
        Ok(input)
    }

    /// Importance weights of replayed rows; 1 for other batches.
    ///
    /// # Errors
    /// Does not fail today: without the column the weights are 1.
    pub fn weights(&self) -> Result<Value<'t>> {
        if self.has(Column::WEIGHTS) {
            self.get(Column::WEIGHTS)
        } else {
            Ok(Value::new(self.graph, self.graph.number(1.0)))
        }
    }

    /// The discount of the next observation's value: `gamma^n`, or 0 if the episode terminated.
    ///
    /// # Errors
    /// Returns [`Error::MissingColumn`](crate::base::Error::MissingColumn) if the batch has no `discounts` or no
    /// `terminated`.
    pub fn discounts(&self) -> Result<Value<'t>> {
        let [discounts, terminated] = self.columns([Column::DISCOUNTS, Column::TERMINATED])?;
        Ok(discounts * (1.0 - terminated))
    }

    /// The parameters that learn, with gradient.
    #[inline]
    pub fn online(&self) -> Net<'t> {
        Net::new(self.graph, ParamSet::Online)
    }

    /// The parameters that learn, used without gradient.
    #[inline]
    pub fn frozen(&self) -> Net<'t> {
        Net::new(self.graph, ParamSet::Frozen)
    }

    /// The parameters of the target copy.
    ///
    /// # Panics
    /// Panics if the network has no target copy; [`NetBuilder::target`](crate::nets::NetBuilder::target) makes
    /// one.
    pub fn target(&self) -> Net<'t> {
        assert!(
            self.about.has_target,
            "the network has no target copy: call `NetBuilder::target` in `build`"
        );
        Net::new(self.graph, ParamSet::Target)
    }

    /// Whether the parameters of a group get a gradient now. A loss may leave out terms that are for other groups only.
    #[inline]
    pub fn learns(&self, group: Group) -> bool {
        self.about.live.learning.contains(&group)
    }

    /// The number that turns the mean over the minibatch, of which this piece is a part, into the sum over its rows.
    #[inline]
    pub fn count(&self) -> f64 {
        self.about.mean_rows
    }

    /// Number of environment steps of the whole run, for schedules.
    #[inline]
    pub fn timestep(&self) -> u64 {
        self.about.timestep
    }
}
