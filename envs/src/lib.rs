//! Environments for pavlov: spaces, one copy or many, native environments, seeding like numpy's.

mod element;
mod env;
mod error;
mod np_random;
mod space;
mod vector;

pub use element::{DType, Element};
pub use env::{Env, Frame, Step};
pub use error::{Error, Result};
pub use np_random::NpRandom;
pub use space::{Layout, Leaf, Space};
pub use vector::{AnyVectorEnv, StepOut, VectorEnv};
