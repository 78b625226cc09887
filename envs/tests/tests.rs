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
#[path = "tests/py.rs"]
mod py;
#[path = "tests/py_faults.rs"]
mod py_faults;
#[path = "tests/spaces.rs"]
mod spaces;
#[path = "tests/vectors.rs"]
mod vectors;
