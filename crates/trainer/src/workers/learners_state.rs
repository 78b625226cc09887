//! The state of the policies that learn, and of their replay buffers, in checkpoints.

use crate::base::{PolicyId, part_of};
use crate::replay::Fragments;
use crate::workers::learners::{Learners, Published};
use pavlov_learn::base::{Error, Result, State, Stream, Weights, lock};
use std::collections::BTreeMap;

impl Learners {
    /// Returns policies and replay buffers as named parts of a checkpoint, and writes random stream, versions and
    /// counts into `run`. With `with_workers` the workers' weights are added if they are older than the policies. A
    /// learner thread first learns from all batches in its queue.
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

    /// Restores the parts that [`save`](Self::save) returned, and publishes the weights with which workers continue.
    pub(crate) fn restore(
        &self,
        run: &State,
        timestep: u64,
        read: &dyn Fn(&str) -> Result<State>,
    ) -> Result<()> {
        // The waiting batches belong to the state before; if the learner thread has failed, the next round reports it.
        let _ = self.queue.wait();
        let learning = &mut *lock(&self.learning);
        // Policies that do not save the number of environment steps get it here.
        learning.policies.on_global_var_update(timestep);
        learning.changed();
        learning.policies.set_state(&read("policies")?).map_err(|e| e.within("policies"))?;
        learning.learned = run.has("batches_since_broadcast");
        learning.batches = if learning.learned { run.get("batches_since_broadcast")? } else { 0 };
        let workers_have = if learning.learned {
            Weights::new(read("broadcast_weights")?)
        } else {
            learning.policies.get_weights()
        };
        learning.rng = Stream::from_state(run.get("learner_rng")?);
        // Checkpoints of the first format have no versions.
        let version = if run.has("weights_version") { run.get("weights_version")? } else { 0 };
        let mut published = lock(&self.published);
        // The version never decreases: workers ignore weights older than theirs.
        let version = published.version.max(version);
        *published = Published { version, weights: Some(workers_have) };
        drop(published);
        // A run that kept no fragments may be continued with settings that keep some.
        let kept = learning.fragments.as_mut().filter(|_| run.has("keeps_fragments"));
        if let Some((fragments, capacity)) = kept {
            let saved = read("fragments")?;
            *fragments = Fragments::from_state(&saved, *capacity).map_err(|e| e.within("fragments"))?;
        }
        learning.minibatches = if run.has("keeps_minibatches") {
            learning.minibatches.restored(&read("minibatches")?).map_err(|e| e.within("minibatches"))?
        } else {
            learning.minibatches.emptied()
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

    /// The states of all replay buffers, by policy id.
    pub(crate) fn replay_buffers(&self) -> Result<BTreeMap<PolicyId, State>> {
        let learning = lock(&self.learning);
        learning.replay.iter().map(|(id, replay)| Ok((id.clone(), lock(&replay.buffer).state()?))).collect()
    }

    /// Replaces the contents of replay buffers, by policy id.
    pub(crate) fn set_replay_buffers(&self, buffers: &BTreeMap<PolicyId, State>) -> Result<()> {
        let learning = lock(&self.learning);
        for (id, state) in buffers {
            let Some(replay) = learning.replay.get(id) else {
                return Err(Error::state("the replay buffer", format!("the policy {id:?} has none here")));
            };
            lock(&replay.buffer).set_state(state)?;
        }
        Ok(())
    }

    /// Warns that replay buffers start empty after a restore, if checkpoints do not store some of them.
    pub(crate) fn tell_of_empty_buffers(&self) {
        if lock(&self.learning).replay.values().any(|replay| !replay.store_in_checkpoints) {
            tracing::warn!(
                "this run does not keep its replay buffer in checkpoints (`store_buffer_in_checkpoints`): it starts empty"
            );
        }
    }

    /// Exchanges the callbacks object with that of `others`, and the contents of the replay buffers of policies that
    /// both have.
    pub(crate) fn take_over(&self, others: &Self) {
        let own = &mut *lock(&self.learning);
        let others = &mut *lock(&others.learning);
        std::mem::swap(&mut own.callbacks, &mut others.callbacks);
        for (id, replay) in &own.replay {
            if let Some(before) = others.replay.get(id) {
                std::mem::swap(&mut *lock(&replay.buffer), &mut *lock(&before.buffer));
            }
        }
    }
}
