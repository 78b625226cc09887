//! Free CPUs and GPUs, evenly or to the best.

use serde::{Deserialize, Serialize};

use super::bundles::{Added, Amounts};
use super::{ResourceAllocation, Situation};
use crate::metric::{self, Objective, number};
use crate::{Bundle, Error, Resources, Result, Trial, limit};

/// Gives free CPUs and GPUs evenly to all living trials, as Ray Tune does.
///
/// A trial has at least what it started with. Where more is in use than there is, a trial that reports gives back.
/// Other resources stay as they are (Ray drops them unless `add_bundles`).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct DistributeResources {
    /// Whether what is free comes in bundles of its own, each like the last one that a trial started with or like
    /// `increase_by`. Otherwise the one bundle grows.
    pub add_bundles: bool,
    /// What a trial grows by. Empty: with `add_bundles` the last bundle that trials started with; otherwise 1 GPU if
    /// the trials have GPUs, else 1 CPU.
    pub increase_by: Bundle,
    /// How often a trial grows at most. `None`: any number of times. In a file that is 0 or below.
    #[serde(with = "limit::positive")]
    pub increase_by_times: Option<u64>,
    /// The resources that are kept back from all trials.
    pub reserve_resources: Bundle,
}

/// Gives everything that is free to the best trial, as Ray Tune does; the others keep what they have.
///
/// A trial that has reported nothing yet is the worst (in Ray, with mode `max`, the best). The best trial is the best of
/// those below `increase_by_times`, with one exception that is Ray's: with `add_bundles` and an increment of CPUs alone or
/// GPUs alone, a trial that has got a bundle counts as below that limit for ever. What is free then stays free.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct DistributeResourcesToTopJob {
    /// Whether what is free comes in bundles of its own, see [`DistributeResources::add_bundles`].
    pub add_bundles: bool,
    /// What a trial grows by, see [`DistributeResources::increase_by`].
    pub increase_by: Bundle,
    /// How often a trial grows at most, see [`DistributeResources::increase_by_times`].
    #[serde(with = "limit::positive")]
    pub increase_by_times: Option<u64>,
    /// The resources that are kept back from all trials.
    pub reserve_resources: Bundle,
    /// What the best trial is best at. `None`: the objective of the base scheduler, else of the sweep. Files have it as
    /// `metric` and `mode`.
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

/// One decision in the making.
struct Plan<'a> {
    settings: &'a DistributeResources,
    situation: &'a Situation<'a>,
    living: Vec<&'a Trial>,
    /// What every trial started with, without an empty head.
    base: &'a [Bundle],
    unit: Bundle,
    /// Without what is kept back.
    total: Amounts,
    free: Amounts,
}

impl<'a> Plan<'a> {
    /// `None`: it is too early.
    ///
    /// # Errors
    /// Returns [`Error::Resources`] if the settings do not fit what the trials started with, and [`Error::Metric`] if
    /// the result counts its iterations otherwise than by a number.
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

    fn added(&self, trial: &Trial) -> Added {
        let bundles = trial.resources.bundles();
        let bundles = if bundles[0].is_empty() { &bundles[1..] } else { bundles };
        if self.settings.add_bundles {
            Added::Bundles(bundles.get(self.base.len()..).unwrap_or_default().to_vec())
        } else {
            Added::Amounts(Amounts::sum(bundles).plus(Amounts::sum(self.base), -1.0))
        }
    }

    /// `increase_by_times`, if there is such a limit.
    fn most(&self) -> Option<i64> {
        self.settings.increase_by_times.map(|times| i64::try_from(times).unwrap_or(i64::MAX))
    }

    /// What the trial has then beyond the base: what is free, up to `limit` units, or less if something lacks.
    fn grow(&self, limit: Option<i64>) -> Added {
        let limit = limit.into_iter().chain(self.most()).min();
        let units = self.free.units(self.unit_amounts());
        self.added(self.situation.trial).change(&self.unit, units, limit)
    }

    /// How many units the first of the living would get if all started anew and took turns; `None`: no limit.
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

    /// The best of the living that may still grow, else the best.
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
                // Ray takes what added bundles do not have at all for below every limit, even a limit of 0.
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
