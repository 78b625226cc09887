//! The rules of optimizers.

use crate::kernels::Adam;
use serde::{Deserialize, Serialize};

/// The rule that turns a gradient into a step.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "lowercase")]
pub enum OptimizerConfig {
    /// Adam (Kingma and Ba 2015, algorithm 1).
    Adam {
        /// Decay of the first moment.
        beta1: f64,
        /// Decay of the second moment.
        beta2: f64,
        /// Number added to the root of the second moment.
        eps: f64,
    },
    /// Adam with weight decay that is independent of the gradient (Loshchilov and Hutter 2019).
    AdamW {
        /// Decay of the first moment.
        beta1: f64,
        /// Decay of the second moment.
        beta2: f64,
        /// Number added to the root of the second moment.
        eps: f64,
        /// Weight decay: every parameter is multiplied by `1 - lr * weight_decay` before each step.
        weight_decay: f64,
    },
    /// Adam with smaller first steps while the second moment is uncertain (Liu et al. 2020).
    RAdam {
        /// Decay of the first moment.
        beta1: f64,
        /// Decay of the second moment.
        beta2: f64,
        /// Number added to the root of the second moment.
        eps: f64,
    },
    /// Hinton's RMSprop, in PyTorch's variant.
    Rmsprop {
        /// Decay of the second moment.
        alpha: f64,
        /// Number added to the root of the second moment.
        eps: f64,
        /// Factor of heavy-ball momentum.
        momentum: f64,
        /// Whether to divide by the standard deviation, which subtracts the squared mean, instead of the root of the
        /// second moment.
        #[serde(default)]
        centered: bool,
    },
    /// Gradient descent, with optional momentum.
    Sgd {
        /// Factor of heavy-ball momentum.
        momentum: f64,
    },
}

impl OptimizerConfig {
    /// Adam with the usual decays of its moments, 0.9 and 0.999.
    pub fn adam(eps: f64) -> Self {
        Self::Adam { beta1: 0.9, beta2: 0.999, eps }
    }

    /// AdamW with the usual decays of its moments, 0.9 and 0.999.
    pub fn adamw(eps: f64, weight_decay: f64) -> Self {
        Self::AdamW { beta1: 0.9, beta2: 0.999, eps, weight_decay }
    }

    /// RAdam with the usual decays of its moments, 0.9 and 0.999.
    pub fn radam(eps: f64) -> Self {
        Self::RAdam { beta1: 0.9, beta2: 0.999, eps }
    }

    /// The kernel's arguments for step `t`, counted from 1, of Adam, AdamW or RAdam; `None` for other rules.
    pub(super) fn adam_step(self, t: u64, lr: f64) -> Option<Adam> {
        let (beta1, beta2, eps, weight_decay) = match self {
            Self::Adam { beta1, beta2, eps } | Self::RAdam { beta1, beta2, eps } => (beta1, beta2, eps, 0.0),
            Self::AdamW { beta1, beta2, eps, weight_decay } => (beta1, beta2, eps, weight_decay),
            Self::Rmsprop { .. } | Self::Sgd { .. } => return None,
        };
        let t = t.min(i32::MAX as u64) as i32;
        let bias1 = 1.0 - beta1.powi(t);
        let bias2 = 1.0 - beta2.powi(t);
        let step = Adam {
            one_minus_beta1: 1.0 - beta1,
            one_minus_beta2: 1.0 - beta2,
            eps,
            rate: lr / bias1,
            root: 1.0 / bias2.sqrt(),
            keep: 1.0 - lr * weight_decay,
        };
        if !matches!(self, Self::RAdam { .. }) {
            return Some(step);
        }
        // Effective length of the second moment's average: its limit, and its value now.
        let limit = 2.0 / (1.0 - beta2) - 1.0;
        let length = limit - 2.0 * f64::from(t) * (1.0 - bias2) / bias2;
        Some(if length > 5.0 {
            let now = (length - 4.0) * (length - 2.0) * limit;
            let rectified = (now / ((limit - 4.0) * (limit - 2.0) * length)).sqrt();
            Adam { rate: step.rate * rectified * bias2.sqrt(), root: 1.0, ..step }
        } else {
            // Early steps use the first moment alone.
            Adam { root: 0.0, eps: 1.0, ..step }
        })
    }

    /// Whether the rule is centred RMSprop, which keeps means of the gradient.
    pub(super) fn is_centered(self) -> bool {
        matches!(self, Self::Rmsprop { centered: true, .. })
    }
}
