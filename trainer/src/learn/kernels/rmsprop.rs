//! The update rules of RMSprop and of gradient descent with momentum.

use crate::learn::kernels::arch;

/// The numbers of one step of RMSprop or of gradient descent over flat buffers; see
/// [`OptimizerConfig`](crate::learn::params::OptimizerConfig).
#[derive(Clone, Copy, Debug)]
pub(crate) struct MomentumStep {
    /// Learning rate.
    pub(crate) lr: f32,
    /// Factor of heavy-ball momentum; 0: none.
    pub(crate) momentum: f32,
}

/// The averages of RMSprop.
#[derive(Debug)]
pub(crate) struct Averages<'a> {
    /// Averages of the squared gradient.
    pub(crate) square: &'a mut [f32],
    /// Averages of the gradient, for centred RMSprop.
    pub(crate) mean: Option<&'a mut [f32]>,
    /// Share of the new number in an average.
    pub(crate) share: f32,
    /// Number added to the root.
    pub(crate) eps: f32,
}

impl Averages<'_> {
    /// Updates the averages, and writes the gradient over its root into `update`.
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
    /// Moves the parameters `w` against `update`; `velocity` is used with momentum only.
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
