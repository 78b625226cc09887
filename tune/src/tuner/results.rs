//! What a sweep found.

use std::collections::HashMap;
use std::fmt;
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::checkpoints::Checkpoints;
use super::journal::{self, Event};
use super::remote::Remote;
use super::sweep::Sweep;
use super::table::{Columns, Row};
use crate::checkpoint::{self, Metadata};
use crate::{Config, Error, Metrics, Mode, Result, TrialStatus, loggers, metric, storage};

/// The trials of a sweep, in the order in which they were drawn.
#[derive(Debug)]
pub struct ResultGrid {
    dir: PathBuf,
    space: Value,
    metric: Option<String>,
    mode: Option<Mode>,
    results: Vec<TrialResult>,
    interrupted: bool,
}

/// One trial of a sweep.
#[derive(Clone, Debug)]
pub struct TrialResult {
    /// The id of the trial, such as `3f2a1_00004`.
    pub trial_id: String,
    /// The number of the trial and the values that were drawn.
    pub experiment_tag: String,
    /// The settings that the trial ended with.
    pub config: Config,
    /// How the trial ended; something else than terminated or failed only if the sweep was interrupted.
    pub status: TrialStatus,
    /// The last result of the trial, without its settings; `None`: it never had one.
    pub metrics: Option<Metrics>,
    /// The error that the trial failed with.
    pub error: Option<String>,
    /// The directory of the trial.
    pub path: PathBuf,
    /// The newest checkpoint: a directory, or its URL where it is on the storage only; see
    /// [`fetch`](crate::checkpoint::fetch).
    pub checkpoint: Option<PathBuf>,
    /// All checkpoints of the trial, oldest first, with their iterations; directories and URLs.
    pub checkpoints: Vec<(u64, PathBuf)>,
}

/// Which value of a trial's metric counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Scope {
    /// That of the last result.
    #[default]
    Last,
    /// The best of all results.
    All,
    /// The mean of all results.
    Avg,
    /// The mean of the last 5.
    Last5Avg,
    /// The mean of the last 10.
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

impl ResultGrid {
    pub(super) fn of(
        sweep: Sweep,
        remote: Option<&Remote>,
        space: Value,
        metric: Option<String>,
        mode: Option<Mode>,
        interrupted: bool,
    ) -> Self {
        let results = sweep.trials.into_iter().zip(sweep.runs).map(|(trial, run)| {
            let paths = |checkpoints: &Checkpoints| {
                let path = |iteration: u64| {
                    let here = run.dir.join(checkpoint::name(iteration));
                    (iteration, remote.map_or(here.clone(), |remote| remote.place(here)))
                };
                checkpoints.iter().map(|saved| path(saved.iteration)).collect::<Vec<_>>()
            };
            let checkpoints = paths(&run.checkpoints);
            TrialResult {
                trial_id: trial.trial_id,
                experiment_tag: trial.experiment_tag,
                config: trial.config,
                status: trial.status,
                metrics: trial.last_result,
                error: run.error.filter(|_| trial.status == TrialStatus::Error),
                path: run.dir.clone(),
                checkpoint: checkpoints.last().map(|(_, path)| path.clone()),
                checkpoints,
            }
        });
        ResultGrid { dir: sweep.dir, space, metric, mode, results: results.collect(), interrupted }
    }

    /// The trial with the best value; of equal ones the first.
    ///
    /// `None` for metric and mode: those of the sweep, else those of its scheduler. Trials whose value is missing, NaN or infinite are left out.
    ///
    /// # Errors
    /// Returns [`Error::Config`] if there is no metric or mode here or in the sweep, and [`Error::Experiment`] with the
    /// nearest key if no trial has a number for the metric. Scopes other than [`Scope::Last`] read the journal: then
    /// [`Error::Io`] if it cannot be read, and [`Error::Experiment`] if it is damaged.
    pub fn get_best_result(
        &self,
        metric: Option<&str>,
        mode: Option<Mode>,
        scope: Scope,
    ) -> Result<&TrialResult> {
        let rule = "name one here or in the sweep";
        let absent = |what: &str| Error::config(what, "absent", rule);
        let key = metric.or(self.metric.as_deref()).ok_or_else(|| absent("metric"))?;
        let mode = mode.or(self.mode).ok_or_else(|| absent("mode"))?;
        let values = match scope {
            Scope::Last => self.last_values(key),
            _ => self.all_values(key)?,
        };
        let mut best: Option<(f64, &TrialResult)> = None;
        for (result, values) in self.results.iter().zip(values) {
            let Some(value) = scope.of(&values, mode).filter(|value| value.is_finite()) else { continue };
            if best.is_none_or(|(best, _)| mode.score(value) > mode.score(best)) {
                best = Some((value, result));
            }
        }
        best.map(|(_, result)| result).ok_or_else(|| {
            let last: Vec<&Metrics> =
                self.results.iter().filter_map(|result| result.metrics.as_ref()).collect();
            let known: Vec<String> = last
                .first()
                .map(|m| loggers::flatten(m).into_iter().map(|(key, _)| key).collect())
                .unwrap_or_default();
            let near = crate::config::nearest(key, known.iter().map(String::as_str));
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

    /// Every trial's numbers, as the journal has them.
    fn all_values(&self, key: &str) -> Result<Vec<Vec<f64>>> {
        let mut values = vec![Vec::new(); self.results.len()];
        self.visit_results(|i, result| {
            values[i].extend(metric::find(result, key).and_then(Value::as_f64));
        })?;
        Ok(values)
    }

    /// Every result with the index of its trial, as the journal has them.
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

    /// A row for each trial, for a table or a data frame: its last result, or with `filter_metric` the one that has the
    /// best finite value of it; then `trial_id`, `logdir` and, below `config/`, its settings. Nested keys are joined by
    /// `/`. A trial without such a result has the latter alone.
    ///
    /// # Errors
    /// Without a metric it cannot fail. With one it returns [`Error::Config`] if there is no mode here or in the sweep,
    /// [`Error::Io`] if the journal cannot be read, and [`Error::Experiment`] if the journal is damaged.
    pub fn get_dataframe(
        &self,
        filter_metric: Option<&str>,
        filter_mode: Option<Mode>,
    ) -> Result<Vec<Metrics>> {
        let chosen = match filter_metric {
            None => self.results.iter().map(|result| result.metrics.clone()).collect(),
            Some(key) => {
                let mode = filter_mode.or(self.mode);
                let rule = "name one here or in the sweep";
                self.best_results(key, mode.ok_or_else(|| Error::config("filter_mode", "absent", rule))?)?
            }
        };
        let rows = self.results.iter().zip(chosen).map(|(trial, metrics)| {
            let owned = |(key, value): (String, &Value)| (key, value.clone());
            let metrics = metrics.unwrap_or_default();
            let mut row: Metrics = loggers::flatten(&metrics).into_iter().map(owned).collect();
            row.insert("trial_id".into(), trial.trial_id.as_str().into());
            row.insert("logdir".into(), trial.path.to_string_lossy().into());
            let settings = loggers::flatten(&trial.config).into_iter().map(owned);
            row.extend(settings.map(|(key, value)| (format!("config/{key}"), value)));
            row
        });
        Ok(rows.collect())
    }

    /// Of each trial the first of its results with the best value.
    fn best_results(&self, key: &str, mode: Mode) -> Result<Vec<Option<Metrics>>> {
        let mut best: Vec<Option<(f64, Metrics)>> = vec![None; self.results.len()];
        self.visit_results(|i, result| {
            let value = metric::find(result, key).and_then(Value::as_f64).filter(|value| value.is_finite());
            let Some(score) = value.map(|value| mode.score(value)) else { return };
            if best[i].as_ref().is_none_or(|(best, _)| score > *best) {
                best[i] = Some((score, result.clone()));
            }
        })?;
        Ok(best.into_iter().map(|best| best.map(|(_, result)| result)).collect())
    }

    /// The error of each trial that failed.
    pub fn errors(&self) -> impl Iterator<Item = (&str, &str)> {
        self.results.iter().filter_map(|result| Some((&*result.trial_id, result.error.as_deref()?)))
    }

    /// The number of trials that failed for good.
    pub fn num_errors(&self) -> usize {
        self.errors().count()
    }

    /// The number of trials that ended well.
    pub fn num_terminated(&self) -> usize {
        self.results.iter().filter(|result| result.status == TrialStatus::Terminated).count()
    }

    /// The experiment's directory; with a URL as the storage path, where it was worked on.
    pub fn experiment_path(&self) -> &Path {
        &self.dir
    }

    /// Whether the sweep was told to stop before its end.
    pub fn interrupted(&self) -> bool {
        self.interrupted
    }

    /// How many trials there are.
    pub fn len(&self) -> usize {
        self.results.len()
    }

    /// Whether there are no trials.
    pub fn is_empty(&self) -> bool {
        self.results.is_empty()
    }

    /// The first trial alone; `None`: there are no trials.
    pub fn into_first(self) -> Option<TrialResult> {
        self.results.into_iter().next()
    }

    /// The trials in the order in which they were drawn.
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

/// A table: one line per trial with its state, the metric of the sweep, and every parameter in full precision; the best
/// trial comes first.
impl fmt::Display for ResultGrid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let columns = Columns { space: &self.space, metric: self.metric.as_deref(), mode: self.mode };
        let mut rows: Vec<Row<'_>> = self.results.iter().map(TrialResult::row).collect();
        columns.best_first(&mut rows);
        f.write_str(&columns.table(&rows))
    }
}

impl TrialResult {
    fn row(&self) -> Row<'_> {
        let TrialResult { trial_id, status, config, metrics, .. } = self;
        Row { trial_id, status: *status, config, result: metrics.as_ref() }
    }

    /// All results as `result.json` has them: the rows of Ray's `metrics_dataframe`.
    ///
    /// # Errors
    /// Returns [`Error::Io`] if `result.json` is damaged or cannot be read, also because the sweep wrote none
    /// ([`RunConfig::log_results`](super::RunConfig::log_results)).
    #[doc(alias = "metrics_dataframe")]
    pub fn history(&self) -> Result<Vec<Metrics>> {
        loggers::read_results(&self.path)
    }

    /// The checkpoints that were kept, oldest first, each with the result it was saved after.
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

    /// The checkpoint whose result has the best value of `metric`; `None`: no checkpoint has a number for it.
    ///
    /// # Errors
    /// Returns [`Error::Checkpoint`] if a checkpoint is damaged, and [`Error::Io`] or [`Error::Storage`] if one cannot
    /// be read.
    pub fn get_best_checkpoint(&self, metric: &str, mode: Mode) -> Result<Option<PathBuf>> {
        let mut best: Option<(f64, PathBuf)> = None;
        for (path, result) in self.best_checkpoints()? {
            let value = metric::find(&result, metric).and_then(Value::as_f64);
            let Some(score) = value.filter(|value| value.is_finite()).map(|value| mode.score(value)) else {
                continue;
            };
            if best.as_ref().is_none_or(|(best, _)| score > *best) {
                best = Some((score, path));
            }
        }
        Ok(best.map(|(_, path)| path))
    }
}

/// Of a checkpoint here or there.
fn metadata(place: &Path) -> Result<Metadata> {
    match place.to_str().filter(|_| storage::scheme(place).is_some()) {
        Some(url) => storage::checkpoint_metadata(&*storage::open(url)?, ""),
        None => checkpoint::metadata(place),
    }
}
