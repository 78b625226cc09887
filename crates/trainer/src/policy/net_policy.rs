//! The trait for authors of algorithms: a network, how it acts, and a loss.

use crate::policy::act::Act;
use crate::policy::class::PolicyClass;
use crate::policy::shared::SharedPolicy;
use crate::policy::{Learned, Policy};
use pavlov_learn::base::{Error, Result, State, Stream, Weights};
use pavlov_learn::distributions::{ActionDist, SdeShape};
use pavlov_learn::experience::{Column, Fragment, SampleBatch};
use pavlov_learn::loss::{Input, Loss, Net, Observed, Remembered, Rows, Seen, Value};
use pavlov_learn::nets::NetBuilder;
use pavlov_learn::{Learner, Recording, SharedNet, most_likely};
use std::collections::BTreeMap;
use std::fmt::Debug;

/// A policy that is a network and a loss. A [`Learner`] provides everything else that a [`Policy`] needs (weights,
/// state, optimizers, schedules, export).
///
/// # Contract
///
/// * The fields hold settings, layers, and the values that `learn` or `after_training` changes; `state` saves these
///   values.
/// * `loss` of a row does not depend on the other rows of the batch.
pub trait NetPolicy: Debug + Send + Sync + Sized + 'static {
    /// Settings that the policy is built from.
    type Config: Clone + Send + Sync + 'static;

    /// Lays out the network.
    ///
    /// # Errors
    /// An error fails the set-up of the run; return one if no such network can be built for these spaces or settings.
    fn build(config: &Self::Config, net: &mut NetBuilder<'_>) -> Result<Self>;

    /// The outputs per row that acting needs: parameters of a distribution, Q-values, or actions. An exported file
    /// gives these outputs as well, unless [`best_actions`](Self::best_actions) turns them into actions.
    fn action_inputs<'t>(&self, net: Net<'t>, x: Input<'t>) -> Value<'t>;

    /// Chooses actions from the [`action_inputs`](Self::action_inputs), `[copies, columns]`.
    ///
    /// # Errors
    /// An error counts as a failure of the worker; in the trainer's own thread it fails the training iteration.
    fn act(&self, inputs: &[f32], act: Act<'_>) -> Result<()>;

    /// For export: the policy's actions without exploring, `[rows, components]` in [-1, 1], if they are a function of
    /// the [`action_inputs`](Self::action_inputs). See [`Policy::best_actions`].
    fn best_actions<'t>(&self, _inputs: Value<'t>) -> Option<Value<'t>> {
        None
    }

    /// For export: the distribution that [`act`](Self::act) draws actions from, with the
    /// [`action_inputs`](Self::action_inputs) as its parameters; `None` if there is none.
    fn distribution(&self) -> Option<&ActionDist> {
        None
    }

    /// The sizes of the state-dependent noise (gSDE) by which the policy explores, around the means of its
    /// [`distribution`](Self::distribution); `None` if [`act`](Self::act) draws every action by itself.
    fn sde(&self) -> Option<SdeShape> {
        None
    }

    /// The outputs per row that exploring by [`sde`](Self::sde) needs, in the order of [`SdeShape::columns`]. They begin with
    /// the [`action_inputs`](Self::action_inputs).
    fn sde_inputs<'t>(&self, net: Net<'t>, x: Input<'t>) -> Value<'t> {
        self.action_inputs(net, x)
    }

    /// Columns that the policy stores with every step, each with its number of scalars per row.
    fn step_columns(&self) -> Vec<(Column, usize)> {
        Vec::new()
    }

    /// Turns a fragment into rows to learn from; this runs in the worker.
    ///
    /// # Errors
    /// An error counts as a failure of the worker; in the trainer's own thread it fails the training iteration.
    fn postprocess(&self, _learner: &mut Learner, fragment: &Fragment<'_>) -> Result<SampleBatch> {
        Ok(fragment.rows())
    }

    /// Adds columns to a training batch that depend on all its rows, or are drawn for them, before the batch is cut
    /// into minibatches. This runs before every pass over the batch.
    ///
    /// # Errors
    /// An error fails the training iteration.
    fn prepare(&self, _learner: &mut Learner, _batch: &mut SampleBatch) -> Result<()> {
        Ok(())
    }

    /// The loss that learning minimises.
    ///
    /// # Errors
    /// An error fails the training iteration.
    fn loss<'t>(&self, rows: &Rows<'t>) -> Result<Loss<'t>>;

    /// Takes one learning step.
    ///
    /// # Errors
    /// An error fails the training iteration.
    fn learn(&mut self, learner: &mut Learner, batch: &SampleBatch) -> Result<Learned> {
        let mut report = learner.gradient(batch, |rows| self.loss(rows))?;
        learner.clip(&mut report);
        learner.step(&report);
        Ok(report.into())
    }

    /// Updates the target copy of the network; called when the plan asks for it.
    fn update_target(&self, learner: &mut Learner) {
        learner.update_target(1.0);
    }

    /// Adapts coefficients to the mean of each statistic (by name) that was reported while a training batch was
    /// learned.
    fn after_training(&mut self, _means: &BTreeMap<String, f64>) {}

    /// The values that `learn` and `after_training` change, for checkpoints.
    ///
    /// # Errors
    /// An error fails the checkpoint.
    fn state(&self) -> Result<State> {
        Ok(State::default())
    }

    /// Restores the values that [`state`](Self::state) saved.
    ///
    /// # Errors
    /// Returns [`Error::State`] if another kind of policy saved the state.
    fn set_state(&mut self, _state: &State) -> Result<()> {
        Ok(())
    }

    /// Sets parameters that have a setting, after all is restored, where it differs from that of the saved run.
    ///
    /// # Errors
    /// Returns [`Error::State`] if another kind of policy saved the state.
    fn set_parameters(&self, _learner: &mut Learner, _state: &State) -> Result<()> {
        Ok(())
    }

    /// Values at `timestep` of the settings that change while training, for results; the library adds the optimizers'
    /// learning rates.
    fn current_values(&self, _timestep: u64) -> BTreeMap<String, f64> {
        BTreeMap::new()
    }
}

/// A [`NetPolicy`] together with its learner.
#[derive(Debug)]
struct Networked<P> {
    policy: P,
    learner: Learner,
    /// Number of columns of [`NetPolicy::action_inputs`].
    columns: usize,
    seed: u64,
}

impl PolicyClass {
    /// Makes the class of the network policy `P`, built with the settings `config`.
    pub fn net<P: NetPolicy>(name: &'static str, config: &P::Config) -> Self {
        let config = config.clone();
        Self::new(name, move |spec| {
            let mut net = NetBuilder::new(spec);
            let policy = P::build(&config, &mut net)?;
            if spec.own_obs.is_some() && !net.has_actor() {
                let rule = format!(
                    "{name} has no critic beside its actor that could see more; use PPO or IMPALA, or leave it out"
                );
                return Err(Error::config("multiagent.observation_fn", "\"global_state\"", rule));
            }
            let mut learner = net.finish()?;
            let columns = learner.columns_of(|net, x| policy.action_inputs(net, x))?;
            Ok(Networked { policy, learner, columns, seed: spec.seed })
        })
    }
}

/// The [`action_inputs`](NetPolicy::action_inputs) of the observations that `seen` has.
fn inputs<'a, P: NetPolicy>(
    policy: &P,
    learner: &'a mut Learner,
    seen: Seen<'_>,
    noise: Option<Stream>,
    columns: usize,
) -> Result<&'a [f32]> {
    let observed = observed(learner.memory_width(), seen);
    learner.evaluate(observed, noise, columns, |net, x| policy.action_inputs(net, x))
}

/// What a network with `memory_width` scalars of recurrent state gets of what a policy sees.
fn observed(memory_width: usize, seen: Seen<'_>) -> Observed<'_> {
    let Seen { obs, mask, memory, resets, .. } = seen;
    let remembered = (memory_width > 0).then_some(Remembered { memory, resets, lengths: None });
    Observed { obs, mask, remembered }
}

impl<P: NetPolicy> Policy for Networked<P> {
    fn step_columns(&self) -> Vec<(Column, usize)> {
        self.policy.step_columns()
    }

    fn memory_width(&self) -> usize {
        self.learner.memory_width()
    }

    fn max_seq_len(&self) -> usize {
        self.learner.max_seq_len()
    }

    fn compute_actions(&mut self, seen: Seen<'_>, act: Act<'_>) -> Result<()> {
        let Self { policy, learner, columns, seed } = self;
        if let (Some(shape), Some(dist), true) =
            (policy.sde(), policy.distribution(), seen.explore && act.matrices.is_some())
        {
            let outputs = learner.evaluate(
                observed(learner.memory_width(), seen),
                None,
                shape.columns(),
                |net, x| policy.sde_inputs(net, x),
            )?;
            return act.sample_by_sde(dist, shape, outputs);
        }
        // The noise of noisy layers depends on the run's step alone, so workers need no state for it.
        let noise =
            (learner.is_noisy() && seen.explore).then(|| Stream::new(*seed, "noisy acting", seen.timestep));
        let inputs = inputs(policy, learner, seen, noise, *columns)?;
        policy.act(inputs, act)
    }

    fn outputs(&mut self, seen: Seen<'_>) -> Result<Vec<f32>> {
        let Self { policy, learner, columns, .. } = self;
        Ok(inputs(policy, learner, seen, None, *columns)?.to_vec())
    }

    fn recording(&self, options: Option<usize>) -> Result<Recording> {
        let policy = &self.policy;
        self.learner.record(
            options,
            |net, x| policy.action_inputs(net, x),
            |outputs| policy.best_actions(outputs).or_else(|| most_likely(policy.distribution()?, outputs)),
        )
    }

    fn into_shared(self: Box<Self>) -> Result<Box<dyn SharedPolicy>> {
        let Self { policy, learner, columns, seed } = *self;
        Ok(Box::new(SharedNetworked { policy, net: learner.into_shared(), columns, seed }))
    }

    fn distribution(&self) -> Option<&ActionDist> {
        self.policy.distribution()
    }

    fn sde(&self) -> Option<SdeShape> {
        self.policy.sde()
    }

    fn postprocess_trajectory(&mut self, fragment: Fragment<'_>) -> Result<SampleBatch> {
        self.policy.postprocess(&mut self.learner, &fragment)
    }

    fn prepare(&mut self, batch: &mut SampleBatch) -> Result<()> {
        self.policy.prepare(&mut self.learner, batch)
    }

    fn learn_on_batch(&mut self, batch: &SampleBatch) -> Result<Learned> {
        self.policy.learn(&mut self.learner, batch)
    }

    fn learner_mut(&mut self) -> Option<&mut Learner> {
        Some(&mut self.learner)
    }

    fn get_weights(&self) -> Weights {
        Weights::new(self.learner.weights())
    }

    fn set_weights(&mut self, weights: &Weights) -> Result<()> {
        self.learner.set_weights(weights)
    }

    fn get_state(&self) -> Result<State> {
        let mut state = self.learner.state()?;
        state.extend(self.policy.state()?);
        state.set("timestep", &self.learner.timestep())?;
        Ok(state)
    }

    fn set_state(&mut self, state: &State) -> Result<()> {
        self.learner.set_state(state)?;
        self.learner.set_timestep(state.get("timestep")?);
        self.policy.set_state(state)?;
        self.policy.set_parameters(&mut self.learner, state)
    }

    fn on_global_var_update(&mut self, timestep: u64) {
        self.learner.set_timestep(timestep);
    }

    fn update_target(&mut self) {
        self.policy.update_target(&mut self.learner);
    }

    fn after_training(&mut self, means: &BTreeMap<String, f64>) {
        self.policy.after_training(means);
    }

    #[cfg(feature = "torch")]
    fn forward(&self, obs: &tch::Tensor) -> Result<tch::Tensor> {
        let policy = &self.policy;
        self.learner.check_tensor(obs)?;
        Ok(self.learner.forward(&[obs.shallow_clone()], |net, x| policy.action_inputs(net, x)))
    }

    #[cfg(feature = "torch")]
    fn best_actions(&self, outputs: &tch::Tensor) -> Option<tch::Tensor> {
        self.learner.of_outputs(outputs, |outputs| self.policy.best_actions(outputs))
    }

    fn current_values(&self, timestep: u64) -> BTreeMap<String, f64> {
        let mut values = self.learner.rates();
        values.extend(self.policy.current_values(timestep));
        values
    }
}

/// A [`NetPolicy`] whose weights stay.
#[derive(Debug)]
struct SharedNetworked<P> {
    policy: P,
    net: SharedNet,
    /// Number of columns of [`NetPolicy::action_inputs`].
    columns: usize,
    seed: u64,
}

impl<P: NetPolicy> SharedPolicy for SharedNetworked<P> {
    fn memory_width(&self) -> usize {
        self.net.memory_width()
    }

    fn memory_parts(&self) -> usize {
        self.net.memory_parts()
    }

    fn compute_actions(&self, seen: Seen<'_>, act: Act<'_>) -> Result<()> {
        let noise = (self.net.is_noisy() && seen.explore)
            .then(|| Stream::new(self.seed, "noisy acting", seen.timestep));
        self.inputs(seen, noise, |inputs| self.policy.act(inputs, act))
    }

    fn outputs(&self, seen: Seen<'_>) -> Result<Vec<f32>> {
        self.inputs(seen, None, |inputs| Ok(inputs.to_vec()))
    }
}

impl<P: NetPolicy> SharedNetworked<P> {
    /// Hands the [`NetPolicy::action_inputs`] of the observations to `then`.
    fn inputs<R>(
        &self,
        seen: Seen<'_>,
        noise: Option<Stream>,
        then: impl FnOnce(&[f32]) -> Result<R>,
    ) -> Result<R> {
        let Self { policy, net, columns, .. } = self;
        let observed = observed(net.memory_width(), seen);
        net.evaluate(observed, noise, *columns, |net, x| policy.action_inputs(net, x), then)
    }
}
