//! The spaces of observations and actions as policies see them.

use pavlov_envs::{AnyVectorEnv, DType, Layout, Leaf, Space};
use serde::{Deserialize, Serialize};
use std::fmt::Debug;
use std::ops::Range;

/// The observation space and the action space that a policy is made for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Spaces {
    /// The space of one environment copy's observations.
    pub observation_space: Space,
    /// The space of one environment copy's actions.
    pub action_space: Space,
}

impl Spaces {
    /// The spaces of an environment.
    pub fn of(env: &dyn AnyVectorEnv) -> Self {
        Self { observation_space: env.observation_space().clone(), action_space: env.action_space().clone() }
    }

    /// Number of scalars that a network reads per observation; see [`Encoding`](crate::params::Encoding).
    #[inline]
    pub fn obs_width(&self) -> usize {
        self.observation_space.flat_width()
    }

    /// The spaces of the rows that are stored for policies. Observations of a Box of f64 become f32. Observations that are
    /// filtered, or of a composite space with f64, are flattened to f32. All others, and actions, stay as they are.
    #[must_use]
    pub fn stored(&self, filtered: bool) -> Self {
        let space = &self.observation_space;
        let observation_space = match space {
            Space::Box { dtype: DType::F64, .. } if !filtered => space.clone().with_dtype(DType::F32),
            _ if filtered || space.dtype() == DType::F64 => space.flattened(),
            _ => space.clone(),
        };
        Self { observation_space, action_space: self.action_space.clone() }
    }
}

/// Height, width and channels of an image, which is a Box of three dimensions; `None` for other spaces.
pub fn image(space: &Space) -> Option<[usize; 3]> {
    let Space::Box { shape, .. } = space else { return None };
    let &[a, b, c] = shape.as_slice() else { return None };
    Some(if channels_first(shape) { [b, c, a] } else { [a, b, c] })
}

/// Number of scalars from which on a part of an observation counts as an image.
const LEAST_OF_PART: usize = 1000;

/// An image inside a Dict or a Tuple.
#[derive(Clone, Debug, PartialEq)]
pub struct ImagePart {
    /// Names (or indices, in tuples) from the root, joined by `/`.
    pub path: String,
    /// Range of the image in a row as the environment writes it.
    pub row: Range<usize>,
    /// Columns of the image in an encoded row.
    pub flat: Range<usize>,
    /// Sizes of its dimensions, in the order of the environment.
    pub shape: Vec<usize>,
    /// Height, width and channels.
    pub image: [usize; 3],
}

/// The images inside a Dict or a Tuple: boxes of three dimensions with all bytes from 0 to 255 as bounds, and with at least 1000
/// scalars. No images for other spaces.
pub fn images_in_parts(space: &Space) -> Vec<ImagePart> {
    if !matches!(space, Space::Dict(_) | Space::Tuple(_)) {
        return Vec::new();
    }
    let part = |leaf: Leaf| {
        let image =
            image(&leaf.space).filter(|_| leaf.flat.len() >= LEAST_OF_PART && has_all_bytes(&leaf.space))?;
        Some(ImagePart { path: leaf.path, row: leaf.row, flat: leaf.flat, shape: leaf.space.shape(), image })
    };
    Layout::new(space).leaves.into_iter().filter_map(part).collect()
}

/// Whether a box has all bytes from 0 to 255 as its bounds.
pub fn has_all_bytes(space: &Space) -> bool {
    let Space::Box { low, high, dtype: DType::U8, .. } = space else { return false };
    low.iter().all(|&low| low == 0.0) && high.iter().all(|&high| high == 255.0)
}

/// Whether the first dimension is smaller than all others, so that it holds channels or stacked frames.
pub fn channels_first(shape: &[usize]) -> bool {
    shape.len() > 1 && shape[1..].iter().all(|n| shape[0] < *n)
}
