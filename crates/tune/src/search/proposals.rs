//! Bookkeeping shared by model-based searchers: the search space, and the quantiles that each trial was given.

use std::collections::HashMap;

use super::random::Random;
use super::template::{Draw, ParameterKind, Source, Template};
use super::{SearchSpace, Suggestion};
use crate::base::{Config, Error, Result};

/// The search space, and all trials suggested so far.
pub(super) struct Proposals {
    searcher: &'static str,
    seed: u64,
    template: Template,
    /// Quantiles of each trial, by trial number.
    trials: Vec<Vec<f64>>,
    numbers: HashMap<String, usize>,
}

impl Proposals {
    pub(super) fn new(searcher: &'static str, seed: u64) -> Self {
        Self { searcher, seed, template: Template::default(), trials: Vec::new(), numbers: HashMap::new() }
    }

    /// Sets the search space.
    ///
    /// # Errors
    /// Returns [`Error::Config`] if the space is invalid or has a grid.
    pub(super) fn set_space(&mut self, space: &SearchSpace) -> Result<()> {
        self.template = Template::new(space)?;
        match self.template.grids.first() {
            None => Ok(()),
            Some(grid) => {
                let rule = format!(
                    "{} draws values and enumerates none: write `choice`, or search with `type = \"random\"`",
                    self.searcher
                );
                Err(Error::config(grid.path(), "a grid_search", rule))
            }
        }
    }

    /// Kinds of the parameters, by parameter number.
    pub(super) fn kinds(&self) -> &[ParameterKind] {
        &self.template.parameters
    }

    /// Number of the next trial.
    pub(super) fn next_number(&self) -> usize {
        self.trials.len()
    }

    /// Number of a trial suggested earlier; `None` if the id is unknown.
    pub(super) fn number(&self, trial_id: &str) -> Option<usize> {
        self.numbers.get(trial_id).copied()
    }

    /// Quantiles of trial `number`, by parameter number.
    pub(super) fn quantiles(&self, number: usize) -> &[f64] {
        &self.trials[number]
    }

    /// Makes the next trial. Values come from `point` where it sets them, otherwise from the quantile that `quantile`
    /// returns for the parameter's number.
    ///
    /// # Errors
    /// Fails in the same cases as [`Template::draw`].
    pub(super) fn suggest(
        &mut self,
        trial_id: &str,
        point: Option<&Config>,
        quantile: &mut dyn FnMut(usize) -> f64,
    ) -> Result<Suggestion> {
        let draw = self.draw(point, quantile)?;
        self.numbers.insert(trial_id.to_owned(), self.trials.len());
        self.trials.push(draw.quantiles);
        Ok(Suggestion::Trial { config: draw.config, drawn: draw.drawn })
    }

    /// Returns the quantiles of a point whose reward is already known.
    ///
    /// # Errors
    /// Returns [`Error::Config`] if the point leaves a parameter open, and [`Error::UnknownKey`] if it sets a key that the
    /// space does not have.
    pub(super) fn quantiles_of(&self, point: &Config) -> Result<Vec<f64>> {
        let mut is_open = false;
        let draw = self.draw(Some(point), &mut |_| {
            is_open = true;
            0.0
        })?;
        if is_open {
            let point = serde_json::Value::from(point.clone());
            return Err(Error::config(
                "points_to_evaluate",
                point,
                "a point with a known reward must set every parameter",
            ));
        }
        Ok(draw.quantiles)
    }

    fn draw(&self, point: Option<&Config>, quantile: &mut dyn FnMut(usize) -> f64) -> Result<Draw> {
        let seed = self.seed;
        let number = self.trials.len() as u64;
        let random = |function| Random::new(seed, number, function);
        self.template.draw(Source { quantile, grid: &[], point, random: &random })
    }
}
