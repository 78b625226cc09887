//! Conversion of an environment's rows to the rows that a model reads.

use bytemuck::try_cast_slice;

use super::Space;
use crate::{DType, Element, Error, Result, contract::element::with_scalar};

impl Space {
    /// The box of `f32` to which the rows of [`flatten_into`](Self::flatten_into) belong (Gymnasium's `flatten_space`).
    #[must_use]
    pub fn flattened(&self) -> Self {
        let mut bounds_low = vec![];
        let mut bounds_high = vec![];
        self.leaves(&mut |leaf| match leaf {
            Self::Box { low, high, .. } => {
                bounds_low.extend_from_slice(low);
                bounds_high.extend_from_slice(high);
            }
            _ => {
                bounds_low.resize(bounds_low.len() + leaf.flat_width(), 0.0);
                bounds_high.resize(bounds_high.len() + leaf.flat_width(), 1.0);
            }
        });
        let shape = vec![bounds_low.len()];
        Self::Box { low: bounds_low, high: bounds_high, shape, dtype: DType::F32 }
    }

    /// Writes rows for a model: boxes and bits as `f32`, each integer one-hot. Order and values are those of
    /// `gymnasium.spaces.flatten`, whose result has the narrowest type that holds all parts instead of `f32`.
    ///
    /// `raw` holds any number of rows of scalars of type [`dtype`](Self::dtype), as bytes; `out` holds as many rows of
    /// [`flat_width`](Self::flat_width). Pixels keep their `0..=255`. An integer outside its range gives zeros.
    ///
    /// # Errors
    /// Returns [`Error::Shape`] if the lengths do not fit, if `raw` is not aligned, or if the space has no scalars.
    pub fn flatten_into(&self, raw: &[u8], out: &mut [f32]) -> Result<()> {
        with_scalar!(self.dtype(), T => self.flatten_rows::<T>(raw, out))
    }

    fn flatten_rows<T: Element>(&self, raw: &[u8], out: &mut [f32]) -> Result<()> {
        let width = self.width();
        let flat_width = self.flat_width();
        let raw: &[T] = try_cast_slice(raw).map_err(|error| {
            let found = format_args!("{} bytes ({error})", raw.len());
            Error::shape("`raw`", found, format_args!("whole rows of {width} {} scalars", T::DTYPE))
        })?;
        if width == 0 || !raw.len().is_multiple_of(width) || raw.len() / width * flat_width != out.len() {
            return Err(Error::shape(
                "`raw` against `out`",
                format_args!("{} and {} scalars", raw.len(), out.len()),
                format_args!("as many rows of {width} as of {flat_width}"),
            ));
        }
        for (mut row, mut out) in raw.chunks_exact(width).zip(out.chunks_exact_mut(flat_width)) {
            self.leaves(&mut |leaf| {
                let (head, tail) = row.split_at(leaf.width());
                let (out_head, out_tail) = std::mem::take(&mut out).split_at_mut(leaf.flat_width());
                leaf.flatten_leaf(head, out_head);
                row = tail;
                out = out_tail;
            });
        }
        Ok(())
    }

    fn flatten_leaf<T: Element>(&self, row: &[T], out: &mut [f32]) {
        match self {
            Self::Discrete { start, .. } => one_hot(row[0], *start, out),
            Self::MultiDiscrete { nvec, start } => {
                let mut rest = out;
                for (i, (&value, &n)) in row.iter().zip(nvec).enumerate() {
                    let (head, tail) = rest.split_at_mut(n as usize);
                    one_hot(value, super::start_at(start, i), head);
                    rest = tail;
                }
            }
            _ => out.iter_mut().zip(row).for_each(|(out, value)| *out = value.to_f64() as f32),
        }
    }
}

fn one_hot<T: Element>(value: T, start: i64, out: &mut [f32]) {
    out.fill(0.0);
    let index = value.to_f64() - start as f64;
    if index >= 0.0 && index < out.len() as f64 {
        out[index as usize] = 1.0;
    }
}
