//! One run: the driver of a trainable, its options, its directory and logs, and the check that a restore continues exactly.

mod driver;
mod options;
mod resume;
mod run_log;
mod validate;

pub use driver::Driver;
pub use options::{LoggerChoice, RunOptions};
pub use resume::Resume;
pub(crate) use run_log::RunLog;
pub use validate::{difference, validate_save_restore};
