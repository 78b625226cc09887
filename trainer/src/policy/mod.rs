//! The policy contract. A policy sees batches only, so one virtual call serves many environment copies.

mod act;
mod class;
mod net_policy;
mod policy_map;

pub use act::Act;
pub(crate) use act::StepColumns;
pub use class::PolicyClass;
pub use net_policy::NetPolicy;
pub use policy_map::PolicyMap;

pub use crate::base::{DEFAULT_POLICY, PolicyId, Spaces, Stats};
use crate::base::{Error, Result, State, Weights};
use crate::experience::{Column, SampleBatch};
pub use crate::experience::{Fragment, FragmentMasks, FragmentMemory, Values};
use crate::learn::Learner;
pub use crate::learn::distributions::{ActionDist, ActionRows, Dist};
use crate::learn::engines::Report;
pub use crate::learn::loss::Seen;
pub use crate::learn::nets::PolicySpec;
use std::collections::BTreeMap;
use tch::Tensor;

/// What a policy reports of one learning step.
#[derive(Debug)]
pub struct Learned {
    /// Statistics for `info.learner.<policy>.learner_stats`.
    pub stats: Stats,
    /// Per-row errors for prioritised replay.
    pub td_errors: Option<Tensor>,
    /// The policy has moved far enough: no further passes over this batch (a target KL was exceeded).
    pub stop: bool,
}

impl From<Report> for Learned {
    fn from(report: Report) -> Self {
        Self { stats: report.stats, td_errors: report.td_errors, stop: false }
    }
}

/// A decision maker that can learn.
///
/// # Contract
///
/// * `compute_actions` with equal observations, memory, streams, timestep and weights gives equal actions; a row's
///   result does not depend on the other rows beyond rounding.
/// * `get_state` holds everything `learn_on_batch` depends on: after `set_state` another instance continues bit for bit.
/// * A policy that is only asked to act (a worker's replica) gets `set_weights` and `on_global_var_update`.
///
/// [`NetPolicy`] is the way to write one that learns: all of this follows from its network and its loss. This trait
/// suits others, such as a scripted opponent, which may leave weights and state out:
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
    /// Columns the policy wants stored with every step, and their widths.
    fn step_columns(&self) -> Vec<(Column, usize)> {
        Vec::new()
    }

    /// Numbers that it remembers per copy from one step of an episode to the next.
    fn memory_width(&self) -> usize {
        0
    }

    /// Chooses one action per row.
    ///
    /// # Errors
    /// An error ends the fragment. It counts as a failure of the worker; in the trainer's own thread it fails the
    /// iteration.
    fn compute_actions(&mut self, seen: Seen<'_>, act: Act<'_>) -> Result<()>;

    /// Turns a fragment into rows to learn from (advantages, n-step returns), ordered as [`env_major`](crate::experience::env_major);
    /// by default single steps, discounted by the `gamma` of the run.
    ///
    /// # Errors
    /// An error counts as a failure of the worker; in the trainer's own thread it fails the training iteration.
    fn postprocess_trajectory(&mut self, fragment: Fragment<'_>) -> Result<SampleBatch> {
        Ok(fragment.transitions(1, fragment.gamma))
    }

    /// What must be known of the whole batch, or drawn for it, before it is shuffled and cut: once before every pass over
    /// a training batch, and before the step on a replayed one.
    ///
    /// # Errors
    /// An error fails the training iteration.
    fn prepare(&mut self, _batch: &mut SampleBatch) -> Result<()> {
        Ok(())
    }

    /// Rows of the sequences that it learns from, if it remembers: what it remembers is stored at the first row of each.
    fn max_seq_len(&self) -> usize {
        1
    }

    /// One optimizer step on a minibatch.
    ///
    /// # Errors
    /// An error fails the training iteration. By default it is [`Error::State`]: the policy does not learn.
    fn learn_on_batch(&mut self, _batch: &SampleBatch) -> Result<Learned> {
        Err(Error::state(
            "the policy",
            "it does not learn: implement `learn_on_batch`, or leave training out of the plan",
        ))
    }

    /// What the policy learns with, if it has a network.
    fn learner_mut(&mut self) -> Option<&mut Learner> {
        None
    }

    /// What acting needs: all a worker's replica is sent.
    fn get_weights(&self) -> Weights {
        Weights::default()
    }

    /// Replaces the weights; refuses others' names or shapes and then changes nothing.
    ///
    /// # Errors
    /// Returns [`Error::State`] if a parameter is missing or has another shape.
    fn set_weights(&mut self, _weights: &Weights) -> Result<()> {
        Ok(())
    }

    /// Weights, optimizer and whatever else learning depends on.
    ///
    /// # Errors
    /// An error fails the checkpoint.
    fn get_state(&self) -> Result<State> {
        Ok(State::default())
    }

    /// Continues from [`get_state`](Self::get_state).
    ///
    /// # Errors
    /// Returns [`Error::State`] if the state is of another policy.
    fn set_state(&mut self, _state: &State) -> Result<()> {
        Ok(())
    }

    /// Tells how many environment steps the run has sampled, for schedules.
    fn on_global_var_update(&mut self, _timestep: u64) {}

    /// Copies or blends the online network into the target network.
    fn update_target(&mut self) {}

    /// Adapts to the means of the statistics that it reported of a training batch, by name.
    fn after_training(&mut self, _means: &BTreeMap<String, f64>) {}

    /// The network as a function from observations `[rows, ...]` to action distribution parameters or Q-values,
    /// for export; see [`Learner::forward`].
    ///
    /// # Errors
    /// Returns [`Error::State`] if the policy has no network, as by default, or `obs` are rows of another width.
    fn forward(&self, _obs: &Tensor) -> Result<Tensor> {
        Err(Error::state("the policy", "it has no network to export: implement `forward`"))
    }

    /// The actions that it takes without exploring, `[rows, components]` in [-1, 1], by what [`forward`](Self::forward)
    /// gives. They are exported in its place, stretched to the bounds of the action space. `None`: `forward` is exported,
    /// and whoever calls it chooses.
    fn best_actions(&self, _outputs: &Tensor) -> Option<Tensor> {
        None
    }

    /// Settings that change while training, as they stand at `timestep`: `cur_lr`, `cur_epsilon`.
    fn current_values(&self, _timestep: u64) -> BTreeMap<String, f64> {
        BTreeMap::new()
    }
}
