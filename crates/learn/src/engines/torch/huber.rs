//! The quantile Huber loss by libtorch.

use tch::{Kind, Reduction, Tensor};

/// The quantile Huber loss of each row, with tensors: `quantiles` `[rows, N]`, `samples` `[rows, M]`.
pub(super) fn huber(quantiles: &Tensor, samples: &Tensor) -> Tensor {
    let n = quantiles.size()[1];
    let level = (Tensor::arange(n, (Kind::Float, quantiles.device())) + 0.5) / n as f64;
    let error = samples.detach().unsqueeze(1) - quantiles.unsqueeze(2);
    let weight = (level.unsqueeze(-1) - error.lt(0).to_kind(Kind::Float)).abs();
    (weight * error.huber_loss(&error.zeros_like(), Reduction::None, 1.0)).flatten(1, -1).mean_dim(
        -1,
        true,
        Kind::Float,
    )
}
