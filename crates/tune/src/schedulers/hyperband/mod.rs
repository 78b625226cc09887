//! HyperBand, and its variant for BOHB.

mod bracket;

use std::collections::{HashMap, HashSet};

use serde::{Deserialize, Serialize};

use super::{Answer, Decision, Order, TrialScheduler, positive};
use crate::base::metric::{self, Comparison, missing, number};
use crate::base::{Error, Metrics, Objective, Result, Trial, TrialStatus};
use bracket::Bracket;

/// Settings of [`HyperBandScheduler`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct HyperBandConfig {
    /// Key of the results that measures progress, e.g. `training_iteration`; its value must grow with every result.
    pub time_attr: String,
    /// Objective by which trials are compared; `None` means the sweep's. Sweep files write it as `metric` and `mode`.
    #[serde(flatten, with = "metric::pair")]
    pub objective: Option<Objective>,
    /// Upper limit of the milestones, in units of `time_attr`. Must be 1 or more.
    pub max_t: f64,
    /// Reduction factor (eta): at a milestone the best `1 / reduction_factor` of the trials continue, up to a milestone
    /// `reduction_factor` times as far. Must be above 1.
    pub reduction_factor: f64,
    /// Whether trials are stopped at the last milestone.
    pub stop_last_trials: bool,
}

impl Default for HyperBandConfig {
    fn default() -> Self {
        Self {
            time_attr: "training_iteration".into(),
            objective: None,
            max_t: 81.0,
            reduction_factor: 3.0,
            stop_last_trials: true,
        }
    }
}

/// HyperBand: the trials of a bracket wait for each other at milestones, where the worse ones are stopped.
///
/// This is the algorithm of [Li et al. 2018, Hyperband](https://arxiv.org/abs/1603.06560) in Ray Tune's form. With
/// factor `f`, a band has `round(ln(max_t) / ln(f)) + 1` brackets. Bracket `s` runs `ceil(brackets / (s + 1) * f^s)`
/// trials to `floor(max_t / f^s)`. There each trial pauses until the last one has arrived or ended. The best `1/f`
/// continue to a milestone `f` times as far, and so on, `s` times. Milestones are whole numbers and at most `max_t`.
/// The last one is below `max_t` if that is not a power of `f`: 100 with factor 3 ends at 81, except in the brackets
/// that start near it. Bracket 0 is filled first, and a bracket that is not full does not wait for more trials. The
/// bracket with the least progress runs first.
///
/// A metric that is `null` at a milestone counts as worse than any number. There are three differences from Ray. If the
/// last trial that a bracket waits for fails or ends by itself, Ray halves the bracket only the first time and then
/// waits forever; here the bracket continues. Ray halves a bracket whose only trials failed before others joined; here
/// an empty bracket is left alone. If all remaining trials have already passed the next milestone (because they report
/// rarely), Ray waits forever; here they are halved again once nothing else runs.
///
/// [`for_bohb`](HyperBandScheduler::for_bohb) is Ray's `HyperBandForBOHB`.
#[derive(Debug)]
#[doc(alias = "HyperBandForBOHB")]
pub struct HyperBandScheduler {
    variant: Variant,
    config: HyperBandConfig,
    comparison: Comparison,
    /// Number of brackets in a full band.
    brackets: usize,
    /// Bands in the order in which they were made; `None` stands for a bracket whose first milestone would be 0.
    bands: Vec<Vec<Option<Bracket>>>,
    /// Bracket of each trial, by trial id.
    places: HashMap<String, BracketIndex>,
    num_stopped: usize,
}

/// Variant of HyperBand: the plain one, or the one for BOHB.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Variant {
    Plain,
    ForBohb,
}

impl Variant {
    /// Returns the name for error messages.
    fn name(self) -> &'static str {
        match self {
            Variant::Plain => "HyperBandScheduler",
            Variant::ForBohb => "HyperBandForBOHB",
        }
    }

    /// Returns the name for the progress table.
    fn label(self) -> &'static str {
        match self {
            Variant::Plain => "HyperBand",
            Variant::ForBohb => "HyperBandForBOHB",
        }
    }
}

impl HyperBandScheduler {
    /// Makes a scheduler that has seen no results yet.
    ///
    /// # Errors
    /// Returns [`Error::Config`] if `max_t` or `reduction_factor` is out of range.
    pub fn new(config: HyperBandConfig) -> Result<Self> {
        Self::of(Variant::Plain, config)
    }

    /// Makes HyperBand as BOHB needs it: large brackets come first, and they wait to be full.
    ///
    /// This is the algorithm of [Falkner et al. 2018, BOHB](https://arxiv.org/abs/1807.01774) in Ray Tune's form. The
    /// bracket with the most trials and the earliest milestone is filled first. It is halved once it is full and all its
    /// trials wait, so that the searcher learns from the short runs before it suggests the rest. Brackets that cannot be
    /// filled are halved once each, in the order in which they were made, when nothing else is left to run.
    ///
    /// # Errors
    /// Returns [`Error::Config`] if `max_t` or `reduction_factor` is out of range.
    pub fn for_bohb(config: HyperBandConfig) -> Result<Self> {
        Self::of(Variant::ForBohb, config)
    }
}

impl TrialScheduler for HyperBandScheduler {
    fn set_search_properties(&mut self, objective: Option<&Objective>) -> Result<()> {
        self.comparison.set(objective)
    }

    fn objective(&self) -> Option<&Objective> {
        self.comparison.objective()
    }

    fn on_trial_add(&mut self, trial: &mut Trial) -> Result<()> {
        self.add(trial);
        Ok(())
    }

    fn on_trial_result(&mut self, trial: &Trial, result: &Metrics, trials: &[Trial]) -> Result<Answer> {
        let Some(place) = self.update(trial, result)? else { return Ok(Decision::Continue.into()) };
        let paused = |other: &Trial| other.status == TrialStatus::Paused || other.trial_id == trial.trial_id;
        let all_wait =
            |bracket: &Bracket| bracket.filled() && members(bracket, trials).all(|(_, other)| paused(other));
        if self.variant == Variant::ForBohb && !self.bracket(place).is_some_and(all_wait) {
            return Ok(Decision::Pause.into());
        }
        let mut orders = Vec::new();
        let decision = self.process(place, Some(trial), trials, &mut orders);
        Ok(Answer { decision, orders })
    }

    fn on_trial_complete(&mut self, trial: &Trial, _: &Metrics, trials: &[Trial]) -> Result<Vec<Order>> {
        self.on_trial_remove(trial, trials)
    }

    /// Removes the trial from its bracket, which may have waited for this trial alone.
    fn on_trial_remove(&mut self, trial: &Trial, trials: &[Trial]) -> Result<Vec<Order>> {
        let mut orders = Vec::new();
        let Some(place) = self.places.remove(&trial.trial_id) else { return Ok(orders) };
        let was_live = self.bracket_mut(place).is_some_and(|bracket| bracket.remove(&trial.trial_id));
        if was_live {
            self.process(place, None, trials, &mut orders);
        }
        Ok(orders)
    }

    /// Returns the first pending trial that fits, bracket by bracket. In each band, the bracket with the least progress
    /// comes first; for BOHB, brackets keep the order in which they were made. Pending trials without a bracket, which
    /// had been given up and are tried again, come last.
    fn choose_trial_to_run(&self, trials: &[Trial], fits: &dyn Fn(&Trial) -> bool) -> Option<usize> {
        let pending: HashMap<&str, usize> = trials
            .iter()
            .enumerate()
            .filter(|(_, trial)| trial.status == TrialStatus::Pending && fits(trial))
            .map(|(index, trial)| (trial.trial_id.as_str(), index))
            .collect();
        if pending.is_empty() {
            return None;
        }
        let chosen = self.bands.iter().find_map(|band| {
            let mut band: Vec<&Bracket> = band.iter().flatten().collect();
            if self.variant == Variant::Plain {
                band.sort_by(|a, b| a.progress().total_cmp(&b.progress()));
            }
            band.into_iter().flat_map(Bracket::live).find_map(|trial_id| pending.get(trial_id).copied())
        });
        chosen.or_else(|| trials.iter().position(|trial| pending.contains_key(trial.trial_id.as_str())))
    }

    /// Halves once each bracket whose trials wait, until some trial can run. If only milestones have changed, the
    /// brackets are halved again.
    fn on_idle(&mut self, trials: &[Trial]) -> Result<Vec<Order>> {
        let waits = |bracket: &Bracket| {
            bracket.all_there()
                && members(bracket, trials).any(|(_, trial)| trial.status == TrialStatus::Paused)
        };
        let mut orders = Vec::new();
        // The loop ends, because each halving reduces the number of halvings to come.
        while orders.is_empty() {
            let waiting: Vec<BracketIndex> =
                self.places().into_iter().filter(|&place| self.bracket(place).is_some_and(waits)).collect();
            if waiting.is_empty() {
                break;
            }
            for place in waiting {
                self.process(place, None, trials, &mut orders);
                if orders.iter().any(|order| matches!(order, Order::Unpause(_))) {
                    return Ok(orders);
                }
            }
        }
        Ok(orders)
    }

    fn debug_string(&self) -> String {
        let unfinished =
            self.bands.iter().flatten().flatten().filter(|bracket| bracket.live().next().is_some());
        let brackets: Vec<String> = unfinished.map(Bracket::to_string).collect();
        format!("{}: {} stopped; {}", self.variant.label(), self.num_stopped, brackets.join(" | "))
    }
}

/// Index of a band, and index of a bracket in it.
type BracketIndex = (usize, usize);

/// Fate of a trial at a milestone.
enum AtMilestone {
    Ends,
    /// The trial has already passed the next milestone, so it waits there.
    Waits,
    GoesOn,
}

/// Helpers of both variants: bands of brackets, which are filled one after the other.
impl HyperBandScheduler {
    fn of(variant: Variant, config: HyperBandConfig) -> Result<Self> {
        let name = variant.name();
        let HyperBandConfig { max_t, reduction_factor, .. } = config;
        positive(name, "max_t", max_t)?;
        let refuse =
            |key: &str, value: f64, rule: &str| Err(Error::config(format!("{name}.{key}"), value, rule));
        if max_t < 1.0 {
            return refuse("max_t", max_t, "it must be 1 or more: milestones are whole numbers");
        }
        if !(reduction_factor > 1.0 && reduction_factor.is_finite()) {
            return refuse("reduction_factor", reduction_factor, "it must be above 1");
        }
        Ok(Self {
            variant,
            comparison: Comparison::new(name, config.objective.clone()),
            brackets: (max_t.ln() / reduction_factor.ln()).round_ties_even() as usize + 1,
            bands: vec![Vec::new()],
            places: HashMap::new(),
            num_stopped: 0,
            config,
        })
    }

    fn bracket(&self, (band, bracket): BracketIndex) -> Option<&Bracket> {
        self.bands.get(band)?.get(bracket)?.as_ref()
    }

    fn bracket_mut(&mut self, (band, bracket): BracketIndex) -> Option<&mut Bracket> {
        self.bands.get_mut(band)?.get_mut(bracket)?.as_mut()
    }

    /// Lists the indices of all brackets.
    fn places(&self) -> Vec<BracketIndex> {
        let band = |band: usize| (0..self.bands[band].len()).map(move |bracket| (band, bracket));
        (0..self.bands.len()).flat_map(band).collect()
    }

    /// Adds the trial to the newest bracket, or to one more if that is full.
    fn add(&mut self, trial: &Trial) {
        let mut band = self.bands.len() - 1;
        let newest = self.bands[band].last_mut().and_then(Option::as_mut);
        if newest.is_none_or(|bracket| bracket.filled()) {
            loop {
                if self.bands[band].len() == self.brackets {
                    self.bands.push(Vec::new());
                    band += 1;
                }
                let made = self.bands[band].len();
                let s = match self.variant {
                    Variant::Plain => made,
                    Variant::ForBohb => self.brackets - made - 1,
                };
                let bracket = Bracket::new(&self.config, self.brackets, s);
                let has_milestone = bracket.is_some();
                self.bands[band].push(bracket);
                // Bracket 0 always has a milestone, so the loop ends.
                if has_milestone {
                    break;
                }
            }
        }
        let place = (band, self.bands[band].len() - 1);
        if let Some(bracket) = self.bracket_mut(place) {
            bracket.add(&trial.trial_id);
        }
        self.places.insert(trial.trial_id.clone(), place);
    }

    /// Stores a result. Returns the trial's bracket if the trial has to wait there, `None` if it continues.
    fn update(&mut self, trial: &Trial, result: &Metrics) -> Result<Option<BracketIndex>> {
        let time_attr = &self.config.time_attr;
        let time = number(result, time_attr)?.filter(|time| !time.is_nan());
        let needed_as = || format!("the time_attr of {}", self.variant.name());
        let time = time.ok_or_else(|| missing(result, time_attr, &trial.trial_id, needed_as()))?;
        let score = self.comparison.score(result)?;
        let Some(&place) = self.places.get(&trial.trial_id) else { return Ok(None) };
        let Some(bracket) = self.bracket_mut(place) else { return Ok(None) };
        bracket.update(&trial.trial_id, time, score.unwrap_or(f64::NAN));
        if bracket.goes_on(&trial.trial_id) {
            return Ok(None);
        }
        match score {
            Some(_) => Ok(Some(place)),
            None => Err(self.comparison.missing(result, &trial.trial_id)),
        }
    }

    /// Halves the bracket if all its trials have reached the milestone, and ends it if that was the last one. Returns
    /// the decision for `current`, the running trial, and adds orders for the others.
    fn process(
        &mut self,
        place: BracketIndex,
        current: Option<&Trial>,
        trials: &[Trial],
        orders: &mut Vec<Order>,
    ) -> Decision {
        let Some(bracket) = self.bracket_mut(place) else { return Decision::Pause };
        if bracket.live().next().is_none() || !bracket.all_there() {
            return Decision::Pause;
        }
        let is_current = |trial_id: &str| current.is_some_and(|current| current.trial_id == trial_id);
        let fates: Vec<(String, AtMilestone)> = if bracket.finished() {
            bracket.live().map(|trial_id| (trial_id.to_string(), AtMilestone::Ends)).collect()
        } else {
            let (good, bad) = bracket.halve();
            // The bracket is finished if the remaining trials have reached the milestone, no matter how far the stopped
            // ones got.
            for trial_id in &bad {
                bracket.remove(trial_id);
            }
            let finished = bracket.finished();
            let fate = |trial_id: &String| match bracket.goes_on(trial_id) {
                true => AtMilestone::GoesOn,
                false if finished => AtMilestone::Ends,
                false => AtMilestone::Waits,
            };
            let good = good.into_iter().map(|trial_id| (trial_id.clone(), fate(&trial_id)));
            bad.into_iter().map(|trial_id| (trial_id, AtMilestone::Ends)).chain(good).collect()
        };
        let paused: HashSet<&str> = trials
            .iter()
            .filter(|trial| trial.status == TrialStatus::Paused)
            .map(|trial| trial.trial_id.as_str())
            .collect();
        let mut decision = Decision::Pause;
        let mut num_stopped = 0;
        for (trial_id, fate) in fates {
            match fate {
                AtMilestone::Waits => {}
                AtMilestone::GoesOn if is_current(&trial_id) => decision = Decision::Continue,
                AtMilestone::GoesOn if paused.contains(trial_id.as_str()) => {
                    orders.push(Order::Unpause(trial_id))
                }
                AtMilestone::GoesOn => {}
                AtMilestone::Ends => {
                    num_stopped += 1;
                    bracket.remove(&trial_id);
                    if is_current(&trial_id) {
                        decision = Decision::Stop;
                    } else {
                        orders.push(Order::Stop(trial_id));
                    }
                }
            }
        }
        self.num_stopped += num_stopped;
        decision
    }
}

/// Returns the trials of a bracket that have not ended, with their ids.
fn members<'a>(bracket: &'a Bracket, trials: &'a [Trial]) -> impl Iterator<Item = (&'a str, &'a Trial)> {
    let by_id: HashMap<&str, &Trial> = trials.iter().map(|trial| (trial.trial_id.as_str(), trial)).collect();
    bracket.live().filter_map(move |trial_id| Some((trial_id, *by_id.get(trial_id)?)))
}
