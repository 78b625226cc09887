//! Buffers in libtorch's memory, and what an optimizer does with them on a GPU: a few operations on the whole buffer.

use crate::base::torch::{read, write};
use crate::base::{Array, Device, Stats};
use crate::kernels::Adam;
use crate::params::optimizer_config::OptimizerConfig;
use std::ops::Range;
use std::sync::OnceLock;
use tch::Tensor;

/// A contiguous f32 tensor `[total]`, on the CPU or on a GPU.
#[derive(Debug)]
pub(crate) struct OnDevice {
    pub(super) tensor: Tensor,
    /// A copy of a tensor on a GPU that was asked for after its last change.
    seen: OnceLock<Array>,
}

impl OnDevice {
    pub(super) fn new(numbers: &[f32], device: Device) -> Option<Self> {
        Some(Self::over(Tensor::from_slice(numbers).to_device(device.into())))
    }

    pub(super) fn over(tensor: Tensor) -> Self {
        Self { tensor, seen: OnceLock::new() }
    }

    fn is_on_gpu(&self) -> bool {
        self.tensor.device() != tch::Device::Cpu
    }

    pub(super) fn zeros(&self, len: usize) -> Self {
        Self::over(Tensor::zeros([len as i64], (tch::Kind::Float, self.tensor.device())))
    }

    pub(super) fn duplicate(&self) -> Self {
        Self::over(self.tensor.copy())
    }

    pub(super) fn read(&self) -> &[f32] {
        if self.is_on_gpu() {
            return self.seen.get_or_init(|| Array::from(&self.tensor)).read();
        }
        read(&self.tensor)
    }

    pub(super) fn write(&mut self) -> Result<&mut [f32], &mut Self> {
        if self.is_on_gpu() { Err(self) } else { Ok(write(&mut self.tensor)) }
    }

    /// The tensor on a GPU, to change it.
    fn changed(&mut self) -> &mut Tensor {
        self.seen = OnceLock::new();
        &mut self.tensor
    }

    fn part(&mut self, part: &Range<usize>) -> Tensor {
        self.changed().narrow(0, part.start as i64, part.len() as i64)
    }

    pub(super) fn set(&mut self, numbers: &[f32]) {
        let numbers = Tensor::from_slice(numbers);
        tch::no_grad(|| self.changed().copy_(&numbers));
    }

    pub(super) fn approach(&mut self, source: &Self, tau: f64) {
        let _guard = tch::no_grad_guard();
        if tau == 1.0 {
            self.changed().copy_(&source.tensor);
        } else {
            let _ = self.changed().lerp_(&source.tensor, tau);
        }
    }

    /// Adds `scale` times the numbers of `other` in the range `part`.
    pub(crate) fn add_scaled(&mut self, part: &Range<usize>, other: &Self, scale: f64) {
        let _guard = tch::no_grad_guard();
        let other = other.tensor.narrow(0, part.start as i64, part.len() as i64);
        let _ = self.part(part).g_add_(&(other * scale));
    }

    /// Scales the range `part` so that its norm is at most `max_norm`. The norm before stays on the GPU until the
    /// statistics are read.
    pub(super) fn clip(&mut self, part: &Range<usize>, max_norm: f64, name: &'static str, stats: &mut Stats) {
        let _guard = tch::no_grad_guard();
        let mut grad = self.part(part);
        let norm = grad.norm();
        let scale = (max_norm / (&norm + 1e-6)).clamp_max(1.0);
        let _ = grad.g_mul_(&scale);
        stats.push_unread(name, &norm);
    }

    /// Moves the range `part` of the parameters one step; `adam` has the numbers of the step for the Adam family.
    pub(super) fn step(
        &mut self,
        grad: &Self,
        part: &Range<usize>,
        (first, second, mean): (&mut Self, &mut Self, Option<&mut Self>),
        (config, adam): (OptimizerConfig, Option<Adam>),
        lr: f64,
    ) {
        let _guard = tch::no_grad_guard();
        let mut params = self.part(part);
        let grad = grad.tensor.narrow(0, part.start as i64, part.len() as i64);
        let first = first.changed();
        let second = second.changed();
        if let Some(step) = adam {
            let _ = first.lerp_(&grad, step.one_minus_beta1);
            let _ = second.lerp_(&grad.square(), step.one_minus_beta2);
            let mut denominator = second.sqrt();
            let _ = denominator.g_mul_scalar_(step.root);
            let _ = denominator.g_add_scalar_(step.eps);
            let _ = params.g_mul_scalar_(step.keep);
            let _ = params.addcdiv_(&(&*first * -step.rate), &denominator);
            return;
        }
        let (update, momentum) = match config {
            OptimizerConfig::Rmsprop { alpha, eps, momentum, .. } => {
                let _ = second.lerp_(&grad.square(), 1.0 - alpha);
                let root = match mean.map(Self::changed) {
                    Some(mean) => {
                        let _ = mean.lerp_(&grad, 1.0 - alpha);
                        // Rounding must not make a variance negative.
                        (&*second - mean.square()).clamp_min(0.0).sqrt()
                    }
                    None => second.sqrt(),
                };
                (grad / (root + eps), momentum)
            }
            OptimizerConfig::Sgd { momentum } => (grad, momentum),
            OptimizerConfig::Adam { .. } | OptimizerConfig::AdamW { .. } | OptimizerConfig::RAdam { .. } => {
                return;
            }
        };
        let update = if momentum == 0.0 {
            update
        } else {
            let _ = first.g_mul_scalar_(momentum);
            let _ = first.g_add_(&update);
            first.shallow_clone()
        };
        let _ = params.g_add_(&(update * -lr));
    }
}
