//! Random members, drawn in Gymnasium's order.

use super::Space;
use crate::{DType, Element, NpRandom};

impl Space {
    pub(super) fn sample_leaf<T: Element>(&self, random: &mut NpRandom, row: &mut [T]) {
        match self {
            Self::Box { low, high, dtype, .. } => sample_box(low, high, *dtype, random, row),
            Self::Discrete { n, start } => row[0] = T::from_f64((*start + random.integers(0, *n)) as f64),
            Self::MultiDiscrete { nvec } => {
                for (out, &n) in row.iter_mut().zip(nvec) {
                    *out = T::from_f64((random.random() * n as f64).floor());
                }
            }
            Self::MultiBinary { .. } => {
                // numpy cuts the bytes of a 32-bit draw from the low end and takes the top bit of each.
                for four in row.chunks_mut(4) {
                    let mut bits = random.next_u32();
                    for out in four {
                        *out = T::from_f64(f64::from((bits >> 7) & 1));
                        bits >>= 8;
                    }
                }
            }
            Self::Dict(_) | Self::Tuple(_) => {}
        }
    }
}

/// Unbounded elements first, then those with one bound, then the bounded ones.
fn sample_box<T: Element>(low: &[f64], high: &[f64], dtype: DType, random: &mut NpRandom, row: &mut [T]) {
    // The bounds of an integer box are inclusive, so the real interval is one longer and floored.
    let (extra, round): (f64, fn(f64) -> f64) =
        if dtype.is_float() { (0.0, |x| x) } else { (1.0, f64::floor) };
    for kind in 0..4 {
        for (i, out) in row.iter_mut().enumerate() {
            let (low, high) = (low[i], high[i] + extra);
            let of_kind = match (low.is_finite(), high.is_finite()) {
                (false, false) => 0,
                (true, false) => 1,
                (false, true) => 2,
                (true, true) => 3,
            };
            if kind == of_kind {
                *out = T::from_f64(round(match kind {
                    0 => random.normal(),
                    1 => low - (-random.random()).ln_1p(),
                    2 => high + (-random.random()).ln_1p(),
                    _ => random.uniform(low, high),
                }));
            }
        }
    }
}
