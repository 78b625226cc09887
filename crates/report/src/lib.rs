//! What the files of a run or a sweep say of it: why a run does not learn, one page, pictures, and a live screen.
//!
//! ```no_run
//! for finding in pavlov_report::doctor::examine_run("runs/first")? {
//!     println!("{finding}");
//! }
//! # Ok::<(), pavlov_trainer::Error>(())
//! ```
//!
//! Two rooms: [`doctor`] has the rules that look for what keeps a run from learning. `pages` uses it and makes everything
//! that is looked at: the pages of [`of_run`], [`of_runs`] and [`of_sweep`], the pictures of [`figure`], and the screen,
//! [`Watched`]. The feature `pages`, which is on by default, compiles it. Only files are read; this crate does not need
//! libtorch.

pub mod doctor;
#[cfg(feature = "pages")]
mod pages;

#[cfg(feature = "pages")]
pub use pages::{
    Changed, Episode, Known, MAX_FRAMES, Move, Newest, RecordedSweep, Run, Watched, figure, of_run, of_runs,
    of_sweep, record,
};

/// The programs of the README, compiled by `cargo test --doc`.
#[cfg(all(doctest, feature = "pages"))]
#[doc = include_str!("../README.md")]
struct Readme;
