//! Noise that depends on the state (gSDE, Raffin et al. 2021), while acting: a matrix of random numbers per environment
//! copy, which stays for several steps, so that equal features get equal noise.

use crate::base::Stream;
use crate::distributions::{ActionDist, HALF_LN_TAU};
use crate::kernels::{exp, ln};

/// The sizes of state-dependent noise, and when it is drawn anew.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SdeShape {
    /// Number of features, the outputs of the last hidden layer.
    pub features: usize,
    /// Number of components of an action.
    pub actions: usize,
    /// Whether every component has deviations of its own; otherwise all components have the same.
    pub full_std: bool,
    /// Number of steps after which a copy's matrix is drawn anew; `None`: only where a fragment begins.
    pub sample_freq: Option<u64>,
}

impl SdeShape {
    /// Number of random numbers in the matrix of one copy: those of the first component, then those of the second, ...
    #[inline]
    pub fn numbers(self) -> usize {
        self.features * self.actions
    }

    /// Number of outputs of the network per row that exploring needs: means, log standard deviations, features, and the
    /// standard deviations of the matrix.
    #[inline]
    pub fn columns(self) -> usize {
        2 * self.actions + self.features * if self.full_std { 1 + self.actions } else { 2 }
    }

    /// Draws the matrix of a copy that has taken `age` steps since its fragment began, if it is due.
    pub fn redraw(self, age: u64, matrix: &mut [f32], rng: &mut Stream) {
        if age == 0 || self.sample_freq.is_some_and(|steps| age.is_multiple_of(steps)) {
            matrix.fill_with(|| rng.normal());
        }
    }

    /// The noise of component `at`: the sum over the features of feature times deviation times random number.
    fn noise(self, at: usize, features: &[f32], deviations: &[f32], matrix: &[f32]) -> f32 {
        let own = &deviations[if self.full_std { at * self.features } else { 0 }..][..self.features];
        let drawn = &matrix[at * self.features..][..self.features];
        features.iter().zip(own).zip(drawn).map(|((f, s), e)| f * s * e).sum()
    }
}

impl ActionDist {
    /// Writes one copy's action: the mean plus the noise that `matrix` gives its features, squashed if the distribution is.
    /// Returns the action's log-probability over all matrices. `outputs` has [`SdeShape::columns`] numbers.
    pub fn act_by_sde(&self, shape: SdeShape, outputs: &[f32], matrix: &[f32], action: &mut [f32]) -> f32 {
        let (mean, rest) = outputs.split_at(shape.actions);
        let (log_std, rest) = rest.split_at(shape.actions);
        let (features, deviations) = rest.split_at(shape.features);
        let mut logp = 0.0;
        for (at, a) in action.iter_mut().enumerate() {
            let noise = shape.noise(at, features, deviations, matrix);
            let z = noise / exp(log_std[at]);
            logp -= 0.5 * z * z + log_std[at] + HALF_LN_TAU as f32;
            *a = mean[at] + noise;
            if matches!(self, Self::SquashedGaussian { .. }) {
                *a = libm::tanhf(*a);
                logp -= ln(1.0 - *a * *a + 1e-6);
            }
        }
        logp
    }
}
