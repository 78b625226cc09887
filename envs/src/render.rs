//! Pictures: the canvas that environments draw on, and animations.

pub(crate) mod board;
pub(crate) mod draw;
pub(crate) mod gif;
