//! Random and grid search.

use serde::{Deserialize, Serialize};

use super::random::{Random, unit};
use super::template::{Source, Template};
use super::{SearchSpace, Searcher, Suggestion};
use crate::base::{Config, Objective, Result};

/// Number of grid points above which a warning is logged.
const LARGE_GRID: u128 = 1_000_000;

/// Settings of [`BasicVariantGenerator`].
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct BasicVariantConfig {
    /// Settings of the first samples, one entry per sample. Settings left out of an entry are drawn. A grid that an entry
    /// sets is not enumerated for that sample.
    pub points_to_evaluate: Vec<Config>,
    /// Whether all grid points of a sample share the same draws. If false, values are drawn anew for each grid point.
    pub constant_grid_search: bool,
    /// Seed of the draws. The same seed gives the same trials.
    pub seed: u64,
}

/// Random and grid search: for each sample, enumerates the product of all grids and draws the other values.
///
/// Grids are enumerated in Ray's order: sorted by path, the first changes fastest. The settings of trial `n` depend only on
/// the search space, the seed and `n`, not on any results.
pub struct BasicVariantGenerator {
    settings: BasicVariantConfig,
    template: Template,
    /// Number of trials suggested so far.
    trials: u64,
    sample: u64,
    /// Number of grid points suggested so far in the current sample.
    cursor: u128,
}

impl BasicVariantGenerator {
    /// Creates a searcher that has suggested nothing yet.
    pub fn new(settings: BasicVariantConfig) -> Self {
        Self { settings, template: Template::default(), trials: 0, sample: 0, cursor: 0 }
    }

    fn point(&self, sample: u64) -> Option<&Config> {
        self.settings.points_to_evaluate.get(usize::try_from(sample).ok()?)
    }

    /// Returns the number of points in the grids that `point` leaves open.
    fn grid_len(&self, point: Option<&Config>) -> u128 {
        let lens = self.template.free_grids(point).into_iter().map(|grid| self.template.grids[grid].len);
        lens.fold(1, |product: u128, len| product.saturating_mul(len as u128))
    }
}

impl Searcher for BasicVariantGenerator {
    fn set_search_properties(&mut self, _objective: Option<&Objective>, space: &SearchSpace) -> Result<()> {
        self.template = Template::new(space)?;
        let points = self.grid_len(None);
        if points > LARGE_GRID {
            tracing::warn!("the grid has {points} points; they are enumerated as trials start");
        }
        Ok(())
    }

    fn total_samples(&self, num_samples: Option<u64>) -> Option<u64> {
        let points = self.settings.points_to_evaluate.len() as u64;
        let with_point: u128 = (0..points).map(|sample| self.grid_len(self.point(sample))).sum();
        let rest = u128::from(num_samples?.saturating_sub(points)).saturating_mul(self.grid_len(None));
        Some(u64::try_from(with_point.saturating_add(rest)).unwrap_or(u64::MAX))
    }

    fn suggest(&mut self, _trial_id: &str) -> Result<Suggestion> {
        if self.cursor >= self.grid_len(self.point(self.sample)) {
            self.sample += 1;
            self.cursor = 0;
        }
        let point = self.point(self.sample);
        let mut grid = vec![0; self.template.grids.len()];
        let mut rest = self.cursor;
        for index in self.template.free_grids(point) {
            let len = self.template.grids[index].len as u128;
            grid[index] = (rest % len) as usize;
            rest /= len;
        }
        let seed = self.settings.seed;
        let number = if self.settings.constant_grid_search { self.sample } else { self.trials };
        let draw = self.template.draw(Source {
            quantile: &mut |parameter| unit(seed, number, parameter),
            grid: &grid,
            point,
            random: &|function| Random::new(seed, number, function),
        })?;
        self.trials += 1;
        self.cursor += 1;
        Ok(Suggestion::Trial { config: draw.config, drawn: draw.drawn })
    }
}

impl std::fmt::Debug for BasicVariantGenerator {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("BasicVariantGenerator")
            .field("settings", &self.settings)
            .field("trials", &self.trials)
            .finish_non_exhaustive()
    }
}
