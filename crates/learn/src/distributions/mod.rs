//! Action distributions: log-probabilities, entropies and divergences of many rows, for losses. `draw.rs` draws
//! actions from them.

mod draw;
mod sde;
mod squashed;

pub use draw::ActionRows;
pub use sde::SdeShape;

use crate::base::{Error, Result};
use crate::loss::Value;
use pavlov_envs::Space;

/// The number `ln sqrt(2 pi)`, the constant in the log-density of the normal distribution.
pub const HALF_LN_TAU: f64 = 0.918_938_533_204_672_8;
/// Lower bound of the log standard deviation of [`ActionDist::squashed`], from Ray.
pub const LOG_STD_MIN: f32 = -5.0;
/// Upper bound of the log standard deviation of [`ActionDist::SquashedGaussian`].
pub const LOG_STD_MAX: f32 = 2.0;

/// A family of distributions over one action space.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum ActionDist {
    /// One choice of `n`; parameters are `n` logits.
    Categorical {
        /// Number of actions.
        n: usize,
    },
    /// Several independent choices; parameters are the logits of each, one after the other.
    MultiCategorical {
        /// Number of options of each choice.
        nvec: Vec<usize>,
    },
    /// Independent normal numbers; parameters are means, then log standard deviations.
    DiagGaussian {
        /// Number of components.
        dim: usize,
    },
    /// The distribution of [`DiagGaussian`](Self::DiagGaussian), with its numbers squashed into (-1, 1) by tanh.
    SquashedGaussian {
        /// Number of components.
        dim: usize,
        /// Lower bound of the log standard deviations; their upper bound is 2.
        log_std_min: f32,
    },
}

impl ActionDist {
    /// The distribution that fits an action space. The numbers of a Box of several dimensions are chosen in one row.
    ///
    /// # Errors
    /// Returns [`Error::Space`] for a Dict and a Tuple: they have no distribution.
    pub fn for_space(space: &Space) -> Result<Self> {
        match space {
            Space::Discrete { n, .. } => Ok(Self::Categorical { n: *n as usize }),
            Space::MultiDiscrete { nvec, .. } => {
                Ok(Self::MultiCategorical { nvec: nvec.iter().map(|&n| n as usize).collect() })
            }
            Space::MultiBinary { .. } => Ok(Self::MultiCategorical { nvec: vec![2; space.width()] }),
            Space::Box { .. } => Ok(Self::DiagGaussian { dim: space.width() }),
            other => Err(Error::Space {
                who: "a stochastic policy".into(),
                needs: "a Discrete, MultiDiscrete, MultiBinary or Box action space".into(),
                space: other.to_string(),
            }),
        }
    }

    /// Number of parameters of the distribution, which a network computes.
    #[inline]
    pub fn num_inputs(&self) -> usize {
        match self {
            Self::Categorical { n } => *n,
            Self::MultiCategorical { nvec } => nvec.iter().sum(),
            Self::DiagGaussian { dim } | Self::SquashedGaussian { dim, .. } => 2 * dim,
        }
    }

    /// Number of scalars in an action.
    #[inline]
    pub fn action_width(&self) -> usize {
        match self {
            Self::Categorical { .. } => 1,
            Self::MultiCategorical { nvec } => nvec.len(),
            Self::DiagGaussian { dim } | Self::SquashedGaussian { dim, .. } => *dim,
        }
    }

    /// Whether actions are discrete choices; otherwise they are real numbers.
    #[inline]
    pub fn is_discrete(&self) -> bool {
        matches!(self, Self::Categorical { .. } | Self::MultiCategorical { .. })
    }

    /// The distributions with the parameters `inputs` (`[rows, num_inputs]`), for a loss.
    pub fn at<'t>(&self, inputs: Value<'t>) -> Dist<'_, 't> {
        let parts = match self {
            Self::Categorical { .. } => vec![inputs.log_softmax()],
            Self::MultiCategorical { nvec } => {
                let mut start = 0;
                let choice = |&n: &usize| {
                    start += n;
                    inputs.narrow(start - n, n).log_softmax()
                };
                nvec.iter().map(choice).collect()
            }
            Self::DiagGaussian { dim } => vec![inputs.narrow(0, *dim), inputs.narrow(*dim, *dim)],
            Self::SquashedGaussian { dim, log_std_min } => {
                let log_std =
                    inputs.narrow(*dim, *dim).clamp(f64::from(*log_std_min), f64::from(LOG_STD_MAX));
                vec![inputs.narrow(0, *dim), log_std]
            }
        };
        Dist { family: self, parts }
    }

    /// The distributions with the parameters `inputs` as [`at`](Self::at) makes them, for a squashed Gaussian without bounds of
    /// its log standard deviations.
    pub fn at_unbounded<'t>(&self, inputs: Value<'t>) -> Dist<'_, 't> {
        match self {
            Self::SquashedGaussian { dim, .. } => {
                Dist { family: self, parts: vec![inputs.narrow(0, *dim), inputs.narrow(*dim, *dim)] }
            }
            _ => self.at(inputs),
        }
    }
}

/// Distributions of many rows, made by [`ActionDist::at`]. Every result is `[rows, 1]`.
#[derive(Debug)]
pub struct Dist<'a, 't> {
    family: &'a ActionDist,
    /// For each choice the log-probabilities of its options; for a Gaussian the mean and the log standard deviation.
    parts: Vec<Value<'t>>,
}

impl<'t> Dist<'_, 't> {
    /// The log-probability of the action of each row; `actions` is `[rows, components]`.
    pub fn logp(&self, actions: Value<'t>) -> Value<'t> {
        match self.family {
            ActionDist::Categorical { .. } | ActionDist::MultiCategorical { .. } => {
                self.parts.iter().enumerate().map(|(i, logp)| logp.gather(actions.narrow(i, 1))).sum()
            }
            ActionDist::DiagGaussian { .. } => self.normal_logp(actions),
            ActionDist::SquashedGaussian { .. } => {
                let a = actions.clamp(-1.0 + 1e-6, 1.0 - 1e-6);
                let before = ((a + 1.0) / (1.0 - a)).log() * 0.5;
                let log_det = ((1.0 + 1e-6) - actions.square()).log();
                self.normal_logp(before) - log_det.sum_columns()
            }
        }
    }

    fn normal_logp(&self, x: Value<'t>) -> Value<'t> {
        let mean = self.parts[0];
        let log_std = self.parts[1];
        let z = (x - mean) / log_std.exp();
        (z.square() * -0.5 - log_std - HALF_LN_TAU).sum_columns()
    }

    /// The entropy of each row. A squashed Gaussian has none in closed form; this is the entropy before squashing.
    pub fn entropy(&self) -> Value<'t> {
        match self.family {
            ActionDist::Categorical { .. } | ActionDist::MultiCategorical { .. } => {
                self.parts.iter().map(|&logp| -(logp.exp() * logp).sum_columns()).sum()
            }
            ActionDist::DiagGaussian { .. } | ActionDist::SquashedGaussian { .. } => {
                (self.parts[1] + (0.5 + HALF_LN_TAU)).sum_columns()
            }
        }
    }

    /// The Kullback-Leibler divergence KL(self || other) of each row.
    pub fn kl(&self, other: &Dist<'_, 't>) -> Value<'t> {
        match self.family {
            ActionDist::Categorical { .. } | ActionDist::MultiCategorical { .. } => {
                let choices = self.parts.iter().zip(&other.parts);
                choices.map(|(&p, &q)| (p.exp() * (p - q)).sum_columns()).sum()
            }
            ActionDist::DiagGaussian { .. } | ActionDist::SquashedGaussian { .. } => {
                let mean = self.parts[0];
                let log_std = self.parts[1];
                let other_mean = other.parts[0];
                let other_log_std = other.parts[1];
                let variances = (log_std * 2.0).exp() + (mean - other_mean).square();
                let ratio = variances / ((other_log_std * 2.0).exp() * 2.0);
                (other_log_std - log_std + ratio - 0.5).sum_columns()
            }
        }
    }
}
