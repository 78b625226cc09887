//! What the rules see of a run: a few numbers of each result, the settings, and the newest checkpoint.

use std::collections::BTreeMap;
use std::path::Path;

use pavlov_trainer::state::State;
use pavlov_tune::{Config, Metrics};
use serde_json::Value;

/// Largest number of rows that are kept; of a longer run every second one is dropped, again and again.
const MAX_ROWS: usize = 2000;

/// The numbers of one result that rules look at.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Row {
    /// Number of environment steps so far.
    pub steps: u64,
    /// Number of training iterations so far.
    pub iteration: u64,
    /// Number of episodes so far.
    pub episodes: u64,
    /// Lowest, mean and highest return of the most recent episodes; `None` before the first one has ended.
    pub returns: Option<[f64; 3]>,
    /// Mean length of the most recent episodes.
    pub length: Option<f64>,
    /// Whether all of the most recent episodes have the same length.
    pub equal_lengths: bool,
    /// Mean return of the evaluation in this result.
    pub evaluated: Option<f64>,
    /// Number of steps trained on so far: each row counts as often as it is learned.
    pub trained: u64,
    /// Number of copies of the weights that the target network got so far.
    pub target_updates: u64,
    /// Statistics of each policy that learned.
    pub learners: BTreeMap<String, BTreeMap<String, f64>>,
}

impl Row {
    /// Reads the numbers of a result.
    pub fn of(result: &Metrics) -> Row {
        let number = |key: &str| result.get(key).and_then(Value::as_f64);
        let count = |key: &str| result.get(key).and_then(Value::as_u64).unwrap_or_default();
        let keys = ["episode_reward_min", "episode_reward_mean", "episode_reward_max"];
        let [low, mean, high] = keys.map(number);
        let lengths = result.get("hist_stats").and_then(|all| all["episode_lengths"].as_array());
        let learner = result.get("info").and_then(|info| info["learner"].as_object());
        let stats = |(id, policy): (&String, &Value)| {
            let stats = policy["learner_stats"].as_object()?;
            let numbers = stats.iter().filter_map(|(key, value)| Some((key.clone(), value.as_f64()?)));
            Some((id.clone(), numbers.collect()))
        };
        Row {
            steps: count("timesteps_total"),
            iteration: count("training_iteration"),
            episodes: count("episodes_total"),
            returns: low.zip(mean).zip(high).map(|((low, mean), high)| [low, mean, high]),
            length: number("episode_len_mean"),
            equal_lengths: lengths.is_some_and(|all| all.windows(2).all(|pair| pair[0] == pair[1])),
            evaluated: result.get("evaluation").and_then(|all| all["episode_reward_mean"].as_f64()),
            trained: count("num_env_steps_trained"),
            target_updates: result
                .get("info")
                .and_then(|i| i["num_target_updates"].as_u64())
                .unwrap_or_default(),
            learners: learner.into_iter().flatten().filter_map(stats).collect(),
        }
    }
}

/// What a checkpoint holds of a run.
#[derive(Clone, Debug)]
pub struct Saved {
    /// Weights and optimizers of all policies.
    pub policies: State,
    /// Observation space of the first agent, in JSON.
    pub observation_space: Value,
}

impl Saved {
    /// Reads a checkpoint.
    ///
    /// # Errors
    /// Fails if a file of the checkpoint cannot be read.
    pub fn read(checkpoint: &Path) -> pavlov_trainer::Result<Saved> {
        let settings = State::read(checkpoint, "settings")?;
        let agents: Value = settings.get("spaces").unwrap_or_default();
        let observation_space = agents[0]["spaces"]["observation_space"].clone();
        Ok(Saved { policies: State::read(checkpoint, "policies")?, observation_space })
    }
}

/// What the rules see of a run.
#[derive(Clone, Debug)]
pub struct Records {
    /// Settings of the run.
    pub config: Config,
    /// Numbers of its results, in order; of a long run only some.
    pub rows: Vec<Row>,
    /// Its newest checkpoint; `None` if it has none.
    pub saved: Option<Saved>,
    /// Number of environment steps at which the run stops, if that is known.
    pub target: Option<f64>,
    /// Number of cores that this process may use.
    pub cores: usize,
    /// Distance from one kept result to the next, in results.
    every: u64,
    /// Number of results so far.
    seen: u64,
}

impl Records {
    /// Makes the records of a run without results.
    pub fn new(config: Config) -> Records {
        let cores = std::thread::available_parallelism().map_or(usize::MAX, Into::into);
        Records { config, rows: Vec::new(), saved: None, target: None, cores, every: 1, seen: 0 }
    }

    /// Adds a result.
    pub fn add(&mut self, result: &Metrics) {
        self.seen += 1;
        if !self.seen.is_multiple_of(self.every) {
            return;
        }
        self.rows.push(Row::of(result));
        if self.rows.len() >= MAX_ROWS {
            let mut at = 0;
            self.rows.retain(|_| {
                at += 1;
                at % 2 == 0
            });
            self.every *= 2;
        }
    }

    /// The setting of a dotted key; `None` if it is null or the algorithm does not have it.
    pub(crate) fn setting(&self, key: &str) -> Option<&Value> {
        let mut parts = key.split('.');
        let first = self.config.get(parts.next()?)?;
        parts.try_fold(first, |value, part| value.get(part)).filter(|value| !value.is_null())
    }

    /// The setting of a dotted key as a number.
    pub(crate) fn number(&self, key: &str) -> Option<f64> {
        self.setting(key)?.as_f64()
    }

    /// The setting of a dotted key as text.
    pub(crate) fn text(&self, key: &str) -> Option<&str> {
        self.setting(key)?.as_str()
    }

    /// A statistic of each policy, over the results that have it: the policy's name, and steps with values.
    pub(crate) fn statistic(&self, key: &str) -> BTreeMap<&str, Vec<(u64, f64)>> {
        let mut found: BTreeMap<&str, Vec<(u64, f64)>> = BTreeMap::new();
        for row in &self.rows {
            for (id, stats) in &row.learners {
                if let Some(value) = stats.get(key) {
                    found.entry(id).or_default().push((row.steps, *value));
                }
            }
        }
        found
    }

    /// Mean returns over the run, of the results that have one.
    pub(crate) fn returns(&self) -> Vec<f64> {
        self.rows.iter().filter_map(|row| Some(row.returns?[1])).collect()
    }

    pub(crate) fn last(&self) -> Option<&Row> {
        self.rows.last()
    }
}

/// How a policy is named in front of a number: not at all if it is the only one.
pub(crate) fn of_policy(id: &str) -> String {
    if id == "default_policy" { String::new() } else { format!("policy {id}: ") }
}

/// Mean of the last quarter of a series, of at least `least` values; `None` if there are fewer.
pub(crate) fn late_mean(values: &[(u64, f64)], least: usize) -> Option<f64> {
    if values.len() < least {
        return None;
    }
    let last = &values[values.len() - (values.len() / 4).max(least)..];
    Some(last.iter().map(|(_, value)| value).sum::<f64>() / last.len() as f64)
}
