//! Running mean and variance of rows (Chan, Golub, LeVeque 1979, as in Gymnasium's `RunningMeanStd`).

use crate::{DType, Element, Result, contract::state};

/// Mean and variance of every column, and the count: what a saved state holds of the statistics.
pub(super) type SavedStatistics = (Vec<f64>, Vec<f64>, f64);

/// Running mean and variance of every column; rounded to single precision after every operation where numpy computes in it.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct RunningMeanStd {
    pub(super) mean: Vec<f64>,
    pub(super) var: Vec<f64>,
    count: f64,
    single: bool,
    batch_mean: Vec<f64>,
    batch_var: Vec<f64>,
}

impl RunningMeanStd {
    /// Makes the statistics of rows with `width` scalars of type `dtype`.
    pub(super) fn new(width: usize, dtype: DType) -> Self {
        Self {
            mean: vec![0.0; width],
            var: vec![1.0; width],
            count: 1e-4,
            single: dtype == DType::F32,
            batch_mean: vec![0.0; width],
            batch_var: vec![0.0; width],
        }
    }

    pub(super) fn round(&self, x: f64) -> f64 {
        // Computing an operation on singles in double precision and rounding the result gives the same as single precision.
        if self.single { f64::from(x as f32) } else { x }
    }

    /// Updates the statistics with a batch of rows; an empty batch changes nothing.
    pub(super) fn update<'a, T: Element>(&mut self, rows: impl Iterator<Item = &'a [T]> + Clone) {
        let n = rows.clone().count() as f64;
        if n == 0.0 {
            return;
        }
        for column in 0..self.mean.len() {
            let value = |row: &'a [T]| row[column].to_f64();
            let sum = rows.clone().map(value).fold(0.0, |sum, x| self.round(sum + x));
            let mean = self.round(sum / n);
            let squares = rows.clone().map(value).fold(0.0, |sum, x| {
                let from_mean = self.round(x - mean);
                self.round(sum + self.round(from_mean * from_mean))
            });
            self.batch_mean[column] = mean;
            self.batch_var[column] = self.round(squares / n);
        }
        let total = self.count + n;
        let count = self.round(self.count);
        let of_total = self.round(total);
        for column in 0..self.mean.len() {
            let delta = self.round(self.batch_mean[column] - self.mean[column]);
            let own = self.round(self.var[column] * count);
            let batch = self.round(self.batch_var[column] * n);
            let between =
                self.round(self.round(self.round(self.round(delta * delta) * count) * n) / of_total);
            let squares = self.round(self.round(own + batch) + between);
            self.mean[column] = self.round(self.mean[column] + self.round(self.round(delta * n) / of_total));
            self.var[column] = self.round(squares / of_total);
        }
        self.count = total;
    }

    /// Returns the fields of a saved state.
    pub(super) fn save(&self) -> SavedStatistics {
        (self.mean.clone(), self.var.clone(), self.count)
    }

    /// Returns the statistics of a saved state.
    pub(super) fn load(&self, (mean, var, count): SavedStatistics) -> Result<Self> {
        state::check_count("means", mean.len(), self.mean.len())?;
        state::check_count("variances", var.len(), self.var.len())?;
        Ok(Self { mean, var, count, ..self.clone() })
    }
}
