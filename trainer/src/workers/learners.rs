//! The policies that learn, with the replay buffers and random streams of learning; no environment and no transport.

use crate::base::{DEFAULT_POLICY, Error, PolicyId, Result, Stream, Weights, lock};
use crate::experience::{SampleBatch, TrainBatch};
use crate::policy::{Learned, Policy, PolicyMap};
use crate::replay::{Fragments, MinibatchBuffer, ReplayBuffer};
use crate::sample::{Callbacks, CallbacksMaker, Hooks, WorkerSpec};
use crate::settings::{ReplayBufferConfig, ReplayKind, ReplayMode};
use crate::workers::learner_group::LearnerGroup;
use crate::workers::learner_queue::LearnerQueue;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use tch::Device;

/// The policies that learn, their hooks, the random stream that shuffles, and the replay buffers. A clone shares all
/// of these.
///
/// The weights for workers are kept apart, with a version number, so sending them never waits for a gradient.
#[derive(Clone, Debug)]
pub struct Learners {
    pub(crate) learning: Arc<Mutex<Learning>>,
    pub(crate) published: Arc<Mutex<Published>>,
    /// What a learner thread has still to learn from.
    pub(crate) queue: Arc<LearnerQueue>,
    /// Ids of the policies that learn.
    to_train: Arc<[PolicyId]>,
    device: Device,
    seed: u64,
    replay_mode: ReplayMode,
}

pub(crate) struct Learning {
    pub(crate) policies: PolicyMap,
    pub(crate) callbacks: Hooks,
    pub(crate) rng: Stream,
    pub(crate) replay: BTreeMap<PolicyId, Replay>,
    /// Earlier fragments to mix with new ones, and the largest number kept.
    pub(crate) fragments: Option<(Fragments, usize)>,
    /// Batches that take several learning steps in turn.
    pub(crate) minibatches: MinibatchBuffer,
    /// Whether something was learned since weights were published last.
    pub(crate) learned: bool,
    /// Number of training batches since weights were published last, for plans that do not publish after each one.
    pub(crate) batches: usize,
    /// Learners in other processes that share the work, if any.
    group: Option<LearnerGroup>,
}

impl Learning {
    pub(crate) fn changed(&mut self) {
        self.learned = true;
        self.group.iter_mut().for_each(LearnerGroup::out_of_step);
    }
}

impl std::fmt::Debug for Learning {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Learning").field("policies", &self.policies).finish_non_exhaustive()
    }
}

#[derive(Debug)]
pub(crate) struct Replay {
    pub(crate) buffer: Arc<Mutex<ReplayBuffer>>,
    pub(crate) store_in_checkpoints: bool,
}

/// The weights that were published last, with their version. Before the first publication there are none: every
/// worker starts with equal weights.
#[derive(Clone, Debug, Default)]
pub(crate) struct Published {
    pub(crate) version: u64,
    pub(crate) weights: Option<Weights>,
}

impl Learners {
    /// Makes policies that learn on `device`.
    pub(crate) fn new(spec: &WorkerSpec, device: Device) -> Result<Self> {
        Ok(Self {
            learning: Arc::new(Mutex::new(Learning {
                policies: spec.policies(0, device)?,
                callbacks: spec.code.callbacks.as_ref().map(CallbacksMaker::make),
                rng: Stream::new(spec.seed(), "learner", 0),
                replay: BTreeMap::new(),
                fragments: None,
                minibatches: MinibatchBuffer::default(),
                learned: false,
                batches: 0,
                group: LearnerGroup::new(spec)?,
            })),
            published: Arc::default(),
            queue: Arc::default(),
            to_train: spec.policies.to_train().cloned().collect(),
            device,
            seed: spec.seed(),
            replay_mode: spec.names.common.multiagent.replay_mode,
        })
    }

    /// The device on which the policies learn.
    pub(crate) fn device(&self) -> Device {
        self.device
    }

    /// The count of batches that wait for the learner thread.
    pub(crate) fn queue(&self) -> &Arc<LearnerQueue> {
        &self.queue
    }

    /// Takes one learning step of the policy `id`, including hooks. Returns the policy's report and the hook's
    /// statistics.
    ///
    /// # Errors
    /// Returns [`Error::UnknownPolicy`] if there is no policy of that id; fails if the policy or the hook fails.
    pub fn learn_on_batch(&self, id: &str, batch: &SampleBatch) -> Result<(Learned, BTreeMap<String, f64>)> {
        let Learning { policies, callbacks, learned, group, .. } = &mut *lock(&self.learning);
        let mut custom = BTreeMap::new();
        if let Some(callbacks) = callbacks {
            callbacks.on_learn_on_batch(id, batch, &mut custom)?;
        }
        *learned = true;
        let learned = match group {
            Some(group) => group.learn(policies, id, batch)?,
            None => policies.get_mut(id)?.learn_on_batch(batch)?,
        };
        group.take_if(|group| group.is_given_up());
        Ok((learned, custom))
    }

    /// Calls `f` with the learning policy `id`. The call counts as learning: the next synchronisation sends the
    /// weights, whatever `f` does.
    ///
    /// # Errors
    /// Returns [`Error::UnknownPolicy`] if there is no policy of that id.
    pub fn with_policy<T>(&self, id: &str, f: impl FnOnce(&mut dyn Policy) -> T) -> Result<T> {
        let learning = &mut *lock(&self.learning);
        learning.policies.get_mut(id)?;
        learning.changed();
        Ok(f(learning.policies.get_mut(id)?.as_mut()))
    }

    /// Calls `f` with all learning policies, as [`with_policy`](Self::with_policy) does.
    pub fn with_policies<T>(&self, f: impl FnOnce(&mut PolicyMap) -> T) -> T {
        let learning = &mut *lock(&self.learning);
        learning.changed();
        f(&mut learning.policies)
    }

    /// Calls `f` with the policies and hooks; `f` must leave the weights as they are.
    pub(crate) fn lend<T>(&self, f: impl FnOnce(&mut PolicyMap, &mut Hooks) -> T) -> T {
        let Learning { policies, callbacks, .. } = &mut *lock(&self.learning);
        f(policies, callbacks)
    }

    /// Calls `f` with the policy `id`; `f` must leave its weights as they are.
    pub(crate) fn lend_policy<T>(&self, id: &str, f: impl FnOnce(&mut dyn Policy) -> T) -> Result<T> {
        self.lend(|policies, _| Ok(f(policies.get_mut(id)?.as_mut())))
    }

    /// Updates the target network of the policy `id`.
    pub(crate) fn update_target(&self, id: &str) -> Result<()> {
        let Learning { policies, group, .. } = &mut *lock(&self.learning);
        policies.get_mut(id)?.update_target();
        group.as_mut().map_or(Ok(()), |group| group.update_target(id))
    }

    /// Lets the policy `id` adapt to the means of its training statistics.
    pub(crate) fn after_training(&self, id: &str, means: &BTreeMap<String, f64>) -> Result<()> {
        let Learning { policies, group, .. } = &mut *lock(&self.learning);
        policies.get_mut(id)?.after_training(means);
        group.as_mut().map_or(Ok(()), |group| group.after_training(id, means))
    }

    /// Number of processes that learn, including the trainer.
    pub(crate) fn healthy(&self) -> usize {
        lock(&self.learning).group.as_ref().map_or(1, LearnerGroup::healthy)
    }

    /// Number of times that the learners in other processes were restarted.
    pub(crate) fn restarts(&self) -> u64 {
        lock(&self.learning).group.as_ref().map_or(0, LearnerGroup::restarts)
    }

    /// Whether a learner failed, and no setting lets the run go on without it.
    pub(crate) fn are_broken(&self) -> bool {
        lock(&self.learning).group.as_ref().is_some_and(LearnerGroup::is_broken)
    }

    /// Calls `f` with the trainer's own hooks, if there are any.
    pub(crate) fn with_callbacks(&self, f: impl FnOnce(&mut Box<dyn Callbacks>) -> Result<()>) -> Result<()> {
        self.lend(|_, callbacks| callbacks.as_mut().map_or(Ok(()), f))
    }

    /// Calls `f` with the random stream that shuffles training batches.
    pub fn rng<T>(&self, f: impl FnOnce(&mut Stream) -> T) -> T {
        f(&mut lock(&self.learning).rng)
    }

    /// Keeps the last `capacity` fragments that are passed to [`mix_in`](Self::mix_in).
    pub(crate) fn keep_fragments(&self, capacity: usize) {
        lock(&self.learning).fragments.get_or_insert_with(|| (Fragments::default(), capacity));
    }

    /// Returns the fragment followed by `proportion` kept ones; a fractional part is the probability of one more.
    /// Keeps the fragment, too.
    pub(crate) fn mix_in(&self, fragment: TrainBatch, proportion: f64) -> Result<TrainBatch> {
        let Learning { fragments, rng, .. } = &mut *lock(&self.learning);
        let Some((fragments, capacity)) = fragments else { return Ok(fragment) };
        let whole = proportion.trunc() as usize;
        let rest = proportion.fract();
        let times = whole + usize::from(rest > 0.0 && rng.uniform_f64() < rest);
        let mut all: Vec<TrainBatch> = (0..times).filter_map(|_| fragments.draw(rng)).collect();
        fragments.add(fragment.share(), *capacity);
        all.insert(0, fragment);
        TrainBatch::concat(all)
    }

    /// Calls `f` with the batches that take several learning steps in turn.
    pub(crate) fn minibatches<T>(&self, f: impl FnOnce(&mut MinibatchBuffer) -> T) -> T {
        f(&mut lock(&self.learning).minibatches)
    }

    /// Tells all policies the number of sampled environment steps.
    pub(crate) fn tell_time(&self, timestep: u64) {
        self.lend(|policies, _| policies.on_global_var_update(timestep));
    }

    /// The weights of all policies.
    pub fn get_weights(&self) -> Weights {
        lock(&self.learning).policies.get_weights()
    }

    /// Publishes the weights if something was learned since the last publication. Returns whether it did.
    pub(crate) fn publish(&self) -> bool {
        self.publish_learned(&mut lock(&self.learning))
    }

    /// As [`publish`](Self::publish), for a caller that holds the lock of `learning`. The lock is held until the
    /// weights are published, so a newer version never has older weights. `published` is always locked after
    /// `learning`.
    fn publish_learned(&self, learning: &mut Learning) -> bool {
        if !std::mem::take(&mut learning.learned) {
            return false;
        }
        learning.batches = 0;
        let weights = learning.policies.get_weights();
        let mut published = lock(&self.published);
        *published = Published { version: published.version + 1, weights: Some(weights) };
        true
    }

    /// Publishes the weights if at least `interval` calls since the last publication had learned something. Returns
    /// whether it did.
    pub(crate) fn broadcast(&self, interval: usize) -> bool {
        let mut learning = lock(&self.learning);
        if !learning.learned {
            return false;
        }
        learning.batches += 1;
        learning.batches >= interval && self.publish_learned(&mut learning)
    }

    /// Stores the initial weights as published, for a run that is saved before the first publication.
    pub(crate) fn publish_first(&self) {
        let learning = lock(&self.learning);
        let mut published = lock(&self.published);
        if published.weights.is_none() {
            published.weights = Some(learning.policies.get_weights());
        }
    }

    /// The weights that were published last, with their version.
    pub(crate) fn published(&self) -> Published {
        lock(&self.published).clone()
    }

    /// Ids of the policies that learn.
    pub(crate) fn to_train(&self) -> &[PolicyId] {
        &self.to_train
    }

    /// The replay buffer of the policy `id`; the first call makes it. With `store_in_checkpoints` its rows are saved
    /// and restored with the run.
    pub(crate) fn replay_buffer(
        &self,
        id: &str,
        config: &ReplayBufferConfig,
        store_in_checkpoints: bool,
    ) -> Arc<Mutex<ReplayBuffer>> {
        let make = || {
            // Equal random streams draw the same rows from every buffer.
            let role = match self.replay_mode {
                ReplayMode::Independent => part_of("replay", id),
                ReplayMode::Lockstep => "replay".to_owned(),
            };
            let rng = Stream::new(self.seed, &role, 0);
            let buffer = Arc::new(Mutex::new(ReplayBuffer::new(config.clone(), rng)));
            Replay { buffer, store_in_checkpoints }
        };
        lock(&self.learning).replay.entry(id.to_owned()).or_insert_with(make).buffer.clone()
    }

    /// Refuses replay in lockstep where it would have no effect, or where rows are drawn by priorities.
    ///
    /// # Errors
    /// Returns [`Error::Config`].
    pub(crate) fn check_replay_mode(&self) -> Result<()> {
        let learning = lock(&self.learning);
        let mut kinds = learning.replay.values().map(|replay| lock(&replay.buffer).kind());
        let rule = match (self.replay_mode, learning.replay.len()) {
            (ReplayMode::Independent, _) => return Ok(()),
            (_, 0 | 1) => "it is for several policies that learn from replay buffers; leave it out",
            _ if kinds.any(|kind| kind == ReplayKind::PrioritizedReplayBuffer) => {
                "rows that are drawn by their priorities are drawn for each policy by itself; set \
                 `replay_buffer_config.type` to \"ReplayBuffer\", or leave it out"
            }
            _ => return Ok(()),
        };
        Err(Error::config("multiagent.replay_mode", "\"lockstep\"", rule))
    }
}

/// The name of a policy's own part of a checkpoint: `name` alone for the default policy, else with the policy's id.
pub(crate) fn part_of(name: &str, id: &str) -> String {
    if id == DEFAULT_POLICY { name.to_owned() } else { format!("{name}_{id}") }
}
