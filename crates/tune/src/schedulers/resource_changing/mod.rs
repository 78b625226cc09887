//! A scheduler that gives resources which other trials have released to the trials that continue.

mod bundles;
mod distribute;

use std::collections::HashSet;
use std::fmt;

use super::{Answer, Decision, Order, TrialScheduler};
use crate::base::{Bundle, Error, Metrics, Objective, Resources, Result, Trial, TrialStatus};

pub use distribute::{DistributeResources, DistributeResourcesToTopJob};

/// Name of the scheduler in error messages.
const NAME: &str = "ResourceChangingScheduler";

/// Information on which a [`ResourceAllocation`] decides.
#[derive(Clone, Copy, Debug)]
pub struct Situation<'a> {
    /// Trial that has reported.
    pub trial: &'a Trial,
    /// Result of the trial, which is not its `last_result` yet.
    pub result: &'a Metrics,
    /// All trials of the sweep.
    pub trials: &'a [Trial],
    /// Resources with which every trial started.
    pub base: &'a Resources,
    /// Total resources of the sweep.
    pub total: &'a Bundle,
    /// The objective of the base scheduler, else of the sweep.
    pub objective: Option<&'a Objective>,
}

/// Decides which resources a trial gets from now on.
pub trait ResourceAllocation: Send {
    /// Returns the trial's new resources; `None` leaves them unchanged.
    ///
    /// # Errors
    /// Fails if the settings of the allocation do not fit the trials, or if it needs a metric and has none. The error
    /// ends the sweep.
    fn allocate(&self, situation: &Situation<'_>) -> Result<Option<Resources>>;
}

impl<F: Fn(&Situation<'_>) -> Result<Option<Resources>> + Send> ResourceAllocation for F {
    fn allocate(&self, situation: &Situation<'_>) -> Result<Option<Resources>> {
        self(situation)
    }
}

/// Wraps another scheduler, and may give different resources to the trials that continue.
///
/// After each result with which a trial continues, the allocation is called. If its answer differs from the trial's
/// resources, the trial is saved, paused and restarted with the new ones. All trials must start with the same
/// resources.
pub struct ResourceChangingScheduler {
    base_scheduler: Box<dyn TrialScheduler>,
    allocation: Box<dyn ResourceAllocation>,
    sweep: Option<Objective>,
    total: Bundle,
    base: Option<Resources>,
    /// Ids of the trials that wait for their new resources.
    paused: HashSet<String>,
}

impl fmt::Debug for ResourceChangingScheduler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let base = self.base_scheduler.debug_string();
        f.debug_struct(NAME).field("base_scheduler", &base).field("base", &self.base).finish_non_exhaustive()
    }
}

impl ResourceChangingScheduler {
    /// Makes a scheduler that decides like `base_scheduler` and gives trials the resources that `allocation` chooses.
    /// Ray's defaults are [`FifoScheduler`](super::FifoScheduler) and [`DistributeResources`].
    pub fn new(base_scheduler: Box<dyn TrialScheduler>, allocation: Box<dyn ResourceAllocation>) -> Self {
        Self {
            base_scheduler,
            allocation,
            sweep: None,
            total: Bundle::new(),
            base: None,
            paused: HashSet::new(),
        }
    }
}

impl TrialScheduler for ResourceChangingScheduler {
    fn set_search_properties(&mut self, objective: Option<&Objective>) -> Result<()> {
        self.sweep = objective.cloned();
        self.base_scheduler.set_search_properties(objective)
    }

    fn objective(&self) -> Option<&Objective> {
        self.base_scheduler.objective()
    }

    fn set_total_resources(&mut self, total: &Bundle) {
        self.total = total.clone();
        self.base_scheduler.set_total_resources(total);
    }

    fn works_with_searchers(&self) -> bool {
        self.base_scheduler.works_with_searchers()
    }

    fn on_trial_add(&mut self, trial: &mut Trial) -> Result<()> {
        let base = self.base.get_or_insert_with(|| trial.resources.clone());
        if *base != trial.resources {
            return Err(Error::Resources {
                request: format!("{:?} of trial {}", trial.resources.bundles(), trial.trial_id),
                rule: format!(
                    "with {NAME} all trials must start with the same; the first had {:?}",
                    base.bundles()
                ),
            });
        }
        self.base_scheduler.on_trial_add(trial)
    }

    fn on_trial_result(&mut self, trial: &Trial, result: &Metrics, trials: &[Trial]) -> Result<Answer> {
        self.paused.remove(&trial.trial_id);
        let mut answer = self.base_scheduler.on_trial_result(trial, result, trials)?;
        let (Decision::Continue, Some(base)) = (answer.decision, &self.base) else { return Ok(answer) };
        let objective = self.base_scheduler.objective().or(self.sweep.as_ref());
        let situation = Situation { trial, result, trials, base, total: &self.total, objective };
        if let Some(new) = self.allocation.allocate(&situation)?.filter(|new| *new != trial.resources) {
            self.paused.insert(trial.trial_id.clone());
            answer.orders.push(Order::SetResources(trial.trial_id.clone(), new));
            answer.decision = Decision::Noop;
        }
        Ok(answer)
    }

    fn on_trial_complete(&mut self, trial: &Trial, result: &Metrics, trials: &[Trial]) -> Result<Vec<Order>> {
        self.base_scheduler.on_trial_complete(trial, result, trials)
    }

    fn on_trial_error(&mut self, trial: &Trial, trials: &[Trial]) -> Result<Vec<Order>> {
        self.base_scheduler.on_trial_error(trial, trials)
    }

    fn on_trial_remove(&mut self, trial: &Trial, trials: &[Trial]) -> Result<Vec<Order>> {
        self.base_scheduler.on_trial_remove(trial, trials)
    }

    /// Returns the base scheduler's choice, or else a trial that was paused for its new resources, which the base
    /// scheduler does not know.
    fn choose_trial_to_run(&self, trials: &[Trial], fits: &dyn Fn(&Trial) -> bool) -> Option<usize> {
        let waits = |trial: &Trial| {
            trial.status == TrialStatus::Paused && self.paused.contains(&trial.trial_id) && fits(trial)
        };
        self.base_scheduler.choose_trial_to_run(trials, fits).or_else(|| trials.iter().position(waits))
    }

    fn on_idle(&mut self, trials: &[Trial]) -> Result<Vec<Order>> {
        self.base_scheduler.on_idle(trials)
    }

    fn debug_string(&self) -> String {
        format!("{NAME}: {}", self.base_scheduler.debug_string())
    }
}
