//! Optimizers over one flat parameter buffer, with state that can be saved.
//!
//! tch's own optimizers hide their moments (nothing in tch's C interface reads or writes them), so a run could not be
//! continued exactly. On the CPU a step is one or two passes over plain memory, with the same bits on every processor. On
//! a GPU it is a few operations of libtorch on the whole buffer, whatever the number of layers.

use crate::base::{Error, Result, State, Stats, host};
use crate::learn::kernels;
use crate::learn::kernels::{Adam, Averages, MomentumStep};
use serde::{Deserialize, Serialize};
use std::ops::Range;
use tch::{Device, Tensor};

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
    fn adam_step(self, t: u64, lr: f64) -> Option<Adam> {
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
    fn is_centered(self) -> bool {
        matches!(self, Self::Rmsprop { centered: true, .. })
    }
}

/// An optimizer of one flat buffer, with its moments.
#[derive(Debug)]
pub struct Optimizer {
    config: OptimizerConfig,
    first: Tensor,
    second: Tensor,
    /// Means of the gradient, for centred RMSprop only.
    mean: Option<Tensor>,
    /// Scratch memory of RMSprop on the CPU: the gradient divided by its root mean square.
    scaled: Vec<f32>,
    steps: u64,
}

impl Optimizer {
    /// Makes an optimizer with moments of zeros for `params` (`[total]`).
    pub fn new(config: OptimizerConfig, params: &Tensor) -> Self {
        let zeros = || params.zeros_like();
        let mean = config.is_centered().then(zeros);
        Self { config, first: zeros(), second: zeros(), mean, scaled: Vec::new(), steps: 0 }
    }

    /// Steps as [`step`](Self::step) does, but only for the range `part` of parameters and gradient.
    pub(crate) fn step_part(&mut self, params: &mut Tensor, grad: &Tensor, part: Range<usize>, lr: f64) {
        if params.device() == Device::Cpu {
            // Without libtorch: four views of a buffer cost a small network's update 6 % of its time.
            let params = &mut host::write(params)[part.clone()];
            return self.step_on_host(params, &host::read(grad)[part], lr);
        }
        let view = |of: &Tensor| of.narrow(0, part.start as i64, part.len() as i64);
        self.step(&mut view(params), &view(grad), lr);
    }

    /// Moves the parameters one step in plain memory, with the same bits on every processor.
    fn step_on_host(&mut self, params: &mut [f32], grad: &[f32], lr: f64) {
        self.steps += 1;
        let first = host::write(&mut self.first);
        let second = host::write(&mut self.second);
        if let Some(step) = self.config.adam_step(self.steps, lr) {
            return step.step(params, first, second, grad);
        }
        match self.config {
            OptimizerConfig::Rmsprop { alpha, eps, momentum, .. } => {
                let mean = self.mean.as_mut().map(host::write);
                let averages =
                    Averages { square: second, mean, share: (1.0 - alpha) as f32, eps: eps as f32 };
                self.scaled.resize(grad.len(), 0.0);
                averages.scale(grad, &mut self.scaled);
                MomentumStep { lr: lr as f32, momentum: momentum as f32 }.step(params, first, &self.scaled);
            }
            OptimizerConfig::Sgd { momentum } => {
                MomentumStep { lr: lr as f32, momentum: momentum as f32 }.step(params, first, grad);
            }
            OptimizerConfig::Adam { .. } | OptimizerConfig::AdamW { .. } | OptimizerConfig::RAdam { .. } => {}
        }
    }

    /// Moves the parameters one step by the gradient `grad`, at learning rate `lr`.
    pub fn step(&mut self, params: &mut Tensor, grad: &Tensor, lr: f64) {
        let _guard = tch::no_grad_guard();
        if params.device() == Device::Cpu {
            return self.step_on_host(host::write(params), host::read(grad), lr);
        }
        self.steps += 1;
        if let Some(step) = self.config.adam_step(self.steps, lr) {
            let _ = self.first.lerp_(grad, step.one_minus_beta1);
            let _ = self.second.lerp_(&grad.square(), step.one_minus_beta2);
            let mut denominator = self.second.sqrt();
            let _ = denominator.g_mul_scalar_(step.root);
            let _ = denominator.g_add_scalar_(step.eps);
            let _ = params.g_mul_scalar_(step.keep);
            let _ = params.addcdiv_(&(&self.first * -step.rate), &denominator);
        }
        match self.config {
            OptimizerConfig::Rmsprop { alpha, eps, momentum, .. } => {
                let _ = self.second.lerp_(&grad.square(), 1.0 - alpha);
                let root = match &mut self.mean {
                    Some(mean) => {
                        let _ = mean.lerp_(grad, 1.0 - alpha);
                        // Rounding must not make a variance negative.
                        (&self.second - mean.square()).clamp_min(0.0).sqrt()
                    }
                    None => self.second.sqrt(),
                };
                self.momentum_step(params, grad / (root + eps), momentum, lr);
            }
            OptimizerConfig::Sgd { momentum } => {
                self.momentum_step(params, grad.shallow_clone(), momentum, lr)
            }
            OptimizerConfig::Adam { .. } | OptimizerConfig::AdamW { .. } | OptimizerConfig::RAdam { .. } => {}
        }
    }

    /// Moves parameters on a GPU by `-lr * update`, with momentum.
    fn momentum_step(&mut self, params: &mut Tensor, update: Tensor, momentum: f64, lr: f64) {
        let update = if momentum == 0.0 {
            update
        } else {
            let _ = self.first.g_mul_scalar_(momentum);
            let _ = self.first.g_add_(&update);
            self.first.shallow_clone()
        };
        let _ = params.g_add_(&(update * -lr));
    }

    /// The moments and the number of steps, for checkpoints.
    ///
    /// # Errors
    /// Never fails today: every part of the state can be written.
    pub fn state(&self) -> Result<State> {
        let mut state = State::default();
        state.set("config", &self.config)?;
        state.set("steps", &self.steps)?;
        state.set_tensor("first", &self.first);
        state.set_tensor("second", &self.second);
        if let Some(mean) = &self.mean {
            state.set_tensor("mean", mean);
        }
        Ok(state)
    }

    /// Continues from a state that [`state`](Self::state) saved.
    ///
    /// # Errors
    /// Returns [`Error::State`] if an optimizer of another kind or of other parameters saved the state.
    pub fn set_state(&mut self, state: &State) -> Result<()> {
        let saved: OptimizerConfig = state.get("config")?;
        let kind = |config: OptimizerConfig| (std::mem::discriminant(&config), config.is_centered());
        if kind(saved) != kind(self.config) {
            let reason = format!("it was saved by {saved:?}, but this run uses {:?}", self.config);
            return Err(Error::state("optimizer", reason));
        }
        state.copy_into("first", &mut self.first)?;
        state.copy_into("second", &mut self.second)?;
        if let Some(mean) = &mut self.mean {
            state.copy_into("mean", mean)?;
        }
        self.steps = state.get("steps")?;
        Ok(())
    }
}

/// Scales the range `part` of `grad` so that its norm is at most `max_norm`. The norm before clipping is added to
/// `stats` as `name`; on a GPU it stays there until the statistics are read.
pub(crate) fn clip_grad_norm(
    grad: &mut Tensor,
    part: Range<usize>,
    max_norm: f64,
    name: &'static str,
    stats: &mut Stats,
) {
    let _guard = tch::no_grad_guard();
    if grad.device() == Device::Cpu {
        let grad = &mut host::write::<f32>(grad)[part];
        let norm = kernels::norm(grad);
        let scale = (max_norm / (norm + 1e-6)) as f32;
        if scale < 1.0 {
            grad.iter_mut().for_each(|g| *g *= scale);
        }
        return stats.push(name, norm);
    }
    let mut grad = grad.narrow(0, part.start as i64, part.len() as i64);
    let norm = grad.norm();
    let scale = (max_norm / (&norm + 1e-6)).clamp_max(1.0);
    let _ = grad.g_mul_(&scale);
    stats.push_unread(name, &norm);
}
