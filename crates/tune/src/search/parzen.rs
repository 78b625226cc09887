//! The joint Parzen estimator of TPE, over quantiles in `[0, 1)`.
//!
//! The density is a mixture with one kernel per observation and one for the prior. Each kernel is a product over the
//! parameters, so values that were good together are drawn together. Kernel widths, weights and the split into good and bad
//! follow Optuna's sampler (Watanabe, "Tree-Structured Parzen Estimator", 2023, sections 3 and 4). Separate models per
//! parameter, as in the crate `tpe`, had a median regret of 0.33 to 0.77 on Hartmann-6 with twelve settings, where Optuna
//! has 0.17.

use rand::RngExt;

use super::quantile::{normal_cdf, normal_quantile};
use super::random::{Purpose, stream};
use super::template::ParameterKind;
use super::template_walk::{middle, option_at};

/// Maximum number of observations that count as good.
const MAX_GOOD: usize = 25;
/// Number of newest observations that have full weight; the weights of older ones decrease with age.
const FULL_WEIGHT: usize = 25;

/// One evaluated point of the search space with its loss.
pub(super) struct Observation<'a> {
    /// Quantile of each parameter, by parameter number; NaN if the parameter was not drawn.
    pub(super) quantiles: &'a [f64],
    /// Loss of the point; lower is better.
    pub(super) loss: f64,
}

/// Settings of the Parzen estimator.
#[derive(Clone, Copy, Debug)]
pub(super) struct Parzen {
    /// Fraction of the observations that count as good.
    pub(super) gamma: f64,
    /// Number of candidates drawn from the good density, 1 or more; the best candidate is suggested.
    pub(super) candidates: usize,
    pub(super) seed: u64,
}

impl Parzen {
    /// Suggests quantiles for trial `number` that are likely among the good `observations` and unlikely among the bad ones.
    /// `observations` are in the order of the trials.
    pub(super) fn suggest(
        &self,
        kinds: &[ParameterKind],
        number: usize,
        observations: &[Observation<'_>],
    ) -> Vec<f64> {
        let mut ranking: Vec<usize> = (0..observations.len()).collect();
        ranking.sort_by(|a, b| observations[*a].loss.total_cmp(&observations[*b].loss));
        let good = ((self.gamma * ranking.len() as f64).ceil() as usize).min(MAX_GOOD);
        let (good, bad) = ranking.split_at_mut(good);
        let density = |ranking: &mut [usize]| {
            ranking.sort_unstable();
            let quantiles: Vec<&[f64]> = ranking.iter().map(|index| observations[*index].quantiles).collect();
            Density::fit(kinds, &quantiles)
        };
        let good = density(good);
        let bad = density(bad);
        let mut generator = stream(self.seed, number as u64, Purpose::Model, 0);
        let candidates = (0..self.candidates.max(1)).map(|_| good.sample(&mut || generator.random()));
        let scored = candidates.map(|point| (good.log_density(&point) - bad.log_density(&point), point));
        let best = scored.reduce(|best, next| if next.0 > best.0 { next } else { best });
        best.map(|(_, point)| point).unwrap_or_default()
    }
}

/// Mixture of kernels, one per observation and one for the prior.
struct Density {
    /// Kernels, by component and then by parameter.
    components: Vec<Vec<Kernel>>,
    /// Weights of the components; their sum is 1.
    weights: Vec<f64>,
}

/// Density of one parameter in one component of the mixture.
#[derive(Clone)]
enum Kernel {
    /// Uniform density: the prior of a categorical parameter, or an observation without this parameter. `options` is 0 for a
    /// numeric parameter.
    Flat { options: usize },
    /// Normal distribution truncated to `[0, 1]`; `low` and `high` are its cumulative probabilities at 0 and 1.
    Normal { mean: f64, sd: f64, low: f64, high: f64 },
    /// Categorical distribution: the probability of each option.
    Options(Vec<f64>),
}

impl Density {
    fn fit(kinds: &[ParameterKind], observations: &[&[f64]]) -> Self {
        let mut components = vec![Vec::with_capacity(kinds.len()); observations.len() + 1];
        for (parameter, kind) in kinds.iter().enumerate() {
            let values: Vec<f64> = observations.iter().map(|quantiles| quantiles[parameter]).collect();
            let kernels = match *kind {
                ParameterKind::Numeric => normals(&values),
                ParameterKind::Categorical(options) => categories(&values, options),
            };
            components.iter_mut().zip(kernels).for_each(|(component, kernel)| component.push(kernel));
        }
        let mut weights = recency(observations.len());
        weights.push(1.0);
        let total: f64 = weights.iter().sum();
        weights.iter_mut().for_each(|weight| *weight /= total);
        Density { components, weights }
    }

    fn sample(&self, unit: &mut dyn FnMut() -> f64) -> Vec<f64> {
        let mut rest = unit();
        let chosen = self.weights.iter().position(|weight| {
            rest -= weight;
            rest < 0.0
        });
        let component = &self.components[chosen.unwrap_or(self.components.len() - 1)];
        component.iter().map(|kernel| kernel.sample(unit())).collect()
    }

    fn log_density(&self, point: &[f64]) -> f64 {
        let logs: Vec<f64> = self
            .components
            .iter()
            .zip(&self.weights)
            .map(|(kernels, weight)| {
                weight.ln()
                    + kernels.iter().zip(point).map(|(kernel, at)| kernel.log_density(*at)).sum::<f64>()
            })
            .collect();
        let most = logs.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        most + logs.iter().map(|log| (log - most).exp()).sum::<f64>().ln()
    }
}

impl Kernel {
    fn normal(mean: f64, sd: f64) -> Self {
        Kernel::Normal { mean, sd, low: normal_cdf(-mean / sd), high: normal_cdf((1.0 - mean) / sd) }
    }

    /// Returns the value at the quantile `u` of this kernel.
    fn sample(&self, u: f64) -> f64 {
        match self {
            Kernel::Flat { options: 0 } => u,
            Kernel::Flat { options } => middle(option_at(u, *options), *options),
            Kernel::Normal { mean, sd, low, high } => {
                (mean + sd * normal_quantile(low + (high - low) * u)).clamp(0.0, 1.0 - f64::EPSILON)
            }
            Kernel::Options(probabilities) => {
                let mut rest = u;
                let chosen = probabilities.iter().position(|probability| {
                    rest -= probability;
                    rest < 0.0
                });
                middle(chosen.unwrap_or(probabilities.len() - 1), probabilities.len())
            }
        }
    }

    /// Log density at the quantile `at`, up to a constant that is the same for all kernels of a parameter.
    fn log_density(&self, at: f64) -> f64 {
        match self {
            Kernel::Flat { options: 0 } => 0.0,
            Kernel::Flat { options } => -(*options as f64).ln(),
            Kernel::Normal { mean, sd, low, high } => {
                let z = (at - mean) / sd;
                -0.5 * (z * z + std::f64::consts::TAU.ln()) - (sd * (high - low)).ln()
            }
            Kernel::Options(probabilities) => probabilities[option_at(at, probabilities.len())].ln(),
        }
    }
}

/// Kernels of a numeric parameter: one per value, and last the prior. A kernel is as wide as the larger gap to a
/// neighbouring value, but not narrower than a minimum that depends on the number of kernels. A NaN value gives a uniform
/// density.
fn normals(values: &[f64]) -> Vec<Kernel> {
    let kernels = values.len() as f64 + 1.0;
    let narrowest = 1.0 / (1.0 + kernels).min(100.0);
    let mut sorted: Vec<f64> = values.iter().copied().filter(|value| !value.is_nan()).collect();
    sorted.sort_by(f64::total_cmp);
    let width = |value: f64| {
        let place = sorted.partition_point(|other| *other < value);
        let last = sorted.partition_point(|other| *other <= value);
        // Equal values count as one: the gap is to the nearest different value on each side.
        let below = place.checked_sub(1).map(|index| value - sorted[index]);
        let above = sorted.get(last).map(|next| next - value);
        let gap = match (below, above) {
            (Some(below), Some(above)) => below.max(above),
            (Some(gap), None) | (None, Some(gap)) => gap,
            (None, None) => value.max(1.0 - value),
        };
        gap.clamp(narrowest, 1.0)
    };
    let own = values.iter().map(|value| {
        if value.is_nan() { Kernel::Flat { options: 0 } } else { Kernel::normal(*value, width(*value)) }
    });
    own.chain([Kernel::normal(0.5, 1.0)]).collect()
}

/// Kernels of a categorical parameter: one per value, concentrated on that value's option, and last the uniform prior.
fn categories(values: &[f64], options: usize) -> Vec<Kernel> {
    let kernels = values.len() as f64 + 1.0;
    let own = values.iter().map(|value| {
        if value.is_nan() {
            return Kernel::Flat { options };
        }
        let others = 1.0 / kernels;
        let total = 1.0 + others * options as f64;
        let mut probabilities = vec![others / total; options];
        probabilities[option_at(*value, options)] = (1.0 + others) / total;
        Kernel::Options(probabilities)
    });
    own.chain([Kernel::Flat { options }]).collect()
}

/// Unnormalised weights of `len` observations, from oldest to newest.
fn recency(len: usize) -> Vec<f64> {
    let old = len.saturating_sub(FULL_WEIGHT);
    let least = 1.0 / len as f64;
    let steps = old.saturating_sub(1).max(1) as f64;
    (0..len)
        .map(|index| if index < old { least + (1.0 - least) * index as f64 / steps } else { 1.0 })
        .collect()
}

/// Numbers of Python 3.11's `statistics.NormalDist`, by the formulas of Watanabe's sections 3 and 4.
#[cfg(test)]
mod tests {
    use super::*;

    const OBSERVED: [[f64; 2]; 3] = [[0.1, 1.0 / 6.0], [0.4, 5.0 / 6.0], [f64::NAN, f64::NAN]];

    fn fitted() -> Density {
        let kinds = [ParameterKind::Numeric, ParameterKind::Categorical(3)];
        Density::fit(&kinds, &OBSERVED.each_ref().map(|quantiles| &quantiles[..]))
    }

    #[track_caller]
    fn near(found: f64, expected: f64) {
        assert!((found - expected).abs() < 1e-5, "{found}, not {expected}");
    }

    #[test]
    fn the_density_is_the_mixture_of_truncated_normals_and_options() {
        let density = fitted();
        near(density.log_density(&[0.05, 1.0 / 6.0]), -0.577_801_11);
        near(density.log_density(&[0.4, 5.0 / 6.0]), -0.726_685_36);
        near(density.log_density(&[0.95, 0.5]), -1.753_653_82);
    }

    #[test]
    fn draws_are_quantiles_of_the_truncated_normal() {
        let kernel = Kernel::normal(0.3, 0.2);
        let expected = [
            (1e-4, 0.000_143_989),
            (0.1, 0.101_193_25),
            (0.5, 0.316_707_18),
            (0.9, 0.563_866_91),
            (0.9999, 0.981_813_78),
        ];
        for (u, value) in expected {
            near(kernel.sample(u), value);
        }
        let kernel = Kernel::Options(vec![0.5, 0.25, 0.25]);
        assert_eq!(
            [0.0, 0.49, 0.5, 0.74, 0.75, 1.0].map(|u| kernel.sample(u)),
            [1.0, 1.0, 3.0, 3.0, 5.0, 5.0].map(|x| x / 6.0)
        );
        assert_eq!([0.3, 0.7].map(|u| Kernel::Flat { options: 0 }.sample(u)), [0.3, 0.7]);
    }

    #[test]
    fn a_component_is_drawn_by_its_weight_and_then_each_parameter() {
        let density = fitted();
        let drawn = |numbers: [f64; 3]| {
            let mut numbers = numbers.into_iter();
            density.sample(&mut || numbers.next().unwrap())
        };
        // Four components of equal weight; the third has no parameter, so it draws from the whole.
        for (chosen, center) in [(0.0, 0.1), (0.24, 0.1), (0.25, 0.4), (0.49, 0.4), (0.75, 0.5), (1.0, 0.5)] {
            let kernel = Kernel::normal(center, if center == 0.5 { 1.0 } else { 0.4 - 0.1 });
            assert_eq!(drawn([chosen, 0.5, 0.9])[0], kernel.sample(0.5), "{chosen}");
        }
        assert_eq!(drawn([0.5, 0.123, 0.5]), [0.123, 0.5]);
    }

    #[test]
    fn kernels_are_as_wide_as_the_larger_gap_to_a_neighbour_within_limits() {
        let widths = |values: &[f64]| {
            let width = |kernel| match kernel {
                Kernel::Normal { sd, .. } => sd,
                _ => f64::NAN,
            };
            normals(values).into_iter().map(width).collect::<Vec<f64>>()
        };
        assert_eq!(widths(&[0.125, 0.5, 0.5, 0.75]), [0.375, 0.375, 0.375, 0.25, 1.0]);
        assert_eq!(widths(&[0.75]), [0.75, 1.0]);
        assert_eq!(widths(&[0.25]), [0.75, 1.0]);
        // Three kernels are at least a quarter wide.
        assert_eq!(widths(&[0.5, 0.51]), [0.25, 0.25, 1.0]);
    }

    #[test]
    fn the_newest_25_have_full_weight_and_older_ones_less_the_older_they_are() {
        // numpy 2.3: [*linspace(1 / n, 1, n - 25), *ones(25)], Optuna's `default_weights`
        assert_eq!(recency(25), [1.0; 25]);
        assert_eq!(recency(26)[..2], [1.0 / 26.0, 1.0]);
        assert_eq!(recency(28)[..5], [1.0 / 28.0, 29.0 / 56.0, 1.0, 1.0, 1.0]);
        assert_eq!(recency(28).len(), 28);
    }
}
