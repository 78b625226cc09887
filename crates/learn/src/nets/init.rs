//! Initial values of parameters.

use crate::layers::{Initializer, ModelConfig};

impl ModelConfig {
    /// The initial distribution of a critic's output weights.
    pub(crate) fn value_init(&self) -> Init {
        self.fcnet_initializer.scaled(match self.fcnet_initializer {
            Initializer::Normc => 0.01,
            Initializer::Orthogonal | Initializer::Uniform => 1.0,
        })
    }
}

impl Initializer {
    /// The initial distribution of an output layer's weights: this initializer with `scale` as its norm or gain. `Uniform` has
    /// neither.
    pub fn scaled(self, scale: f64) -> Init {
        match self {
            Self::Normc => Init::Normc(scale),
            Self::Orthogonal => Init::Orthogonal(scale),
            Self::Uniform => Init::Uniform,
        }
    }

    /// The initial distribution of a hidden layer's weights.
    pub fn hidden(self) -> Init {
        match self {
            Self::Normc => Init::Normc(1.0),
            Self::Orthogonal => Init::Orthogonal(std::f64::consts::SQRT_2),
            Self::Uniform => Init::Uniform,
        }
    }
}

/// The initial distribution of a layer's weights; see [`Initializer`].
#[derive(Clone, Copy, Debug)]
pub enum Init {
    /// Normal numbers, each row scaled to this norm; biases are 0.
    Normc(f64),
    /// Orthogonal weights, scaled by this gain; biases are 0.
    Orthogonal(f64),
    /// Weights and biases uniform in plus and minus `1 / sqrt(inputs)` (PyTorch's default).
    Uniform,
}
