//! The spaces of observations and actions as policies see them.

use pavlov_envs::{AnyVectorEnv, DType, Space};
use serde::{Deserialize, Serialize};
use std::fmt::Debug;

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

/// Whether the first dimension is smaller than all others, so that it holds channels or stacked frames.
pub fn channels_first(shape: &[usize]) -> bool {
    shape.len() > 1 && shape[1..].iter().all(|n| shape[0] < *n)
}
