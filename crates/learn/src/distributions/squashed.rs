//! Squashed Gaussians: actions between bounds that are drawn differentiably, for SAC.

use crate::base::{Result, rules};
use crate::distributions::{ActionDist, Dist, HALF_LN_TAU, LOG_STD_MIN};
use crate::loss::Value;
use pavlov_envs::Space;

impl ActionDist {
    /// The distribution of actions squashed between the bounds of a Box, whose log standard deviations are at least -5;
    /// refuses other spaces, and components without bounds. Errors name `who`.
    ///
    /// # Errors
    /// Returns [`Error::Space`](crate::base::Error::Space) for any space but a Box of at most one dimension whose bounds are
    /// finite.
    pub fn squashed(who: &str, space: &Space) -> Result<Self> {
        Ok(Self::SquashedGaussian { dim: rules::bounded_actions(who, space)?, log_std_min: LOG_STD_MIN })
    }
}

impl<'t> Dist<'_, 't> {
    /// Draws squashed actions, differentiably, from standard normal `noise` (`[rows, components]`); returns them and their
    /// log-probabilities.
    ///
    /// The logarithm of tanh's slope is `2 (ln 2 - u - softplus(-2 u))`, which loses no digits at the bounds.
    ///
    /// # Panics
    /// Panics if the distribution is not a squashed Gaussian.
    pub fn rsample(&self, noise: Value<'t>) -> (Value<'t>, Value<'t>) {
        assert!(matches!(self.family, ActionDist::SquashedGaussian { .. }), "only squashed Gaussians do");
        let mean = self.parts[0];
        let log_std = self.parts[1];
        let u = mean + log_std.exp() * noise;
        let log_slope = 2.0 * (std::f64::consts::LN_2 - u - (u * -2.0).softplus());
        let logp = noise.square() * -0.5 - log_std - HALF_LN_TAU - log_slope;
        (u.tanh(), logp.sum_columns())
    }

    /// Draws as [`rsample`](Self::rsample) does, with `epsilon` added to the slope of tanh before its logarithm is taken,
    /// as in Stable-Baselines3.
    ///
    /// # Panics
    /// Panics if the distribution is not a squashed Gaussian.
    pub fn rsample_with(&self, noise: Value<'t>, epsilon: f64) -> (Value<'t>, Value<'t>) {
        if epsilon == 0.0 {
            return self.rsample(noise);
        }
        assert!(matches!(self.family, ActionDist::SquashedGaussian { .. }), "only squashed Gaussians do");
        let log_std = self.parts[1];
        let a = (self.parts[0] + log_std.exp() * noise).tanh();
        let logp = noise.square() * -0.5 - log_std - HALF_LN_TAU - ((1.0 + epsilon) - a.square()).log();
        (a, logp.sum_columns())
    }

    /// Draws squashed actions, differentiably, whose distance from the mean before squashing is `noise` (`[rows, components]`),
    /// which has the distribution's deviation; returns them and their log-probabilities. `epsilon` is that of
    /// [`rsample_with`](Self::rsample_with).
    ///
    /// # Panics
    /// Panics if the distribution is not a squashed Gaussian.
    pub fn rsample_by(&self, noise: Value<'t>, epsilon: f64) -> (Value<'t>, Value<'t>) {
        assert!(matches!(self.family, ActionDist::SquashedGaussian { .. }), "only squashed Gaussians do");
        let log_std = self.parts[1];
        let u = self.parts[0] + noise;
        let a = u.tanh();
        let log_slope = if epsilon == 0.0 {
            2.0 * (std::f64::consts::LN_2 - u - (u * -2.0).softplus())
        } else {
            ((1.0 + epsilon) - a.square()).log()
        };
        let z = noise / log_std.exp();
        let logp = z.square() * -0.5 - log_std - HALF_LN_TAU - log_slope;
        (a, logp.sum_columns())
    }
}
