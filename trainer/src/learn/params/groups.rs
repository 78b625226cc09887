//! Parameter groups: ranges of the flat buffer that learn by rules of their own.

use crate::base::Schedule;
use crate::learn::params::optim::OptimizerConfig;
use std::ops::Range;

/// A range of the parameters that learns by a rule of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Group(pub(crate) usize);

/// How a group of parameters learns.
#[derive(Clone, Debug, PartialEq)]
pub struct Rule {
    /// What turns a gradient into a step.
    pub optimizer: OptimizerConfig,
    /// The size of the optimizer's step.
    pub lr: Schedule,
    /// Bound of the norm of the group's gradient.
    pub grad_clip: Option<f64>,
}

impl Rule {
    /// Adam with the usual decays.
    pub fn adam(lr: impl Into<Schedule>, eps: f64) -> Self {
        Self { optimizer: OptimizerConfig::adam(eps), lr: lr.into(), grad_clip: None }
    }

    /// The rule with weight decay: AdamW in place of Adam. A decay of 0 changes nothing.
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

    /// The rule with gradients that are clipped at this norm.
    #[must_use]
    pub fn clip(self, grad_clip: Option<f64>) -> Self {
        Self { grad_clip, ..self }
    }
}

/// A group laid out.
#[derive(Clone, Debug)]
pub(crate) struct GroupRange {
    pub(crate) name: String,
    /// What the norm of its gradient is called in statistics.
    pub(crate) norm_name: &'static str,
    pub(crate) range: Range<usize>,
    pub(crate) rule: Rule,
}

/// The groups that a gradient is taken by; the others count as frozen.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LearningGroups<'a> {
    pub(crate) groups: &'a [GroupRange],
    pub(crate) learning: &'a [Group],
}

impl LearningGroups<'_> {
    /// Whether the parameter that begins there learns.
    pub(crate) fn at(&self, start: usize) -> bool {
        self.learning.iter().any(|group| self.groups[group.0].range.contains(&start))
    }
}
