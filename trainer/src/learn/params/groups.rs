//! Parameter groups: ranges of the flat buffer, each with its own learning rule.

use crate::base::Schedule;
use crate::learn::params::optim::OptimizerConfig;
use std::ops::Range;

/// A range of the parameters with its own learning rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Group(pub(crate) usize);

/// The learning rule of a parameter group.
#[derive(Clone, Debug, PartialEq)]
pub struct Rule {
    /// The optimizer, which turns a gradient into a step.
    pub optimizer: OptimizerConfig,
    /// Learning rate, over environment steps.
    pub lr: Schedule,
    /// Bound of the norm of the group's gradient; `None`: no bound.
    pub grad_clip: Option<f64>,
}

impl Rule {
    /// A rule of Adam with the usual decays.
    pub fn adam(lr: impl Into<Schedule>, eps: f64) -> Self {
        Self { optimizer: OptimizerConfig::adam(eps), lr: lr.into(), grad_clip: None }
    }

    /// Adds weight decay: AdamW in place of Adam. A decay of 0 changes nothing.
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

    /// Clips the group's gradient to this norm.
    #[must_use]
    pub fn clip(self, grad_clip: Option<f64>) -> Self {
        Self { grad_clip, ..self }
    }
}

/// A parameter group and its range in the flat buffer.
#[derive(Clone, Debug)]
pub(crate) struct GroupRange {
    pub(crate) name: String,
    /// Name of the gradient norm in statistics.
    pub(crate) norm_name: &'static str,
    pub(crate) range: Range<usize>,
    pub(crate) rule: Rule,
}

/// The groups that a gradient is taken for; the others count as frozen.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LearningGroups<'a> {
    pub(crate) groups: &'a [GroupRange],
    pub(crate) learning: &'a [Group],
}

impl LearningGroups<'_> {
    /// Whether the parameter that begins at `start` learns.
    pub(crate) fn at(&self, start: usize) -> bool {
        self.learning.iter().any(|group| self.groups[group.0].range.contains(&start))
    }
}
