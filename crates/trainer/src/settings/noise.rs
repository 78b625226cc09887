//! Random noise that is added to deterministic actions while acting.

use pavlov_learn::base::{Result, Stream, rules};

/// Width of the range of actions in the form of policies, [-1, 1].
const WIDTH: f64 = 2.0;

/// The kinds of noise that is added to actions.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Noise {
    /// Noise that is independent from step to step.
    Gaussian { stddev: f64 },
    /// Ornstein-Uhlenbeck noise, which is correlated from step to step.
    OrnsteinUhlenbeck { ou_base_scale: f64, ou_theta: f64, ou_sigma: f64 },
}

impl Noise {
    /// Adds noise to an action and clips the action to [-1, 1]. `state` is the correlated noise, `[components]`,
    /// carried from step to step.
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

    /// Returns an error for a negative standard deviation, and for an `ou_theta` outside 0..=1, with which noise could
    /// grow for ever.
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
