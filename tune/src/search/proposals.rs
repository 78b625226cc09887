//! What every model-based searcher keeps: the space, the points to try first, and what each trial was given.

use std::collections::HashMap;

use super::random::Random;
use super::template::{Draw, Kind, Source, Template};
use super::{SearchSpace, Suggestion};
use crate::{Config, Error, Result};

/// Suggestions so far.
pub(super) struct Proposals {
    searcher: &'static str,
    seed: u64,
    template: Template,
    /// Quantiles of each trial, by its number.
    trials: Vec<Vec<f64>>,
    numbers: HashMap<String, usize>,
}

impl Proposals {
    pub(super) fn new(searcher: &'static str, seed: u64) -> Self {
        Self { searcher, seed, template: Template::default(), trials: Vec::new(), numbers: HashMap::new() }
    }

    /// # Errors
    /// Returns [`Error::Config`] if the space is wrong or has a grid.
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

    /// Kinds of the parameters by their number.
    pub(super) fn kinds(&self) -> &[Kind] {
        &self.template.parameters
    }

    /// The number that the next trial will have.
    pub(super) fn next_number(&self) -> usize {
        self.trials.len()
    }

    /// The number of a trial that was suggested here.
    pub(super) fn number(&self, trial_id: &str) -> Option<usize> {
        self.numbers.get(trial_id).copied()
    }

    /// What trial `number` was given.
    pub(super) fn quantiles(&self, number: usize) -> &[f64] {
        &self.trials[number]
    }

    /// The next trial: `point`, where it sets something, and the `quantile` of each other parameter.
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

    /// The quantiles of a point that was evaluated elsewhere.
    ///
    /// # Errors
    /// Returns [`Error::Config`] if the point leaves a parameter open, and [`Error::UnknownKey`] if it sets what the
    /// space has not.
    pub(super) fn quantiles_of(&self, point: &Config) -> Result<Vec<f64>> {
        let mut is_open = false;
        let draw = self.draw(Some(point), &mut |_| {
            is_open = true;
            0.0
        })?;
        if is_open {
            let point = serde_json::Value::Object(point.clone());
            return Err(Error::config(
                "points_to_evaluate",
                point,
                "a point with a known reward must set every parameter",
            ));
        }
        Ok(draw.quantiles)
    }

    fn draw(&self, point: Option<&Config>, quantile: &mut dyn FnMut(usize) -> f64) -> Result<Draw> {
        let (seed, number) = (self.seed, self.trials.len() as u64);
        let random = |function| Random::new(seed, number, function);
        self.template.draw(Source { quantile, grid: &[], point, random: &random })
    }
}
