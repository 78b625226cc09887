//! [`Learners`]: the policies that learn, with their replay buffers and the random stream of learning, but without
//! environments and transport.

use crate::base::{PolicyId, part_of};
use crate::experience::TrainBatch;
use crate::policy::{Learned, Policy, PolicyMap};
use crate::replay::{Fragments, GoalColumns, Goals, MinibatchBuffer, ReplayBuffer};
use crate::sample::{Callbacks, CallbacksMaker, Hooks, WorkerSpec};
use crate::settings::{ReplayBufferConfig, ReplayKind, ReplayMode};
use crate::workers::batch_log::BatchLog;
use crate::workers::learner_group::LearnerGroup;
use crate::workers::learner_queue::LearnerQueue;
use pavlov_learn::base::{Device, Error, Result, Stream, Weights, lock};
use pavlov_learn::experience::SampleBatch;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

/// The policies that learn, their hooks, the replay buffers, and the random stream that shuffles batches. A clone
/// shares all of these.
///
/// The weights for workers are kept apart, with a version number, so sending them never waits for a learning step.
#[derive(Clone, Debug)]
pub struct Learners {
    /// The policies that learn, with everything else that learning steps change.
    pub(crate) learning: Arc<Mutex<Learning>>,
    /// The weights that were published last.
    pub(crate) published: Arc<Mutex<Published>>,
    /// The batches that a learner thread has still to learn from.
    pub(crate) queue: Arc<LearnerQueue>,
    /// Ids of the policies that learn.
    to_train: Arc<[PolicyId]>,
    /// Seed of the run.
    seed: u64,
    /// How rows of several policies are drawn from their replay buffers.
    replay_mode: ReplayMode,
    /// What the workers are made from, of which the goals of replay buffers are made.
    spec: Arc<WorkerSpec>,
}

/// The policies that learn, with everything else that learning steps change.
pub(crate) struct Learning {
    pub(crate) policies: PolicyMap,
    pub(crate) callbacks: Hooks,
    /// Random stream that shuffles batches.
    pub(crate) rng: Stream,
    /// Replay buffers by policy id.
    pub(crate) replay: BTreeMap<PolicyId, Replay>,
    /// Earlier fragments to mix with new ones, and the largest number of fragments to keep; `None` if none are kept.
    pub(crate) fragments: Option<(Fragments, usize)>,
    /// The batches that are used for several learning steps.
    pub(crate) minibatches: MinibatchBuffer,
    /// Whether the policies have learned since weights were published last.
    pub(crate) learned: bool,
    /// Number of training batches since weights were published last, for plans that do not publish after each batch.
    pub(crate) batches: usize,
    /// Learners in other processes that share the work of gradients, if there are any.
    group: Option<LearnerGroup>,
    /// The log of the first training batches; `None` without `log_batches`, or when all of them are written.
    log: Option<BatchLog>,
}

impl Learning {
    /// Records that the policies have changed, so that their weights are published and sent to other learners.
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

/// A replay buffer, and whether checkpoints store it.
#[derive(Debug)]
pub(crate) struct Replay {
    /// The replay buffer of one policy.
    pub(crate) buffer: Arc<Mutex<ReplayBuffer>>,
    /// Whether checkpoints store the rows of the buffer.
    pub(crate) store_in_checkpoints: bool,
}

/// The weights that were published last. Before the first publication there are none, because all workers start with
/// equal weights.
#[derive(Clone, Debug, Default)]
pub(crate) struct Published {
    /// Number of publications up to these weights; it never decreases.
    pub(crate) version: u64,
    /// The weights of all policies; `None` before the first publication.
    pub(crate) weights: Option<Weights>,
}

impl Learners {
    /// Builds the policies and makes them learn on `device`, together with learners in other processes if the settings
    /// ask for some.
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
                log: None,
            })),
            published: Arc::default(),
            queue: Arc::default(),
            to_train: spec.policies.to_train().cloned().collect(),
            seed: spec.seed(),
            replay_mode: spec.names.common.multiagent.replay_mode,
            spec: Arc::new(spec.clone()),
        })
    }

    /// The number of batches that wait for the learner thread.
    pub(crate) fn queue(&self) -> &Arc<LearnerQueue> {
        &self.queue
    }

    /// Takes one learning step of the policy `id`, and calls the hook `on_learn_on_batch` before it. Returns the
    /// policy's report, and the statistics that the hook adds.
    ///
    /// # Errors
    /// Returns [`Error::UnknownPolicy`] if no policy has this id; fails if the policy or the hook fails.
    pub fn learn_on_batch(&self, id: &str, batch: &SampleBatch) -> Result<(Learned, BTreeMap<String, f64>)> {
        let Learning { policies, callbacks, learned, group, log, .. } = &mut *lock(&self.learning);
        let mut custom = BTreeMap::new();
        if let Some(callbacks) = callbacks {
            callbacks.on_learn_on_batch(id, batch, &mut custom)?;
        }
        *learned = true;
        if let Some(log) = log {
            log.before(id, policies.get_mut(id)?.as_ref(), batch)?;
        }
        let learned = match group {
            Some(group) => group.learn(policies, id, batch)?,
            None => policies.get_mut(id)?.learn_on_batch(batch)?,
        };
        if let Some(writing) = log
            && writing.after(id, policies.get_mut(id)?.as_ref(), batch, &learned)?
        {
            *log = None;
        }
        group.take_if(|group| group.is_given_up());
        Ok((learned, custom))
    }

    /// Writes the next training batches to `log`.
    pub(crate) fn log_batches(&self, log: Option<BatchLog>) {
        lock(&self.learning).log = log;
    }

    /// Calls `f` with the learning policy `id`. The call counts as learning, even if `f` changes nothing: the next
    /// synchronisation sends the weights.
    ///
    /// # Errors
    /// Returns [`Error::UnknownPolicy`] if no policy has this id.
    pub fn with_policy<T>(&self, id: &str, f: impl FnOnce(&mut dyn Policy) -> T) -> Result<T> {
        let learning = &mut *lock(&self.learning);
        learning.policies.get_mut(id)?;
        learning.changed();
        Ok(f(learning.policies.get_mut(id)?.as_mut()))
    }

    /// Calls `f` with all learning policies. The call counts as learning, as that of [`with_policy`](Self::with_policy)
    /// does.
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

    /// Passes the means of its training statistics to the policy `id`, which may adapt to them.
    pub(crate) fn after_training(&self, id: &str, means: &BTreeMap<String, f64>) -> Result<()> {
        let Learning { policies, group, .. } = &mut *lock(&self.learning);
        policies.get_mut(id)?.after_training(means);
        group.as_mut().map_or(Ok(()), |group| group.after_training(id, means))
    }

    /// Number of processes that learn together, including the trainer.
    pub(crate) fn healthy(&self) -> usize {
        lock(&self.learning).group.as_ref().map_or(1, LearnerGroup::healthy)
    }

    /// Number of times that the learners in other processes were restarted.
    pub(crate) fn restarts(&self) -> u64 {
        lock(&self.learning).group.as_ref().map_or(0, LearnerGroup::restarts)
    }

    /// Whether a learner has failed and no setting lets the run go on without it.
    pub(crate) fn are_broken(&self) -> bool {
        lock(&self.learning).group.as_ref().is_some_and(LearnerGroup::is_broken)
    }

    /// Calls `f` with the trainer's callbacks object, if there is one.
    pub(crate) fn with_callbacks(&self, f: impl FnOnce(&mut Box<dyn Callbacks>) -> Result<()>) -> Result<()> {
        self.lend(|_, callbacks| callbacks.as_mut().map_or(Ok(()), f))
    }

    /// Calls `f` with the random stream that shuffles training batches.
    pub fn rng<T>(&self, f: impl FnOnce(&mut Stream) -> T) -> T {
        f(&mut lock(&self.learning).rng)
    }

    /// Makes [`mix_in`](Self::mix_in) keep the last `capacity` fragments that it gets.
    pub(crate) fn keep_fragments(&self, capacity: usize) {
        lock(&self.learning).fragments.get_or_insert_with(|| (Fragments::default(), capacity));
    }

    /// Returns a batch of `fragment` and `proportion` kept fragments, drawn at random; a fractional part of
    /// `proportion` is the probability of one more. Keeps `fragment`, too. Without
    /// [`keep_fragments`](Self::keep_fragments) it returns `fragment` alone.
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

    /// Calls `f` with the batches that are used for several learning steps.
    pub(crate) fn minibatches<T>(&self, f: impl FnOnce(&mut MinibatchBuffer) -> T) -> T {
        f(&mut lock(&self.learning).minibatches)
    }

    /// Tells all policies the number of environment steps sampled so far.
    pub(crate) fn tell_time(&self, timestep: u64) {
        self.lend(|policies, _| policies.on_global_var_update(timestep));
    }

    /// The weights of all policies.
    pub fn get_weights(&self) -> Weights {
        lock(&self.learning).policies.get_weights()
    }

    /// Publishes the weights if the policies have learned since the last publication. Returns whether weights were
    /// published.
    pub(crate) fn publish(&self) -> bool {
        self.publish_learned(&mut lock(&self.learning))
    }

    /// Does the work of [`publish`](Self::publish) for a caller that holds the lock of `learning`. The lock is held
    /// until the weights are published, so a newer version never has older weights. `published` is always locked after
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

    /// Publishes the weights if this is at least the `interval`-th call since the policies first learned after the last
    /// publication. Returns whether weights were published.
    pub(crate) fn broadcast(&self, interval: usize) -> bool {
        let mut learning = lock(&self.learning);
        if !learning.learned {
            return false;
        }
        learning.batches += 1;
        learning.batches >= interval && self.publish_learned(&mut learning)
    }

    /// Publishes the initial weights as version 0, for a run that is saved before the first publication.
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

    /// Returns the replay buffer of the policy `id`; the first call makes it. With `store_in_checkpoints` its rows are
    /// saved and restored with the run.
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
            let mut buffer = ReplayBuffer::new(config.clone(), rng);
            if config.kind == ReplayKind::HerReplayBuffer
                && let Some(goals) = self.goals(id)
            {
                let rng = Stream::new(self.seed, &part_of("hindsight", id), 0);
                buffer = buffer.with_goals(goals, rng);
            }
            Replay { buffer: Arc::new(Mutex::new(buffer)), store_in_checkpoints }
        };
        lock(&self.learning).replay.entry(id.to_owned()).or_insert_with(make).buffer.clone()
    }

    /// The goals of the environment for the policy `id`; `None` if its observations have none, which the settings' check
    /// has refused.
    fn goals(&self, id: &str) -> Option<Goals> {
        let WorkerSpec { names, policies, env, .. } = &*self.spec;
        let spaces = policies.spaces(id, &names.env_info.agents).ok()?;
        let columns = GoalColumns::of(&names.common, spaces).ok()?;
        Some(Goals::of_env(columns, env, &names.common))
    }

    /// Returns an error for the replay mode `lockstep` if it would have no effect, or if rows are drawn by priorities.
    ///
    /// # Errors
    /// Returns [`Error::Config`] in both cases.
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
