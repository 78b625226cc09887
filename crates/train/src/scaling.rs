//! [`ScalingConfig`]: the workers and resources of a training.

use std::fmt::Display;

use pavlov_processes::{Bundle, PlacementStrategy, WorkerTransport, Workers};
use pavlov_tune::{Config, Error, Resources, Result};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Number of workers of a training, and the resources of each worker and of the trainer itself.
///
/// Resources are amounts by name: `CPU`, `GPU`, or a custom name that the sweep's `total_resources` or the cluster has. An
/// amount of 0 counts as absent.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ScalingConfig {
    /// Resources of the trainer itself, besides its workers. `None`: one CPU.
    pub trainer_resources: Option<Bundle>,
    /// Number of workers that train together. `None`: there are no workers, and the trainer trains by itself.
    pub num_workers: Option<usize>,
    /// Kind of the workers: processes on this machine (`"procs"` or `None`) or actors of a Ray cluster (`"ray"`). A value
    /// such as `"ray:4"` sets both kind and number.
    pub workers: Option<Workers>,
    /// Placement of the workers on the machines of a Ray cluster; `None`: on as few machines as have room for them (`PACK`).
    pub placement_strategy: Option<PlacementStrategy>,
    /// Whether each worker gets a GPU.
    pub use_gpu: bool,
    /// Resources of each worker. `None`: one GPU with `use_gpu`, else one CPU. With `use_gpu`, an absent `GPU` counts as 1.
    pub resources_per_worker: Option<Bundle>,
}

impl ScalingConfig {
    /// Makes a scaling of `num_workers` workers with one CPU each.
    pub fn workers(num_workers: usize) -> Self {
        ScalingConfig { num_workers: Some(num_workers), ..ScalingConfig::default() }
    }

    /// Returns the number of workers that train together; `None` if the trainer trains by itself.
    pub fn world_size(&self) -> Option<usize> {
        self.workers.and_then(|workers| workers.number).or(self.num_workers)
    }

    /// Returns true if the workers are actors of a Ray cluster, which do not use the resources of this machine.
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

    /// Checks that the settings are consistent and ask for resources.
    ///
    /// # Errors
    /// Returns [`Error::Config`] if `use_gpu` and the GPUs of `resources_per_worker`, or `workers` and `num_workers`,
    /// contradict each other, or if a setting has no effect. Returns [`Error::Resources`] if an amount is negative, infinite
    /// or NaN, if no resources are requested at all, or if a worker has none.
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

    /// Refuses fields that differ from their default and are not in `allowed`.
    pub(super) fn refuse_others(&self, allowed: &[&str], trainer: impl Display) -> Result<()> {
        let given = self.as_config()?;
        let default = Self::default().as_config()?;
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
            Value::Object(config) => Ok(config.into()),
            other => Err(Error::config("scaling_config", other, "it must be an object")),
        }
    }

    /// Returns the resources of the trainer and all its workers together.
    pub fn total_resources(&self) -> Bundle {
        let mut total = self.trainer_bundle();
        for (name, amount) in self.worker_bundle() {
            *total.entry(name).or_default() += amount * self.world_size().unwrap_or(0) as f64;
        }
        total.retain(|_, amount| *amount != 0.0);
        total
    }

    /// Returns the number of CPUs of each worker.
    pub fn num_cpus_per_worker(&self) -> f64 {
        self.worker_bundle().get("CPU").copied().unwrap_or(0.0)
    }

    /// Returns the number of GPUs of each worker.
    pub fn num_gpus_per_worker(&self) -> f64 {
        self.worker_bundle().get("GPU").copied().unwrap_or(0.0)
    }

    /// Returns the resources of each worker other than CPUs and GPUs.
    pub fn additional_resources_per_worker(&self) -> Bundle {
        let mut bundle = self.worker_bundle();
        bundle.retain(|name, _| name != "CPU" && name != "GPU");
        bundle
    }

    /// Returns the resources that a trial requests of the sweep: the trainer's bundle, then one for each worker. Workers on
    /// Ray are not in it, because they request theirs of the cluster.
    ///
    /// # Errors
    /// Returns [`Error::Resources`] if an amount is negative, infinite or NaN, if no resources are requested at all, or if a
    /// worker has none.
    pub fn as_placement_group_factory(&self) -> Result<Resources> {
        let workers = self.world_size().unwrap_or(0);
        let trainer = std::iter::once(self.trainer_bundle());
        let workers = std::iter::repeat_n(self.worker_bundle(), workers);
        let all = Resources::new(trainer.clone().chain(workers).collect())?;
        if self.is_on_ray() { Resources::new(trainer.collect()) } else { Ok(all) }
    }

    /// Returns this scaling changed to the `resources` that a scheduler gave to the trial.
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

    /// Makes the scaling, with workers on this machine, that requests `resources`.
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

    /// Returns the resources of each worker. A worker with a GPU gets no CPU by default, because machines have more CPUs
    /// than GPUs.
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

/// Returns a setting as JSON, for messages.
fn in_text(setting: &impl Serialize) -> Value {
    serde_json::to_value(setting).unwrap_or_default()
}
