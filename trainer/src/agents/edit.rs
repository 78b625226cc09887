//! Adding or removing a policy, as a change of the settings.

use crate::base::{Error, PolicyId, Result};
use crate::settings::{MultiAgentConfig, PolicyMapping};
use pavlov_tune::Config;

/// Settings to change together with adding or removing a policy. Fields that are `None` change nothing.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PolicyChange {
    /// Which policy each agent acts by from now on.
    pub policy_mapping_fn: Option<PolicyMapping>,
    /// The policies that learn from now on. While the setting `multiagent.policies_to_train` is null, all policies
    /// learn.
    pub policies_to_train: Option<Vec<PolicyId>>,
}

/// One policy to add or to remove.
#[derive(Clone, Debug)]
pub(crate) struct PolicyEdit {
    pub(crate) id: PolicyId,
    /// Own settings of a policy to add; `None` to remove the policy.
    pub(crate) added: Option<Config>,
    pub(crate) change: PolicyChange,
}

impl PolicyEdit {
    /// Applies the change to the settings.
    ///
    /// # Errors
    /// Returns [`Error::Config`] if the policy to add exists already, or the policy to remove does not.
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
