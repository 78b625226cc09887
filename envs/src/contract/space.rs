//! The sets that observations and actions come from, and how a member is stored in a flat row.
//!
//! A member of any space is one flat row of scalars of one type ([`Space::dtype`]). Parts of a [`Space::Dict`] or
//! [`Space::Tuple`] follow each other in order; [`Layout`] gives their ranges.

use std::{cmp::Ordering, fmt};

use serde::{Deserialize, Serialize};

use crate::{DType, Element, Error, NpRandom, Result};

mod beyond;
mod bounds;
mod flatten;
mod layout;
mod one_or_many;
mod sample;
mod text;

pub use beyond::BoxBounds;
pub use layout::{Layout, Leaf};
pub use sample::SpaceSampler;

/// A set of observations or actions, as Gymnasium's spaces.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Space {
    /// Arrays of `shape` with bounds for every element; an infinite bound means no bound.
    Box {
        /// Smallest value of each element, row-major.
        #[serde(with = "bounds")]
        low: Vec<f64>,
        /// Largest value of each element, row-major.
        #[serde(with = "bounds")]
        high: Vec<f64>,
        /// Sizes of the dimensions; empty for a single number.
        shape: Vec<usize>,
        /// Scalar type of the elements.
        dtype: DType,
    },
    /// One integer in `start..start + n`.
    Discrete {
        /// Number of integers.
        n: i64,
        /// Smallest integer.
        start: i64,
    },
    /// One integer in `start[i]..start[i] + nvec[i]` for each `i`.
    MultiDiscrete {
        /// Number of values of each integer.
        nvec: Vec<i64>,
        /// Smallest value of each integer; empty if all are 0.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        start: Vec<i64>,
    },
    /// Arrays of `shape` of bytes, each 0 or 1.
    MultiBinary {
        /// Sizes of the dimensions.
        #[serde(rename = "n", with = "one_or_many")]
        shape: Vec<usize>,
    },
    /// Named parts, sorted by name as Gymnasium sorts those of a plain dict. (Gymnasium keeps the order of parts that are
    /// given in another way.)
    Dict(Vec<(String, Space)>),
    /// Unnamed parts in order.
    Tuple(Vec<Space>),
}

impl Space {
    /// Makes a box of `f32` without bounds.
    pub fn real(shape: &[usize]) -> Self {
        Self::boxed(f64::NEG_INFINITY, f64::INFINITY, shape)
    }

    /// Makes a box of `f32` with the same bounds for every element.
    pub fn boxed(low: f64, high: f64, shape: &[usize]) -> Self {
        let size = shape.iter().product();
        Self::Box { low: vec![low; size], high: vec![high; size], shape: shape.to_vec(), dtype: DType::F32 }
    }

    /// Makes a one-dimensional box of `f32` with separate bounds for every element.
    ///
    /// # Errors
    /// Returns [`Error::Shape`] if the lengths differ, or unless every `low` is at most its `high`.
    pub fn bounded(low: &[f64], high: &[f64]) -> Result<Self> {
        let space =
            Self::Box { low: low.to_vec(), high: high.to_vec(), shape: vec![low.len()], dtype: DType::F32 };
        space.validate()?;
        Ok(space)
    }

    /// Makes a box of images: bytes in `0..=255` of a shape such as `&[84, 84, 4]`.
    pub fn image(shape: &[usize]) -> Self {
        let size = shape.iter().product();
        Self::Box { low: vec![0.0; size], high: vec![255.0; size], shape: shape.to_vec(), dtype: DType::U8 }
    }

    /// Makes a discrete space of the integers `0..n`.
    pub const fn discrete(n: i64) -> Self {
        Self::Discrete { n, start: 0 }
    }

    /// Makes a multi-discrete space of one integer in `0..n` for each `n` of `nvec`.
    pub fn multi_discrete(nvec: &[i64]) -> Self {
        Self::MultiDiscrete { nvec: nvec.to_vec(), start: vec![] }
    }

    /// Makes a space of bits of a shape, such as `&[5]`.
    pub fn multi_binary(shape: &[usize]) -> Self {
        Self::MultiBinary { shape: shape.to_vec() }
    }

    /// Makes a dict of parts given in any order; they are sorted by name.
    pub fn dict<K: Into<String>>(parts: impl IntoIterator<Item = (K, Space)>) -> Self {
        let mut parts: Vec<_> = parts.into_iter().map(|(name, space)| (name.into(), space)).collect();
        parts.sort_by(|a, b| a.0.cmp(&b.0));
        Self::Dict(parts)
    }

    /// Changes the scalar type of a box; other spaces are returned unchanged.
    #[must_use]
    pub fn with_dtype(mut self, to: DType) -> Self {
        if let Self::Box { dtype, .. } = &mut self {
            *dtype = to;
        }
        self
    }

    /// Sizes of the dimensions of one member: the shape of a box or of bits, empty for a discrete space, and `[width]` for all others.
    pub fn shape(&self) -> Vec<usize> {
        match self {
            Self::Box { shape, .. } | Self::MultiBinary { shape } => shape.clone(),
            Self::Discrete { .. } => vec![],
            _ => vec![self.width()],
        }
    }

    /// Number of scalars in one row, as the environment writes it.
    pub fn width(&self) -> usize {
        match self {
            Self::Box { low, .. } => low.len(),
            Self::Discrete { .. } => 1,
            Self::MultiDiscrete { nvec, .. } => nvec.len(),
            Self::MultiBinary { shape } => shape.iter().product(),
            Self::Dict(parts) => parts.iter().map(|(_, part)| part.width()).sum(),
            Self::Tuple(parts) => parts.iter().map(Self::width).sum(),
        }
    }

    /// Number of scalars in one row as a model reads it, with integers one-hot (see [`flatten_into`](Self::flatten_into)).
    pub fn flat_width(&self) -> usize {
        match self {
            Self::Box { low, .. } => low.len(),
            Self::Discrete { n, .. } => *n as usize,
            Self::MultiDiscrete { nvec, .. } => nvec.iter().map(|&n| n as usize).sum(),
            Self::MultiBinary { shape } => shape.iter().product(),
            Self::Dict(parts) => parts.iter().map(|(_, part)| part.flat_width()).sum(),
            Self::Tuple(parts) => parts.iter().map(Self::flat_width).sum(),
        }
    }

    /// Scalar type of a row. For a composite space, the narrowest type that holds the values of every part exactly: `f32`
    /// beside integers up to 2^24 stays `f32`, and becomes `f64` beside larger ones.
    pub fn dtype(&self) -> DType {
        match self {
            Self::Box { dtype, .. } => *dtype,
            Self::Discrete { .. } | Self::MultiDiscrete { .. } => DType::I64,
            Self::MultiBinary { .. } => DType::U8,
            Self::Dict(_) | Self::Tuple(_) => layout::common_dtype(self),
        }
    }

    /// Whether a row is a member of the space. A box is compared in its scalar type, in which Gymnasium stores the bounds.
    pub fn contains<T: Element>(&self, row: &[T]) -> bool {
        self.violation(row).is_none()
    }

    /// Says why a row is not a member: the first element that breaks a rule, in words. `None` for a member.
    pub fn violation<T: Element>(&self, row: &[T]) -> Option<String> {
        if row.len() != self.width() {
            return Some(format!("the row has {} scalars, but {self} has {}", row.len(), self.width()));
        }
        let mut at = 0;
        let mut found = None;
        self.leaves(&mut |leaf| {
            if found.is_none() {
                found = leaf.leaf_violation(&row[at..at + leaf.width()], at);
            }
            at += leaf.width();
        });
        found
    }

    /// Whether vector environments accept a row as an action: integers must be members and reals finite, also in the parts
    /// of a dict or tuple. In contrast to [`contains`](Self::contains), a real may be outside its bounds.
    pub fn takes<T: Element>(&self, row: &[T]) -> bool {
        if row.len() != self.width() {
            return false;
        }
        let mut at = 0;
        let mut takes = true;
        self.leaves(&mut |leaf| {
            let part = &row[at..at + leaf.width()];
            takes &= match leaf {
                Self::Box { .. } => part.iter().all(|action| action.to_f64().is_finite()),
                integers => integers.leaf_violation(part, at).is_none(),
            };
            at += leaf.width();
        });
        takes
    }

    /// Draws a member from one random stream: each element of a box is uniform with two bounds, exponential with one, and
    /// normal without. Simple spaces draw as Gymnasium's `space.sample()` does; for composite ones see [`SpaceSampler`].
    ///
    /// # Panics
    /// Panics if `row` is not [`width`](Self::width) long.
    pub fn sample<T: Element>(&self, random: &mut NpRandom, row: &mut [T]) {
        assert_eq!(row.len(), self.width(), "the row must be as wide as {self}");
        let mut at = 0;
        self.leaves(&mut |leaf| {
            leaf.sample_leaf(random, &mut row[at..at + leaf.width()]);
            at += leaf.width();
        });
    }

    /// Checks that the fields of the space are consistent.
    ///
    /// # Errors
    /// Returns [`Error::Shape`] with the name of the field that is wrong.
    pub fn validate(&self) -> Result<()> {
        match self {
            Self::Box { low, high, shape, .. } => {
                let size: usize = shape.iter().product();
                for (what, len) in [("`low` of a box", low.len()), ("`high` of a box", high.len())] {
                    if len != size {
                        let found = format_args!("{len} long");
                        return Err(Error::shape(what, found, format_args!("{size} long (shape {shape:?})")));
                    }
                }
                match low
                    .iter()
                    .zip(high)
                    .position(|(low, high)| low.partial_cmp(high).is_none_or(Ordering::is_gt))
                {
                    None => Ok(()),
                    Some(i) => Err(Error::shape(
                        "`low` of a box",
                        format_args!("{} in element {i}", low[i]),
                        format_args!("at most `high`, which is {} there", high[i]),
                    )),
                }
            }
            Self::Discrete { n, .. } => positive("`n` of a discrete space", *n),
            Self::MultiDiscrete { nvec, start } => {
                if !start.is_empty() && start.len() != nvec.len() {
                    let found = format_args!("{} long", start.len());
                    let expected = format_args!("empty, or {} long as `nvec`", nvec.len());
                    return Err(Error::shape("`start` of a multi-discrete space", found, expected));
                }
                nvec.iter().try_for_each(|&n| positive("`nvec` of a multi-discrete space", n))
            }
            Self::MultiBinary { .. } => Ok(()),
            Self::Dict(parts) => {
                if let Some(pair) = parts.windows(2).find(|pair| pair[0].0 >= pair[1].0) {
                    let found = format!("{:?} before {:?}", pair[0].0, pair[1].0);
                    return Err(Error::shape("the order of a dict", found, "by name, each name once"));
                }
                parts.iter().try_for_each(|(_, part)| part.validate())
            }
            Self::Tuple(parts) => parts.iter().try_for_each(Self::validate),
        }
    }

    /// Calls `visit` with every part that is not composite, in row order.
    fn leaves<'a>(&'a self, visit: &mut dyn FnMut(&'a Space)) {
        match self {
            Self::Dict(parts) => parts.iter().for_each(|(_, part)| part.leaves(visit)),
            Self::Tuple(parts) => parts.iter().for_each(|part| part.leaves(visit)),
            leaf => visit(leaf),
        }
    }

    fn leaf_violation<T: Element>(&self, row: &[T], first: usize) -> Option<String> {
        let outside = |i: usize, low: f64, high: f64| {
            Some(format!("element {} is {:?}, outside {low}..={high}", first + i, row[i]))
        };
        let integer = |i: usize, low: i64, n: i64| {
            let value = row[i].to_f64();
            if value.fract() != 0.0 {
                return Some(format!("element {} is {:?}, which is no integer", first + i, row[i]));
            }
            let high = low.saturating_add(n - 1);
            (value < low as f64 || value > high as f64).then(|| outside(i, low as f64, high as f64)).flatten()
        };
        match self {
            Self::Box { low, high, dtype, .. } => {
                let rounded = |value| sample::in_dtype(*dtype, value);
                let i = (0..row.len()).find(|&i| {
                    let value = rounded(row[i].to_f64());
                    !(value >= rounded(low[i]) && value <= rounded(high[i]))
                })?;
                outside(i, low[i], high[i])
            }
            Self::Discrete { n, start } => integer(0, *start, *n),
            Self::MultiDiscrete { nvec, start } => {
                (0..row.len()).find_map(|i| integer(i, start_at(start, i), nvec[i]))
            }
            Self::MultiBinary { .. } => (0..row.len()).find_map(|i| integer(i, 0, 2)),
            Self::Dict(_) | Self::Tuple(_) => None,
        }
    }
}

/// Smallest value of integer `i` of a multi-discrete space.
pub(crate) fn start_at(start: &[i64], i: usize) -> i64 {
    start.get(i).copied().unwrap_or(0)
}

fn positive(what: &'static str, n: i64) -> Result<()> {
    if n > 0 { Ok(()) } else { Err(Error::shape(what, n, "at least 1")) }
}

impl fmt::Display for Space {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Box { low, high, shape, dtype } => {
                // An `f32` bound is shown with its own digits: 4.8, not 4.800000190734863.
                let shown = |bound: f64| {
                    if *dtype == DType::F32 { (bound as f32).to_string() } else { bound.to_string() }
                };
                let bounds = |f: &mut fmt::Formatter<'_>, bounds: &[f64]| match bounds {
                    [first, rest @ ..] if rest.iter().all(|b| b == first) => f.write_str(&shown(*first)),
                    few if few.len() <= 8 => {
                        write!(f, "[{}]", few.iter().map(|&b| shown(b)).collect::<Vec<_>>().join(", "))
                    }
                    many => write!(f, "[{}, {}, ..]", shown(many[0]), shown(many[1])),
                };
                f.write_str("Box(")?;
                bounds(f, low)?;
                f.write_str(", ")?;
                bounds(f, high)?;
                write!(f, ", {shape:?}, {dtype})")
            }
            Self::Discrete { n, start: 0 } => write!(f, "Discrete({n})"),
            Self::Discrete { n, start } => write!(f, "Discrete({n}, start={start})"),
            Self::MultiDiscrete { nvec, start } if start.iter().all(|&start| start == 0) => {
                write!(f, "MultiDiscrete({nvec:?})")
            }
            Self::MultiDiscrete { nvec, start } => write!(f, "MultiDiscrete({nvec:?}, start={start:?})"),
            Self::MultiBinary { shape } => match shape[..] {
                [n] => write!(f, "MultiBinary({n})"),
                _ => write!(f, "MultiBinary({shape:?})"),
            },
            Self::Dict(parts) => {
                f.write_str("Dict(")?;
                for (i, (name, part)) in parts.iter().enumerate() {
                    write!(f, "{}{name}: {part}", if i > 0 { ", " } else { "" })?;
                }
                f.write_str(")")
            }
            Self::Tuple(parts) => {
                f.write_str("Tuple(")?;
                for (i, part) in parts.iter().enumerate() {
                    write!(f, "{}{part}", if i > 0 { ", " } else { "" })?;
                }
                f.write_str(")")
            }
        }
    }
}
