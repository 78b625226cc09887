//! What the author of an algorithm writes: one trait, on the settings struct itself.

use crate::agents::{Agent, Policies};
use crate::base::{Error, Result, Spaces};
use crate::plan::Plan;
use crate::policy::PolicyClass;
use crate::run::memory::Memory;
use crate::run::training::Run;
use crate::settings::Common;
use crate::workers::WorkerSet;
use pavlov_tune::Metrics;
use serde::Serialize;
use serde::de::DeserializeOwned;

/// An algorithm, implemented on its settings: the config is the algorithm.
///
/// Every `Trainer` is a [`Trainable`](pavlov_tune::Trainable) through [`Algorithm`](crate::Algorithm), so the whole lifecycle (train,
/// save, restore, sweeps) comes with these few methods.
///
/// # Contract
///
/// * `get_default_config` is complete; a setting that is not in it is unknown.
/// * Settings are what serde reads and writes; put [`Common`] under `#[serde(flatten)]`. With
///   [`own_defaults`](crate::own_defaults), a partial object read by serde takes the algorithm's own defaults.
/// * `execution_plan` starts with equal weights in all workers and leaves no state in the plan itself.
///
/// # Example
///
/// The least that a trainer is: its policy always chooses action 0, and its plan samples without learning.
///
/// ```no_run
/// use pavlov_trainer::{policy::{Act, ActionRows, Seen}, prelude::*};
/// use serde::{Deserialize, Serialize};
///
/// #[derive(Debug)]
/// struct First;
///
/// impl Policy for First {
///     fn compute_actions(&mut self, _: Seen<'_>, act: Act<'_>) -> Result<()> {
///         let ActionRows::Int(actions) = act.actions else {
///             return Err(Error::state("the policy First", "it needs a space of discrete actions"));
///         };
///         actions.fill(0);
///         Ok(())
///     }
/// }
///
/// #[derive(Clone, Debug, Serialize, Deserialize)]
/// struct Baseline {
///     #[serde(flatten)]
///     common: Common,
/// }
///
/// impl Trainer for Baseline {
///     const NAME: &'static str = "Baseline";
///
///     fn get_default_config() -> Self {
///         Self { common: Common { num_workers: 0, ..Common::default() } }
///     }
///     fn get_default_policy_class(&self, _: &Spaces) -> Result<PolicyClass> {
///         Ok(PolicyClass::new("First", |_| Ok(First)))
///     }
///     fn execution_plan(&self, workers: &WorkerSet) -> Plan {
///         let batches = workers.rollouts().concat_batches(self.common.train_batch_size);
///         Box::new(batches.then(|_| Ok(LearnerInfo::default())))
///     }
///     fn common(&self) -> &Common {
///         &self.common
///     }
///     fn common_mut(&mut self) -> &mut Common {
///         &mut self.common
///     }
/// }
///
/// let mut trainer = Baseline::get_default_config().build("CartPole-v1")?;
/// println!("{}", trainer.train()?["episode_reward_mean"]);
/// # Ok::<(), Error>(())
/// ```
pub trait Trainer: Clone + Serialize + DeserializeOwned + Send + Sync + std::fmt::Debug + 'static {
    /// The name of the algorithm as users type it.
    const NAME: &'static str;

    /// Settings that Ray's users know and that have no meaning here, each with the reason.
    const REFUSED_KEYS: &'static [(&'static str, &'static str)] = &[];

    /// Settings of its own that its plan reads: the whole run has them, and no policy has others (`multiagent.policies`). Those
    /// of [`OffPolicy`](crate::settings::OffPolicy) are known to be such.
    const PLAN_KEYS: &'static [&'static str] = &[];

    /// Every setting with its default.
    fn get_default_config() -> Self;

    /// Rules between settings; may adjust them. `spaces` are those of the first agent. Errors name the field, its value and the rule;
    /// [`rules::all`](crate::base::all) reports every rule that is broken. The rules of [`Common`] are checked
    /// besides.
    ///
    /// # Errors
    /// An error fails the set-up: [`Error::Config`] if a rule is broken, [`Error::Tune`] with all of them if several
    /// are.
    fn validate_config(&mut self, _spaces: &Spaces) -> Result<()> {
        Ok(())
    }

    /// Adds the parts of a run that this algorithm's own settings make large: replay buffers, heads of networks. What the
    /// shared settings make is in the sum already. It is asked before [`validate_config`](Self::validate_config).
    fn memory(&self, _spaces: &Spaces, _memory: &mut Memory) {}

    /// The policy for these spaces.
    ///
    /// # Errors
    /// Returns [`Error::Space`] if the algorithm cannot work with these spaces.
    fn get_default_policy_class(&self, spaces: &Spaces) -> Result<PolicyClass>;

    /// The policies of a run, and which agent acts by which. By default there is the one of
    /// [`get_default_policy_class`](Self::get_default_policy_class), and all agents share it: each learns by itself from
    /// what all have done. An environment that has no agents of its own has one.
    ///
    /// It is not asked where a user names policies in `multiagent.policies`.
    ///
    /// # Errors
    /// Fails whenever [`get_default_policy_class`](Self::get_default_policy_class) does, and if there are no agents.
    fn policies(&self, agents: &[Agent]) -> Result<Policies> {
        match agents.first() {
            Some(agent) => Ok(self.get_default_policy_class(&agent.spaces)?.into()),
            None => Err(Error::state("the environment", "it has no agents")),
        }
    }

    /// One round of training after the other, as a lazy sequence.
    fn execution_plan(&self, workers: &WorkerSet) -> Plan;

    /// The settings that all algorithms share.
    fn common(&self) -> &Common;

    /// The settings that all algorithms share, to change.
    fn common_mut(&mut self) -> &mut Common;

    /// Called when workers and plan exist: once for a new run, once more for each that continues a checkpoint.
    ///
    /// # Errors
    /// An error fails the set-up of the run, or the restore.
    fn setup(&self, _run: &mut Run) -> Result<()> {
        Ok(())
    }

    /// One training iteration, with an evaluation if one is due.
    ///
    /// # Errors
    /// An error fails the iteration.
    fn step_attempt(&self, run: &mut Run) -> Result<Metrics> {
        run.step_attempt()
    }
}
