//! Statistics in libtorch's memory, which are read when a result is made.

use tch::{Kind, Tensor};

/// The values of statistics as a tensor `[names]`, perhaps on a GPU.
#[derive(Debug)]
pub(crate) struct Unread(pub(super) Tensor);

impl Unread {
    pub(super) fn push(&mut self, value: f64) {
        let value = Tensor::from_slice(&[value]).to_kind(self.0.kind()).to_device(self.0.device());
        self.0 = Tensor::cat(&[&self.0, &value], 0);
    }

    pub(super) fn append(&mut self, other: &Self) {
        self.0 = Tensor::cat(&[&self.0, &other.0], 0);
    }

    pub(super) fn one(&self, i: usize) -> f64 {
        self.0.double_value(&[i as i64])
    }

    pub(super) fn all(&self) -> Vec<f64> {
        Vec::try_from(self.0.to_kind(Kind::Double)).unwrap_or_default()
    }

    /// The mean of each statistic over `all`, which have the same names, with one transfer from a GPU.
    pub(crate) fn means(all: &[&Self]) -> Vec<f64> {
        let tensors: Vec<&Tensor> = all.iter().map(|unread| &unread.0).collect();
        Vec::try_from(Tensor::stack(&tensors, 0).mean_dim(0, false, Kind::Double)).unwrap_or_default()
    }
}
