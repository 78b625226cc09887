//! The update rule of Adam.

use crate::kernels::share::share_out;
use crate::kernels::{arch, is_helper_awake, join};

/// The numbers of one step of Adam, AdamW or RAdam over flat buffers; see
/// [`OptimizerConfig`](crate::params::OptimizerConfig).
#[derive(Clone, Copy, Debug)]
pub(crate) struct Adam {
    pub(crate) one_minus_beta1: f64,
    pub(crate) one_minus_beta2: f64,
    pub(crate) eps: f64,
    /// Learning rate over `1 - beta1^t`.
    pub(crate) rate: f64,
    /// Factor that the root of the second moment is multiplied by, `1 / sqrt(1 - beta2^t)`.
    pub(crate) root: f64,
    /// Factor that decays each parameter; 1 without weight decay.
    pub(crate) keep: f64,
}

/// Least number of parameters per thread: for fewer, waking another thread costs more than it saves.
const ADAM_PART: usize = 1 << 15;
/// Largest number of parameters that two threads update, if the second is awake; from then on all threads share them.
const ADAM_FOR_TWO: usize = 1 << 20;
/// Number of multiply-adds that take at least as long as the update of one parameter.
const ADAM_WORK: usize = 64;

impl Adam {
    /// Updates the parameters `w` and both moments, each parameter independently: the number of threads changes no bit.
    pub(crate) fn step(self, w: &mut [f32], first: &mut [f32], second: &mut [f32], grad: &[f32]) {
        if w.len() < 2 * ADAM_PART {
            return self.step_on_thread(w, first, second, grad);
        }
        if w.len() < ADAM_FOR_TWO && is_helper_awake() {
            let half = w.len() / 2;
            let (w, other_w) = w.split_at_mut(half);
            let (first, other_first) = first.split_at_mut(half);
            let (second, other_second) = second.split_at_mut(half);
            let (grad, other_grad) = grad.split_at(half);
            return join(
                2 * half * ADAM_WORK,
                || self.step_on_thread(w, first, second, grad),
                || self.step_on_thread(other_w, other_first, other_second, other_grad),
            );
        }
        let moments = first.chunks_mut(ADAM_PART).zip(second.chunks_mut(ADAM_PART));
        let parts = w.chunks_mut(ADAM_PART).zip(moments).zip(grad.chunks(ADAM_PART));
        share_out(parts.collect(), |((w, (first, second)), grad)| {
            self.step_on_thread(w, first, second, grad)
        });
    }

    fn step_on_thread(self, w: &mut [f32], first: &mut [f32], second: &mut [f32], grad: &[f32]) {
        let Self { one_minus_beta1, one_minus_beta2, eps, rate, root, keep } = self;
        let [toward1, toward2] = [one_minus_beta1 as f32, one_minus_beta2 as f32];
        let [eps, rate, root, keep] = [eps as f32, rate as f32, root as f32, keep as f32];
        arch().dispatch(|| {
            for (((w, m), v), &g) in w.iter_mut().zip(first).zip(second).zip(grad) {
                *m += toward1 * (g - *m);
                *v += toward2 * (g * g - *v);
                *w = *w * keep - rate * *m / (v.sqrt() * root + eps);
            }
        });
    }
}
