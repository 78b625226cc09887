//! Names of Ray 0.8 and 1.x that Ray 2 no longer has, for programs that come from there.
//!
//! | Ray 0.8 and 1.x | here | in a new program |
//! |---|---|---|
//! | `tune.track` | [`track`] | [`session`](crate::session) |
//! | `def train(config, reporter)` | [`TrainableFactory::reporting_function`] | [`TrainableFactory::function`] |
//! | `Trainable.train_buffered` | [`Driver::train_buffered`] | [`Driver::train`] in a loop |
//! | `tune.durable`, `DurableTrainable` | [`DurableTrainable`] | [`RunOptions::remote_checkpoint_dir`](crate::RunOptions) |
//! | `tune.utils.wait_for_gpu` | [`wait_for_gpu`] | the same |
//! | `tune.utils.diagnose_serialization` | [`diagnose_serialization`] | the same |

mod diagnose;
pub mod track;

use std::time::{Duration, Instant};

use serde_json::Value;

use self::track::StatusReporter;
use crate::base::{Config, Metrics, Result};
use crate::functions::{IntoReport, TrainableFactory};
use crate::run::Driver;
use crate::trainable::Trainable;

pub use crate::base::gpu::wait_for_gpu;
pub use diagnose::diagnose_serialization;

/// A trainable whose checkpoints are kept on object storage: a [`Driver`] with
/// [`remote_checkpoint_dir`](crate::RunOptions::remote_checkpoint_dir).
pub type DurableTrainable<T> = Driver<T>;

impl TrainableFactory {
    /// Makes a trainable from a function or closure that reports through the [`StatusReporter`] passed to it.
    pub fn reporting_function<R: IntoReport>(
        name: impl Into<String>,
        function: impl Fn(&Config, &StatusReporter) -> Result<R> + Send + Sync + 'static,
    ) -> Self {
        Self::function(name, move |config| function(config, &StatusReporter::new()?)?.into_report())
    }
}

impl<T: Trainable> Driver<T> {
    /// Calls [`train`](Driver::train) at least once, until `time` has passed, a result is `done` or asks for a
    /// checkpoint, or there are `max_len` results.
    ///
    /// # Errors
    /// Returns the first error of [`train`](Driver::train); the results before it were logged but are not returned.
    pub fn train_buffered(&mut self, time: Duration, max_len: usize) -> Result<Vec<Metrics>> {
        let started = Instant::now();
        let mut results = Vec::new();
        loop {
            let result = self.train()?;
            let is_true = |key: &str| result.get(key) == Some(&Value::Bool(true));
            let last =
                is_true("done") || is_true("should_checkpoint") || result.contains_key("__duplicate__");
            results.push(result);
            if last || results.len() >= max_len || started.elapsed() >= time {
                return Ok(results);
            }
        }
    }
}
