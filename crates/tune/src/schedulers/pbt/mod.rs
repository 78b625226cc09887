//! Population based training (PBT).

mod config;
mod explore;
mod replay;

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use serde_json::Value;

use super::draws::Draws;
use super::policy_log::PolicyStep;
use super::{Answer, Decision, Order, TrialScheduler, not_negative, positive};
use crate::base::metric::{Comparison, missing, number};
use crate::base::{Config, Error, Metrics, Objective, Result, Trial, TrialStatus};
use crate::search::format_vars;
use explore::{Explore, Mutations};

pub use config::PbtConfig;
pub use replay::{PbtReplayConfig, PopulationBasedTrainingReplay};

/// Name of the scheduler in error messages.
const NAME: &str = "PopulationBasedTraining";

/// How often in a row a trial may copy a state that is older than its own. After that, trials with the same training time
/// run before it.
const MAX_REPEATS: u64 = 8;

/// The user's function that changes new settings.
type CustomExplore = Arc<dyn Fn(Config) -> Result<Config> + Send + Sync>;

/// Population based training: bad trials continue with the state of good ones and with changed settings.
///
/// This is the algorithm of [Jaderberg et al. 2017, Population Based Training of Neural
/// Networks](https://arxiv.org/abs/1711.09846) in Ray Tune's form. Every `perturbation_interval`, a trial is compared
/// with the others. The best and the worst `quantile_fraction` of the living trials are `n * quantile_fraction` each,
/// rounded up, and at most half. A trial among the best is saved. A trial among the worst copies the saved state of a
/// random one of the best, and its settings, each perturbed or resampled. The score of a trial is the one at its latest
/// perturbation step. One of the best that was not saved at its latest step is not copied.
///
/// There may be more trials than can run at once. A trial then pauses after its step if others wait, and the trial that
/// has trained least runs next; of several, the first, as in Ray. But there a trial that copies others again and again keeps
/// them from going on; here one that has gone back 8 times in a row lets the others go first. With `synch`, all trials wait until the last one has reached the
/// interval, and then have their steps together, best first. If the last one ends before, the others continue (Ray waits
/// forever).
pub struct PopulationBasedTraining {
    config: PbtConfig,
    comparison: Comparison,
    mutations: Mutations,
    explore: Explore,
    custom_explore: Option<CustomExplore>,
    /// State of each trial, by trial id.
    states: HashMap<String, TrialState>,
    next_sync: f64,
    draws: Draws,
    num_checkpoints: usize,
    num_perturbations: usize,
}

/// State that the scheduler keeps for one trial.
#[derive(Clone, Debug)]
struct TrialState {
    /// Tag of the trial before any exploit.
    tag: String,
    /// Score at the latest perturbation step, higher is better.
    score: Option<f64>,
    /// Whether the latest perturbation step gave an [`Order::Save`].
    saved: bool,
    last_perturbation: f64,
    last_train: f64,
    /// Number of times in a row that the trial went back to the time of the one that it copied.
    repeats: u64,
}

impl fmt::Debug for PopulationBasedTraining {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct(NAME)
            .field("config", &self.config)
            .field("states", &self.states)
            .finish_non_exhaustive()
    }
}

impl PopulationBasedTraining {
    /// Makes a scheduler that has seen no results yet.
    ///
    /// # Errors
    /// Returns [`Error::Config`] if a setting is out of range, or if a mutation is neither a list of values, a domain,
    /// nor an object of these.
    pub fn new(config: PbtConfig) -> Result<Self> {
        positive(NAME, "perturbation_interval", config.perturbation_interval)?;
        not_negative(NAME, "burn_in_period", config.burn_in_period)?;
        let within = |key: &str, value: f64, most: f64| {
            let rule = format!("it must be in 0..={most}");
            let error = || Error::config(format!("{NAME}.{key}"), value, rule);
            (0.0..=most).contains(&value).then_some(()).ok_or_else(error)
        };
        within("quantile_fraction", config.quantile_fraction, 0.5)?;
        within("resample_probability", config.resample_probability, 1.0)?;
        let factors = &config.perturbation_factors;
        if factors.is_empty() || factors.iter().any(|factor| !factor.is_finite()) {
            let key = format!("{NAME}.perturbation_factors");
            return Err(Error::config(key, format!("{factors:?}"), "it must be a list of finite numbers"));
        }
        Ok(Self {
            comparison: Comparison::new(NAME, config.objective.clone()),
            mutations: explore::parse(
                "hyperparam_mutations",
                &config.hyperparam_mutations,
                config.keep_in_domain,
            )?,
            explore: Explore {
                resample_probability: config.resample_probability,
                perturbation_factors: factors.clone(),
            },
            custom_explore: None,
            states: HashMap::new(),
            next_sync: config.perturbation_interval.max(config.burn_in_period),
            draws: Draws::new(config.seed),
            num_checkpoints: 0,
            num_perturbations: 0,
            config,
        })
    }

    /// Samples the setting at the dotted `path` with a function of a uniform number in `[0, 1)`, in place of a domain.
    #[must_use]
    pub fn sample_from(mut self, path: &str, sample: impl Fn(f64) -> Value + Send + Sync + 'static) -> Self {
        explore::insert(&mut self.mutations, path, Arc::new(sample));
        self
    }

    /// Sets a function that changes new settings after the mutations, e.g. to enforce limits.
    #[must_use]
    pub fn custom_explore_fn(
        mut self,
        explore: impl Fn(Config) -> Result<Config> + Send + Sync + 'static,
    ) -> Self {
        self.custom_explore = Some(Arc::new(explore));
        self
    }

    /// Ranks the living trials that have a score, and returns the worst and the best part, as indices in `trials`.
    fn quantiles(&self, trials: &[Trial]) -> (Vec<usize>, Vec<usize>) {
        let score = |trial: &Trial| {
            let score = self.states.get(&trial.trial_id)?.score?;
            (!score.is_nan() && !trial.status.is_finished()).then_some(score)
        };
        let mut ranking: Vec<(usize, f64)> =
            trials.iter().enumerate().filter_map(|(index, trial)| Some((index, score(trial)?))).collect();
        ranking.sort_by(|(_, a), (_, b)| a.total_cmp(b));
        if ranking.len() <= 1 {
            return (Vec::new(), Vec::new());
        }
        let wanted = (ranking.len() as f64 * self.config.quantile_fraction).ceil() as usize;
        let size = wanted.min(ranking.len() / 2);
        let indices = |part: &[(usize, f64)]| part.iter().map(|(index, _)| *index).collect();
        (indices(&ranking[..size]), indices(&ranking[ranking.len() - size..]))
    }

    /// Saves a good trial, or lets a bad one exploit a good one; returns whether it exploited one.
    fn save_or_exploit(
        &mut self,
        trial: usize,
        trials: &[Trial],
        (lower, upper): &(Vec<usize>, Vec<usize>),
        orders: &mut Vec<Order>,
    ) -> Result<bool> {
        let good = upper.contains(&trial);
        let trial_id = &trials[trial].trial_id;
        if let Some(state) = self.states.get_mut(trial_id) {
            state.saved = good && matches!(trials[trial].status, TrialStatus::Running | TrialStatus::Paused);
            if state.saved {
                orders.push(Order::Save(trial_id.clone()));
            }
        }
        self.num_checkpoints += usize::from(good);
        if !lower.contains(&trial) {
            return Ok(false);
        }
        let source = &trials[upper[self.draws.index(upper.len())]];
        match self.states.get(&source.trial_id).cloned() {
            Some(state) if state.saved => self.exploit(&trials[trial], source, &state, orders).map(|()| true),
            _ => Ok(false),
        }
    }

    /// Orders `trial` to continue with the state of `source` and with changed settings.
    fn exploit(
        &mut self,
        trial: &Trial,
        source: &Trial,
        source_state: &TrialState,
        orders: &mut Vec<Order>,
    ) -> Result<()> {
        let explored = self.explore.explore(&source.config, &self.mutations, &mut self.draws)?;
        let mut config = Config::from(explored);
        if let Some(custom) = &self.custom_explore {
            config = custom(config)?;
        }
        let Some(state) = self.states.get_mut(&trial.trial_id) else { return Ok(()) };
        let iteration = |trial: &Trial| {
            let result = trial.last_result.as_ref();
            result.and_then(|result| result.get("training_iteration")?.as_u64()).unwrap_or(0)
        };
        let log = self.config.log_config.then(|| PolicyStep {
            tag: state.tag.clone(),
            source_tag: source_state.tag.clone(),
            iteration: iteration(trial),
            source_iteration: iteration(source),
            source_config: source.config.clone(),
            new_config: config.clone(),
        });
        let names = self.mutations.iter().map(|(name, _)| name);
        let changed = names.filter_map(|name| Some((name.clone(), config.get(name)?.clone())));
        let experiment_tag = perturbed_tag(&state.tag, &changed.collect::<Vec<_>>());
        tracing::info!(
            trial = trial.trial_id,
            score = state.score,
            source = source.trial_id,
            source_score = source_state.score,
            tag = experiment_tag,
            "exploits"
        );
        state.repeats += u64::from(source_state.last_train < state.last_train);
        state.last_perturbation = source_state.last_perturbation;
        state.last_train = source_state.last_train;
        self.num_perturbations += 1;
        orders.push(Order::Exploit {
            trial_id: trial.trial_id.clone(),
            source: source.trial_id.clone(),
            config,
            experiment_tag,
            log,
        });
        Ok(())
    }

    /// Whether a living trial other than `besides` has not reached the time at which all trials wait.
    fn waits_for_others(&self, besides: &Trial, trials: &[Trial]) -> bool {
        trials.iter().any(|trial| {
            let behind = |state: &TrialState| state.last_train < self.next_sync;
            !trial.status.is_finished()
                && trial.trial_id != besides.trial_id
                && self.states.get(&trial.trial_id).is_some_and(behind)
        })
    }

    /// Saves good trials and lets bad ones exploit them, the best first, once all trials have reached the same time.
    fn perturb_all(&mut self, time: f64, trials: &[Trial]) -> Result<Vec<Order>> {
        let quantiles = self.quantiles(trials);
        let (lower, upper) = &quantiles;
        let between = (0..trials.len()).filter(|trial| !lower.contains(trial) && !upper.contains(trial));
        let mut orders = Vec::new();
        for trial in upper.iter().copied().chain(between).chain(lower.iter().copied()) {
            let trial_id = &trials[trial].trial_id;
            if let Some(state) = self.states.get_mut(trial_id) {
                state.last_perturbation = time;
            }
            self.save_or_exploit(trial, trials, &quantiles, &mut orders)?;
        }
        // The next multiple that no trial has reached, or none would train on.
        let latest = self.states.values().map(|state| state.last_train).fold(0.0, f64::max);
        let intervals = ((latest - self.next_sync) / self.config.perturbation_interval).floor() + 1.0;
        self.next_sync += intervals.max(1.0) * self.config.perturbation_interval;
        Ok(orders)
    }

    /// Returns the time and the score of a result; `None` if it lacks one of them and `require_attrs` is off.
    fn measure(&self, trial: &Trial, result: &Metrics) -> Result<Option<(f64, f64)>> {
        let time_attr = &self.config.time_attr;
        let time = number(result, time_attr)?.filter(|time| !time.is_nan());
        let score = self.comparison.score(result)?;
        if self.config.require_attrs {
            let needed_as = format!("the time_attr of {NAME} (require_attrs = false lets such trials go on)");
            time.ok_or_else(|| missing(result, time_attr, &trial.trial_id, needed_as))?;
            score.ok_or_else(|| self.comparison.missing(result, &trial.trial_id))?;
        }
        Ok(time.zip(score))
    }
}

impl TrialScheduler for PopulationBasedTraining {
    fn set_search_properties(&mut self, objective: Option<&Objective>) -> Result<()> {
        if self.mutations.is_empty() && self.custom_explore.is_none() {
            let rule = "without it, or a function that explores, trials never change";
            return Err(Error::config(format!("{NAME}.hyperparam_mutations"), "{}", rule));
        }
        self.comparison.set(objective)
    }

    fn objective(&self) -> Option<&Objective> {
        self.comparison.objective()
    }

    fn works_with_searchers(&self) -> bool {
        false
    }

    fn on_trial_add(&mut self, trial: &mut Trial) -> Result<()> {
        explore::fill(&mut trial.config, &self.mutations, &mut self.draws);
        let tag = trial.experiment_tag.clone();
        let state = TrialState {
            tag,
            score: None,
            saved: false,
            last_perturbation: 0.0,
            last_train: 0.0,
            repeats: 0,
        };
        self.states.insert(trial.trial_id.clone(), state);
        Ok(())
    }

    fn on_trial_result(&mut self, trial: &Trial, result: &Metrics, trials: &[Trial]) -> Result<Answer> {
        let Some((time, score)) = self.measure(trial, result)? else { return Ok(Decision::Continue.into()) };
        let Some(state) = self.states.get_mut(&trial.trial_id) else { return Ok(Decision::Continue.into()) };
        let too_early = time < self.config.burn_in_period
            || time - state.last_perturbation < self.config.perturbation_interval;
        if too_early {
            return Ok(Decision::Continue.into());
        }
        state.score = Some(score);
        state.last_train = time;
        if self.config.synch {
            if self.waits_for_others(trial, trials) {
                return Ok(Decision::Pause.into());
            }
            let orders = self.perturb_all(time, trials)?;
            let is_exploited = |order: &Order| matches!(order, Order::Exploit { trial_id, .. } if *trial_id == trial.trial_id);
            let decision = if orders.iter().any(is_exploited) { Decision::Noop } else { Decision::Pause };
            return Ok(Answer { decision, orders });
        }
        state.last_perturbation = time;
        let others_wait =
            trials.iter().any(|trial| matches!(trial.status, TrialStatus::Pending | TrialStatus::Paused));
        let quantiles = self.quantiles(trials);
        let index = trials.iter().position(|other| other.trial_id == trial.trial_id);
        let mut orders = Vec::new();
        let exploited = match index {
            Some(index) => self.save_or_exploit(index, trials, &quantiles, &mut orders)?,
            None => false,
        };
        if let Some(state) = self.states.get_mut(&trial.trial_id).filter(|_| !exploited) {
            state.repeats = 0;
        }
        let decision = match exploited {
            true => Decision::Noop,
            false if others_wait => Decision::Pause,
            false => Decision::Continue,
        };
        Ok(Answer { decision, orders })
    }

    fn on_trial_complete(&mut self, trial: &Trial, _: &Metrics, trials: &[Trial]) -> Result<Vec<Order>> {
        self.on_trial_remove(trial, trials)
    }

    /// Forgets the trial's score. With `synch`, all others may have waited for this trial alone.
    fn on_trial_remove(&mut self, trial: &Trial, trials: &[Trial]) -> Result<Vec<Order>> {
        if let Some(state) = self.states.get_mut(&trial.trial_id) {
            state.score = None;
        }
        if !self.config.synch || self.waits_for_others(trial, trials) {
            return Ok(Vec::new());
        }
        let living = trials.iter().filter(|other| !other.status.is_finished());
        let times = living.filter_map(|other| Some(self.states.get(&other.trial_id)?.last_train));
        match times.reduce(f64::max) {
            Some(time) => self.perturb_all(time, trials),
            None => Ok(Vec::new()),
        }
    }

    fn choose_trial_to_run(&self, trials: &[Trial], fits: &dyn Fn(&Trial) -> bool) -> Option<usize> {
        let last_train = |trial: &Trial| {
            let waits = matches!(trial.status, TrialStatus::Pending | TrialStatus::Paused);
            let state = self.states.get(&trial.trial_id).filter(|_| waits)?;
            let may_run = !self.config.synch || state.last_train < self.next_sync;
            may_run.then_some((state.last_train, state.repeats >= MAX_REPEATS))
        };
        let candidates =
            trials.iter().enumerate().filter_map(|(i, trial)| Some((i, trial, last_train(trial)?)));
        let least = candidates
            .filter(|(_, trial, _)| fits(trial))
            .min_by(|(.., a), (.., b)| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
        least.map(|(index, ..)| index)
    }

    fn debug_string(&self) -> String {
        format!("{NAME}: {} checkpoints, {} perturbs", self.num_checkpoints, self.num_perturbations)
    }
}

/// Returns the tag of a trial with changed settings: `4_lr=0.0010@perturbed[lr=0.0012]`.
fn perturbed_tag(tag: &str, changed: &[(String, Value)]) -> String {
    format!("{tag}@perturbed[{}]", format_vars(changed))
}
