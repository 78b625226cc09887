//! A policy with single methods of another one replaced.

use crate::policy::act::Act;
use crate::policy::class::PolicyClass;
use crate::policy::net_policy::NetPolicy;
use crate::policy::{Fragment, Learned};
use pavlov_learn::Learner;
use pavlov_learn::base::{Result, State};
use pavlov_learn::distributions::{ActionDist, SdeShape};
use pavlov_learn::experience::{Column, SampleBatch};
use pavlov_learn::loss::{Input, Loss, Net, Rows, Value};
use pavlov_learn::nets::NetBuilder;
use std::collections::BTreeMap;
use std::fmt::Debug;

/// A loss of the policy `P`: the policy's own, or another in its place.
pub type LossOf<'a, P> = dyn for<'t> Fn(&P, &Rows<'t>) -> Result<Loss<'t>> + Sync + 'a;

/// A policy whose learning step takes the loss as an argument, so that [`Over`] can put another loss in its place.
pub trait Overridable: NetPolicy {
    /// Takes one learning step as [`NetPolicy::learn`] does, with `loss` in the place of [`NetPolicy::loss`].
    ///
    /// # Errors
    /// An error fails the training iteration.
    fn learn_by(
        &mut self,
        learner: &mut Learner,
        batch: &SampleBatch,
        loss: &LossOf<'_, Self>,
    ) -> Result<Learned> {
        let mut report = learner.gradient(batch, |rows| loss(self, rows))?;
        learner.clip(&mut report);
        learner.step(&report);
        Ok(report.into())
    }
}

/// Changes single methods of the policy `P`, such as PPO's. Every method has the policy itself as its argument `base`, and
/// does by default what the policy does; [`PolicyClass::over`] makes a class of both.
///
/// ```
/// use pavlov_trainer::policy::{Over, Overridable, PolicyClass};
/// use pavlov_trainer::prelude::*;
///
/// /// The loss of a policy, and the mean of the squared logits times a coefficient.
/// #[derive(Clone, Debug)]
/// struct SmallLogits(f64);
///
/// impl<P: Overridable> Over<P> for SmallLogits {
///     fn loss<'t>(&self, base: &P, rows: &Rows<'t>) -> Result<Loss<'t>> {
///         let logits = base.action_inputs(rows.online(), rows.obs()?);
///         Ok(base.loss(rows)?.plus("small_logits", logits.square().mean() * self.0))
///     }
/// }
///
/// fn class<P: Overridable>(settings: &P::Config) -> PolicyClass {
///     PolicyClass::over::<P, _>("SmallLogits", settings, SmallLogits(0.1))
/// }
/// ```
///
/// In a program, `P` follows from the settings: `ppo.builder(env).policy_class(PolicyClass::over::<PpoPolicy, _>("SmallLogits",
/// &ppo, SmallLogits(0.1)))`. The class has these settings; those that a sweep gives a trial do not reach it.
#[expect(unused_variables, reason = "arguments are named for those who implement the methods")]
pub trait Over<P: NetPolicy>: Clone + Debug + Send + Sync + 'static {
    /// Lays out further layers, after those of the policy, in groups of their own.
    ///
    /// # Errors
    /// An error fails the set-up of the run.
    fn build(&mut self, base: &P, net: &mut NetBuilder<'_>) -> Result<()> {
        Ok(())
    }

    /// The outputs per row that acting needs; see [`NetPolicy::action_inputs`].
    fn action_inputs<'t>(&self, base: &P, net: Net<'t>, x: Input<'t>) -> Value<'t> {
        base.action_inputs(net, x)
    }

    /// Chooses actions; see [`NetPolicy::act`]. Whoever changes the rule changes [`best_actions`](Self::best_actions) and
    /// [`distribution`](Self::distribution) as well, if the policy is to be exported.
    ///
    /// # Errors
    /// An error counts as a failure of the worker; in the trainer's own thread it fails the training iteration.
    fn act(&self, base: &P, inputs: &[f32], act: Act<'_>) -> Result<()> {
        base.act(inputs, act)
    }

    /// For export: the actions without exploring; see [`NetPolicy::best_actions`].
    fn best_actions<'t>(&self, base: &P, inputs: Value<'t>) -> Option<Value<'t>> {
        base.best_actions(inputs)
    }

    /// For export: the distribution that actions are drawn from; see [`NetPolicy::distribution`].
    fn distribution<'a>(&'a self, base: &'a P) -> Option<&'a ActionDist> {
        base.distribution()
    }

    /// The sizes of state-dependent noise (gSDE); see [`NetPolicy::sde`]. Exploring with it calls neither
    /// [`act`](Self::act) nor [`action_inputs`](Self::action_inputs): whoever replaces one of them returns `None` here.
    fn sde(&self, base: &P) -> Option<SdeShape> {
        base.sde()
    }

    /// Columns that are stored with every step; see [`NetPolicy::step_columns`].
    fn step_columns(&self, base: &P) -> Vec<(Column, usize)> {
        base.step_columns()
    }

    /// Turns a fragment into rows to learn from; see [`NetPolicy::postprocess`].
    ///
    /// # Errors
    /// An error counts as a failure of the worker; in the trainer's own thread it fails the training iteration.
    fn postprocess(&self, base: &P, learner: &mut Learner, fragment: &Fragment<'_>) -> Result<SampleBatch> {
        base.postprocess(learner, fragment)
    }

    /// Adds columns to a training batch; see [`NetPolicy::prepare`].
    ///
    /// # Errors
    /// An error fails the training iteration.
    fn prepare(&self, base: &P, learner: &mut Learner, batch: &mut SampleBatch) -> Result<()> {
        base.prepare(learner, batch)
    }

    /// The loss that learning minimises; see [`NetPolicy::loss`]. [`Loss::plus`] adds a term to that of the policy.
    ///
    /// # Errors
    /// An error fails the training iteration.
    fn loss<'t>(&self, base: &P, rows: &Rows<'t>) -> Result<Loss<'t>> {
        base.loss(rows)
    }

    /// Adapts coefficients after a training batch; see [`NetPolicy::after_training`].
    fn after_training(&mut self, base: &mut P, means: &BTreeMap<String, f64>) {
        base.after_training(means);
    }

    /// The own values that [`after_training`](Self::after_training) changes, for checkpoints, beside those of the policy.
    ///
    /// # Errors
    /// An error fails the checkpoint.
    fn state(&self) -> Result<State> {
        Ok(State::default())
    }

    /// Restores the values that [`state`](Self::state) saved.
    ///
    /// # Errors
    /// Returns [`Error::State`](pavlov_learn::base::Error::State) if another kind of policy saved the state.
    fn set_state(&mut self, state: &State) -> Result<()> {
        Ok(())
    }
}

impl PolicyClass {
    /// Makes the class of the policy `P`, built with the settings `config`, with the methods that `changes` replaces. If it
    /// replaces none, the policy computes what `P` does, bit for bit. Checkpoints name the class.
    pub fn over<P: Overridable, O: Over<P>>(name: &'static str, config: &P::Config, changes: O) -> Self {
        Self::net::<Changed<P, O>>(name, &(config.clone(), changes))
    }
}

/// Name of the values of [`Over::state`] in the state of the policy.
const OWN: &str = "changes";

/// A policy and what changes it.
#[derive(Debug)]
struct Changed<P, O> {
    base: P,
    own: O,
}

impl<P: Overridable, O: Over<P>> NetPolicy for Changed<P, O> {
    type Config = (P::Config, O);

    fn build((config, own): &Self::Config, net: &mut NetBuilder<'_>) -> Result<Self> {
        let base = P::build(config, net)?;
        let mut own = own.clone();
        own.build(&base, net)?;
        Ok(Self { base, own })
    }

    fn action_inputs<'t>(&self, net: Net<'t>, x: Input<'t>) -> Value<'t> {
        self.own.action_inputs(&self.base, net, x)
    }

    fn act(&self, inputs: &[f32], act: Act<'_>) -> Result<()> {
        self.own.act(&self.base, inputs, act)
    }

    fn best_actions<'t>(&self, inputs: Value<'t>) -> Option<Value<'t>> {
        self.own.best_actions(&self.base, inputs)
    }

    fn distribution(&self) -> Option<&ActionDist> {
        self.own.distribution(&self.base)
    }

    fn sde(&self) -> Option<SdeShape> {
        self.own.sde(&self.base)
    }

    fn sde_inputs<'t>(&self, net: Net<'t>, x: Input<'t>) -> Value<'t> {
        self.base.sde_inputs(net, x)
    }

    fn step_columns(&self) -> Vec<(Column, usize)> {
        self.own.step_columns(&self.base)
    }

    fn postprocess(&self, learner: &mut Learner, fragment: &Fragment<'_>) -> Result<SampleBatch> {
        self.own.postprocess(&self.base, learner, fragment)
    }

    fn prepare(&self, learner: &mut Learner, batch: &mut SampleBatch) -> Result<()> {
        self.own.prepare(&self.base, learner, batch)
    }

    fn loss<'t>(&self, rows: &Rows<'t>) -> Result<Loss<'t>> {
        self.own.loss(&self.base, rows)
    }

    fn learn(&mut self, learner: &mut Learner, batch: &SampleBatch) -> Result<Learned> {
        let own = &self.own;
        self.base.learn_by(learner, batch, &|base, rows| own.loss(base, rows))
    }

    fn update_target(&self, learner: &mut Learner) {
        self.base.update_target(learner);
    }

    fn after_training(&mut self, means: &BTreeMap<String, f64>) {
        self.own.after_training(&mut self.base, means);
    }

    fn state(&self) -> Result<State> {
        let mut state = self.base.state()?;
        let own = self.own.state()?;
        if own != State::default() {
            state.nest(OWN, own);
        }
        Ok(state)
    }

    fn set_state(&mut self, state: &State) -> Result<()> {
        self.base.set_state(state)?;
        if state.has(OWN) { self.own.set_state(&state.nested(OWN)?) } else { Ok(()) }
    }

    fn set_parameters(&self, learner: &mut Learner, state: &State) -> Result<()> {
        self.base.set_parameters(learner, state)
    }

    fn current_values(&self, timestep: u64) -> BTreeMap<String, f64> {
        self.base.current_values(timestep)
    }
}
