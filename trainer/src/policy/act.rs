//! Shim until the actor lands.
use super::StepColumns;
use crate::{
    base::{batch::Column, error::Result, rng::Stream},
    learn::{
        dist::{ActionDist, ActionRows},
        exploration::ExplorationConfig,
    },
};
/// Where actions go.
#[derive(Debug)]
pub struct Act<'a> {
    pub(crate) rngs: &'a mut [Stream],
    pub(crate) actions: ActionRows<'a>,
    pub(crate) explore: bool,
    pub(crate) timestep: u64,
    pub(crate) worker: (usize, usize),
    pub(crate) names: &'a [Column],
    pub(crate) columns: StepColumns<'a>,
}
impl Act<'_> {
    /// Draws.
    pub fn sample(mut self, dist: &ActionDist, inputs: &[f32]) -> Result<()> {
        let at = |c: Column| self.names.iter().position(|n| *n == c);
        if let Some(i) = at(Column::ACTION_DIST_INPUTS) {
            self.columns.row(i).copy_from_slice(inputs);
        }
        match at(Column::ACTION_LOGP) {
            Some(i) => dist.sample(inputs, self.rngs, self.explore, self.actions, self.columns.row(i)),
            None => {
                dist.sample(inputs, self.rngs, self.explore, self.actions, &mut vec![0.0; self.rngs.len()])
            }
        }
        Ok(())
    }
    /// The best.
    pub fn by_values(self, values: &[f32], exploration: &ExplorationConfig) -> Result<()> {
        let ActionRows::Int(actions) = self.actions else { return Ok(()) };
        let epsilon = exploration.epsilon(self.timestep, self.worker.0, self.worker.1);
        let n = values.len() / actions.len();
        for ((values, rng), action) in values.chunks_exact(n).zip(self.rngs).zip(actions) {
            *action = exploration.choose(values, epsilon, self.explore, rng);
        }
        Ok(())
    }
}
