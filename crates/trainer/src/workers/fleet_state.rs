//! The state of the rollout workers in checkpoints.

use crate::sample::{Reply, Request, Sampled};
use crate::workers::WorkerSet;
use crate::workers::fleet::Fleet;
use pavlov_learn::base::{Result, State, lock};
use pavlov_learn::experience::Column;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

impl Fleet {
    /// Returns the state of every worker, and the fragments that arrived early, as named parts of a checkpoint. After a
    /// failure that ended the run, workers that do not answer are left out.
    pub(crate) fn save(&mut self, run: &mut State) -> Result<Vec<(String, State)>> {
        let mut parts = vec![("worker0".to_owned(), self.local.state()?)];
        self.local.save_filters(run)?;
        if let Some(task) = &self.task {
            run.set("task", task.as_ref())?;
        }
        if self.is_empty() {
            return Ok(parts);
        }
        // Workers answer in order, so with these replies every requested fragment has arrived, too.
        let was_broken = self.is_broken || self.learners.are_broken();
        let replies = match self.ask_all(|_| Request::GetState) {
            Err(_) if was_broken => BTreeMap::new(),
            replies => replies?,
        };
        run.set("workers", &replies.keys().map(|w| w + 1).collect::<Vec<_>>())?;
        for (worker, reply) in replies {
            if let Reply::State(state) = reply {
                parts.push((format!("worker{}", worker + 1), state));
            }
        }
        if self.turn > 0 {
            run.set("turn", &(self.turn + 1))?;
        }
        // The list in `run` names a worker once for each of its fragments.
        let early = || {
            let of_worker = |(w, parts): (usize, &'_ VecDeque<Sampled>)| vec![w + 1; parts.len()];
            self.early.iter().enumerate().flat_map(of_worker).zip(self.early.iter().flatten())
        };
        if early().next().is_some() {
            let mut sampled = State::default();
            sampled.set(PRIORITIES_APART, &true)?;
            run.set("ahead", &early().map(|(worker, _)| worker).collect::<Vec<_>>())?;
            for (i, (worker, part)) in early().enumerate() {
                sampled.nest(&early_name(early().map(|(w, _)| w), i, worker), part.state()?);
            }
            parts.push(("ahead".to_owned(), sampled));
        }
        Ok(parts)
    }

    /// Restores the parts that [`save`](Self::save) returned, and sends the newest published weights. A worker without
    /// a saved state starts new episodes.
    pub(crate) fn restore(&mut self, run: &State, read: &dyn Fn(&str) -> Result<State>) -> Result<()> {
        if run.has("task") {
            self.set_task(Arc::new(run.get("task")?))?;
        }
        let Self { local, learners, .. } = self;
        let own = read("worker0")?;
        learners.lend(|_, hooks| local.set_state(&own, hooks)).map_err(|e| e.within("worker0"))?;
        local.restore_filters(run)?;
        if self.is_empty() {
            return Ok(());
        }
        self.health.forget_all();
        self.early.iter_mut().for_each(VecDeque::clear);
        let saved: Vec<usize> = run.get("workers")?;
        let states: BTreeMap<usize, Arc<State>> = saved
            .into_iter()
            .map(|i| Ok((i, Arc::new(read(&format!("worker{i}"))?))))
            .collect::<Result<_>>()?;
        self.send_weights()?;
        let stats = self.local.filter_stats();
        self.send_filters(stats)?;
        // A worker without a saved state gets a request that changes nothing, so that every worker gets a request.
        let request = |w: usize| {
            states.get(&(w + 1)).map_or(Request::GetState, |state| Request::SetState(Arc::clone(state)))
        };
        self.ask_all(request)?;
        if run.has("ahead") {
            let sampled = read("ahead")?;
            let workers = run.get::<Vec<usize>>("ahead")?;
            for (i, &worker) in workers.iter().enumerate() {
                let name = early_name(workers.iter().copied(), i, worker);
                let part = read_early(&sampled, &name).map_err(|e| e.within("ahead"))?;
                self.early[worker - 1].push_back(part);
            }
        }
        self.turn = if run.has("turn") { run.get::<usize>("turn")? - 1 } else { 0 };
        Ok(())
    }
}

/// Key that a checkpoint has if the first priorities of rows are in a column of their own; in older checkpoints they
/// are in the column `weights`.
const PRIORITIES_APART: &str = "priorities";

/// Reads the early fragment called `name` from the part of a checkpoint that holds early fragments.
fn read_early(sampled: &State, name: &str) -> Result<Sampled> {
    let mut part = Sampled::from_state(&mut sampled.nested(name)?)?;
    if !sampled.has(PRIORITIES_APART) {
        let rows = part.batch.policies.values_mut();
        rows.for_each(|rows| rows.rename(Column::WEIGHTS, Column::PRIORITIES));
    }
    Ok(part)
}

/// Name of the early fragment at position `i` in a checkpoint: `worker3` for worker 3's first fragment, `worker3_1` for
/// its second one.
fn early_name(workers: impl Iterator<Item = usize>, i: usize, worker: usize) -> String {
    match workers.take(i).filter(|&w| w == worker).count() {
        0 => format!("worker{worker}"),
        before => format!("worker{worker}_{before}"),
    }
}

impl WorkerSet {
    /// Returns the whole state of the run as named parts: policies, workers, counters, random streams, replay buffers.
    /// After a failure that ended the run, workers that do not answer are left out.
    ///
    /// # Errors
    /// Fails if a policy cannot save its state, the learner thread has failed, or a worker fails and no setting lets
    /// the run go on without it.
    pub fn state(&self) -> Result<Vec<(String, State)>> {
        let mut run = State::default();
        let mut parts = self.learners.save(&mut run, self.has_workers)?;
        parts.extend(lock(&self.fleet).save(&mut run)?);
        self.ledger.save(&mut run)?;
        parts.push(("run".to_owned(), run));
        Ok(parts)
    }

    /// Restores the parts that [`state`](Self::state) returned; `read` returns a part by its name. A worker without a
    /// saved state starts new episodes.
    ///
    /// # Errors
    /// Fails if `read` or a worker does. Returns [`Error::State`](crate::Error::State) if a part is not of a run like
    /// this one. After an error some parts are restored, and others are not.
    pub fn set_state(&self, read: impl Fn(&str) -> Result<State>) -> Result<()> {
        let run = read("run")?;
        self.ledger.restore(&run)?;
        self.learners.restore(&run, self.counters().num_env_steps_sampled, &read)?;
        lock(&self.fleet).restore(&run, &read)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::{DEFAULT_POLICY, SamplerPerf};
    use crate::experience::TrainBatch;
    use pavlov_learn::experience::SampleBatch;

    #[test]
    fn early_fragments_of_older_checkpoints_have_their_first_priorities_in_weights() {
        let rows = SampleBatch::default().with_f32s(Column::WEIGHTS, &[2.0, 3.0]);
        let batch =
            TrainBatch { policies: [(DEFAULT_POLICY.to_owned(), rows)].into(), ..TrainBatch::default() };
        let part = Sampled { batch, episodes: Vec::new(), version: 0, perf: SamplerPerf::default() };
        let mut sampled = State::default();
        sampled.nest("worker1", part.state().expect("a state"));
        let columns = |sampled: &State| {
            let part = read_early(sampled, "worker1").expect("a fragment");
            let rows = &part.batch.policies[DEFAULT_POLICY];
            rows.columns().map(|(column, _)| column).collect::<Vec<_>>()
        };
        assert_eq!(columns(&sampled), [Column::PRIORITIES]);
        sampled.set(PRIORITIES_APART, &true).expect("a key");
        assert_eq!(columns(&sampled), [Column::WEIGHTS]);
    }
}
