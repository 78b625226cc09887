//! placeholder
use serde::{Deserialize, Serialize};
use crate::Bundle;
/// s
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ScalingConfig {
    /// What the trainer needs beside its workers. `None`: one CPU.
    pub trainer_resources: Option<Bundle>,
    /// Workers that train together. `None`: there are none, the trainer trains by itself.
    pub num_workers: Option<usize>,
    /// Whether each worker gets a GPU.
    pub use_gpu: bool,
    /// What each worker needs. `None`: one GPU with `use_gpu`, else one CPU. `GPU` may be left out of it.
    pub resources_per_worker: Option<Bundle>,
}
impl ScalingConfig {
    /// CPUs of each worker.
    pub fn num_cpus_per_worker(&self) -> f64 {
        self.resources_per_worker.as_ref().and_then(|b| b.get("CPU").copied()).unwrap_or(1.0)
    }
    /// GPUs of each worker.
    pub fn num_gpus_per_worker(&self) -> f64 {
        f64::from(u8::from(self.use_gpu))
    }
}
