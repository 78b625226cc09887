//! Observations beyond the bounds of their space.

use super::Space;
use crate::{DType, Element, contract::element::with_scalar};

/// Part of the size of a bound by which a real number may be beyond it, because it was rounded.
const ROUNDING: f64 = 1e-6;

/// The bounds of the boxes of a space, for rows of observations. What only rounding makes of a number is not beyond a bound.
#[derive(Clone, Debug)]
pub struct BoxBounds {
    width: usize,
    dtype: DType,
    /// Elements that can be beyond their bounds, with the bounds of the space and with room for rounding.
    elements: Vec<Bounded>,
}

#[derive(Clone, Copy, Debug)]
struct Bounded {
    at: usize,
    bounds: (f64, f64),
    limits: (f64, f64),
}

impl BoxBounds {
    /// Takes the bounds of the boxes of a space. Bounds that no number of the scalar type is beyond are left out.
    pub fn of(space: &Space) -> Self {
        let mut elements = vec![];
        let mut first = 0;
        space.leaves(&mut |leaf| {
            if let Space::Box { low, high, dtype, .. } = leaf {
                for (i, (&low, &high)) in low.iter().zip(high).enumerate() {
                    let bounds = (low, high);
                    let is_whole = match dtype {
                        DType::U8 => low <= 0.0 && high >= 255.0,
                        _ => low == f64::NEG_INFINITY && high == f64::INFINITY,
                    };
                    if !is_whole {
                        elements.push(Bounded { at: first + i, bounds, limits: limits(bounds, *dtype) });
                    }
                }
            }
            first += leaf.width();
        });
        Self { width: first, dtype: space.dtype(), elements }
    }

    /// Whether no observation can be beyond these bounds.
    pub fn is_empty(&self) -> bool {
        self.elements.is_empty()
    }

    /// Number of observations beyond the bounds, in rows as bytes of the space's scalar type.
    pub fn count(&self, rows: &[u8]) -> usize {
        if self.is_empty() {
            return 0;
        }
        with_scalar!(self.dtype, T => {
            let size = self.width * size_of::<T>();
            let scalar = |row: &[u8], at: usize| {
                bytemuck::pod_read_unaligned::<T>(&row[at * size_of::<T>()..][..size_of::<T>()]).to_f64()
            };
            let is_beyond = |row: &&[u8]| self.elements.iter().any(|element| element.excludes(scalar(row, element.at)));
            rows.chunks_exact(size).filter(is_beyond).count()
        })
    }

    /// The first element of an observation that is beyond its bounds, as [`beyond`](Self::beyond) says it, of a row as bytes.
    pub fn first(&self, row: &[u8]) -> Option<String> {
        with_scalar!(self.dtype, T => {
            let row: Vec<T> = row.chunks_exact(size_of::<T>()).map(bytemuck::pod_read_unaligned).collect();
            self.beyond(&row)
        })
    }

    /// The first element of an observation that is beyond its bounds, in words; `None` if there is none.
    pub fn beyond<T: Element>(&self, row: &[T]) -> Option<String> {
        let element = self.elements.iter().find(|element| element.excludes(row[element.at].to_f64()))?;
        let Bounded { at, bounds: (low, high), .. } = element;
        Some(format!("element {at} is {:?}, outside {low}..={high}", row[*at]))
    }
}

impl Bounded {
    /// Whether a number is beyond the bounds. NaN is no number.
    fn excludes(&self, value: f64) -> bool {
        value < self.limits.0 || value > self.limits.1
    }
}

/// The bounds with room for rounding, if they are those of reals.
fn limits((low, high): (f64, f64), dtype: DType) -> (f64, f64) {
    if !dtype.is_float() {
        return (low, high);
    }
    let size = [low, high]
        .into_iter()
        .filter(|bound| bound.is_finite())
        .fold(0.0, |size: f64, bound| size.max(bound.abs()));
    let room = ROUNDING * if size > 0.0 { size } else { 1.0 };
    (low - room, high + room)
}

impl Space {
    /// Says why an observation cannot be one of the space, whatever its bounds are: NaN, or an integer that stands for nothing.
    pub(crate) fn meaningless<T: Element>(&self, row: &[T]) -> Option<String> {
        let mut at = 0;
        let mut found = None;
        self.leaves(&mut |leaf| {
            let part = &row[at..at + leaf.width()];
            if found.is_none() {
                found = match leaf {
                    Self::Box { .. } => part
                        .iter()
                        .position(|value| value.to_f64().is_nan())
                        .map(|i| format!("element {} is NaN", at + i)),
                    integers => integers.leaf_violation(part, at),
                };
            }
            at += leaf.width();
        });
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounding_is_not_beyond_a_bound_and_more_than_rounding_is() {
        let unit = Space::boxed(0.0, 1.0, &[2]).with_dtype(DType::F64);
        let bounds = BoxBounds::of(&unit);
        assert_eq!(bounds.beyond(&[1.000_000_000_000_000_2, -1e-17]), None);
        assert_eq!(bounds.beyond(&[0.5, 1.04]).unwrap(), "element 1 is 1.04, outside 0..=1");
        let rows = [[1.0, 0.0], [1.04, 0.0], [f64::NAN, 2.0], [0.0, -0.1]];
        assert_eq!(bounds.count(bytemuck::cast_slice(&rows)), 3);
        // The bound of a small space has little room.
        let small = BoxBounds::of(&Space::boxed(0.0, 1e-9, &[1]));
        assert!(small.beyond(&[1.1e-9_f32]).is_some());
        assert_eq!(small.beyond(&[1e-9_f32]), None);
    }

    #[test]
    fn integers_have_no_room_for_rounding_and_whole_bytes_are_never_beyond() {
        assert!(BoxBounds::of(&Space::image(&[4, 4, 3])).is_empty());
        assert!(BoxBounds::of(&Space::real(&[4])).is_empty());
        let dark = Space::boxed(0.0, 100.0, &[2]).with_dtype(DType::U8);
        assert_eq!(BoxBounds::of(&dark).count(&[100, 101, 3, 4]), 1);
    }

    #[test]
    fn integers_that_stand_for_nothing_are_meaningless_and_numbers_beyond_bounds_are_not() {
        let space = Space::dict([("box", Space::boxed(0.0, 1.0, &[1])), ("choice", Space::discrete(3))]);
        assert_eq!(space.meaningless(&[7.0_f32, 2.0]), None);
        assert_eq!(space.meaningless(&[0.0_f32, 3.0]).unwrap(), "element 1 is 3.0, outside 0..=2");
        assert_eq!(space.meaningless(&[f32::NAN, 3.0]).unwrap(), "element 0 is NaN");
    }
}
