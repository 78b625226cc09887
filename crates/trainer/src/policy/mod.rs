//! The trait of policies. Each call handles a batch, so that one virtual call serves many environment copies.

mod act;
mod class;
mod net_policy;
mod over;
mod policy_map;
mod shared;

pub use act::Act;
pub(crate) use act::{Matrices, StepColumns};
pub use class::PolicyClass;
pub use net_policy::NetPolicy;
pub use over::{LossOf, Over, Overridable};
pub use policy_map::PolicyMap;
pub use shared::SharedPolicy;

pub use crate::base::{DEFAULT_POLICY, PolicyId};
use pavlov_learn::Learner;
pub use pavlov_learn::Recording;
use pavlov_learn::base::{Array, Error, Result, State, Weights};
pub use pavlov_learn::base::{Spaces, Stats};
pub use pavlov_learn::distributions::{ActionDist, ActionRows, Dist, SdeShape};
use pavlov_learn::engines::Report;
use pavlov_learn::experience::{Column, SampleBatch};
pub use pavlov_learn::experience::{Fragment, FragmentMasks, FragmentMemory, Values, WaitingRows};
pub use pavlov_learn::loss::Seen;
pub use pavlov_learn::nets::PolicySpec;
use std::collections::BTreeMap;

/// The results of one learning step: statistics, TD errors, and whether to stop early.
#[derive(Debug)]
pub struct Learned {
    /// Statistics for `info.learner.<policy>.learner_stats`.
    pub stats: Stats,
    /// Temporal-difference error of each row, `[rows]`, for prioritised replay.
    pub td_errors: Option<Array>,
    /// Whether to skip the remaining passes over this batch, because the policy has moved far enough (beyond a target
    /// KL).
    pub stop: bool,
}

impl From<Report> for Learned {
    fn from(report: Report) -> Self {
        Self { stats: report.stats, td_errors: report.td_errors, stop: false }
    }
}

/// Chooses actions, and may learn to choose better ones.
///
/// # Contract
///
/// * `compute_actions` with equal observations, memory, streams, timestep and weights gives equal actions; a row's
///   result does not depend on the other rows beyond rounding.
/// * `get_state` holds everything that `learn_on_batch` depends on: after `set_state` another instance continues bit
///   for bit.
/// * A policy that only acts (a worker's replica) is updated by `set_weights` and `on_global_var_update` only.
///
/// To write a policy that learns, implement [`NetPolicy`]: from its network and loss the library makes a `Policy`.
/// The trait `Policy` itself suits others, such as a scripted opponent, which may leave out weights and state:
///
/// ```no_run
/// use pavlov_trainer::{policy::{Act, ActionRows, Seen}, prelude::*};
///
/// /// Chooses one of `n` discrete actions at random.
/// #[derive(Debug)]
/// struct AtRandom {
///     n: u64,
/// }
///
/// impl Policy for AtRandom {
///     fn compute_actions(&mut self, _: Seen<'_>, act: Act<'_>) -> Result<()> {
///         let ActionRows::Int(actions) = act.actions else {
///             return Err(Error::state("the policy AtRandom", "it needs a space of discrete actions"));
///         };
///         for (action, rng) in actions.iter_mut().zip(act.rngs) {
///             *action = rng.below(self.n) as i64;
///         }
///         Ok(())
///     }
/// }
///
/// let class = PolicyClass::new("AtRandom", |_| Ok(AtRandom { n: 2 }));
/// ```
pub trait Policy: Send + std::fmt::Debug {
    /// Columns that the policy stores with every step, each with its number of scalars per row.
    fn step_columns(&self) -> Vec<(Column, usize)> {
        Vec::new()
    }

    /// Number of scalars of recurrent state that the policy keeps per copy from one step of an episode to the next; 0
    /// if the policy is not recurrent.
    fn memory_width(&self) -> usize {
        0
    }

    /// Chooses one action per row.
    ///
    /// # Errors
    /// An error ends the fragment and counts as a failure of the worker; in the trainer's own thread it fails the
    /// iteration.
    fn compute_actions(&mut self, seen: Seen<'_>, act: Act<'_>) -> Result<()>;

    /// The network's outputs that actions are chosen by, `[copies, columns]` in row-major order: parameters of a
    /// distribution, Q-values, or actions. Exported files are compared with them.
    ///
    /// # Errors
    /// Returns [`Error::State`] if the policy has no network, as by default.
    fn outputs(&mut self, _seen: Seen<'_>) -> Result<Vec<f32>> {
        Err(Error::state("the policy", "it has no network"))
    }

    /// The computation of [`outputs`](Self::outputs) as data, for export. `options` is the number of flags of legal actions
    /// per row, `None` without action masks.
    ///
    /// # Errors
    /// Returns [`Error::State`] if the policy has no network, as by default, or its network does what no exported file can
    /// hold.
    fn recording(&self, _options: Option<usize>) -> Result<Recording> {
        Err(Error::state("the policy", "it has no network to export"))
    }

    /// Turns the policy into one that threads share, whose weights no longer change.
    ///
    /// # Errors
    /// Returns [`Error::State`] if the policy cannot be shared, as by default.
    fn into_shared(self: Box<Self>) -> Result<Box<dyn SharedPolicy>> {
        Err(Error::state("the policy", "it cannot act for several threads: implement `into_shared`"))
    }

    /// The distribution of actions, whose parameters are the [`outputs`](Self::outputs); `None` if there is none.
    fn distribution(&self) -> Option<&ActionDist> {
        None
    }

    /// The sizes of the state-dependent noise (gSDE) by which the policy explores; `None` if it has none.
    fn sde(&self) -> Option<SdeShape> {
        None
    }

    /// Turns a fragment into rows to learn from (advantages, n-step returns), in the order of
    /// [`env_major`](pavlov_learn::experience::env_major); by default single steps, discounted by the `gamma` of the run.
    ///
    /// # Errors
    /// An error counts as a failure of the worker; in the trainer's own thread it fails the training iteration.
    fn postprocess_trajectory(&mut self, fragment: Fragment<'_>) -> Result<SampleBatch> {
        Ok(fragment.transitions(1, fragment.gamma))
    }

    /// Adds columns that depend on the whole batch, or are drawn for it, before the batch is shuffled and cut into
    /// minibatches: once before every pass over a training batch, and before each step on a replayed one.
    ///
    /// # Errors
    /// An error fails the training iteration.
    fn prepare(&mut self, _batch: &mut SampleBatch) -> Result<()> {
        Ok(())
    }

    /// Largest number of rows per sequence of a recurrent policy. The recurrent state is stored at the first row of
    /// each sequence.
    fn max_seq_len(&self) -> usize {
        1
    }

    /// Takes one optimizer step on a minibatch.
    ///
    /// # Errors
    /// An error fails the training iteration. By default it is [`Error::State`]: the policy does not learn.
    fn learn_on_batch(&mut self, _batch: &SampleBatch) -> Result<Learned> {
        Err(Error::state(
            "the policy",
            "it does not learn: implement `learn_on_batch`, or leave training out of the plan",
        ))
    }

    /// The network's parameters, optimizers and target copy; `None` if the policy has no network.
    fn learner_mut(&mut self) -> Option<&mut Learner> {
        None
    }

    /// The weights that acting needs, which are sent to the replicas in workers.
    fn get_weights(&self) -> Weights {
        Weights::default()
    }

    /// Replaces the weights; changes nothing if a name or a shape does not fit.
    ///
    /// # Errors
    /// Returns [`Error::State`] if a parameter is missing or has another shape.
    fn set_weights(&mut self, _weights: &Weights) -> Result<()> {
        Ok(())
    }

    /// The policy's state for checkpoints: the weights, the optimizer and everything else that learning depends on.
    ///
    /// # Errors
    /// An error fails the checkpoint.
    fn get_state(&self) -> Result<State> {
        Ok(State::default())
    }

    /// Restores the state that [`get_state`](Self::get_state) saved.
    ///
    /// # Errors
    /// Returns [`Error::State`] if another kind of policy saved the state.
    fn set_state(&mut self, _state: &State) -> Result<()> {
        Ok(())
    }

    /// Sets the number of environment steps that the run has sampled, which schedules depend on.
    fn on_global_var_update(&mut self, _timestep: u64) {}

    /// Copies or blends the online network into the target network.
    fn update_target(&mut self) {}

    /// Adapts coefficients to the mean of each statistic (by name) that the policy reported while it learned a
    /// training batch.
    fn after_training(&mut self, _means: &BTreeMap<String, f64>) {}

    /// The network as a function from observations `[rows, ...]` to action distribution parameters or Q-values,
    /// for export; see [`Learner::forward`].
    ///
    /// # Errors
    /// Returns [`Error::State`] if the policy has no network, as by default, or `obs` are rows of another width.
    #[cfg(feature = "torch")]
    fn forward(&self, _obs: &tch::Tensor) -> Result<tch::Tensor> {
        Err(Error::state("the policy", "it has no network to export: implement `forward`"))
    }

    /// The policy's actions without exploring, `[rows, components]` in [-1, 1], from the outputs of
    /// [`forward`](Self::forward). The exported file gives these actions, stretched to the bounds of the action
    /// space. If this method returns `None`, the file gives the outputs of `forward`, and its user chooses the
    /// actions.
    #[cfg(feature = "torch")]
    fn best_actions(&self, _outputs: &tch::Tensor) -> Option<tch::Tensor> {
        None
    }

    /// Values at `timestep` of the settings that change while training, such as `cur_lr` and `cur_epsilon`.
    fn current_values(&self, _timestep: u64) -> BTreeMap<String, f64> {
        BTreeMap::new()
    }
}
