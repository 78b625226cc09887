//! The learners in other processes that learn together with the trainer (`num_learners`).
//!
//! Each learner has a copy of the policies and takes the same steps on the same batches as the trainer. Only the work
//! of a gradient is divided: each learner computes some pieces of the batch, and then all get the whole gradient (see
//! [`Together`]). So the result of a run does not depend on the number of learners. When a learner is lost, the trainer
//! computes its pieces, and no result is lost.

use crate::policy::{Learned, Policy, PolicyMap};
use crate::sample::{Follow, Reply, Request, WorkerNames, WorkerSpec};
use crate::settings::Common;
use crate::workers::transport::{Asked, Completion, ProcessPool, RayPool, WorkerPool};
use pavlov_learn::base::{Error, Result, State};
use pavlov_learn::engines::Together;
use pavlov_learn::experience::SampleBatch;
use pavlov_processes::{SocketCollective, listen, listen_here, meet};
use pavlov_processes::{WorkerTransport, Workers};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

/// Number of steps by which a learner may be behind the trainer before the trainer waits for it.
const AHEAD: usize = 16;
/// Longest time to wait for the reason why a learner was lost.
const REASON: Duration = Duration::from_secs(5);

/// The trainer's view of the learners in other processes.
#[derive(Debug)]
pub(crate) struct LearnerGroup {
    pool: Box<dyn WorkerPool>,
    /// Address of this machine in the Ray cluster, if the learners run there.
    node: Option<String>,
    common: Common,
    /// Connection between trainer and learners; `None` until they have connected, or when they must connect again.
    together: Option<Together>,
    /// Whether the trainer goes on without the learners in other processes.
    given_up: bool,
    /// Whether the learners have the same policies as the trainer.
    in_step: bool,
    /// Numbers of the requests that the learners have not answered.
    owed: BTreeSet<u64>,
    /// Number of times in a row that a learner was lost.
    losses: usize,
    /// Number of times that all learners were started anew.
    restarts: u64,
}

impl LearnerGroup {
    /// Starts the learners that the settings ask for; `None` if the trainer learns alone.
    ///
    /// # Errors
    /// Fails if a process or actor cannot be started, or cannot make its policies.
    pub(crate) fn new(spec: &WorkerSpec) -> Result<Option<Self>> {
        let learners = spec.names.common.num_learners;
        if learners < 2 || !spec.names.sampling {
            return Ok(None);
        }
        let common = Common {
            workers: Workers { number: None, ..spec.names.common.learners },
            num_cpus_per_worker: spec.names.common.num_cpus_per_learner,
            num_gpus_per_worker: 0.0,
            custom_resources_per_worker: BTreeMap::new(),
            label_selector_per_worker: BTreeMap::new(),
            // After a loss all learners connect again, so the pool itself replaces none.
            recreate_failed_workers: false,
            ..spec.names.common.clone()
        };
        // Learners have policies, but no environments.
        let mut own = spec.clone();
        own.names = WorkerNames { common, sampling: false, ..own.names };
        let started = match spec.names.common.learners.transport {
            WorkerTransport::Ray => RayPool::asked(&own, learners - 1, Asked::LEARNERS).map(|pool| {
                let node = Some(pool.node_address().to_owned());
                (Box::new(pool) as Box<dyn WorkerPool>, node)
            }),
            _ => {
                ProcessPool::new(&own, learners - 1).map(|pool| (Box::new(pool) as Box<dyn WorkerPool>, None))
            }
        };
        let (pool, node) = started.map_err(of_learners)?;
        let mut group = Self {
            pool,
            node,
            common: spec.names.common.clone(),
            together: None,
            given_up: false,
            in_step: false,
            owed: BTreeSet::new(),
            losses: 0,
            restarts: 0,
        };
        group.meet().map_err(|(learner, reason)| failed(learner, &reason))?;
        Ok(Some(group))
    }

    /// Number of processes that learn together, including the trainer.
    pub(crate) fn healthy(&self) -> usize {
        if self.together.is_none() { 1 } else { self.pool.len() + 1 }
    }

    /// Whether a learner has failed and no setting lets the run go on without it.
    pub(crate) fn is_broken(&self) -> bool {
        self.losses > 0 && self.together.is_none() && !self.given_up
    }

    /// Whether the trainer goes on without the learners in other processes.
    pub(crate) fn is_given_up(&self) -> bool {
        self.given_up
    }

    /// Number of times that all learners were started anew.
    pub(crate) fn restarts(&self) -> u64 {
        self.restarts
    }

    /// Records that the trainer's policies have changed in a way that the learners were not told.
    pub(crate) fn out_of_step(&mut self) {
        self.in_step = false;
    }

    /// Takes one learning step of the policy `id`; trainer and learners share its work.
    pub(crate) fn learn(
        &mut self,
        policies: &mut PolicyMap,
        id: &str,
        batch: &SampleBatch,
    ) -> Result<Learned> {
        let Some(together) = self.ready(policies)? else {
            return policies.get_mut(id)?.learn_on_batch(batch);
        };
        let mut rows = State::default();
        batch.save(&mut rows)?;
        let policy = policies.get_mut(id)?;
        let moment = policy.learner_mut().map(|learner| learner.moment());
        self.tell(&Follow::Learn { policy: id.to_owned(), moment, batch: Arc::new(rows) })?;
        let learn_with = |policy: &mut dyn Policy, together| {
            if let Some(learner) = policy.learner_mut() {
                learner.learn_with(together);
            }
        };
        learn_with(policy.as_mut(), Some(together.clone()));
        let learned = policy.learn_on_batch(batch);
        learn_with(policy.as_mut(), None);
        if learned.is_err() {
            // The learners may have gone on, or may still wait for this step.
            self.together = None;
            return learned;
        }
        match (together.lost(), self.hear()) {
            (None, Ok(())) => self.losses = 0,
            (lost, heard) => {
                let (learner, reason) = match heard {
                    Err(fault) => fault,
                    Ok(()) => self.reason(lost.unwrap_or_default()),
                };
                self.lose(learner, &reason)?;
            }
        }
        learned
    }

    /// Tells the learners to update the target network of the policy `id`.
    pub(crate) fn update_target(&mut self, id: &str) -> Result<()> {
        self.tell_if_in_step(|| Follow::UpdateTarget { policy: id.to_owned() })
    }

    /// Tells the learners the means of the training statistics of the policy `id`.
    pub(crate) fn after_training(&mut self, id: &str, means: &BTreeMap<String, f64>) -> Result<()> {
        let means = || means.iter().map(|(name, mean)| (name.clone(), mean.to_bits())).collect();
        self.tell_if_in_step(|| Follow::AfterTraining { policy: id.to_owned(), means: means() })
    }

    /// Sends a request to all learners if they have the policies of the trainer.
    fn tell_if_in_step(&mut self, follow: impl FnOnce() -> Follow) -> Result<()> {
        // Other learners get the whole policies before the next step.
        if self.in_step && self.together.is_some() { self.tell(&follow()) } else { Ok(()) }
    }

    /// Gives the learners the policies of the trainer if they do not have them; returns the connection to them, or
    /// `None` if the trainer learns alone from now on.
    fn ready(&mut self, policies: &PolicyMap) -> Result<Option<Together>> {
        while self.together.is_none() && !self.given_up {
            self.restarts += 1;
            if let Err((learner, reason)) = self.start_anew() {
                self.lose(learner, &reason)?;
            }
        }
        if self.given_up {
            return Ok(None);
        }
        if !self.in_step {
            self.tell(&Follow::SetPolicies { state: Arc::new(policies.get_state()?) })?;
            self.in_step = true;
        }
        Ok(self.together.clone())
    }

    /// Sends a request to all learners, without waiting for the answers.
    fn tell(&mut self, follow: &Follow) -> Result<()> {
        for learner in 0..self.pool.len() {
            let request = self.pool.submit(learner, Request::Follow(follow.clone()))?;
            self.owed.insert(request);
        }
        Ok(())
    }

    /// Reads the answers of the learners that have arrived; waits for more if a learner is far behind.
    fn hear(&mut self) -> Result<(), (usize, String)> {
        loop {
            let patience =
                if self.owed.len() > AHEAD * self.pool.len() { None } else { Some(Duration::ZERO) };
            match self.pool.next(patience) {
                Ok(None) => return Ok(()),
                Ok(Some(completion)) => _ = self.answer(completion)?,
                Err(error) => return Err((1, error.to_string())),
            }
        }
    }

    /// Returns the reply in `completion` and the index of the learner that sent it; `None` if that learner has been
    /// replaced.
    fn answer(&mut self, completion: Completion) -> Result<Option<(usize, Reply)>, (usize, String)> {
        let Completion { worker, incarnation, request, result } = completion;
        self.owed.remove(&request);
        if incarnation != self.pool.incarnation(worker) {
            return Ok(None);
        }
        match result {
            Ok(reply) => Ok(Some((worker, reply))),
            Err(fault) => Err((worker + 1, fault.reason())),
        }
    }

    /// Returns the number of the learner that was lost, and the reason; `lost`, the error of the connection, counts if
    /// no learner reports one.
    fn reason(&mut self, lost: String) -> (usize, String) {
        while let Ok(Some(completion)) = self.pool.next(Some(REASON)) {
            if let Err(fault) = self.answer(completion) {
                return fault;
            }
        }
        (1, lost)
    }

    /// Handles the loss of a learner, as the settings for failed workers say.
    fn lose(&mut self, learner: usize, reason: &str) -> Result<()> {
        self.together = None;
        self.in_step = false;
        self.losses += 1;
        let goes_on = self.losses <= self.common.num_consecutive_worker_failures_tolerance;
        if self.common.recreate_failed_workers && goes_on {
            tracing::warn!("learner {learner} failed: {reason}; all learners are started anew");
        } else if self.common.ignore_worker_failures && goes_on {
            tracing::warn!("learner {learner} failed: {reason}; the trainer learns alone from here on");
            self.given_up = true;
        } else {
            return Err(failed(learner, reason));
        }
        Ok(())
    }

    /// Starts all learners anew and connects them.
    fn start_anew(&mut self) -> Result<(), (usize, String)> {
        self.owed.clear();
        self.in_step = false;
        for learner in 0..self.pool.len() {
            self.pool.respawn(learner).map_err(|error| (learner + 1, error.to_string()))?;
        }
        self.meet()
    }

    /// Connects the learners and the trainer with each other.
    fn meet(&mut self) -> Result<(), (usize, String)> {
        let here = |error: pavlov_processes::Error| (0, error.to_string());
        let (listener, own) = self.node.as_deref().map_or_else(listen_here, listen).map_err(here)?;
        let asked = self.ask(|_| Follow::Listen)?;
        let mut addresses = vec![own; self.pool.len() + 1];
        for (learner, reply) in self.answers(asked)? {
            if let Reply::Listens(address) = reply {
                addresses[learner + 1] = address;
            }
        }
        let secret = rand::random();
        let asked = self.ask(|rank| Follow::Meet { rank, addresses: addresses.clone(), secret })?;
        let peers = meet(&listener, 0, &addresses, &secret).map_err(here)?;
        self.answers(asked)?;
        let collective = SocketCollective::new(0, peers).map_err(here)?;
        self.together = Some(Together::new(Arc::new(collective)));
        Ok(())
    }

    /// Sends each learner the request that `follow` returns for its number, which is counted from 1. Returns the
    /// numbers of the requests.
    fn ask(&mut self, follow: impl Fn(usize) -> Follow) -> Result<BTreeSet<u64>, (usize, String)> {
        let pool = &mut self.pool;
        (0..pool.len())
            .map(|learner| {
                let request = Request::Follow(follow(learner + 1));
                pool.submit(learner, request).map_err(|error| (learner + 1, error.to_string()))
            })
            .collect()
    }

    /// Waits for the replies to the requests with the numbers `asked`; returns each with the index of the learner.
    fn answers(&mut self, mut asked: BTreeSet<u64>) -> Result<Vec<(usize, Reply)>, (usize, String)> {
        let patience = self.common.worker_health_probe_timeout_s.map(Duration::from_secs_f64);
        let mut replies = Vec::new();
        while !asked.is_empty() {
            let completion = self.pool.next(patience).map_err(|error| (1, error.to_string()))?;
            let Some(completion) = completion else {
                return Err((1, crate::workers::transport::not_ready(patience)));
            };
            let is_asked = asked.remove(&completion.request);
            replies.extend(self.answer(completion)?.filter(|_| is_asked));
        }
        Ok(replies)
    }
}

/// Makes the error about a failed learner.
fn failed(learner: usize, reason: &str) -> Error {
    let reason = format!("{reason}; set `recreate_failed_workers` or `ignore_worker_failures` to carry on");
    Error::Learner { learner, reason }
}

/// Turns an error about `workers` or a worker into the same error about `learners` or a learner.
fn of_learners(error: Error) -> Error {
    match error {
        Error::Config { key, value, rule } if key == "workers" => Error::config("learners", value, rule),
        Error::Tune(pavlov_tune::Error::Config { key, value, rule }) if key == "workers" => {
            Error::config("learners", value, rule)
        }
        Error::Worker { worker, reason } => Error::Learner { learner: worker, reason },
        other => other,
    }
}
