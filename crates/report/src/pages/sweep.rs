//! What a sweep's journal says of its trials.

use std::path::{Component, Path, PathBuf};

use serde_json::{Map, Value};

use super::lines::{members_within, visit_lines};
use super::run::name_of;
use pavlov_tune::{Config, Error, SweepFile};

/// Members of an event that are read whole.
const WHOLE: [&str; 13] = [
    "event",
    "trial_id",
    "drawn",
    "verdict",
    "message",
    "reason",
    "source",
    "metric",
    "mode",
    "name",
    "pavlov",
    "trainable",
    "space",
];

/// Name of the journal's file.
pub(super) const JOURNAL: &str = "journal.jsonl";
/// Version of the journal that this file reads.
const FORMAT: u64 = 1;

/// A sweep as its journal describes it.
#[derive(Debug)]
pub struct RecordedSweep {
    pub(super) name: String,
    dir: PathBuf,
    pub(super) pavlov: String,
    pub(super) trainable: String,
    /// Key of the number that says how good a trial is.
    pub(super) metric: String,
    /// Whether a small number is good.
    pub(super) is_cost: bool,
    pub(super) file: Option<SweepFile>,
    pub(super) trials: Vec<Trial>,
    /// Why all trials stopped, if they did before the sweep was done.
    pub(super) stopped: Option<String>,
    /// Number of lines that could not be read.
    pub(super) damaged: usize,
    /// Seconds that the sweep had run at the newest result.
    elapsed: f64,
    /// Version of the journal, if a line has named it.
    version: Option<u64>,
}

/// A trial.
#[derive(Debug, Default)]
pub(super) struct Trial {
    pub(super) id: String,
    /// The settings that were drawn for it, by dotted path.
    pub(super) drawn: Config,
    pub(super) points: Vec<Point>,
    pub(super) decisions: Vec<Decision>,
    pub(super) end: End,
    /// The last error.
    pub(super) error: Option<String>,
}

/// What a page shows of a result.
#[derive(Clone, Copy, Debug)]
pub(super) struct Point {
    pub(super) iteration: f64,
    pub(super) steps: f64,
    pub(super) score: f64,
}

/// What a scheduler decided about a trial.
#[derive(Debug)]
pub(super) struct Decision {
    /// Seconds that the sweep had run.
    pub(super) elapsed: f64,
    pub(super) iteration: f64,
    pub(super) kind: DecisionKind,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum DecisionKind {
    Stop,
    Pause,
    /// The trial goes on from another trial's checkpoint.
    Adopt,
}

/// How a trial ended.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) enum End {
    #[default]
    Running,
    Finished,
    StoppedByScheduler,
    StoppedWithSweep,
    Failed,
}

impl RecordedSweep {
    /// Reads the journal in `dir`.
    ///
    /// # Errors
    /// Fails if there is no journal that can be read.
    pub fn read(dir: &Path) -> Result<RecordedSweep, Error> {
        let mut sweep = RecordedSweep::begin(dir);
        let path = dir.join(JOURNAL);
        visit_lines(&path, |line| sweep.line(line))?;
        match sweep.unreadable() {
            None => Ok(sweep),
            Some(reason) => Err(Error::io("read", &path)(std::io::Error::other(reason))),
        }
    }

    /// The sweep in `dir` before the first line of its journal.
    pub(super) fn begin(dir: &Path) -> RecordedSweep {
        let file = dir.join("sweep.toml");
        let file = file.is_file().then(|| SweepFile::load(file).ok()).flatten();
        let mut sweep = RecordedSweep {
            name: name_of(dir),
            dir: dir.into(),
            pavlov: String::new(),
            trainable: String::new(),
            metric: "episode_reward_mean".into(),
            is_cost: false,
            file,
            trials: Vec::new(),
            stopped: None,
            damaged: 0,
            elapsed: 0.0,
            version: None,
        };
        let scheduler = sweep.file.as_ref().map(|file| file.scheduler.clone()).unwrap_or_default();
        if let Some(metric) = scheduler.get("metric").and_then(Value::as_str) {
            sweep.metric = metric.into();
        }
        sweep.is_cost = scheduler.get("mode").and_then(Value::as_str) == Some("min");
        sweep
    }

    /// Adds a line of the journal. A line that makes no sense is counted and passed over.
    pub(super) fn line(&mut self, line: &[u8]) {
        let root = self.metric.split('/').next().unwrap_or_default().to_owned();
        let event = members_within(line, &WHOLE, "result", &[&root]);
        let found = event.as_ref().and_then(|event| event.get("format_version")?.as_u64());
        self.version = self.version.or(found);
        match event {
            Some(event) if self.add(&event) => {}
            _ => self.damaged += 1,
        }
    }

    /// Why the lines so far are no journal that this version reads; `None` if they are one.
    pub(super) fn unreadable(&self) -> Option<String> {
        match self.version {
            None => Some(
                "no line of it says which sweep it is of; the sweep was killed before it began".to_owned(),
            ),
            Some(FORMAT) => None,
            Some(other) => Some(format!(
                "format version {other} cannot be read by this version of pavlov, which reads {FORMAT}"
            )),
        }
    }

    /// Adds an event; returns false if it makes no sense.
    fn add(&mut self, event: &Map<String, Value>) -> bool {
        let text = |key: &str| event.get(key).and_then(Value::as_str);
        let Some(kind) = text("event") else { return false };
        match kind {
            "experiment" => {
                self.pavlov = text("pavlov").unwrap_or_default().into();
                self.trainable = text("trainable").unwrap_or_default().into();
                if let Some(metric) = text("metric") {
                    self.metric = metric.into();
                    self.is_cost = text("mode") == Some("min");
                }
                return true;
            }
            "trial" => {
                let Some(id) = text("trial_id").filter(|id| is_name(id)) else { return false };
                let drawn = event.get("drawn").and_then(Value::as_object).cloned().unwrap_or_default();
                self.trials.push(Trial { id: id.into(), drawn: drawn.into(), ..Trial::default() });
                return true;
            }
            "stop_all" => {
                self.stopped = text("reason").map(str::to_owned);
                return true;
            }
            "restored" => {
                self.stopped = None;
                return true;
            }
            _ => {}
        }
        let Some(id) = text("trial_id") else { return true };
        // Events follow each other for the trials that run, which are among the newest.
        let Some(trial) = self.trials.iter_mut().rev().find(|trial| trial.id == id) else { return false };
        match kind {
            "started" | "retried" => trial.end = End::Running,
            "result" => {
                let number = |key: &str| event.get(key).and_then(Value::as_f64);
                self.elapsed = number("elapsed").unwrap_or(self.elapsed);
                let iteration = number("iteration").unwrap_or(f64::NAN);
                let result = event.get("result").and_then(Value::as_object);
                let of = |key: &str| result.and_then(|result| at(result, key)).unwrap_or(f64::NAN);
                // A trial that begins again replaces what it had reported after that place.
                while trial.points.pop_if(|point| point.iteration >= iteration).is_some() {}
                let (steps, score) = (of("timesteps_total"), of(&self.metric));
                trial.points.push(Point { iteration, steps, score });
                let elapsed = self.elapsed;
                match text("verdict") {
                    Some("stop") => {
                        trial.decisions.push(Decision { elapsed, iteration, kind: DecisionKind::Stop });
                        trial.end = End::StoppedByScheduler;
                    }
                    Some("pause") => {
                        trial.decisions.push(Decision { elapsed, iteration, kind: DecisionKind::Pause })
                    }
                    Some("done") => trial.end = End::Finished,
                    _ => {}
                }
            }
            "adopted" => {
                let iteration = trial.points.last().map_or(0.0, |point| point.iteration);
                trial.decisions.push(Decision {
                    elapsed: self.elapsed,
                    iteration,
                    kind: DecisionKind::Adopt,
                });
            }
            "failed" => trial.error = text("message").map(str::to_owned),
            "given_up" => trial.end = End::Failed,
            "stopped" if trial.end == End::Running => trial.end = End::StoppedWithSweep,
            "completed" if trial.end == End::Running => trial.end = End::Finished,
            _ => {}
        }
        true
    }

    /// Index of the trial whose last result is best.
    pub(super) fn best(&self) -> Option<usize> {
        let scored = self.trials.iter().enumerate().filter_map(|(i, trial)| Some((i, trial.score()?)));
        let sign = if self.is_cost { -1.0 } else { 1.0 };
        scored
            .fold(None, |best: Option<(usize, f64)>, (i, score)| match best {
                Some((_, known)) if sign * known >= sign * score => best,
                _ => Some((i, score)),
            })
            .map(|(i, _)| i)
    }

    /// The directory of the best trial; `None` if no trial has a score.
    pub fn best_dir(&self) -> Option<PathBuf> {
        Some(self.dir.join(&self.trials[self.best()?].id))
    }

    /// Name of the scheduler.
    pub(super) fn scheduler(&self) -> &str {
        let named = self.file.as_ref().and_then(|file| file.scheduler.get("type")?.as_str());
        named.unwrap_or("the scheduler")
    }

    /// Paths of the drawn settings that differ between trials, in the order in which they appear.
    pub(super) fn varied(&self) -> Vec<String> {
        let mut keys: Vec<&String> = Vec::new();
        for trial in &self.trials {
            for key in trial.drawn.keys() {
                if !keys.contains(&key) {
                    keys.push(key);
                }
            }
        }
        let varies = |key: &&String| {
            let mut values = self.trials.iter().map(|trial| trial.drawn.get(*key));
            let first = values.next();
            values.any(|value| Some(value) != first)
        };
        keys.into_iter().filter(varies).cloned().collect()
    }
}

impl Trial {
    /// The score of the last result.
    pub(super) fn score(&self) -> Option<f64> {
        self.points.last().map(|point| point.score).filter(|score| score.is_finite())
    }
}

/// Whether the id of a trial is the name of a folder in the sweep's.
fn is_name(id: &str) -> bool {
    let mut parts = Path::new(id).components();
    matches!((parts.next(), parts.next()), (Some(Component::Normal(_)), None)) && !id.contains('/')
}

/// The number at a path of keys joined by `/`.
fn at(result: &Map<String, Value>, path: &str) -> Option<f64> {
    let mut parts = path.split('/');
    let first = result.get(parts.next()?)?;
    parts.try_fold(first, |value, part| value.get(part))?.as_f64()
}

/// Whether a small number of this name is good.
pub(super) fn is_cost(key: &str) -> bool {
    ["loss", "error", "cost"].iter().any(|word| key.ends_with(word))
}
