//! [`ScalingConfig`]: what a training asks of the machine.

use std::fmt::Display;

use pavlov_tune::{Bundle, Config, Error, PlacementStrategy, Resources, Result, WorkerTransport, Workers};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// How many workers a training has and what each of them, and the trainer itself, needs.
///
/// Amounts are by name, `CPU`, `GPU` or a name of your own that the sweep's `total_resources` or the cluster has; zero ones
/// count as absent.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ScalingConfig {
    /// What the trainer needs beside its workers. `None`: one CPU.
    pub trainer_resources: Option<Bundle>,
    /// Workers that train together. `None`: there are no workers, the trainer trains by itself.
    pub num_workers: Option<usize>,
    /// What the workers are: processes of this machine (`"procs"`, also `None`) or actors of a Ray cluster (`"ray"`).
    /// `"ray:4"` says both what they are and how many.
    pub workers: Option<Workers>,
    /// On how many machines of the cluster they are; `None`: as few as there is room for (`PACK`).
    pub placement_strategy: Option<PlacementStrategy>,
    /// Whether each worker gets a GPU.
    pub use_gpu: bool,
    /// What each worker needs. `None`: one GPU with `use_gpu`, else one CPU. `GPU` may be left out of it.
    pub resources_per_worker: Option<Bundle>,
}

impl ScalingConfig {
    /// A scaling of `num_workers` workers with one CPU each.
    pub fn workers(num_workers: usize) -> Self {
        ScalingConfig { num_workers: Some(num_workers), ..ScalingConfig::default() }
    }

    /// How many workers train together; `None`: the trainer trains by itself.
    pub fn world_size(&self) -> Option<usize> {
        self.workers.and_then(|workers| workers.number).or(self.num_workers)
    }

    /// Whether the workers are actors of a Ray cluster, whose resources are not this machine's.
    pub fn is_on_ray(&self) -> bool {
        self.workers.is_some_and(|workers| workers.transport == WorkerTransport::Ray)
    }

    fn validate_workers(&self) -> Result<()> {
        if let Some(workers) = self.workers {
            let refuse = |rule: &str| Err(Error::config("scaling_config.workers", in_text(&workers), rule));
            if workers.transport == WorkerTransport::Threads {
                return refuse("workers that train together are processes: choose \"procs\" or \"ray\"");
            }
            match (workers.number, self.num_workers) {
                (None, None) => {
                    return refuse("it does not say how many: write \"ray:4\", or set `num_workers`");
                }
                (Some(here), Some(there)) if here != there => {
                    return refuse(&format!("`num_workers` is {there}: leave one of them out"));
                }
                _ => {}
            }
        }
        match self.placement_strategy {
            Some(strategy) if !self.is_on_ray() => {
                let rule = "only workers on Ray are placed: set `workers` to \"ray\", or leave it out";
                Err(Error::config("scaling_config.placement_strategy", in_text(&strategy), rule))
            }
            _ => Ok(()),
        }
    }

    /// Checks that the settings agree with each other and ask for something.
    ///
    /// # Errors
    /// Returns [`Error::Config`] if `use_gpu` and the GPUs of `resources_per_worker`, or `workers` and `num_workers`,
    /// contradict each other, or if a setting has no effect. Returns
    /// [`Error::Resources`] if an amount is negative, infinite or NaN, if nothing is asked for at all, or if a worker
    /// needs nothing.
    pub fn validate(&self) -> Result<()> {
        self.validate_workers()?;
        if let Some(gpus) = self.resources_per_worker.as_ref().and_then(|given| given.get("GPU")) {
            let key = "scaling_config.resources_per_worker.GPU";
            if !self.use_gpu && *gpus > 0.0 {
                return Err(Error::config(key, gpus, "`use_gpu` is false: set it, or leave `GPU` out"));
            }
            if self.use_gpu && *gpus == 0.0 {
                return Err(Error::config(
                    key,
                    gpus,
                    "`use_gpu` is true: set it to false, or give each a GPU",
                ));
            }
        }
        self.as_placement_group_factory().map(drop)
    }

    /// Refuses fields other than `allowed` that are not as in the default.
    pub(super) fn refuse_others(&self, allowed: &[&str], trainer: impl Display) -> Result<()> {
        let (given, default) = (self.as_config()?, Self::default().as_config()?);
        match given.iter().find(|(key, value)| default[*key] != **value && !allowed.contains(&key.as_str())) {
            None => Ok(()),
            Some((key, value)) => {
                let rule = format!("{trainer} does not use it; it uses {}", allowed.join(", "));
                Err(Error::config(format!("scaling_config.{key}"), value, rule))
            }
        }
    }

    pub(super) fn as_config(&self) -> Result<Config> {
        match serde_json::to_value(self).map_err(Error::other)? {
            Value::Object(config) => Ok(config),
            other => Err(Error::config("scaling_config", other, "it must be an object")),
        }
    }

    /// What the trainer and all its workers need together.
    pub fn total_resources(&self) -> Bundle {
        let mut total = self.trainer_bundle();
        for (name, amount) in self.worker_bundle() {
            *total.entry(name).or_default() += amount * self.world_size().unwrap_or(0) as f64;
        }
        total.retain(|_, amount| *amount != 0.0);
        total
    }

    /// The CPUs of each worker.
    pub fn num_cpus_per_worker(&self) -> f64 {
        self.worker_bundle().get("CPU").copied().unwrap_or(0.0)
    }

    /// The GPUs of each worker.
    pub fn num_gpus_per_worker(&self) -> f64 {
        self.worker_bundle().get("GPU").copied().unwrap_or(0.0)
    }

    /// What each worker needs beside CPUs and GPUs.
    pub fn additional_resources_per_worker(&self) -> Bundle {
        let mut bundle = self.worker_bundle();
        bundle.retain(|name, _| name != "CPU" && name != "GPU");
        bundle
    }

    /// The request of a trial: the trainer's bundle, then one for each worker. Workers on Ray ask the cluster, not the sweep.
    ///
    /// # Errors
    /// Returns [`Error::Resources`] if an amount is negative, infinite or NaN, if nothing is asked for at all, or if a
    /// worker needs nothing.
    pub fn as_placement_group_factory(&self) -> Result<Resources> {
        let workers = self.world_size().unwrap_or(0);
        let trainer = std::iter::once(self.trainer_bundle());
        let workers = std::iter::repeat_n(self.worker_bundle(), workers);
        let all = Resources::new(trainer.clone().chain(workers).collect())?;
        if self.is_on_ray() { Resources::new(trainer.collect()) } else { Ok(all) }
    }

    /// This scaling where a scheduler has given its trial other `resources`.
    ///
    /// # Errors
    /// Returns [`Error::Resources`] if the bundles of two workers differ.
    pub(super) fn given(&self, resources: &Resources) -> Result<Self> {
        if self.is_on_ray() {
            let trainer_resources = resources.bundles().first().cloned();
            return Ok(ScalingConfig { trainer_resources, ..self.clone() });
        }
        let workers = self.workers.map(|workers| Workers { number: None, ..workers });
        Ok(ScalingConfig { workers, ..Self::from_placement_group_factory(resources)? })
    }

    /// The scaling of workers on this machine that asks for `resources`.
    ///
    /// # Errors
    /// Returns [`Error::Resources`] if the bundles of two workers differ.
    pub fn from_placement_group_factory(resources: &Resources) -> Result<Self> {
        let workers = resources.bundles().get(1..).unwrap_or_default();
        if let Some(other) = workers.iter().find(|other| **other != workers[0]) {
            let rule = format!("each worker must get the same, but another one gets {other:?}");
            return Err(Error::Resources { request: format!("{:?}", workers[0]), rule });
        }
        Ok(ScalingConfig {
            trainer_resources: resources.bundles().first().cloned(),
            num_workers: (!workers.is_empty()).then_some(workers.len()),
            use_gpu: workers.first().is_some_and(|worker| worker.contains_key("GPU")),
            resources_per_worker: workers.first().cloned(),
            ..ScalingConfig::default()
        })
    }

    fn trainer_bundle(&self) -> Bundle {
        let mut bundle =
            self.trainer_resources.clone().unwrap_or_else(|| Bundle::from([("CPU".into(), 1.0)]));
        bundle.retain(|_, amount| *amount != 0.0);
        bundle
    }

    /// No CPU beside a GPU, unless asked for: machines have more CPUs than GPUs.
    pub(super) fn worker_bundle(&self) -> Bundle {
        let mut bundle = match &self.resources_per_worker {
            Some(given) => given.clone(),
            None if self.use_gpu => Bundle::new(),
            None => Bundle::from([("CPU".into(), 1.0)]),
        };
        bundle.entry("GPU".into()).or_insert(f64::from(u8::from(self.use_gpu)));
        bundle.retain(|_, amount| *amount != 0.0);
        bundle
    }
}

/// A setting as it is written.
fn in_text(setting: &impl Serialize) -> Value {
    serde_json::to_value(setting).unwrap_or_default()
}
