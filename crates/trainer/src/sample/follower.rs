//! A learner in another process, which takes the same learning steps as the trainer's learner.

use crate::base::PolicyId;
use crate::policy::PolicyMap;
use pavlov_learn::Moment;
use pavlov_learn::base::{Error, Result, State};
use pavlov_learn::engines::Together;
use pavlov_learn::experience::SampleBatch;
use pavlov_processes::{Secret, SocketCollective, listen_here, meet};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;

/// A request to a learner in another process.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Follow {
    /// Listen for connections of the other learners; the reply is the address.
    Listen,
    /// Connect to the other learners.
    Meet {
        /// Number of this learner; the trainer's has number 0.
        rank: usize,
        /// Address of each learner.
        addresses: Vec<SocketAddr>,
        /// Secret by which the learners know each other.
        secret: Secret,
    },
    /// Take over the state of the trainer's policies.
    SetPolicies {
        /// State of all policies.
        #[serde(skip)]
        state: Arc<State>,
    },
    /// Take a learning step with one policy.
    Learn {
        /// Id of the policy that learns.
        policy: PolicyId,
        /// Environment steps and random streams of the trainer's learner before the step; `None` if the policy has no
        /// network.
        moment: Option<Moment>,
        /// Rows to learn from.
        #[serde(skip)]
        batch: Arc<State>,
    },
    /// Update the target network of one policy.
    UpdateTarget {
        /// Id of the policy with the target network.
        policy: PolicyId,
    },
    /// Tell one policy the means of its training statistics, to which it may adapt.
    AfterTraining {
        /// Id of the policy that adapts.
        policy: PolicyId,
        /// Means of the training statistics by name, each as the bits of an `f64`, since JSON has no NaN.
        means: BTreeMap<String, u64>,
    },
}

impl Follow {
    /// The content of the request that is sent as binary arrays; `None` if there is none.
    pub(crate) fn arrays(&self) -> Option<&State> {
        match self {
            Self::SetPolicies { state } => Some(state),
            Self::Learn { batch, .. } => Some(batch),
            _ => None,
        }
    }

    /// Returns the request with `arrays` as its binary content.
    pub(crate) fn with_arrays(mut self, arrays: State) -> Self {
        if let Self::SetPolicies { state: place } | Self::Learn { batch: place, .. } = &mut self {
            *place = Arc::new(arrays);
        }
        self
    }
}

/// Connections of a learner to the other learners.
#[derive(Debug, Default)]
pub(crate) struct Follower {
    /// Listens for connections from the request `Follow::Listen` to `Follow::Meet`; else `None`.
    listener: Option<TcpListener>,
    /// Connection to the other learners, once it is made.
    together: Option<Together>,
}

impl Follower {
    /// Handles a request. Returns the address if the request is `Listen`. After an error the connections are closed, so
    /// that the other learners do not wait for this one.
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
                let policy = policies.get_mut(&policy)?;
                let batch = SampleBatch::saved(&mut Arc::unwrap_or_clone(batch))?;
                if let (Some(learner), Some(moment)) = (policy.learner_mut(), &moment) {
                    learner.set_moment(moment);
                    learner.learn_with(self.together.clone());
                }
                let learned = policy.learn_on_batch(&batch);
                if let Some(learner) = policy.learner_mut() {
                    learner.learn_with(None);
                }
                if self.together.as_ref().is_some_and(|together| together.lost().is_some()) {
                    // The trainer has lost the same learner, and gets the reason from that learner or from the
                    // program that started it.
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
