//! Rules of the settings for additional learners and for a Ray cluster.

use crate::settings::common::Common;
use pavlov_learn::base::{Result, rules};
use pavlov_processes::{PlacementStrategy, WorkerTransport};

/// Largest allowed number of learners. A gradient passes through all learners in turn, which takes the longer the more
/// there are.
const MAX_LEARNERS: usize = 64;

impl Common {
    /// Checks the settings of additional learners.
    pub(super) fn validate_learners(&self) -> Result<()> {
        let learners = self.num_learners;
        let transport = self.learners.transport;
        let kind = format!("\"{}\"", transport.name());
        rules::all([
            rules::refuse_if(
                learners > MAX_LEARNERS,
                "num_learners",
                learners,
                format!("it must be at most {MAX_LEARNERS}"),
            ),
            rules::refuse_if(
                transport == WorkerTransport::Threads,
                "learners",
                &kind,
                "a learner uses all cores of its process as it is: choose \"procs\" or \"ray\", or leave it out",
            ),
            rules::refuse_if(
                learners < 2 && transport == WorkerTransport::Ray,
                "learners",
                &kind,
                "the trainer learns alone: set `num_learners` to at least 2, or leave it out",
            ),
            rules::refuse_if(
                learners < 2 && self.num_cpus_per_learner != 1,
                "num_cpus_per_learner",
                self.num_cpus_per_learner,
                "the trainer learns alone: set `num_learners` to at least 2, or leave it out",
            ),
            rules::refuse_if(
                learners > 1 && self.num_gpus > 0,
                "num_learners",
                learners,
                "learners exchange numbers of the CPU: set `num_gpus` to 0, or leave it out",
            ),
        ])
    }

    /// Checks the settings of a Ray cluster.
    pub(super) fn validate_cluster(&self) -> Result<()> {
        let without = "only workers on a Ray cluster have it: set `workers` to \"ray\" or leave it out";
        let is_elsewhere = self.workers.transport != WorkerTransport::Ray;
        let has_none = is_elsewhere && self.learners.transport != WorkerTransport::Ray;
        let strategy = serde_json::to_string(&self.placement_strategy).unwrap_or_default();
        let resources = serde_json::to_string(&self.custom_resources_per_worker).unwrap_or_default();
        let is_amount = |amount: &f64| amount.is_finite() && *amount >= 0.0;
        let broken = self.custom_resources_per_worker.iter().any(|(name, amount)| {
            !is_amount(amount) || ["", "CPU", "GPU", "memory", "object_store_memory"].contains(&name.as_str())
        });
        rules::all([
            rules::refuse_if(
                is_elsewhere && self.num_gpus_per_worker != 0.0,
                "num_gpus_per_worker",
                self.num_gpus_per_worker,
                without,
            ),
            rules::refuse_if(
                !is_amount(&self.num_gpus_per_worker),
                "num_gpus_per_worker",
                self.num_gpus_per_worker,
                "it must be a number, 0 or more",
            ),
            rules::refuse_if(
                is_elsewhere && !self.custom_resources_per_worker.is_empty(),
                "custom_resources_per_worker",
                &resources,
                without,
            ),
            rules::refuse_if(
                broken,
                "custom_resources_per_worker",
                &resources,
                "it must give names of resources, other than Ray's own, a number each, 0 or more",
            ),
            rules::refuse_if(
                is_elsewhere && !self.label_selector_per_worker.is_empty(),
                "label_selector_per_worker",
                serde_json::to_string(&self.label_selector_per_worker).unwrap_or_default(),
                without,
            ),
            rules::refuse_if(
                has_none && self.placement_strategy != PlacementStrategy::default(),
                "placement_strategy",
                &strategy,
                without,
            ),
        ])
    }
}
