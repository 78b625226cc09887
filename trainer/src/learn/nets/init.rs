//! How parameters start.

use crate::settings::{Initializer, ModelConfig};

impl ModelConfig {
    /// How the weights of a critic's output start.
    pub(crate) fn value_init(&self) -> Init {
        self.fcnet_initializer.scaled(match self.fcnet_initializer {
            Initializer::Normc => 0.01,
            Initializer::Orthogonal => 1.0,
        })
    }
}

impl Initializer {
    /// How an output layer starts: the initializer at this scale.
    pub fn scaled(self, scale: f64) -> Init {
        match self {
            Self::Normc => Init::Normc(scale),
            Self::Orthogonal => Init::Orthogonal(scale),
        }
    }

    /// How a hidden layer starts.
    pub fn hidden(self) -> Init {
        match self {
            Self::Normc => Init::Normc(1.0),
            Self::Orthogonal => Init::Orthogonal(std::f64::consts::SQRT_2),
        }
    }
}

/// How a layer's weights start; see [`Initializer`](crate::settings::Initializer).
#[derive(Clone, Copy, Debug)]
pub enum Init {
    /// Normal numbers, each row scaled to this norm; bias 0.
    Normc(f64),
    /// Orthogonal, scaled by this gain; bias 0.
    Orthogonal(f64),
    /// Weights and bias uniform in plus and minus `1 / sqrt(inputs)` (PyTorch's default).
    Uniform,
}
