//! The description of workers by names and numbers: all that another process of the same executable needs to make
//! them.

use crate::agents::Agent;
use crate::base::{Error, PolicyId, Result};
use crate::sample::spec::{Origin, WorkerSpec};
use crate::settings::Common;
use pavlov_tune::Config;
use serde::{Deserialize, Serialize};

/// A [`WorkerSpec`] that can be sent to another process. It names code, which the same executable has there.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct SpecByName {
    pub(crate) trainable: String,
    pub(crate) settings: Config,
    pub(crate) common: Common,
    pub(crate) seed: u64,
    pub(crate) env: String,
    pub(crate) agents: Vec<Agent>,
    pub(crate) sampling: bool,
    /// Policy ids, and the name of each policy's class.
    classes: Vec<(PolicyId, String)>,
    has_custom_model: bool,
    has_callbacks: bool,
}

impl SpecByName {
    /// Describes `spec` by names.
    ///
    /// # Errors
    /// Returns [`Error::Config`] if the name of the workers' trainable is unknown.
    pub(crate) fn of(spec: &WorkerSpec) -> Result<Self> {
        let Some(Origin { trainable, settings }) = spec.origin.clone() else {
            let rule =
                "workers in processes need an algorithm that is built by name or by `TrainerExt::build`";
            let workers = format!("\"{}\"", spec.common.workers.transport.name());
            return Err(Error::config("workers", workers, rule));
        };
        Ok(Self {
            trainable,
            settings,
            common: spec.common.clone(),
            seed: spec.seed,
            env: spec.env.name().to_owned(),
            agents: spec.agents.clone(),
            sampling: spec.sampling,
            classes: classes(spec),
            has_custom_model: spec.custom_model.is_some(),
            has_callbacks: spec.callbacks.is_some(),
        })
    }

    /// Returns an error if `found`, made from these names, differs from the spec that they describe.
    ///
    /// # Errors
    /// Returns [`Error::State`] with the difference and the way out.
    pub(crate) fn check(&self, found: &WorkerSpec) -> Result<()> {
        let differs = [
            ("callbacks", self.has_callbacks != found.callbacks.is_some()),
            ("custom model", self.has_custom_model != found.custom_model.is_some()),
            ("policy classes", self.classes != classes(found)),
        ];
        match differs.into_iter().find(|(_, differs)| *differs) {
            None => Ok(()),
            Some((what, _)) => {
                let reason = format!(
                    "it has other {what} in a worker's process than in the run: give `child_main` what \
                     `Builder::as_trainable` of the run's own builder returns"
                );
                Err(Error::state(format!("the trainable {}", self.trainable), reason))
            }
        }
    }
}

fn classes(spec: &WorkerSpec) -> Vec<(PolicyId, String)> {
    spec.policies.classes().map(|(id, class)| (id.clone(), class.name().to_owned())).collect()
}
