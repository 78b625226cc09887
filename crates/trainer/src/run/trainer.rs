//! [`Trainer`]: the trait that the author of an algorithm implements, on the settings struct itself.

use crate::agents::{Agent, Policies};
use crate::plan::Plan;
use crate::policy::PolicyClass;
use crate::run::memory::Memory;
use crate::run::training::Run;
use crate::settings::Common;
use crate::workers::WorkerSet;
use pavlov_learn::base::{Error, Result, Spaces};
use pavlov_tune::Metrics;
use serde::Serialize;
use serde::de::DeserializeOwned;

/// An algorithm. The trait is implemented on the algorithm's settings struct.
///
/// Every `Trainer` is a [`Trainable`](pavlov_tune::Trainable) through [`Algorithm`](crate::Algorithm), so the whole
/// lifecycle (train, save, restore, sweeps) comes with these few methods.
///
/// # Contract
///
/// * `get_default_config` has every setting; any other setting is unknown.
/// * serde reads and writes the settings; put [`Common`] under `#[serde(flatten)]`. With
///   [`own_defaults`](crate::own_defaults), a partial object read by serde takes the algorithm's own defaults.
/// * `execution_plan` starts with equal weights in all workers and leaves no state in the plan itself.
///
/// # Example
///
/// The smallest trainer: its policy always chooses action 0, and its plan samples without learning.
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

    /// Settings that Ray has and that this algorithm refuses, each with the reason.
    const REFUSED_KEYS: &'static [(&'static str, &'static str)] = &[];

    /// The algorithm's own settings that its plan reads: they hold for the whole run, and no policy can override them
    /// (`multiagent.policies`). The settings of [`OffPolicy`](crate::settings::OffPolicy) are included already.
    const PLAN_KEYS: &'static [&'static str] = &[];

    /// The default settings: every setting with its default value.
    fn get_default_config() -> Self;

    /// Checks the rules of the algorithm's settings, and may adjust settings. The spaces are those of the first
    /// agent. Errors name the setting, its value and the rule; [`rules::all`](crate::settings::rules::all) reports
    /// every broken rule. The rules of [`Common`] are checked separately.
    ///
    /// # Errors
    /// An error fails the set-up: [`Error::Config`] if one rule is broken, [`Error::Tune`] with all errors if several
    /// are.
    fn validate_config(&mut self, _spaces: &Spaces) -> Result<()> {
        Ok(())
    }

    /// Returns what a user should know of these settings although they are allowed: one line each, which names a
    /// setting, its value, the reason and the way out. The run says them once, before its first iteration.
    fn notices(&self, _agents: &[Agent]) -> Vec<String> {
        Vec::new()
    }

    /// Adds the parts of a run whose size depends on this algorithm's own settings (replay buffers, heads of networks)
    /// to the sum, which already has the parts of the common settings. This method is called before
    /// [`validate_config`](Self::validate_config).
    fn memory(&self, _spaces: &Spaces, _memory: &mut Memory) {}

    /// Returns the kind of policy that the algorithm trains for these spaces.
    ///
    /// # Errors
    /// Returns [`Error::Space`] if the algorithm cannot work with these spaces.
    fn get_default_policy_class(&self, spaces: &Spaces) -> Result<PolicyClass>;

    /// Returns the policies of a run, and the policy by which each agent acts. By default all agents share the one
    /// policy of [`get_default_policy_class`](Self::get_default_policy_class), which learns from the rows of all
    /// agents. A single-agent environment has one agent.
    ///
    /// This method is not called if the user names policies in `multiagent.policies`.
    ///
    /// # Errors
    /// Fails whenever [`get_default_policy_class`](Self::get_default_policy_class) does, and if there are no agents.
    fn policies(&self, agents: &[Agent]) -> Result<Policies> {
        match agents.first() {
            Some(agent) => Ok(self.get_default_policy_class(&agent.spaces)?.into()),
            None => Err(Error::state("the environment", "it has no agents")),
        }
    }

    /// Returns the training loop: a lazy sequence of training rounds.
    fn execution_plan(&self, workers: &WorkerSet) -> Plan;

    /// The settings that all algorithms share.
    fn common(&self) -> &Common;

    /// The settings that all algorithms share, for changes.
    fn common_mut(&mut self) -> &mut Common;

    /// Called when workers and plan exist: once for a new run, and again after each restore of a checkpoint.
    ///
    /// # Errors
    /// An error fails the set-up of the run, or the restore.
    fn setup(&self, _run: &mut Run) -> Result<()> {
        Ok(())
    }

    /// Runs one training iteration, with an evaluation if one is due.
    ///
    /// # Errors
    /// An error fails the iteration.
    fn step_attempt(&self, run: &mut Run) -> Result<Metrics> {
        run.step_attempt()
    }
}
