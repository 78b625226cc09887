//! Action distributions: sampled on the host while acting, differentiated by libtorch while learning.
//!
//! Acting on small networks is dominated by the cost per libtorch operation, so a step asks libtorch for the
//! distribution's parameters only; drawing an action and its log-probability from them is plain arithmetic on a few
//! numbers per copy. The same formulas in tensors serve the losses.

use crate::{
    base::{
        error::{Error, Result},
        rng::Stream,
    },
    learn::value::Value,
};
use pavlov_envs::Space;

/// `ln sqrt(2 pi)`.
const HALF_LN_TAU: f64 = 0.918_938_533_204_672_8;
/// The logit of an illegal action. Its probability is 0; with infinity, entropies would not be numbers.
pub(crate) const ILLEGAL: f32 = -1e9;
/// Bounds of the log standard deviation of [`ActionDist::SquashedGaussian`], Ray's.
const LOG_STD_RANGE: (f64, f64) = (-5.0, 2.0);

/// A family of distributions over one action space.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ActionDist {
    /// One of `n`; parameters are `n` logits.
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
    /// As [`DiagGaussian`](Self::DiagGaussian), squashed into (-1, 1) by tanh.
    SquashedGaussian {
        /// Number of components.
        dim: usize,
    },
}

/// The actions of several copies, written in place.
#[derive(Debug)]
pub enum ActionRows<'a> {
    /// Discrete choices, `[copies, choices]`.
    Int(&'a mut [i64]),
    /// Real components, `[copies, components]`.
    Float(&'a mut [f32]),
}

impl ActionDist {
    /// The distribution that fits an action space.
    pub fn for_space(space: &Space) -> Result<Self> {
        match space {
            Space::Discrete { n, .. } => Ok(Self::Categorical { n: *n as usize }),
            Space::MultiDiscrete { nvec } => {
                Ok(Self::MultiCategorical { nvec: nvec.iter().map(|&n| n as usize).collect() })
            }
            Space::MultiBinary { n } => Ok(Self::MultiCategorical { nvec: vec![2; *n] }),
            Space::Box { .. } if space.shape().len() <= 1 => Ok(Self::DiagGaussian { dim: space.width() }),
            other => Err(Error::Space {
                who: "a stochastic policy".into(),
                needs: "a Discrete, MultiDiscrete, MultiBinary or one-dimensional Box action space".into(),
                space: other.to_string(),
            }),
        }
    }

    /// As [`for_space`](Self::for_space), squashed between the bounds of a Box; refuses other spaces, and components
    /// without bounds.
    pub fn squashed(space: &Space) -> Result<Self> {
        match space {
            Space::Box { low, high, .. }
                if space.shape().len() <= 1 && low.iter().chain(high.iter()).all(|x| x.is_finite()) =>
            {
                Ok(Self::SquashedGaussian { dim: space.width() })
            }
            other => Err(Error::Space {
                who: "a policy with squashed actions".into(),
                needs: "a one-dimensional Box action space with finite bounds (`RescaleAction` or `ClipAction` around the environment gives bounds)".into(),
                space: other.to_string(),
            }),
        }
    }

    /// Numbers that parametrise it.
    pub fn num_inputs(&self) -> usize {
        match self {
            Self::Categorical { n } => *n,
            Self::MultiCategorical { nvec } => nvec.iter().sum(),
            Self::DiagGaussian { dim } | Self::SquashedGaussian { dim } => 2 * dim,
        }
    }

    /// Numbers of one action.
    pub fn action_width(&self) -> usize {
        match self {
            Self::Categorical { .. } => 1,
            Self::MultiCategorical { nvec } => nvec.len(),
            Self::DiagGaussian { dim } | Self::SquashedGaussian { dim } => *dim,
        }
    }

    /// Whether actions are choices; otherwise they are numbers.
    pub fn is_discrete(&self) -> bool {
        matches!(self, Self::Categorical { .. } | Self::MultiCategorical { .. })
    }

    /// Draws one action per copy (with `explore` false the most likely one) and its log-probability.
    ///
    /// `inputs` is `[copies, num_inputs]`; copy `i` draws from `rngs[i]` and from nothing else.
    pub fn sample(
        &self,
        inputs: &[f32],
        rngs: &mut [Stream],
        explore: bool,
        actions: ActionRows<'_>,
        logp: &mut [f32],
    ) {
        self.draw(inputs, None, rngs, explore, actions, |copy, x| logp[copy] = x);
    }

    /// As [`sample`](Self::sample), of legal actions only (`mask` is `[copies, num_inputs]`); log-probabilities go to
    /// `logp`.
    pub(crate) fn draw(
        &self,
        inputs: &[f32],
        mask: Option<&[bool]>,
        rngs: &mut [Stream],
        explore: bool,
        actions: ActionRows<'_>,
        mut logp: impl FnMut(usize, f32),
    ) {
        let width = self.num_inputs();
        let rows = inputs.chunks_exact(width).zip(rngs).enumerate();
        match (self, actions) {
            (Self::Categorical { .. }, ActionRows::Int(actions)) => {
                for ((copy, (x, rng)), action) in rows.zip(actions) {
                    let (chosen, lp) = choose(x, mask.map(|m| &m[copy * width..][..width]), rng, explore);
                    *action = chosen;
                    logp(copy, lp);
                }
            }
            (Self::MultiCategorical { nvec }, ActionRows::Int(actions)) => {
                for ((copy, (x, rng)), action) in rows.zip(actions.chunks_exact_mut(nvec.len())) {
                    let (mut sum, mut start) = (0.0, 0);
                    for (&n, a) in nvec.iter().zip(action) {
                        let mask = mask.map(|m| &m[copy * width + start..][..n]);
                        let (chosen, lp) = choose(&x[start..][..n], mask, rng, explore);
                        *a = chosen;
                        sum += lp;
                        start += n;
                    }
                    logp(copy, sum);
                }
            }
            (Self::DiagGaussian { dim } | Self::SquashedGaussian { dim }, ActionRows::Float(actions)) => {
                let squash = matches!(self, Self::SquashedGaussian { .. });
                for ((copy, (x, rng)), action) in rows.zip(actions.chunks_exact_mut(*dim)) {
                    let (mean, log_std) = x.split_at(*dim);
                    let mut sum = 0.0;
                    for ((a, &mean), &log_std) in action.iter_mut().zip(mean).zip(log_std) {
                        let log_std = if squash {
                            log_std.clamp(LOG_STD_RANGE.0 as f32, LOG_STD_RANGE.1 as f32)
                        } else {
                            log_std
                        };
                        let noise = if explore { rng.normal() } else { 0.0 };
                        sum -= 0.5 * noise * noise + log_std + HALF_LN_TAU as f32;
                        *a = mean + log_std.exp() * noise;
                        if squash {
                            *a = a.tanh();
                            sum -= (1.0 - *a * *a + 1e-6).ln();
                        }
                    }
                    logp(copy, sum);
                }
            }
            (dist, _) => panic!("{dist:?} does not write this kind of action"),
        }
    }

    /// The distributions with these parameters (`[rows, num_inputs]`), for a loss.
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
            Self::SquashedGaussian { dim } => {
                let log_std = inputs.narrow(*dim, *dim).clamp(LOG_STD_RANGE.0, LOG_STD_RANGE.1);
                vec![inputs.narrow(0, *dim), log_std]
            }
        };
        Dist { family: self, parts }
    }
}

/// An index drawn from softmax(`logits`) and its log-probability; the largest logit when not exploring. Those of
/// illegal actions count as [`ILLEGAL`].
fn choose(logits: &[f32], mask: Option<&[bool]>, rng: &mut Stream, explore: bool) -> (i64, f32) {
    match mask {
        None => choose_by(|i| logits[i], logits.len(), rng, explore),
        Some(mask) => choose_by(|i| if mask[i] { logits[i] } else { ILLEGAL }, logits.len(), rng, explore),
    }
}

fn choose_by(logit: impl Fn(usize) -> f32, n: usize, rng: &mut Stream, explore: bool) -> (i64, f32) {
    let mut best = 0;
    for i in 0..n {
        if logit(i) > logit(best) {
            best = i;
        }
    }
    let max = logit(best);
    let total: f32 = (0..n).map(|i| (logit(i) - max).exp()).sum();
    let mut chosen = best;
    if explore {
        let mut left = rng.uniform() * total;
        for i in 0..n {
            let p = (logit(i) - max).exp();
            if left < p {
                chosen = i;
                break;
            }
            left -= p;
        }
    }
    (chosen as i64, logit(chosen) - max - total.ln())
}

/// Distributions of many rows, made by [`ActionDist::at`]. Every result is `[rows, 1]`.
#[derive(Debug)]
pub struct Dist<'a, 't> {
    family: &'a ActionDist,
    /// Log-probabilities per choice, or mean and log standard deviation.
    parts: Vec<Value<'t>>,
}

impl<'t> Dist<'_, 't> {
    /// The log-probability of each action (`[rows, components]`).
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
        let (mean, log_std) = (self.parts[0], self.parts[1]);
        let z = (x - mean) / log_std.exp();
        (z.square() * -0.5 - log_std - HALF_LN_TAU).sum_columns()
    }

    /// Squashed actions from standard normal `noise` (`[rows, components]`), differentiable, and their log-probabilities.
    ///
    /// The logarithm of tanh's slope is `2 (ln 2 - u - softplus(-2 u))`, which loses no digits at the bounds.
    ///
    /// # Panics
    ///
    /// When the distribution is not a squashed Gaussian.
    pub fn rsample(&self, noise: Value<'t>) -> (Value<'t>, Value<'t>) {
        assert!(matches!(self.family, ActionDist::SquashedGaussian { .. }), "only squashed Gaussians do");
        let (mean, log_std) = (self.parts[0], self.parts[1]);
        let u = mean + log_std.exp() * noise;
        let log_slope = 2.0 * (std::f64::consts::LN_2 - u - (u * -2.0).softplus());
        let logp = noise.square() * -0.5 - log_std - HALF_LN_TAU - log_slope;
        (u.tanh(), logp.sum_columns())
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

    /// KL(self || other) of each row.
    pub fn kl(&self, other: &Dist<'_, 't>) -> Value<'t> {
        match self.family {
            ActionDist::Categorical { .. } | ActionDist::MultiCategorical { .. } => {
                let choices = self.parts.iter().zip(&other.parts);
                choices.map(|(&p, &q)| (p.exp() * (p - q)).sum_columns()).sum()
            }
            ActionDist::DiagGaussian { .. } | ActionDist::SquashedGaussian { .. } => {
                let (mean, log_std) = (self.parts[0], self.parts[1]);
                let (other_mean, other_log_std) = (other.parts[0], other.parts[1]);
                let variances = (log_std * 2.0).exp() + (mean - other_mean).square();
                let ratio = variances / ((other_log_std * 2.0).exp() * 2.0);
                (other_log_std - log_std + ratio - 0.5).sum_columns()
            }
        }
    }
}
