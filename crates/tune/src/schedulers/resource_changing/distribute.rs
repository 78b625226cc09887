//! Allocation functions that give free CPUs and GPUs to all trials evenly, or to the best trial.

use serde::{Deserialize, Serialize};

use super::bundles::{Added, Amounts};
use super::{ResourceAllocation, Situation};
use crate::base::metric::{self, number};
use crate::base::{Bundle, Error, Objective, Resources, Result, Trial, limit};

/// Distributes free CPUs and GPUs evenly among all living trials, as Ray Tune does.
///
/// A trial never has less than it started with. If more resources are in use than exist, a trial that reports gives
/// some back. Resources other than CPUs and GPUs stay unchanged (Ray drops them unless `add_bundles` is set).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct DistributeResources {
    /// Whether a trial grows by additional bundles, each equal to `increase_by` or to the last bundle with which trials
    /// started. Otherwise the trial's single bundle grows.
    pub add_bundles: bool,
    /// Increment by which a trial grows. If empty, it is the last bundle with which trials started if `add_bundles` is
    /// set; otherwise 1 GPU if the trials have GPUs, else 1 CPU.
    pub increase_by: Bundle,
    /// Maximum number of increments per trial; `None` means no limit, which sweep files write as 0 or a negative number.
    #[serde(with = "limit::positive")]
    pub increase_by_times: Option<u64>,
    /// Resources that are kept back from all trials.
    pub reserve_resources: Bundle,
}

/// Gives all free CPUs and GPUs to the best trial, as Ray Tune does; the others keep their resources.
///
/// A trial without a result ranks last (in Ray, with mode `max`, first). The best trial is chosen among those below
/// `increase_by_times`, with one exception that follows Ray: with `add_bundles` and an increment of only CPUs or only
/// GPUs, a trial that has received a bundle always counts as below that limit. The free resources then stay unused.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct DistributeResourcesToTopJob {
    /// Whether a trial grows by additional bundles, see [`DistributeResources::add_bundles`].
    pub add_bundles: bool,
    /// Increment by which a trial grows, see [`DistributeResources::increase_by`].
    pub increase_by: Bundle,
    /// Maximum number of increments per trial, see [`DistributeResources::increase_by_times`].
    #[serde(with = "limit::positive")]
    pub increase_by_times: Option<u64>,
    /// Resources that are kept back from all trials.
    pub reserve_resources: Bundle,
    /// Objective by which the best trial is chosen; `None` means that of the base scheduler, or else of the sweep. Sweep
    /// files write it as `metric` and `mode`.
    #[serde(flatten, with = "metric::pair")]
    pub objective: Option<Objective>,
}

impl ResourceAllocation for DistributeResources {
    fn allocate(&self, situation: &Situation<'_>) -> Result<Option<Resources>> {
        let Some(plan) = Plan::new(self, situation)? else { return Ok(None) };
        plan.resources(plan.grow(plan.fair_share()))
    }
}

impl ResourceAllocation for DistributeResourcesToTopJob {
    fn allocate(&self, situation: &Situation<'_>) -> Result<Option<Resources>> {
        let distribute = DistributeResources {
            add_bundles: self.add_bundles,
            increase_by: self.increase_by.clone(),
            increase_by_times: self.increase_by_times,
            reserve_resources: self.reserve_resources.clone(),
        };
        let Some(plan) = Plan::new(&distribute, situation)? else { return Ok(None) };
        let objective = self.objective.as_ref().or(situation.objective).ok_or_else(|| {
            let rule = "choosing the best trial needs a metric and a mode: set them here, on the scheduler, or on the sweep";
            Error::missing("DistributeResourcesToTopJob.metric", rule)
        })?;
        let best = plan.best(objective)?;
        let lacks = plan.free.units(plan.unit_amounts()) < 0;
        if best.trial_id == situation.trial.trial_id || lacks {
            return plan.resources(plan.grow(None));
        }
        plan.resources(plan.added(situation.trial))
    }
}

/// Data for one decision: living trials, free resources and the increment.
struct Plan<'a> {
    settings: &'a DistributeResources,
    situation: &'a Situation<'a>,
    living: Vec<&'a Trial>,
    /// Bundles with which every trial started, without an empty first bundle.
    base: &'a [Bundle],
    unit: Bundle,
    /// Total resources of the sweep, without the reserved ones.
    total: Amounts,
    free: Amounts,
}

impl<'a> Plan<'a> {
    /// Prepares a decision; `None` before the trial's first iteration.
    ///
    /// # Errors
    /// Returns [`Error::Resources`] if the settings do not fit the resources with which trials started, and
    /// [`Error::Metric`] if `training_iteration` of the result is not a number.
    fn new(settings: &'a DistributeResources, situation: &'a Situation<'a>) -> Result<Option<Self>> {
        if number(situation.result, "training_iteration")?.is_some_and(|iteration| iteration < 1.0) {
            return Ok(None);
        }
        let bundles = situation.base.bundles();
        let base = if bundles[0].is_empty() { &bundles[1..] } else { bundles };
        let refuse =
            |rule: &str| Error::Resources { request: format!("{bundles:?}"), rule: rule.to_string() };
        if !settings.add_bundles && base.len() > 1 {
            return Err(refuse("more than one bundle cannot grow: set `add_bundles` of DistributeResources"));
        }
        let unit = if !settings.increase_by.is_empty() {
            settings.increase_by.clone()
        } else if settings.add_bundles {
            base[base.len() - 1].clone()
        } else if Amounts::of(&base[0]).gpus != 0.0 {
            Bundle::from([("GPU".into(), 1.0)])
        } else {
            Bundle::from([("CPU".into(), 1.0)])
        };
        let amounts = Amounts::of(&unit);
        if amounts.is_zero() || amounts.cpus < 0.0 || amounts.gpus < 0.0 {
            let rule =
                "trials grow by CPUs or GPUs: give `increase_by` of DistributeResources at least one of them";
            return Err(refuse(rule));
        }
        let living: Vec<&Trial> =
            situation.trials.iter().filter(|trial| !trial.status.is_finished()).collect();
        let total = Amounts::of(situation.total).plus(Amounts::of(&settings.reserve_resources), -1.0);
        let used = living.iter().map(|trial| Amounts::sum(trial.resources.bundles()));
        let free = used.fold(total, |free, used| free.plus(used, -1.0));
        Ok(Some(Self { settings, situation, living, base, unit, total, free }))
    }

    fn unit_amounts(&self) -> Amounts {
        Amounts::of(&self.unit)
    }

    /// Returns the resources that a trial has in addition to those with which it started.
    fn added(&self, trial: &Trial) -> Added {
        let bundles = trial.resources.bundles();
        let bundles = if bundles[0].is_empty() { &bundles[1..] } else { bundles };
        if self.settings.add_bundles {
            Added::Bundles(bundles.get(self.base.len()..).unwrap_or_default().to_vec())
        } else {
            Added::Amounts(Amounts::sum(bundles).plus(Amounts::sum(self.base), -1.0))
        }
    }

    /// Returns `increase_by_times`, or `None` if there is no limit.
    fn most(&self) -> Option<i64> {
        self.settings.increase_by_times.map(|times| i64::try_from(times).unwrap_or(i64::MAX))
    }

    /// Returns the additional resources of the trial after it has taken the free units, up to `limit` units, or has
    /// given back lacking ones.
    fn grow(&self, limit: Option<i64>) -> Added {
        let limit = limit.into_iter().chain(self.most()).min();
        let units = self.free.units(self.unit_amounts());
        self.added(self.situation.trial).change(&self.unit, units, limit)
    }

    /// Returns the number of units that the first living trial gets if all trials start again and take turns; `None`
    /// (no limit) if that is 0.
    fn fair_share(&self) -> Option<i64> {
        let unit = self.unit_amounts();
        let mut left = self.total.plus(Amounts::sum(self.base), -(self.living.len() as f64));
        let mut share = 0;
        'turns: while self.most().is_none_or(|most| share < most) {
            for turn in 0..self.living.len() {
                if left.cpus < unit.cpus || left.gpus < unit.gpus || left.units(unit) < 1 {
                    break 'turns;
                }
                left = left.plus(unit, -1.0);
                share += i64::from(turn == 0);
            }
        }
        Some(share).filter(|share| *share > 0)
    }

    /// Returns the best of the living trials that may still grow, or else the best of all.
    fn best(&self, objective: &Objective) -> Result<&'a Trial> {
        let score = |trial: &&'a Trial| {
            let value = trial
                .last_result
                .as_ref()
                .map(|result| number(result, &objective.metric))
                .transpose()?
                .flatten();
            let score = value.map(|value| objective.mode.score(value)).filter(|score| !score.is_nan());
            Ok((*trial, score.unwrap_or(f64::NEG_INFINITY)))
        };
        let mut ranking: Vec<(&Trial, f64)> = self.living.iter().map(score).collect::<Result<_>>()?;
        ranking.sort_by(|(_, a), (_, b)| b.total_cmp(a));
        let limit = Amounts::of(&self.settings.increase_by);
        let may_grow = |trial: &Trial| match self.most() {
            None => true,
            Some(most) => {
                let added = self.added(trial);
                // Like Ray, an amount that is 0 in the added bundles counts as below every limit, even a limit of 0.
                let lacks =
                    |amount: f64| matches!(&added, Added::Bundles(b) if !b.is_empty()) && amount == 0.0;
                let below = |amount: f64, unit: f64| lacks(amount) || amount < most as f64 * unit;
                let Amounts { cpus, gpus } = added.amounts();
                below(cpus, limit.cpus) || below(gpus, limit.gpus)
            }
        };
        let best = ranking.iter().find(|(trial, _)| may_grow(trial)).or(ranking.first());
        Ok(best.map_or(self.situation.trial, |(trial, _)| trial))
    }

    /// Makes the trial's new request from the initial resources and the additional ones.
    fn resources(&self, added: Added) -> Result<Option<Resources>> {
        let mut bundles = self.situation.base.bundles().to_vec();
        match added {
            Added::Bundles(added) => bundles.extend(added),
            Added::Amounts(added) => {
                if let Some(bundle) = bundles.last_mut() {
                    let new = Amounts::of(bundle).plus(added, 1.0);
                    bundle.extend([("CPU".into(), new.cpus), ("GPU".into(), new.gpus)]);
                }
            }
        }
        Ok(Some(Resources::new(bundles)?.placed(self.situation.base.strategy())))
    }
}
