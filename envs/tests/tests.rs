//! What this crate promises, in one program.

#[path = "tests/broken.rs"]
mod broken;
#[path = "tests/creators.rs"]
mod creators;
#[path = "tests/fixture.rs"]
mod fixture;
#[path = "tests/frames.rs"]
mod frames;
#[path = "tests/golden.rs"]
mod golden;
#[path = "tests/pictures.rs"]
mod pictures;
#[path = "tests/spaces.rs"]
mod spaces;
#[path = "tests/vectors.rs"]
mod vectors;
#[path = "tests/wrappers.rs"]
mod wrappers;
#[path = "tests/wrapping.rs"]
mod wrapping;
