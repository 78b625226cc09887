//! What a checkpoint says of the code that it needs: the user's network, the policy classes, the networks in outline.

use crate::agents::Policies;
use crate::base::PolicyId;
use crate::policy::PolicyMap;
use crate::sample::Code;
use pavlov_learn::base::{Error, Result};
use pavlov_learn::nets::CustomModel;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The description. Those of checkpoints of the first format are empty, and fit everything.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct SavedCode {
    /// Name of the user's network, if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    custom_model: Option<String>,
    /// Name of the class of each policy.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    policy_classes: BTreeMap<PolicyId, String>,
    /// The outline of each policy's network, if the policy can record it and the policies are not kept on disk in turn.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    networks: BTreeMap<PolicyId, Vec<String>>,
}

impl SavedCode {
    /// Describes the code of a run or a loaded policy.
    pub(crate) fn of(code: &Code, classes: &Policies, policies: &PolicyMap) -> Self {
        let outline = |(id, policy): (&PolicyId, &dyn crate::policy::Policy)| {
            Some((id.clone(), policy.recording(None).ok()?.outline()))
        };
        Self {
            custom_model: code.custom_model.as_ref().map(|model| CustomModel::name(model).to_owned()),
            policy_classes: classes
                .classes()
                .map(|(id, class)| (id.clone(), class.name().to_owned()))
                .collect(),
            networks: policies.all_in_memory().into_iter().flatten().filter_map(outline).collect(),
        }
    }

    /// Refuses `own` code that computes something else than the saved code did.
    ///
    /// # Errors
    /// Returns [`Error::State`] with what was saved, what is here, and the way out.
    pub(crate) fn check(&self, own: &Self) -> Result<()> {
        if self.policy_classes.is_empty() {
            return Ok(());
        }
        let shared = |id: &PolicyId| own.policy_classes.get(id);
        for (id, was) in &self.policy_classes {
            if let Some(is) = shared(id).filter(|is| *is != was) {
                let reason = format!(
                    "it was of the class {was} in the checkpoint, but is of the class {is} here; a policy class of \
                     your own is no part of a checkpoint: give it to the builder, or to `pavlov::Load` (`policy_class`)"
                );
                return Err(Error::state(format!("the policy `{id}`"), reason));
            }
        }
        if self.custom_model != own.custom_model {
            let name = |model: &Option<String>| match model {
                Some(name) => format!("a network of your own, `{name}`"),
                None => "the network of the `model` settings".into(),
            };
            let reason = format!(
                "it was {} in the checkpoint, but is {} here; a network of your own is no part of a checkpoint: \
                 give the same to the builder, or to `pavlov::Load` (`custom_model`)",
                name(&self.custom_model),
                name(&own.custom_model)
            );
            return Err(Error::state("the network", reason));
        }
        for (id, was) in &self.networks {
            let Some(is) = own.networks.get(id).filter(|is| *is != was) else { continue };
            let differs = was.iter().zip(is).find(|(was, is)| was != is);
            let (was, is) = differs.map_or(("longer or shorter", "another"), |(was, is)| (was, is));
            let reason = format!(
                "it computes something else than in the checkpoint: there a step was \"{was}\", here it is \"{is}\"; set the \
                 `model` settings, or the code of your own network, to those of the saved run"
            );
            return Err(Error::state(format!("the network of the policy `{id}`"), reason));
        }
        Ok(())
    }
}
