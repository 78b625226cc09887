//! A policy that is added or removed, as it changes the settings.

use crate::base::{Error, PolicyId, Result};
use crate::settings::{MultiAgentConfig, PolicyMapping};
use pavlov_tune::Config;

/// What changes with a policy that is added or removed. What is `None` stays as it is.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PolicyChange {
    /// Which policy agents act by from now on.
    pub policy_mapping_fn: Option<PolicyMapping>,
    /// The policies that learn from now on. As long as the setting `multiagent.policies_to_train` is null, all do.
    pub policies_to_train: Option<Vec<PolicyId>>,
}

/// One change of the policies.
#[derive(Clone, Debug)]
pub(crate) struct PolicyEdit {
    pub(crate) id: PolicyId,
    /// The settings of its own that a new policy has; none of one that is removed.
    pub(crate) added: Option<Config>,
    pub(crate) change: PolicyChange,
}

impl PolicyEdit {
    /// Makes the change in the settings.
    ///
    /// # Errors
    /// Returns [`Error::Config`] if there is such a policy already, or none to remove.
    pub(crate) fn apply(&self, multi: &mut MultiAgentConfig) -> Result<()> {
        let ids = multi.policies.keys().cloned().collect::<Vec<_>>().join(", ");
        match &self.added {
            Some(own) => {
                if multi.policies.insert(self.id.clone(), own.clone()).is_some() {
                    let rule = format!(
                        "there is a policy of that id: {ids}; take another id, or remove that one first"
                    );
                    return Err(Error::config("add_policy", format_args!("{:?}", self.id), rule));
                }
            }
            None => {
                if multi.policies.remove(&self.id).is_none() {
                    let rule = format!("there is no policy of that id: there is {ids}");
                    return Err(Error::config("remove_policy", format_args!("{:?}", self.id), rule));
                }
                if let Some(ids) = &mut multi.policies_to_train {
                    ids.retain(|id| *id != self.id);
                }
            }
        }
        let PolicyChange { policy_mapping_fn, policies_to_train } = self.change.clone();
        if let Some(mapping) = policy_mapping_fn {
            multi.policy_mapping_fn = mapping;
        }
        if policies_to_train.is_some() {
            multi.policies_to_train = policies_to_train;
        }
        Ok(())
    }
}
