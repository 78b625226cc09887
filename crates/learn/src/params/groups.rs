//! Parameter groups: ranges of the flat buffer, each with its own learning rule.

use crate::base::Schedule;
use crate::params::optimizer_config::OptimizerConfig;
use std::ops::Range;

/// A handle of a parameter group: a range of the parameters with its own learning rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Group(pub(crate) usize);

/// The learning rule of a parameter group.
#[derive(Clone, Debug, PartialEq)]
pub struct Rule {
    /// The optimizer, which turns a gradient into a step.
    pub optimizer: OptimizerConfig,
    /// Learning rate, as a function of the environment steps of the run.
    pub lr: Schedule,
    /// Largest norm of the group's gradient, to which it is clipped; `None`: no clipping.
    pub grad_clip: Option<f64>,
}

impl Rule {
    /// Makes a rule with Adam (decays 0.9 and 0.999) and without clipping.
    pub fn adam(lr: impl Into<Schedule>, eps: f64) -> Self {
        Self { optimizer: OptimizerConfig::adam(eps), lr: lr.into(), grad_clip: None }
    }

    /// Replaces Adam by AdamW with this weight decay. A decay of 0 or another optimizer changes nothing.
    #[must_use]
    pub fn decay(self, weight_decay: f64) -> Self {
        match self.optimizer {
            OptimizerConfig::Adam { beta1, beta2, eps } if weight_decay > 0.0 => {
                let optimizer = OptimizerConfig::AdamW { beta1, beta2, eps, weight_decay };
                Self { optimizer, ..self }
            }
            _ => self,
        }
    }

    /// Clips the group's gradient to this norm; `None` turns clipping off.
    #[must_use]
    pub fn clip(self, grad_clip: Option<f64>) -> Self {
        Self { grad_clip, ..self }
    }
}

/// A parameter group and its range in the flat buffer.
#[derive(Clone, Debug)]
pub(crate) struct GroupRange {
    pub(crate) name: String,
    /// Name of the group's gradient norm in statistics.
    pub(crate) norm_name: &'static str,
    pub(crate) range: Range<usize>,
    pub(crate) rule: Rule,
}

/// All groups of a network, and those that a gradient is taken for (`learning`); the others count as frozen.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LearningGroups<'a> {
    pub(crate) groups: &'a [GroupRange],
    pub(crate) learning: &'a [Group],
}

impl LearningGroups<'_> {
    /// Whether the parameter that begins at index `start` of the flat buffer belongs to a learning group.
    pub(crate) fn at(&self, start: usize) -> bool {
        self.learning.iter().any(|group| self.groups[group.0].range.contains(&start))
    }
}
