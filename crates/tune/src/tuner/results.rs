//! Results of a sweep: its trials with their last results and checkpoints.

use std::collections::{BTreeSet, HashMap};
use std::fmt;
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::checkpoints::Checkpoints;
use super::journal::{self, Event};
use super::stored_sweep::StoredSweep;
use super::sweep::Sweep;
use super::table::{Columns, Row};
use crate::base::{Config, Error, Metrics, Mode, Objective, Result, TrialStatus, metric};
use crate::checkpoint::{self, Metadata};
use crate::{loggers, storage};

/// Results of a sweep: its trials, in the order in which they were drawn.
#[derive(Debug)]
pub struct ResultGrid {
    dir: PathBuf,
    space: Value,
    objective: Option<Objective>,
    results: Vec<TrialResult>,
    interrupted: bool,
}

/// Result of one trial.
#[derive(Clone, Debug)]
pub struct TrialResult {
    /// Id of the trial, such as `3f2a1_00004`.
    pub trial_id: String,
    /// Number of the trial and its drawn values.
    pub experiment_tag: String,
    /// Settings with which the last result was trained; without a result, those of the trial.
    pub config: Config,
    /// Status of the trial: `Terminated` or `Error`, or another one if the sweep was interrupted.
    pub status: TrialStatus,
    /// Whether the scheduler ended the trial before its own end.
    pub stopped_early: bool,
    /// Last result of the trial, without its settings; `None` if it reported no result.
    pub metrics: Option<Metrics>,
    /// Error that the trial failed with; `None` if it did not fail.
    pub error: Option<String>,
    /// Directory of the trial.
    pub path: PathBuf,
    /// Newest checkpoint: a directory, or a URL if the checkpoint is only on the storage; see
    /// [`fetch_checkpoint`](crate::storage::fetch_checkpoint). `None` if there is no checkpoint.
    pub checkpoint: Option<PathBuf>,
    /// All checkpoints of the trial, oldest first, as pairs of iteration and directory or URL.
    pub checkpoints: Vec<(u64, PathBuf)>,
    /// Settings with which earlier results were trained, where a scheduler changed them: oldest first, each with the number
    /// of results until its change.
    pub earlier_configs: Vec<(usize, Config)>,
}

/// Choice of which results of a trial are compared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Scope {
    /// Value of the metric in the last result.
    #[default]
    Last,
    /// Best value of the metric in any result.
    All,
    /// Mean of the metric over all results.
    Avg,
    /// Mean of the metric over the last 5 results.
    Last5Avg,
    /// Mean of the metric over the last 10 results.
    Last10Avg,
}

impl Scope {
    fn of(self, values: &[f64], mode: Mode) -> Option<f64> {
        let mean = |values: &[f64]| match values {
            [] => None,
            values => Some(values.iter().sum::<f64>() / values.len() as f64),
        };
        let last = |n: usize| &values[values.len().saturating_sub(n)..];
        match self {
            Scope::Last => values.last().copied(),
            Scope::All => {
                values.iter().copied().reduce(|a, b| if mode.score(b) > mode.score(a) { b } else { a })
            }
            Scope::Avg => mean(values),
            Scope::Last5Avg => mean(last(5)),
            Scope::Last10Avg => mean(last(10)),
        }
    }
}

/// Says what became of a trial whose directory was deleted while the sweep ran.
pub(super) fn deleted_dir(dir: &Path) -> String {
    let mut rescued = dir.as_os_str().to_owned();
    rescued.push(".rescued");
    let rescued = Path::new(&rescued);
    let rest = if rescued.is_dir() {
        format!("what it saved after that is in {}", rescued.display())
    } else {
        "its checkpoints are lost, its results are in the table".into()
    };
    format!("its directory {} was deleted during the sweep; {rest}", dir.display())
}

impl ResultGrid {
    pub(super) fn of(
        sweep: Sweep,
        remote: Option<&StoredSweep>,
        space: Value,
        objective: Option<Objective>,
        interrupted: bool,
        deleted: &BTreeSet<usize>,
    ) -> Self {
        let trials = sweep.trials.into_iter().zip(sweep.runs).enumerate();
        let results = trials.map(|(i, (trial, run))| {
            let is_deleted = deleted.contains(&i);
            let status = if is_deleted { TrialStatus::Error } else { trial.status };
            let error = if is_deleted { Some(deleted_dir(&run.dir)) } else { run.error };
            let paths = |checkpoints: &Checkpoints| {
                let path = |iteration: u64| {
                    let here = run.dir.join(checkpoint::name(iteration));
                    (iteration, remote.map_or(here.clone(), |remote| remote.place(here)))
                };
                checkpoints.iter().map(|saved| path(saved.iteration)).collect::<Vec<_>>()
            };
            let checkpoints = if is_deleted { Vec::new() } else { paths(&run.checkpoints) };
            TrialResult {
                trial_id: trial.trial_id,
                experiment_tag: trial.experiment_tag,
                config: trial.earlier_config.unwrap_or(trial.config),
                status,
                stopped_early: trial.stopped_early,
                metrics: trial.last_result,
                error: error.filter(|_| status == TrialStatus::Error),
                path: run.dir.clone(),
                checkpoint: checkpoints.last().map(|(_, path)| path.clone()),
                checkpoints,
                earlier_configs: run.earlier_configs,
            }
        });
        ResultGrid { dir: sweep.dir, space, objective, results: results.collect(), interrupted }
    }

    /// Returns the trial whose last result is best for the objective of the sweep, or else for that of its scheduler; if
    /// several are equal, the first. Trials whose value is missing, NaN or infinite are left out.
    ///
    /// # Errors
    /// Returns [`Error::Missing`] if neither the sweep nor its scheduler has an objective, and [`Error::Experiment`]
    /// with the nearest key if no trial has a number for the metric.
    #[doc(alias = "get_best_result")]
    pub fn best(&self) -> Result<&TrialResult> {
        let rule =
            "the sweep has none, so say what is best: `best_by(&Objective::maximize(\"...\"), Scope::Last)`";
        let objective = self.objective.as_ref().ok_or_else(|| Error::missing("metric", rule))?;
        self.best_by(objective, Scope::Last)
    }

    /// Returns the trial that is best for `objective`; if several are equal, the first. `scope` says which results of a
    /// trial count. Trials whose value is missing, NaN or infinite are left out.
    ///
    /// # Errors
    /// Returns [`Error::Experiment`] with the nearest key if no trial has a number for the metric. Scopes other than
    /// [`Scope::Last`] read the journal: they return [`Error::Io`] if it cannot be read, and [`Error::Experiment`] if it is
    /// damaged.
    pub fn best_by(&self, objective: &Objective, scope: Scope) -> Result<&TrialResult> {
        let Objective { metric: key, mode } = objective;
        let values = match scope {
            Scope::Last => self.last_values(key),
            _ => self.all_values(key)?,
        };
        let score = |values: Vec<f64>| {
            let value = scope.of(&values, *mode).filter(|value| value.is_finite())?;
            Some(mode.score(value))
        };
        let best = metric::best(values.into_iter().map(score));
        best.map(|best| &self.results[best]).ok_or_else(|| {
            let last: Vec<&Metrics> =
                self.results.iter().filter_map(|result| result.metrics.as_ref()).collect();
            let known: Vec<String> = last
                .first()
                .map(|m| loggers::flatten(m).into_iter().map(|(key, _)| key).collect())
                .unwrap_or_default();
            let near = crate::base::config::nearest(key, known.iter().map(String::as_str));
            let hint = near.map(|near| format!("; nearest: `{near}`")).unwrap_or_default();
            Error::experiment(&self.dir, format!("no trial has a number for `{key}`{hint}"))
        })
    }

    fn last_values(&self, key: &str) -> Vec<Vec<f64>> {
        let value = |metrics: &Metrics| metric::find(metrics, key).and_then(Value::as_f64);
        self.results
            .iter()
            .map(|result| result.metrics.as_ref().and_then(value).into_iter().collect())
            .collect()
    }

    /// Reads all numbers that each trial reported for `key` from the journal.
    fn all_values(&self, key: &str) -> Result<Vec<Vec<f64>>> {
        let mut values = vec![Vec::new(); self.results.len()];
        self.visit_results(|i, result| {
            values[i].extend(metric::find(result, key).and_then(Value::as_f64));
        })?;
        Ok(values)
    }

    /// Calls `visit` with each result in the journal and the index of its trial.
    fn visit_results(&self, mut visit: impl FnMut(usize, &Metrics)) -> Result<()> {
        let index: HashMap<&str, usize> =
            self.results.iter().enumerate().map(|(i, result)| (&*result.trial_id, i)).collect();
        let (_, events, _) = journal::read(&self.dir.join(journal::FILE))?;
        for event in events {
            if let Event::Result { trial_id, result, .. } = event
                && let Some(i) = index.get(&*trial_id)
            {
                visit(*i, &result);
            }
        }
        Ok(())
    }

    /// Returns one row per trial, for a table or a data frame. A row has the trial's last result, or with `filter` the first
    /// result with the best finite value for that objective. It also has `trial_id`, `logdir` and, below `config/`, the
    /// settings with which that result was trained; a trial without such a result has only these. Nested keys are joined by `/`.
    ///
    /// # Errors
    /// Returns [`Error::Io`] if the journal cannot be read, and [`Error::Experiment`] if the journal is damaged. Without a
    /// filter the journal is not read, and there is no error.
    pub fn get_dataframe(&self, filter: Option<&Objective>) -> Result<Vec<Metrics>> {
        let chosen = match filter {
            None => self.results.iter().map(|result| Some((usize::MAX, result.metrics.clone()?))).collect(),
            Some(objective) => self.best_results(objective)?,
        };
        let rows = self.results.iter().zip(chosen).map(|(trial, chosen)| {
            let owned = |(key, value): (String, &Value)| (key, value.clone());
            let (number, metrics) = chosen.unwrap_or((usize::MAX, Metrics::default()));
            let mut row: Metrics = loggers::flatten(&metrics).into_iter().map(owned).collect();
            row.insert("trial_id".into(), trial.trial_id.as_str().into());
            row.insert("logdir".into(), trial.path.to_string_lossy().into());
            let settings = loggers::flatten(trial.config_of(number)).into_iter().map(owned);
            row.extend(settings.map(|(key, value)| (format!("config/{key}"), value)));
            row
        });
        Ok(rows.collect())
    }

    /// Returns each trial's result with the best value and its number, counted from 0; if several are equal, the first.
    fn best_results(&self, objective: &Objective) -> Result<Vec<Option<(usize, Metrics)>>> {
        let mut best: Vec<Option<(f64, usize, Metrics)>> = vec![None; self.results.len()];
        let mut numbers = vec![0; self.results.len()];
        self.visit_results(|i, result| {
            let number = numbers[i];
            numbers[i] += 1;
            let Some(score) = objective.finite_score(result) else { return };
            if best[i].as_ref().is_none_or(|(best, ..)| score > *best) {
                best[i] = Some((score, number, result.clone()));
            }
        })?;
        Ok(best.into_iter().map(|best| best.map(|(_, number, result)| (number, result))).collect())
    }

    /// Returns the id and error of each failed trial.
    pub fn errors(&self) -> impl Iterator<Item = (&str, &str)> {
        self.results.iter().filter_map(|result| Some((&*result.trial_id, result.error.as_deref()?)))
    }

    /// Number of trials that failed.
    pub fn num_errors(&self) -> usize {
        self.errors().count()
    }

    /// Number of trials that ended without an error.
    pub fn num_terminated(&self) -> usize {
        self.results.iter().filter(|result| result.status == TrialStatus::Terminated).count()
    }

    /// The metric and the mode by which trials are compared: those of the sweep, or else of its scheduler.
    pub fn objective(&self) -> Option<&Objective> {
        self.objective.as_ref()
    }

    /// Describes the best trial in one line: its id, its value and its drawn settings. `None` without a best trial.
    pub fn best_line(&self) -> Option<String> {
        let rows: Vec<Row<'_>> = self.results.iter().map(TrialResult::row).collect();
        Columns { space: &self.space, objective: self.objective.as_ref() }.best(&rows)
    }

    /// Directory of the experiment; if the storage path is a URL, the local working directory.
    pub fn experiment_path(&self) -> &Path {
        &self.dir
    }

    /// Whether the sweep was interrupted before its end.
    pub fn interrupted(&self) -> bool {
        self.interrupted
    }

    /// Number of trials.
    pub fn len(&self) -> usize {
        self.results.len()
    }

    /// Whether there are no trials.
    pub fn is_empty(&self) -> bool {
        self.results.is_empty()
    }

    /// Returns the first trial, or `None` if there are no trials.
    pub fn into_first(self) -> Option<TrialResult> {
        self.results.into_iter().next()
    }

    /// Iterates over the trials in the order in which they were drawn.
    pub fn iter(&self) -> std::slice::Iter<'_, TrialResult> {
        self.results.iter()
    }
}

impl std::ops::Index<usize> for ResultGrid {
    type Output = TrialResult;

    fn index(&self, i: usize) -> &TrialResult {
        &self.results[i]
    }
}

impl<'a> IntoIterator for &'a ResultGrid {
    type Item = &'a TrialResult;
    type IntoIter = std::slice::Iter<'a, TrialResult>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

/// Formats a table with one line per trial: its status, the metric of the sweep, and every parameter in full precision. The
/// best trial comes first.
impl fmt::Display for ResultGrid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let columns = Columns { space: &self.space, objective: self.objective.as_ref() };
        let mut rows: Vec<Row<'_>> = self.results.iter().map(TrialResult::row).collect();
        columns.best_first(&mut rows);
        f.write_str(&columns.table(&rows))
    }
}

impl TrialResult {
    /// Settings with which a result was trained, by its number, counted from 0.
    fn config_of(&self, number: usize) -> &Config {
        let earlier = self.earlier_configs.iter().find(|(until, _)| number < *until);
        earlier.map_or(&self.config, |(_, config)| config)
    }

    fn row(&self) -> Row<'_> {
        let TrialResult { trial_id, status, stopped_early, config, metrics, .. } = self;
        Row { trial_id, status: *status, stopped_early: *stopped_early, config, result: metrics.as_ref() }
    }

    /// Reads all results of the trial from `result.json`: the rows of Ray's `metrics_dataframe`.
    ///
    /// # Errors
    /// Returns [`Error::Io`] if `result.json` is damaged, cannot be read, or was not written because of
    /// [`RunConfig::log_results`](super::RunConfig::log_results).
    #[doc(alias = "metrics_dataframe")]
    pub fn history(&self) -> Result<Vec<Metrics>> {
        loggers::read_results(&self.path)
    }

    /// Returns the checkpoints that were kept, oldest first, each with the result after which it was saved.
    ///
    /// # Errors
    /// Returns [`Error::Checkpoint`] if a checkpoint is damaged, and [`Error::Io`] or [`Error::Storage`] if one cannot
    /// be read.
    pub fn best_checkpoints(&self) -> Result<Vec<(PathBuf, Metrics)>> {
        let with_result = |(_, path): &(u64, PathBuf)| {
            let metrics = metadata(path)?.last_result.unwrap_or_default();
            Ok((path.clone(), metrics))
        };
        self.checkpoints.iter().map(with_result).collect()
    }

    /// Returns the checkpoint whose result is best for `objective`; `None` if no checkpoint has a finite number for its
    /// metric.
    ///
    /// # Errors
    /// Returns [`Error::Checkpoint`] if a checkpoint is damaged, and [`Error::Io`] or [`Error::Storage`] if one cannot
    /// be read.
    pub fn get_best_checkpoint(&self, objective: &Objective) -> Result<Option<PathBuf>> {
        let mut checkpoints = self.best_checkpoints()?;
        let best = metric::best(checkpoints.iter().map(|(_, result)| objective.finite_score(result)));
        Ok(best.map(|best| checkpoints.swap_remove(best).0))
    }
}

/// Reads the metadata of a checkpoint in a directory or at a URL.
fn metadata(place: &Path) -> Result<Metadata> {
    match place.to_str().filter(|_| storage::scheme(place).is_some()) {
        Some(url) => storage::checkpoint_metadata(&*storage::open(url)?, ""),
        None => checkpoint::metadata(place),
    }
}
