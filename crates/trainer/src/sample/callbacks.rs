//! Hooks into sampling and training, with Ray's names.

use crate::agents::{PolicyChange, PolicyEdit};
use crate::base::Episode;
use crate::experience::TrainBatch;
use crate::policy::PolicyMap;
use pavlov_learn::base::{Result, State, Weights};
use pavlov_learn::experience::SampleBatch;
use pavlov_tune::{Config, Metrics};
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The result of one step of one environment copy.
#[derive(Clone, Copy, Debug)]
pub struct StepView<'a> {
    /// The observation after the step, encoded as the network's input; empty in multi-agent environments.
    pub obs: &'a [f32],
    /// The reward of the step; with several agents, the sum of their rewards.
    pub reward: f32,
    /// Whether the step reached a terminal state.
    pub terminated: bool,
    /// Whether the episode was truncated after the step, by a time limit for example.
    pub truncated: bool,
}

/// Hooks into sampling and training; by default each hook does nothing. The trainer and every worker have instances
/// of their own.
///
/// A restored run makes new instances. Checkpoints hold the [`Episode`]s, and the [`state`](Self::state) of the
/// trainer's instance; an instance of a worker must keep in the episodes whatever a restored run needs.
#[allow(unused_variables)]
pub trait Callbacks: Send {
    /// Called when a worker has made its environment copies.
    ///
    /// # Errors
    /// An error fails the set-up of the run, or later the iteration in which a failed worker is replaced.
    fn on_sub_environment_created(&mut self, worker_index: usize, num_envs: usize) -> Result<()> {
        Ok(())
    }

    /// Called when the trainer is set up.
    ///
    /// # Errors
    /// An error fails the set-up of the run, or the restore, which sets it up anew.
    fn on_trainer_init(&mut self) -> Result<()> {
        Ok(())
    }

    /// Called when an episode starts; its environment has been reset.
    ///
    /// # Errors
    /// An error at the first episodes fails the set-up of the run. Later it counts as a failure of the worker; in the
    /// trainer's own thread it fails the training iteration.
    fn on_episode_start(&mut self, episode: &mut Episode) -> Result<()> {
        Ok(())
    }

    /// Called after a step of an episode; the length and reward of `episode` include the step.
    ///
    /// # Errors
    /// An error counts as a failure of the worker; in the trainer's own thread it fails the training iteration.
    fn on_episode_step(&mut self, episode: &mut Episode, step: StepView<'_>) -> Result<()> {
        Ok(())
    }

    /// Called when an episode has ended.
    ///
    /// # Errors
    /// An error counts as a failure of the worker; in the trainer's own thread it fails the training iteration.
    fn on_episode_end(&mut self, episode: &mut Episode) -> Result<()> {
        Ok(())
    }

    /// Called after [`Policy::postprocess_trajectory`](crate::policy::Policy::postprocess_trajectory) of a fragment.
    ///
    /// # Errors
    /// An error counts as a failure of the worker; in the trainer's own thread it fails the training iteration.
    fn on_postprocess_trajectory(&mut self, policy_id: &str, batch: &mut SampleBatch) -> Result<()> {
        Ok(())
    }

    /// Called when a worker has sampled a fragment, before it sends the fragment.
    ///
    /// # Errors
    /// An error counts as a failure of the worker; in the trainer's own thread it fails the training iteration.
    fn on_sample_end(&mut self, worker_index: usize, samples: &mut TrainBatch) -> Result<()> {
        Ok(())
    }

    /// Called before a policy learns from a minibatch. Numbers put into `result` are averaged into `custom_metrics`
    /// of the learner.
    ///
    /// # Errors
    /// An error fails the training iteration.
    fn on_learn_on_batch(
        &mut self,
        policy_id: &str,
        train_batch: &SampleBatch,
        result: &mut BTreeMap<String, f64>,
    ) -> Result<()> {
        Ok(())
    }

    /// Called when a result is complete, before it is logged; the hook may add keys and change the run.
    ///
    /// # Errors
    /// An error fails the call of `train`, but the iteration counts.
    fn on_train_result(&mut self, run: &mut RunHandle<'_>, result: &mut Metrics) -> Result<()> {
        Ok(())
    }

    /// The state of the trainer's instance, for checkpoints.
    ///
    /// # Errors
    /// An error fails the checkpoint.
    fn state(&self) -> Result<State> {
        Ok(State::default())
    }

    /// Restores the [`state`](Self::state) of the trainer's instance.
    ///
    /// # Errors
    /// An error fails the restore.
    fn set_state(&mut self, state: &State) -> Result<()> {
        Ok(())
    }
}

/// The run, as [`Callbacks::on_train_result`] can read and change it.
#[derive(Debug)]
pub struct RunHandle<'a> {
    task: Option<Arc<Value>>,
    policies: &'a mut PolicyMap,
    changes: Changes,
}

/// Changes to the run that a hook has asked for.
#[derive(Debug, Default)]
pub(crate) struct Changes {
    pub(crate) task: Option<Arc<Value>>,
    pub(crate) policies: Vec<PolicyEdit>,
    pub(crate) weights: Vec<Weights>,
}

impl<'a> RunHandle<'a> {
    pub(crate) fn new(task: Option<Arc<Value>>, policies: &'a mut PolicyMap) -> Self {
        Self { task, policies, changes: Changes::default() }
    }

    /// Returns the weights of some policies, nested by id.
    ///
    /// # Errors
    /// Returns [`Error::UnknownPolicy`](crate::Error::UnknownPolicy) for an id that no policy has.
    pub fn get_weights(&mut self, ids: &[&str]) -> Result<Weights> {
        self.policies.get_weights_of(ids)
    }

    /// Replaces the weights of the policies that `weights` names, nested by id, in the learner and in every worker,
    /// when the hook returns. Running episodes continue with the new weights. If weights do not fit, the call of
    /// `train` fails.
    pub fn set_weights(&mut self, weights: Weights) {
        self.changes.weights.push(weights);
    }

    /// The task of the environments, if one was set; a restored run has the task of its checkpoint.
    pub fn task(&self) -> Option<&Value> {
        self.task.as_deref()
    }

    /// Changes the task of all environments that workers sample, each from its next episode on, when the hook
    /// returns: see [`Env::set_task`](pavlov_envs::Env::set_task). Checkpoints keep the task. Evaluations make their
    /// own environments, which keep the task that they are made with.
    pub fn set_task(&mut self, task: impl Into<Value>) {
        self.task = Some(Arc::new(task.into()));
        self.changes.task.clone_from(&self.task);
    }

    /// Adds a policy when the hook returns, before the weights that the hook set: see
    /// [`Algorithm::add_policy`](crate::Algorithm::add_policy).
    pub fn add_policy(&mut self, id: &str, config: Config, change: PolicyChange) {
        self.changes.policies.push(PolicyEdit { id: id.into(), added: Some(config), change });
    }

    /// Removes a policy when the hook returns: see [`Algorithm::remove_policy`](crate::Algorithm::remove_policy).
    pub fn remove_policy(&mut self, id: &str, change: PolicyChange) {
        self.changes.policies.push(PolicyEdit { id: id.into(), added: None, change });
    }

    /// The changes that the hook has asked for.
    pub(crate) fn changes(self) -> Changes {
        self.changes
    }
}

/// Makes the [`Callbacks`] of each worker and of the trainer.
#[derive(Clone)]
pub(crate) struct CallbacksMaker(std::sync::Arc<dyn Fn() -> Box<dyn Callbacks> + Send + Sync>);

impl CallbacksMaker {
    /// Keeps the constructor `make`; every instance is made with it.
    pub(crate) fn new<C: Callbacks + 'static>(make: impl Fn() -> C + Send + Sync + 'static) -> Self {
        Self(std::sync::Arc::new(move || Box::new(make())))
    }

    /// Makes a new instance of the hooks.
    pub(crate) fn make(&self) -> Box<dyn Callbacks> {
        (self.0)()
    }
}

impl std::fmt::Debug for CallbacksMaker {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("CallbacksMaker")
    }
}
