//! State-dependent noise (gSDE) of all copies: a matrix of random numbers each, which stays for several steps.

use crate::policy::{Matrices, SdeShape};

/// A matrix per copy, and its age.
#[derive(Clone, Debug)]
pub(crate) struct StateNoise {
    /// Number of random numbers per matrix.
    width: usize,
    /// Standard normal numbers, `[copies, width]`.
    numbers: Vec<f32>,
    /// Number of steps that each copy has taken since its fragment began, `[copies]`; at 0 the matrix is drawn anew.
    pub(crate) ages: Vec<u64>,
}

impl StateNoise {
    /// Makes the noise of `copies` copies, which is drawn before their first action.
    pub(crate) fn new(shape: SdeShape, copies: usize) -> Self {
        let width = shape.numbers();
        Self { width, numbers: vec![0.0; width * copies], ages: vec![0; copies] }
    }

    /// The matrices of all copies.
    pub(crate) fn all(&mut self) -> Matrices<'_> {
        self.first(self.ages.len())
    }

    /// The matrices of the first `count` copies.
    pub(crate) fn first(&mut self, count: usize) -> Matrices<'_> {
        Matrices { numbers: &mut self.numbers[..count * self.width], ages: &mut self.ages[..count] }
    }

    /// Exchanges the noise of copy `own` with that of copy `others` of `other`.
    pub(crate) fn swap(&mut self, own: usize, other: &mut Self, others: usize) {
        std::mem::swap(&mut self.ages[own], &mut other.ages[others]);
        let width = self.width;
        self.numbers[own * width..][..width].swap_with_slice(&mut other.numbers[others * width..][..width]);
    }
}
