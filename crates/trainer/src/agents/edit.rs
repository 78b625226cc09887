//! Changes of the settings that add or remove a policy.

use crate::base::PolicyId;
use crate::settings::{MultiAgentConfig, PolicyMapping};
use pavlov_learn::base::{Error, Result};
use pavlov_tune::Config;

/// Other settings that change when a policy is added or removed. Fields that are `None` change nothing.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PolicyChange {
    /// The new value of `multiagent.policy_mapping_fn`, which maps agents to policies.
    pub policy_mapping_fn: Option<PolicyMapping>,
    /// The new value of `multiagent.policies_to_train`: the ids of the policies that learn. While that setting is null,
    /// all policies learn.
    pub policies_to_train: Option<Vec<PolicyId>>,
}

/// A change of the settings that adds or removes one policy.
#[derive(Clone, Debug)]
pub(crate) struct PolicyEdit {
    pub(crate) id: PolicyId,
    /// The own settings of the policy that is added; `None` if the policy is removed.
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
