//! The spaces of observations and actions as policies see them.

use pavlov_envs::{AnyVectorEnv, DType, Space};
use serde::{Deserialize, Serialize};
use std::fmt::Debug;

/// The observation and action space a policy is made for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Spaces {
    /// What one copy of the environment observes.
    pub observation_space: Space,
    /// The actions that one copy takes.
    pub action_space: Space,
}

impl Spaces {
    /// Those of an environment.
    pub(crate) fn of(env: &dyn AnyVectorEnv) -> Self {
        Self { observation_space: env.observation_space().clone(), action_space: env.action_space().clone() }
    }

    /// Numbers of one observation as a network reads it; see [`Encoding`].
    pub fn obs_width(&self) -> usize {
        self.observation_space.flat_width()
    }

    /// The spaces of rows as they are kept and as policies see them. Floats are single; other numbers keep their type. What
    /// passes a filter is flattened and f32, and so are composite rows of f64.
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

/// Height, width and channels of an image: a box of three dimensions.
pub(crate) fn image(space: &Space) -> Option<[usize; 3]> {
    let Space::Box { shape, .. } = space else { return None };
    let &[a, b, c] = shape.as_slice() else { return None };
    Some(if channels_first(shape) { [b, c, a] } else { [a, b, c] })
}

/// The first dimension is smaller than all others: a stack, or channels.
pub(crate) fn channels_first(shape: &[usize]) -> bool {
    shape.len() > 1 && shape[1..].iter().all(|n| shape[0] < *n)
}
