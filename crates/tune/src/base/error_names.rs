//! The names of an error's variants.

use crate::base::Error;

macro_rules! names {
    ($error:expr; $($name:ident)*) => {
        match $error {
            $(Error::$name { .. } => stringify!($name),)*
        }
    };
}

impl Error {
    /// Returns the name of the variant, such as `Config`, which `{:?}` shows behind the message.
    pub fn variant(&self) -> &'static str {
        names!(self; Config Missing Refusals UnknownKey Assignment Metric MissingMetric Checkpoint Io Row Dataset Storage
            ExportFormat Resources Stopped SaveRestore Experiment TrialFailed WorkerFailed WorkerLost TrainingFailed
            TrialStopped RunDirectory Trainable)
    }
}
