//! Optimizers over one flat parameter buffer, with state that can be saved.
//!
//! tch's own keep their moments out of reach (nothing in its C interface reads or writes them), so a run could not be
//! continued exactly. On the CPU a step of Adam is one pass over plain memory. On a GPU, and by the other rules, a step is a
//! few operations of libtorch on the whole buffer, whatever the number of layers.

use crate::{
    base::{
        error::{Error, Result},
        host,
        state::State,
        stats::Stats,
    },
    learn::engines::kernels::{self, Adam},
};
use serde::{Deserialize, Serialize};
use std::ops::Range;
use tch::{Device, Tensor};

/// Which rule turns a gradient into a step.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "lowercase")]
pub enum OptimizerConfig {
    /// Kingma and Ba 2015, algorithm 1.
    Adam {
        /// Decay of the first moment.
        beta1: f64,
        /// Decay of the second moment.
        beta2: f64,
        /// Added to the root of the second moment.
        eps: f64,
    },
    /// Hinton's RMSprop as PyTorch writes it, not centred.
    Rmsprop {
        /// Decay of the second moment.
        alpha: f64,
        /// Added to the root of the second moment.
        eps: f64,
        /// Heavy-ball momentum.
        momentum: f64,
    },
    /// Gradient descent.
    Sgd {
        /// Heavy-ball momentum.
        momentum: f64,
    },
}

impl OptimizerConfig {
    /// Adam with the usual decays.
    pub fn adam(eps: f64) -> Self {
        Self::Adam { beta1: 0.9, beta2: 0.999, eps }
    }
}

/// An optimizer of one flat buffer.
#[derive(Debug)]
pub struct Optimizer {
    config: OptimizerConfig,
    first: Tensor,
    second: Tensor,
    steps: u64,
}

impl Optimizer {
    /// Fresh moments for `params` (`[total]`).
    pub fn new(config: OptimizerConfig, params: &Tensor) -> Self {
        Self { config, first: params.zeros_like(), second: params.zeros_like(), steps: 0 }
    }

    /// As [`step`](Self::step), by the numbers of a part of both buffers.
    pub(crate) fn step_part(&mut self, params: &mut Tensor, grad: &Tensor, part: Range<usize>, lr: f64) {
        if let (OptimizerConfig::Adam { .. }, Device::Cpu) = (self.config, params.device()) {
            // Without libtorch: four views of a buffer cost a small network's update 6 % of its time.
            let adam = self.next_adam(lr);
            let (first, second) = (host::write(&mut self.first), host::write(&mut self.second));
            let params = &mut host::write(params)[part.clone()];
            return adam.step(params, first, second, &host::read(grad)[part]);
        }
        let view = |of: &Tensor| of.narrow(0, part.start as i64, part.len() as i64);
        self.step(&mut view(params), &view(grad), lr);
    }

    /// Adam's next step in plain memory.
    fn next_adam(&mut self, lr: f64) -> Adam {
        let OptimizerConfig::Adam { beta1, beta2, eps } = self.config else {
            unreachable!("the caller looked")
        };
        self.steps += 1;
        let t = self.steps.min(i32::MAX as u64) as i32;
        let (bias1, bias2) = (1.0 - beta1.powi(t), 1.0 - beta2.powi(t));
        Adam {
            one_minus_beta1: (1.0 - beta1) as f32,
            one_minus_beta2: (1.0 - beta2) as f32,
            eps: eps as f32,
            rate: (lr / bias1) as f32,
            root: (1.0 / bias2.sqrt()) as f32,
        }
    }

    /// `params -= step(grad)`.
    pub fn step(&mut self, params: &mut Tensor, grad: &Tensor, lr: f64) {
        let _guard = tch::no_grad_guard();
        if let (OptimizerConfig::Adam { .. }, Device::Cpu) = (self.config, params.device()) {
            let adam = self.next_adam(lr);
            let (first, second) = (host::write(&mut self.first), host::write(&mut self.second));
            return adam.step(host::write(params), first, second, host::read(grad));
        }
        self.steps += 1;
        match self.config {
            OptimizerConfig::Adam { beta1, beta2, eps } => {
                let t = self.steps.min(i32::MAX as u64) as i32;
                let (bias1, bias2) = (1.0 - beta1.powi(t), 1.0 - beta2.powi(t));
                let _ = self.first.lerp_(grad, 1.0 - beta1);
                let _ = self.second.lerp_(&grad.square(), 1.0 - beta2);
                let mut denominator = self.second.sqrt();
                let _ = denominator.g_mul_scalar_(1.0 / bias2.sqrt());
                let _ = denominator.g_add_scalar_(eps);
                let _ = params.addcdiv_(&(&self.first * (-lr / bias1)), &denominator);
            }
            OptimizerConfig::Rmsprop { alpha, eps, momentum } => {
                let _ = self.second.lerp_(&grad.square(), 1.0 - alpha);
                let update = grad / (self.second.sqrt() + eps);
                self.momentum_step(params, update, momentum, lr);
            }
            OptimizerConfig::Sgd { momentum } => {
                self.momentum_step(params, grad.shallow_clone(), momentum, lr)
            }
        }
    }

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

    /// Moments and the number of steps.
    ///
    /// # Errors
    /// Does not fail today: everything in it can be written.
    pub fn state(&self) -> Result<State> {
        let mut state = State::default();
        state.set("config", &self.config)?;
        state.set("steps", &self.steps)?;
        state.set_tensor("first", &self.first);
        state.set_tensor("second", &self.second);
        Ok(state)
    }

    /// Continues from [`state`](Self::state).
    ///
    /// # Errors
    /// Returns [`Error::State`] if an optimizer of another kind or of other parameters saved the state.
    pub fn set_state(&mut self, state: &State) -> Result<()> {
        let saved: OptimizerConfig = state.get("config")?;
        if std::mem::discriminant(&saved) != std::mem::discriminant(&self.config) {
            let reason = format!("it was saved by {saved:?}, but this run uses {:?}", self.config);
            return Err(Error::state("optimizer", reason));
        }
        state.copy_into("first", &mut self.first)?;
        state.copy_into("second", &mut self.second)?;
        self.steps = state.get("steps")?;
        Ok(())
    }
}

/// Scales a part of `grad` so that its norm is at most `max_norm`; the norm before goes to `stats` as `name` (on a GPU nothing is read
/// on the host).
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
