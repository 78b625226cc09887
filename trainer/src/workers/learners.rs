//! The policies that learn, and what learning draws and remembers. No environment, no transport.

use crate::base::{DEFAULT_POLICY, Error, PolicyId, Result, State, Stream, Weights, lock};
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

/// The policies that learn, their hooks, the stream that shuffles, and the replay buffers. A clone is another handle to
/// them.
///
/// Weights that workers are sent stand in a slot of their own with their version, so sending them never waits for
/// a gradient.
#[derive(Clone, Debug)]
pub struct Learners {
    learning: Arc<Mutex<Learning>>,
    published: Arc<Mutex<Published>>,
    /// What a learner thread has still to learn from.
    queue: Arc<LearnerQueue>,
    /// The policies that learn.
    to_train: Arc<[PolicyId]>,
    device: Device,
    seed: u64,
    replay_mode: ReplayMode,
}

struct Learning {
    policies: PolicyMap,
    callbacks: Hooks,
    rng: Stream,
    replay: BTreeMap<PolicyId, Replay>,
    /// Fragments that are mixed in among new ones, and how many there may be.
    fragments: Option<(Fragments, usize)>,
    /// Batches that are learned from several times in turn.
    minibatches: MinibatchBuffer,
    /// Since weights were published the last time.
    learned: bool,
    /// Training batches since then, where not every one is followed by new weights.
    batches: usize,
    /// Those that learn along in other processes.
    group: Option<LearnerGroup>,
}

impl Learning {
    fn changed(&mut self) {
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
struct Replay {
    buffer: Arc<Mutex<ReplayBuffer>>,
    store_in_checkpoints: bool,
}

/// Weights as workers have them or are to have them. Before the first publication there are none: every worker starts
/// equal.
#[derive(Clone, Debug, Default)]
pub(crate) struct Published {
    pub(crate) version: u64,
    pub(crate) weights: Option<Weights>,
}

impl Learners {
    /// Policies that learn on `device`.
    pub(crate) fn new(spec: &WorkerSpec, device: Device) -> Result<Self> {
        Ok(Self {
            learning: Arc::new(Mutex::new(Learning {
                policies: spec.policies(0, device)?,
                callbacks: spec.callbacks.as_ref().map(CallbacksMaker::make),
                rng: Stream::new(spec.seed, "learner", 0),
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
            seed: spec.seed,
            replay_mode: spec.common.multiagent.replay_mode,
        })
    }

    /// Where they learn.
    pub(crate) fn device(&self) -> Device {
        self.device
    }

    /// What a learner thread has still to learn from.
    pub(crate) fn queue(&self) -> &Arc<LearnerQueue> {
        &self.queue
    }

    /// One learning step of that policy, hooks included; with it what the hook reported.
    ///
    /// # Errors
    /// Returns [`Error::UnknownPolicy`] if there is no policy of that id; fails if the
    /// policy or the hook does.
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

    /// Calls `f` with the learning policy of that id. It counts as learning: whatever `f` does, the next
    /// synchronisation sends the weights.
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

    /// Lends policies and hooks to something that leaves the weights as they are.
    pub(crate) fn lend<T>(&self, f: impl FnOnce(&mut PolicyMap, &mut Hooks) -> T) -> T {
        let Learning { policies, callbacks, .. } = &mut *lock(&self.learning);
        f(policies, callbacks)
    }

    /// Lends the policy of that id to something that leaves its weights as they are.
    pub(crate) fn lend_policy<T>(&self, id: &str, f: impl FnOnce(&mut dyn Policy) -> T) -> Result<T> {
        self.lend(|policies, _| Ok(f(policies.get_mut(id)?.as_mut())))
    }

    /// Moves the target network of that policy.
    pub(crate) fn update_target(&self, id: &str) -> Result<()> {
        let Learning { policies, group, .. } = &mut *lock(&self.learning);
        policies.get_mut(id)?.update_target();
        group.as_mut().map_or(Ok(()), |group| group.update_target(id))
    }

    /// Has that policy adapt to the means of its statistics.
    pub(crate) fn after_training(&self, id: &str, means: &BTreeMap<String, f64>) -> Result<()> {
        let Learning { policies, group, .. } = &mut *lock(&self.learning);
        policies.get_mut(id)?.after_training(means);
        group.as_mut().map_or(Ok(()), |group| group.after_training(id, means))
    }

    /// How many learn, the trainer among them.
    pub(crate) fn healthy(&self) -> usize {
        lock(&self.learning).group.as_ref().map_or(1, LearnerGroup::healthy)
    }

    /// How many times the others were started anew.
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

    /// The random stream of learning: shuffling.
    pub fn rng<T>(&self, f: impl FnOnce(&mut Stream) -> T) -> T {
        f(&mut lock(&self.learning).rng)
    }

    /// Keeps the last `capacity` fragments that [`mix_in`](Self::mix_in) gets.
    pub(crate) fn keep_fragments(&self, capacity: usize) {
        lock(&self.learning).fragments.get_or_insert_with(|| (Fragments::default(), capacity));
    }

    /// The fragment and behind it `proportion` of those that are kept; a rest of it is their probability. It is kept itself.
    pub(crate) fn mix_in(&self, fragment: TrainBatch, proportion: f64) -> Result<TrainBatch> {
        let Learning { fragments, rng, .. } = &mut *lock(&self.learning);
        let Some((fragments, capacity)) = fragments else { return Ok(fragment) };
        let (whole, rest) = (proportion.trunc() as usize, proportion.fract());
        let times = whole + usize::from(rest > 0.0 && rng.uniform_f64() < rest);
        let mut all: Vec<TrainBatch> = (0..times).filter_map(|_| fragments.draw(rng)).collect();
        fragments.add(fragment.share(), *capacity);
        all.insert(0, fragment);
        TrainBatch::concat(all)
    }

    /// The batches that are learned from several times in turn.
    pub(crate) fn minibatches<T>(&self, f: impl FnOnce(&mut MinibatchBuffer) -> T) -> T {
        f(&mut lock(&self.learning).minibatches)
    }

    /// Tells all policies how many environment steps were sampled.
    pub(crate) fn tell_time(&self, timestep: u64) {
        self.lend(|policies, _| policies.on_global_var_update(timestep));
    }

    /// The weights of all policies.
    pub fn get_weights(&self) -> Weights {
        lock(&self.learning).policies.get_weights()
    }

    /// Publishes the weights if something was learned since the last time; whether it was.
    pub(crate) fn publish(&self) -> bool {
        self.publish_learned(&mut lock(&self.learning))
    }

    /// As [`publish`](Self::publish), by the only holder of what is learned. It holds that until the weights stand under their
    /// version, so that a newer version never has older weights. `published` is always locked after `learning`.
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

    /// Publishes the weights if something was learned in at least `interval` calls since the last time; whether it did.
    pub(crate) fn broadcast(&self, interval: usize) -> bool {
        let mut learning = lock(&self.learning);
        if !learning.learned {
            return false;
        }
        learning.batches += 1;
        learning.batches >= interval && self.publish_learned(&mut learning)
    }

    /// Keeps the weights that every worker starts with, for a run that may be saved before others are published.
    pub(crate) fn publish_first(&self) {
        let learning = lock(&self.learning);
        let mut published = lock(&self.published);
        if published.weights.is_none() {
            published.weights = Some(learning.policies.get_weights());
        }
    }

    /// What was published last.
    pub(crate) fn published(&self) -> Published {
        lock(&self.published).clone()
    }

    /// The policies that learn.
    pub(crate) fn to_train(&self) -> &[PolicyId] {
        &self.to_train
    }

    /// The replay buffer of that policy; made at the first call. With `store_in_checkpoints` its rows are saved and
    /// restored with the run.
    pub(crate) fn replay_buffer(
        &self,
        id: &str,
        config: &ReplayBufferConfig,
        store_in_checkpoints: bool,
    ) -> Arc<Mutex<ReplayBuffer>> {
        let make = || {
            // Equal streams draw equal places.
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

    /// Refuses replay in lockstep where it would have no effect, or rows are drawn by priorities of their own.
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

    /// Policies and replay buffer as parts of a checkpoint, and `with_workers` the weights that these have if others were
    /// learned since; the rest goes into the state of the run. A learner thread learns its queue empty before.
    pub(crate) fn save(&self, run: &mut State, with_workers: bool) -> Result<Vec<(String, State)>> {
        self.queue.wait()?;
        let learning = lock(&self.learning);
        run.set("learner_rng", &learning.rng.state())?;
        run.set("weights_version", &self.published().version)?;
        let mut parts = vec![("policies".to_owned(), learning.policies.get_state()?)];
        let published = lock(&self.published).weights.clone().filter(|_| with_workers && learning.learned);
        if let Some(weights) = published {
            run.set("batches_since_broadcast", &learning.batches)?;
            parts.push(("broadcast_weights".to_owned(), State::clone(&weights)));
        }
        for (id, replay) in learning.replay.iter().filter(|(_, r)| r.store_in_checkpoints) {
            parts.push((part_of("replay_buffer", id), lock(&replay.buffer).state()?));
        }
        if let Some((fragments, _)) = &learning.fragments {
            run.set("keeps_fragments", &true)?;
            parts.push(("fragments".to_owned(), fragments.state()?));
        }
        if learning.minibatches.has_several() {
            run.set("keeps_minibatches", &true)?;
            parts.push(("minibatches".to_owned(), learning.minibatches.state()?));
        }
        Ok(parts)
    }

    /// What [`save`](Self::save) saved, and publishes the weights that workers are to go on with.
    pub(crate) fn restore(
        &self,
        run: &State,
        timestep: u64,
        read: &dyn Fn(&str) -> Result<State>,
    ) -> Result<()> {
        // What it has still to learn from belongs to the run before; if it has failed, the next round says so.
        let _ = self.queue.wait();
        let learning = &mut *lock(&self.learning);
        // For policies that do not save it.
        learning.policies.on_global_var_update(timestep);
        learning.changed();
        learning.policies.set_state(&read("policies")?).map_err(|e| e.within("policies"))?;
        learning.learned = run.has("batches_since_broadcast");
        learning.batches = if learning.learned { run.get("batches_since_broadcast")? } else { 0 };
        let workers_have = match learning.learned {
            true => Weights::new(read("broadcast_weights")?),
            false => learning.policies.get_weights(),
        };
        learning.rng = Stream::from_state(run.get("learner_rng")?);
        // Runs of the first layout had no versions.
        let version = if run.has("weights_version") { run.get("weights_version")? } else { 0 };
        let mut published = lock(&self.published);
        // Never back: workers ignore what is older than what they have.
        let version = published.version.max(version);
        *published = Published { version, weights: Some(workers_have) };
        drop(published);
        // A run that kept none may go on with settings that keep some.
        let kept = learning.fragments.as_mut().filter(|_| run.has("keeps_fragments"));
        if let Some((fragments, capacity)) = kept {
            let saved = read("fragments")?;
            *fragments = Fragments::from_state(&saved, *capacity).map_err(|e| e.within("fragments"))?;
        }
        learning.minibatches = match run.has("keeps_minibatches") {
            true => {
                learning.minibatches.restored(&read("minibatches")?).map_err(|e| e.within("minibatches"))?
            }
            false => learning.minibatches.emptied(),
        };
        for (id, replay) in &learning.replay {
            if replay.store_in_checkpoints {
                let part = part_of("replay_buffer", id);
                let state = read(&part)?;
                lock(&replay.buffer).set_state(&state).map_err(|e| e.within(&part))?;
            }
        }
        Ok(())
    }

    /// Warns that a restored run starts with empty replay buffers, if it does.
    pub(crate) fn tell_of_empty_buffers(&self) {
        if lock(&self.learning).replay.values().any(|replay| !replay.store_in_checkpoints) {
            tracing::warn!(
                "this run does not keep its replay buffer in checkpoints (`store_buffer_in_checkpoints`): it starts empty"
            );
        }
    }

    /// Goes on with the hooks of `others`, and with the replay buffers of policies that both have.
    pub(crate) fn take_over(&self, others: &Self) {
        let (own, others) = (&mut *lock(&self.learning), &mut *lock(&others.learning));
        std::mem::swap(&mut own.callbacks, &mut others.callbacks);
        for (id, replay) in &own.replay {
            if let Some(before) = others.replay.get(id) {
                std::mem::swap(&mut *lock(&replay.buffer), &mut *lock(&before.buffer));
            }
        }
    }
}

/// The name of what a policy has for itself; that of a single-agent run has the short one.
fn part_of(name: &str, id: &str) -> String {
    if id == DEFAULT_POLICY { name.to_owned() } else { format!("{name}_{id}") }
}
