//! Noise on deterministic actions, while acting.

use crate::base::{Result, Stream, rules};

/// The way from -1 to 1, the bounds of actions as policies give them.
const WIDTH: f64 = 2.0;

/// A kind of noise.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Noise {
    /// Independent from step to step.
    Gaussian { stddev: f64 },
    /// It drifts; the noise of one step depends on that of the step before.
    OrnsteinUhlenbeck { ou_base_scale: f64, ou_theta: f64, ou_sigma: f64 },
}

impl Noise {
    /// Adds noise to an action in [-1, 1] and clips it to that. `state` is the noise that drifts, one number per component.
    pub(crate) fn add(self, scale: f64, action: &mut [f32], state: &mut [f32], rng: &mut Stream) {
        match self {
            Self::Gaussian { stddev } => {
                let deviation = (stddev * scale) as f32;
                for a in action {
                    *a = (*a + deviation * rng.normal()).clamp(-1.0, 1.0);
                }
            }
            Self::OrnsteinUhlenbeck { ou_base_scale, ou_theta, ou_sigma } => {
                let size = (scale * ou_base_scale * WIDTH) as f32;
                for (a, x) in action.iter_mut().zip(state) {
                    *x += ou_sigma as f32 * rng.normal() - ou_theta as f32 * *x;
                    *a = (*a + size * *x).clamp(-1.0, 1.0);
                }
            }
        }
    }

    /// Refuses deviations below 0, and noise that would grow without end.
    pub(crate) fn validate(self) -> Result<()> {
        match self {
            Self::Gaussian { stddev } => rules::not_negative([("exploration_config.stddev", stddev)]),
            Self::OrnsteinUhlenbeck { ou_base_scale, ou_theta, ou_sigma } => rules::all([
                rules::not_negative([
                    ("exploration_config.ou_base_scale", ou_base_scale),
                    ("exploration_config.ou_sigma", ou_sigma),
                ]),
                rules::share([("exploration_config.ou_theta", ou_theta)]),
            ]),
        }
    }
}
