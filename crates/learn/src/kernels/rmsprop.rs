//! The update rules of RMSprop and of gradient descent with momentum.

use crate::kernels::arch;

/// The numbers of one step of RMSprop or of gradient descent over flat buffers; see
/// [`OptimizerConfig`](crate::params::OptimizerConfig).
#[derive(Clone, Copy, Debug)]
pub(crate) struct MomentumStep {
    /// Learning rate.
    pub(crate) lr: f32,
    /// Factor of heavy-ball momentum; with 0 there is none.
    pub(crate) momentum: f32,
}

/// The running averages of RMSprop, and the settings of their update.
#[derive(Debug)]
pub(crate) struct Averages<'a> {
    /// Running average of each parameter's squared gradient.
    pub(crate) square: &'a mut [f32],
    /// Running average of each parameter's gradient; present only with centred RMSprop.
    pub(crate) mean: Option<&'a mut [f32]>,
    /// Weight of the new gradient in an average, 1 less the decay.
    pub(crate) share: f32,
    /// Number that is added to the root before the gradient is divided by it.
    pub(crate) eps: f32,
}

impl Averages<'_> {
    /// Updates the averages, and writes to `update` the gradient divided by the root of its average square, or of its
    /// variance with centred RMSprop.
    pub(crate) fn scale(self, grad: &[f32], update: &mut [f32]) {
        let Self { square, mean, share, eps } = self;
        arch().dispatch(|| match mean {
            None => {
                for ((u, s), &g) in update.iter_mut().zip(square).zip(grad) {
                    *s += share * (g * g - *s);
                    *u = g / (s.sqrt() + eps);
                }
            }
            Some(mean) => {
                for (((u, s), m), &g) in update.iter_mut().zip(square).zip(mean).zip(grad) {
                    *s += share * (g * g - *s);
                    *m += share * (g - *m);
                    // Rounding must not make a variance negative.
                    *u = g / ((*s - *m * *m).max(0.0).sqrt() + eps);
                }
            }
        });
    }
}

impl MomentumStep {
    /// Subtracts `update` times the learning rate from the parameters `w`. With momentum the step is `velocity`, to which
    /// `update` is added.
    pub(crate) fn step(self, w: &mut [f32], velocity: &mut [f32], update: &[f32]) {
        let Self { lr, momentum } = self;
        arch().dispatch(|| {
            if momentum == 0.0 {
                return w.iter_mut().zip(update).for_each(|(w, &u)| *w -= lr * u);
            }
            for ((w, v), &u) in w.iter_mut().zip(velocity).zip(update) {
                *v = *v * momentum + u;
                *w -= lr * *v;
            }
        });
    }
}
