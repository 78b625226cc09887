//! The integration tests of pavlov: one binary, one module per subject.

#[cfg(feature = "cli")]
mod cli;
mod golden;
mod support;
