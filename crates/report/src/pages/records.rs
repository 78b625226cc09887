//! The results of a run as columns of numbers.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::{Map, Value};

use super::lines::{members, visit_lines};
use pavlov_tune::{Config, Error};

/// Members of a result that are read whole.
const WHOLE: [&str; 7] =
    ["evaluation", "info", "policy_reward_mean", "time_breakdown", "custom_metrics", "date", "hostname"];
/// Largest number of columns of a kind; a file of a stranger may have any number of keys.
const MAX_COLUMNS: usize = 400;

/// Columns of numbers by name, each with a value of every row; NaN where a row has none.
#[derive(Clone, Debug, Default)]
pub(crate) struct Columns(BTreeMap<String, Column>);

#[derive(Clone, Debug, Default)]
struct Column {
    values: Vec<f64>,
    has_number: bool,
}

impl Columns {
    fn set(&mut self, row: usize, key: &str, value: f64) {
        if self.0.len() >= MAX_COLUMNS && !self.0.contains_key(key) {
            return;
        }
        let column = match self.0.get_mut(key) {
            Some(column) => column,
            None => self.0.entry(key.to_owned()).or_default(),
        };
        column.values.resize(row, f64::NAN);
        column.values.push(value);
        column.has_number |= value.is_finite();
    }

    fn end(&mut self, rows: usize) {
        self.0.values_mut().for_each(|column| column.values.resize(rows, f64::NAN));
    }

    /// Whether the column has a number already.
    fn has_number(&self, key: &str) -> bool {
        self.0.get(key).is_some_and(|column| column.has_number)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&String, &[f64])> {
        self.0.iter().map(|(key, column)| (key, column.values.as_slice()))
    }

    pub(super) fn get(&self, key: &str) -> Option<&[f64]> {
        self.0.get(key).map(|column| column.values.as_slice())
    }
}

/// The results of a run.
#[derive(Clone, Debug, Default)]
pub(crate) struct Records {
    /// Number of results.
    pub(super) rows: usize,
    /// Numbers at the top of a result, and those of `evaluation` under `evaluation/`.
    pub(super) top: Columns,
    /// Mean return of each policy.
    pub(super) policies: Columns,
    /// Statistics of each policy that learned.
    pub(super) learners: BTreeMap<String, Columns>,
    /// Seconds of each phase.
    pub(super) time: Columns,
    /// Rows with which a process began, but for the first one.
    pub(super) restarts: Vec<usize>,
    /// Row and key of the first statistic that was a number before and is none any more.
    pub(super) bad: Option<(usize, String)>,
    /// Number of lines that are not results.
    pub(super) damaged: usize,
    /// Date of the last result.
    pub(super) date: Option<String>,
    /// Name of the machine of the last result.
    pub(super) hostname: Option<String>,
    /// What computed the updates, and on which processors it gives the same bits.
    pub(super) engine: Option<String>,
    /// Settings in the last result.
    pub(super) config: Config,
}

impl Records {
    /// Reads the results of the run in `dir`.
    ///
    /// # Errors
    /// Fails if `result.json` cannot be read. A line that is not a result is counted and passed over.
    pub(super) fn read(dir: &Path) -> Result<Records, Error> {
        let mut records = Records::default();
        let mut last = Vec::new();
        visit_lines(&dir.join("result.json"), |line| {
            if records.line(line) {
                last.clear();
                last.extend_from_slice(line);
            }
        })?;
        records.end();
        let last: Value = serde_json::from_slice(&last).unwrap_or_default();
        records.config = last.get("config").and_then(Value::as_object).cloned().unwrap_or_default().into();
        Ok(records)
    }

    /// Adds the result in a line of `result.json`. Returns false for a line that is no result, which is counted.
    pub(super) fn line(&mut self, line: &[u8]) -> bool {
        let result = members(line, &WHOLE);
        match &result {
            Some(result) => self.add(result),
            None => self.damaged += 1,
        }
        result.is_some()
    }

    /// Adds a result.
    pub(super) fn add(&mut self, result: &Map<String, Value>) {
        let row = self.rows;
        for (key, value) in result {
            match value {
                Value::Number(_) | Value::Null => self.number(row, key, value),
                Value::Object(inner) if key == "evaluation" => {
                    let numbers = inner.iter().filter(|(_, value)| value.is_number());
                    numbers.for_each(|(key, value)| self.number(row, &format!("evaluation/{key}"), value));
                }
                Value::Object(inner) if key == "custom_metrics" => {
                    let numbers = inner.iter().filter(|(_, value)| value.is_number());
                    numbers
                        .for_each(|(key, value)| self.number(row, &format!("custom_metrics/{key}"), value));
                }
                _ => {}
            }
        }
        for (columns, key) in [(&mut self.policies, "policy_reward_mean"), (&mut self.time, "time_breakdown")]
        {
            for (name, value) in result.get(key).and_then(Value::as_object).into_iter().flatten() {
                columns.set(row, name, value.as_f64().unwrap_or(f64::NAN));
            }
        }
        if let Some(learners) = result.get("info").and_then(|info| info["learner"].as_object()) {
            learners.iter().for_each(|(policy, learner)| self.learner(row, policy, learner));
        }
        let text = |key: &str| result.get(key).and_then(Value::as_str).map(str::to_owned);
        self.date = text("date").or(self.date.take());
        self.hostname = text("hostname").or(self.hostname.take());
        let begins = result.get("iterations_since_restore").and_then(Value::as_u64) == Some(1);
        if begins && row > 0 {
            self.restarts.push(row);
        }
        self.rows += 1;
    }

    fn number(&mut self, row: usize, key: &str, value: &Value) {
        let is_bad = value.is_null() && key == "episode_reward_mean" && self.top.has_number(key);
        self.note_bad(is_bad, row, key);
        self.top.set(row, key, value.as_f64().unwrap_or(f64::NAN));
    }

    fn learner(&mut self, row: usize, policy: &str, learner: &Value) {
        let text = |key: &str| learner.get(key).and_then(Value::as_str);
        if let Some(engine) = text("engine") {
            let same = text("same_bits_on").map(|on| format!(", the same bits on {on}")).unwrap_or_default();
            self.engine = Some(format!("{engine}{same}"));
        }
        if self.learners.len() >= MAX_COLUMNS && !self.learners.contains_key(policy) {
            return;
        }
        for (key, value) in learner.get("learner_stats").and_then(Value::as_object).into_iter().flatten() {
            let columns = self.learners.entry(policy.to_owned()).or_default();
            let is_bad = value.is_null() && columns.has_number(key);
            columns.set(row, key, value.as_f64().unwrap_or(f64::NAN));
            self.note_bad(is_bad, row, key);
        }
    }

    fn note_bad(&mut self, is_bad: bool, row: usize, key: &str) {
        if is_bad && self.bad.is_none() {
            self.bad = Some((row, key.to_owned()));
        }
    }

    pub(super) fn end(&mut self) {
        let rows = self.rows;
        [&mut self.top, &mut self.policies, &mut self.time].into_iter().for_each(|columns| columns.end(rows));
        self.learners.values_mut().for_each(|columns| columns.end(rows));
    }

    /// A column of the top; NaN everywhere if there is none.
    pub(super) fn column(&self, key: &str) -> Vec<f64> {
        self.top.get(key).map_or_else(|| vec![f64::NAN; self.rows], <[f64]>::to_vec)
    }

    /// The values of a number by its name: a key of a result, a statistic of the only policy, or `POLICY/STATISTIC`.
    pub(super) fn values(&self, key: &str) -> Option<Vec<f64>> {
        let of_policy = || {
            let (policy, name) = match key.rsplit_once('/') {
                Some((policy, name)) => (policy.strip_prefix("info/learner/").unwrap_or(policy), name),
                None if self.learners.len() == 1 => (self.learners.keys().next()?.as_str(), key),
                None => return None,
            };
            self.learners.get(policy.strip_suffix("/learner_stats").unwrap_or(policy))?.get(name)
        };
        self.top.get(key).or_else(of_policy).map(<[f64]>::to_vec)
    }

    /// The names of all numbers that there are, as [`values`](Self::values) takes them.
    pub(super) fn names(&self) -> Vec<String> {
        let has_number = |column: &&[f64]| last(column).is_some();
        let top = self.top.iter().filter(|(_, column)| has_number(column)).map(|(key, _)| key.clone());
        let of_policy = |(policy, columns): (&String, &Columns)| {
            columns.iter().map(|(key, _)| format!("{policy}/{key}")).collect::<Vec<_>>()
        };
        self.learners.iter().flat_map(of_policy).chain(top).collect()
    }

    /// The last number of a column of the top.
    pub(super) fn last(&self, key: &str) -> Option<f64> {
        last(self.top.get(key)?)
    }

    /// The x axis of the run's plots: environment steps, or iterations of a run that counts no steps.
    pub(super) fn x(&self) -> (Vec<f64>, &'static str) {
        match self.top.get("timesteps_total") {
            Some(steps) if last(steps).is_some() => (steps.to_vec(), "steps of the environment"),
            _ => (self.column("training_iteration"), "iterations"),
        }
    }

    /// The key of the number that says how good the run is.
    pub(super) fn score_key(&self) -> String {
        /// Numbers of every run, which say nothing about how good it is.
        const COUNTS: [&str; 14] = [
            "training_iteration",
            "timesteps_total",
            "timesteps_this_iter",
            "episodes_total",
            "episodes_this_iter",
            "time_this_iter_s",
            "time_total_s",
            "time_since_restore",
            "timesteps_since_restore",
            "iterations_since_restore",
            "timestamp",
            "pid",
            "warmup_time",
            "checkpoint_time",
        ];
        let own = || {
            self.top.iter().find(|(key, column)| !COUNTS.contains(&key.as_str()) && last(column).is_some())
        };
        match self.top.get("episode_reward_mean") {
            Some(_) => "episode_reward_mean".into(),
            None => own().map_or_else(|| "episode_reward_mean".into(), |(key, _)| key.clone()),
        }
    }

    /// The seconds of training so far at each result.
    pub(super) fn wall(&self) -> Vec<f64> {
        self.column("time_total_s")
    }
}

/// The last number of a column.
pub(super) fn last(column: &[f64]) -> Option<f64> {
    column.iter().rev().copied().find(|x| x.is_finite())
}

/// The name of a number in words.
pub(super) fn in_words(key: &str) -> String {
    match key {
        "episode_reward_mean" => "mean return of an episode".into(),
        "evaluation/episode_reward_mean" => "mean return of an evaluation".into(),
        "episode_len_mean" => "mean length of an episode".into(),
        other => other.into(),
    }
}
