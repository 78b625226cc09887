//! A learner that does as the trainer's does, in a process of its own.

use crate::base::{Error, PolicyId, Result, State};
use crate::experience::SampleBatch;
use crate::learn::Moment;
use crate::learn::engines::Together;
use crate::policy::PolicyMap;
use pavlov_train::SocketCollective;
use pavlov_tune::internal::{Secret, listen_here, meet};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;

/// What a learner is asked.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Follow {
    /// Listen for the other learners. The answer says where.
    Listen,
    /// Meet them.
    Meet {
        /// The number of this learner; the trainer's is 0.
        rank: usize,
        /// Where each of them listens.
        addresses: Vec<SocketAddr>,
        /// What only they know.
        secret: Secret,
    },
    /// Go on from the trainer's policies.
    SetPolicies {
        /// Their state.
        #[serde(skip)]
        state: Arc<State>,
    },
    /// Take a learning step of a policy.
    Learn {
        /// The policy.
        policy: PolicyId,
        /// Where the streams of the trainer's stand, if it has a network.
        moment: Option<Moment>,
        /// The rows.
        #[serde(skip)]
        batch: Arc<State>,
    },
    /// Move a policy's target network.
    UpdateTarget {
        /// The policy.
        policy: PolicyId,
    },
    /// Adapt a policy to the means of its statistics.
    AfterTraining {
        /// The policy.
        policy: PolicyId,
        /// The bits of the means, which may not be numbers.
        means: BTreeMap<String, u64>,
    },
}

impl Follow {
    /// What of it is sent as arrays.
    pub(crate) fn arrays(&self) -> Option<&State> {
        match self {
            Self::SetPolicies { state } => Some(state),
            Self::Learn { batch, .. } => Some(batch),
            _ => None,
        }
    }

    /// The same with what was sent as arrays.
    pub(crate) fn with_arrays(mut self, arrays: State) -> Self {
        if let Self::SetPolicies { state: place } | Self::Learn { batch: place, .. } = &mut self {
            *place = Arc::new(arrays);
        }
        self
    }
}

/// Where a learner stands among the others.
#[derive(Debug, Default)]
pub(crate) struct Follower {
    listener: Option<TcpListener>,
    together: Option<Together>,
}

impl Follower {
    /// Does what is asked; returns where it listens, if that is asked. After an error the other learners do not wait for this one.
    pub(crate) fn handle(&mut self, policies: &mut PolicyMap, follow: Follow) -> Result<Option<SocketAddr>> {
        let reply = self.follow(policies, follow);
        if reply.is_err() {
            self.together = None;
        }
        reply
    }

    fn follow(&mut self, policies: &mut PolicyMap, follow: Follow) -> Result<Option<SocketAddr>> {
        match follow {
            Follow::Listen => {
                let (listener, address) = listen_here()?;
                self.listener = Some(listener);
                return Ok(Some(address));
            }
            Follow::Meet { rank, addresses, secret } => {
                let listener =
                    self.listener.take().ok_or_else(|| Error::state("a learner", "it does not listen"))?;
                let peers = meet(&listener, rank, &addresses, &secret)?;
                self.together = Some(Together::new(Arc::new(SocketCollective::new(rank, peers)?)));
            }
            Follow::SetPolicies { state } => policies.set_state(&state)?,
            Follow::Learn { policy, moment, batch } => {
                let (policy, batch) =
                    (policies.get_mut(&policy)?, SampleBatch::saved(&mut Arc::unwrap_or_clone(batch))?);
                if let (Some(learner), Some(moment)) = (policy.learner_mut(), &moment) {
                    learner.set_moment(moment);
                    learner.learn_with(self.together.clone());
                }
                let learned = policy.learn_on_batch(&batch);
                if let Some(learner) = policy.learner_mut() {
                    learner.learn_with(None);
                }
                if self.together.as_ref().is_some_and(|together| together.lost().is_some()) {
                    // The trainer has lost the same learner, and hears the reason from it or from whoever started it.
                    self.together = None;
                    return Ok(None);
                }
                learned?;
            }
            Follow::UpdateTarget { policy } => policies.get_mut(&policy)?.update_target(),
            Follow::AfterTraining { policy, means } => {
                let means = means.into_iter().map(|(name, bits)| (name, f64::from_bits(bits))).collect();
                policies.get_mut(&policy)?.after_training(&means);
            }
        }
        Ok(None)
    }
}
