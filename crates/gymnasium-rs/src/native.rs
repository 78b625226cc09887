//! What gymnasium-rs uses for a member of a space, by the scalar type of pavlov's rows.

use gymnasium_rs::core::Space as GymnasiumSpace;
use ndarray::Array1;
use pavlov_envs::{Element, Result, Space};

/// A scalar of pavlov's rows whose rows gymnasium-rs can say: `f32` for a `Box`, `i64` for a `Discrete`.
pub trait Native: Element {
    /// The type of gymnasium-rs.
    type Value;

    /// A row as a value.
    fn value(row: &[Self]) -> Self::Value;

    /// Writes a value to a row.
    ///
    /// # Errors
    /// [`Error::Shape`](pavlov_envs::Error::Shape) when they have not the same length.
    fn write(value: &Self::Value, row: &mut [Self]) -> Result<()>;

    /// A space of pavlov's in gymnasium-rs' words; `None` when it has no word for it.
    fn space(space: &Space) -> Option<GymnasiumSpace>;
}

impl Native for f32 {
    type Value = Array1<f32>;

    fn value(row: &[f32]) -> Array1<f32> {
        row.iter().copied().collect()
    }

    fn write(value: &Array1<f32>, row: &mut [f32]) -> Result<()> {
        pavlov_gymnasium_rs_macro::write(row, value.iter().copied())
    }

    fn space(space: &Space) -> Option<GymnasiumSpace> {
        let Space::Box { low, high, .. } = space else { return None };
        let bounds = |bounds: &[f64]| bounds.iter().map(|&x| x as f32).collect();
        Some(GymnasiumSpace::Box { low: bounds(low), high: bounds(high) })
    }
}

impl Native for i64 {
    type Value = i32;

    fn value(row: &[i64]) -> i32 {
        row[0] as i32
    }

    fn write(&value: &i32, row: &mut [i64]) -> Result<()> {
        row[0] = value.into();
        Ok(())
    }

    fn space(space: &Space) -> Option<GymnasiumSpace> {
        match *space {
            Space::Discrete { n, start: 0 } => i32::try_from(n).ok().map(GymnasiumSpace::Discrete),
            _ => None,
        }
    }
}

/// A space of gymnasium-rs in pavlov's words.
pub(crate) fn space(space: GymnasiumSpace) -> Space {
    let bounds = |bounds: &Array1<f32>| bounds.iter().map(|&x| x.into()).collect();
    match space {
        GymnasiumSpace::Discrete(n) => Space::discrete(n.into()),
        GymnasiumSpace::Box { low, high } => pavlov_gymnasium_rs_macro::boxed(bounds(&low), bounds(&high)),
    }
}
