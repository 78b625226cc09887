//! The encoding of observations with operations of libtorch.

use crate::params::encoding::{Encoding, Part};
use tch::{Kind, Tensor};

impl Encoding {
    /// Reshapes raw rows `[rows, ...]` to `[rows, scalars]`.
    pub(crate) fn rows(&self, raw: &Tensor) -> Tensor {
        if raw.dim() == 2 { raw.shallow_clone() } else { raw.reshape([-1, self.raw_width as i64]) }
    }

    /// Encodes raw rows `[rows, ...]` as `[rows, width]` f32, on the same device.
    pub fn encode(&self, raw: &Tensor) -> Tensor {
        let rows = self.rows(raw);
        if self.is_identity() {
            return rows.to_kind(Kind::Float);
        }
        let parts: Vec<Tensor> = self.parts.iter().map(|part| part.encode(&rows)).collect();
        match parts.as_slice() {
            [one] => one.shallow_clone(),
            several => Tensor::cat(several, 1),
        }
    }
}

impl Part {
    fn encode(self, rows: &Tensor) -> Tensor {
        match self {
            Self::Numbers { from, len, .. } => rows.narrow(1, from as i64, len as i64).to_kind(Kind::Float),
            Self::OneHot { from, n, start, .. } => {
                let integer = rows.narrow(1, from as i64, 1);
                let integer = if integer.is_floating_point() { integer.floor() } else { integer };
                let options = Tensor::arange_start(start, start + n as i64, (Kind::Int64, rows.device()));
                integer.eq_tensor(&options).to_kind(Kind::Float)
            }
            Self::Image { from, pixels, channels, scale, .. } => {
                let image = rows.narrow(1, from as i64, (pixels * channels) as i64).contiguous();
                let image = image.view([-1, pixels as i64, channels as i64]).transpose(1, 2);
                let image = image.to_kind(Kind::Float).reshape([-1, (pixels * channels) as i64]);
                if scale == 1.0 { image } else { image * f64::from(scale) }
            }
        }
    }
}
