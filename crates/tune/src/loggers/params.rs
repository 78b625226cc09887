//! Writes `params.json`: the complete settings of the run.

use std::path::Path;

use crate::base::{Config, Error, Result, files};

/// Name of the file in a run directory.
pub(crate) const PARAMS_FILE: &str = "params.json";

/// Writes `params.json` into the run directory, replacing an older one.
pub(crate) fn write_params(run_dir: &Path, config: &Config) -> Result<()> {
    let path = run_dir.join(PARAMS_FILE);
    files::replace(&path, |out| {
        serde_json::to_writer_pretty(out, config).map_err(|error| Error::io("write", &path)(error.into()))
    })
}
