//! The integration tests of pavlov: one binary, one module per subject.

#[cfg(feature = "cli")]
mod cli;
#[cfg(feature = "cli")]
mod exact_resume;
mod export;
mod golden;
mod layers;
mod regression;
mod results;
mod resume;
mod sampling;
mod settings;
mod support;
