//! The ranges of the parts of a composite space within its flat row.

use std::ops::Range;

use super::Space;
use crate::DType;

/// The parts of a space with their ranges in a row, computed once.
///
/// ```
/// use pavlov_envs::{Layout, Space};
///
/// let space = Space::dict([("goal", Space::discrete(4)), ("arm", Space::real(&[3]))]);
/// let layout = Layout::new(&space);
/// assert_eq!(layout.leaf("goal").unwrap().row, 3..4);
/// assert_eq!(layout.leaf("goal").unwrap().flat, 3..7);
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Layout {
    /// Parts that are not composite, in row order.
    pub leaves: Vec<Leaf>,
}

/// A part of a composite space that is not composite itself.
#[derive(Clone, Debug, PartialEq)]
pub struct Leaf {
    /// Names (or indices, in tuples) from the root, joined by `/`; empty for a simple space.
    pub path: String,
    /// Space of this part.
    pub space: Space,
    /// Range in a row as the environment writes it.
    pub row: Range<usize>,
    /// Range in a row as a model reads it.
    pub flat: Range<usize>,
}

impl Layout {
    /// Computes the layout of a space.
    pub fn new(space: &Space) -> Self {
        let mut layout = Self { leaves: vec![] };
        layout.push(String::new(), space);
        layout
    }

    /// Returns the part at a path such as `"camera"` or `"arm/0"`.
    pub fn leaf(&self, path: &str) -> Option<&Leaf> {
        self.leaves.iter().find(|leaf| leaf.path == path)
    }

    fn push(&mut self, path: String, space: &Space) {
        let below = |name: &str| if path.is_empty() { name.to_owned() } else { format!("{path}/{name}") };
        match space {
            Space::Dict(parts) => parts.iter().for_each(|(name, part)| self.push(below(name), part)),
            Space::Tuple(parts) => {
                parts.iter().enumerate().for_each(|(i, part)| self.push(below(&i.to_string()), part));
            }
            leaf => {
                let (row, flat) = self.leaves.last().map_or((0, 0), |last| (last.row.end, last.flat.end));
                let row = row..row + leaf.width();
                let flat = flat..flat + leaf.flat_width();
                self.leaves.push(Leaf { path, space: leaf.clone(), row, flat });
            }
        }
    }
}

/// Scalar type of the rows of a composite space.
pub(super) fn common_dtype(space: &Space) -> DType {
    const EXACT_IN_F32: f64 = (1 << 24) as f64;
    let mut f32s = false;
    let mut f64s = false;
    let mut i64s = false;
    let mut wide = false;
    space.leaves(&mut |leaf| match leaf.dtype() {
        DType::F32 => f32s = true,
        DType::F64 => f64s = true,
        DType::I64 => {
            i64s = true;
            wide |= largest_integer(leaf) > EXACT_IN_F32;
        }
        DType::U8 => {}
    });
    match (f32s, f64s, i64s) {
        (_, true, _) => DType::F64,
        (true, ..) if wide => DType::F64,
        (true, ..) => DType::F32,
        (.., true) => DType::I64,
        _ => DType::U8,
    }
}

fn largest_integer(leaf: &Space) -> f64 {
    match leaf {
        Space::Box { low, high, .. } => low.iter().chain(high).fold(0.0, |most, bound| bound.abs().max(most)),
        Space::Discrete { n, start } => (*start as f64).abs().max((*start as f64 + *n as f64).abs()),
        Space::MultiDiscrete { nvec, start } => {
            let ends = nvec.iter().enumerate().map(|(i, &n)| {
                let start = super::start_at(start, i) as f64;
                start.abs().max((start + n as f64).abs())
            });
            ends.fold(0.0, f64::max)
        }
        _ => 0.0,
    }
}
