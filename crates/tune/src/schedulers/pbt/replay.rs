//! Replays the schedule of settings that population based training found, with a single trial.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::perturbed_tag;
use crate::base::{Config, Error, Metrics, Result, Trial, read_file};
use crate::schedulers::policy_log::PolicyStep;
use crate::schedulers::{Answer, Decision, Order, TrialScheduler};

/// Name of the scheduler in error messages.
const NAME: &str = "PopulationBasedTrainingReplay";

/// Settings of [`PopulationBasedTrainingReplay`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PbtReplayConfig {
    /// Path of `pbt_policy_<trial id>.txt` of the run to replay. A leading `~/` stands for the home directory.
    pub policy_file: PathBuf,
}

/// Trains one trial with the changes of settings that led to a trial of population based training.
///
/// The trial starts with the settings with which the history in `policy_file` starts. It changes them after the
/// recorded iterations, each time continuing from its own state. If the history is empty, the trial keeps its settings.
#[derive(Debug)]
pub struct PopulationBasedTrainingReplay {
    /// Prefix of the trial's tags: `replay_<file name>`.
    tag: String,
    /// Settings with which the history starts; `None` if it is empty.
    initial: Option<Config>,
    /// Iterations at which the settings change, and the new settings.
    changes: VecDeque<(u64, Config)>,
    trial_id: Option<String>,
    step: u64,
    num_perturbations: usize,
}

impl PopulationBasedTrainingReplay {
    /// Makes a scheduler from the history in `policy_file`.
    ///
    /// # Errors
    /// Returns [`Error::Config`] if no file is named, or if one of its lines is not a step of a policy log, and
    /// [`Error::Io`] if the file cannot be read.
    pub fn new(config: PbtReplayConfig) -> Result<Self> {
        if config.policy_file.as_os_str().is_empty() {
            let rule = "it must name the pbt_policy_<trial id>.txt of a run";
            return Err(Error::config(format!("{NAME}.policy_file"), r#""""#, rule));
        }
        let file = match (config.policy_file.strip_prefix("~"), std::env::home_dir()) {
            (Ok(below), Some(home)) => home.join(below),
            _ => config.policy_file,
        };
        let steps = read(&file)?;
        // Each step copied the history of its source, so the steps before it are the source's.
        let mut changes = VecDeque::new();
        let mut initial = None;
        let mut source: Option<&str> = None;
        for step in steps.iter().rev() {
            if source.is_some_and(|source| source != step.tag) {
                break;
            }
            source = Some(&step.source_tag);
            initial = Some(step.source_config.clone());
            changes.push_front((step.source_iteration, step.new_config.clone()));
        }
        let name = file.file_name().unwrap_or(file.as_os_str()).to_string_lossy();
        Ok(Self {
            tag: format!("replay_{name}"),
            initial,
            changes,
            trial_id: None,
            step: 0,
            num_perturbations: 0,
        })
    }
}

/// Reads the steps of a policy log, one per line.
fn read(file: &Path) -> Result<Vec<PolicyStep>> {
    let text = read_file(file).map_err(Error::io("read", file))?;
    let parse = |(index, line): (usize, &[u8])| {
        serde_json::from_slice(line).map_err(|error| {
            let key = format!("{NAME}.policy_file");
            let rule = format!("line {} is no step of a policy log: {error}", index + 1);
            Error::config(key, file.display(), rule)
        })
    };
    let lines = text.split(|byte| *byte == b'\n').enumerate();
    lines.filter(|(_, line)| !line.trim_ascii().is_empty()).map(parse).collect()
}

impl TrialScheduler for PopulationBasedTrainingReplay {
    fn works_with_searchers(&self) -> bool {
        false
    }

    fn on_trial_add(&mut self, trial: &mut Trial) -> Result<()> {
        if let Some(first) = &self.trial_id {
            let rule = format!("{NAME} trains one trial, which is {first}: set `num_samples` to 1");
            return Err(Error::config("num_samples", "more than 1", rule));
        }
        match self.initial.take() {
            Some(initial) => trial.config = initial,
            None if trial.config.is_empty() => {
                let rule = "the policy file has no steps, so the trial needs settings of its own";
                return Err(Error::config("param_space", "{}", rule));
            }
            None => {}
        }
        self.trial_id = Some(trial.trial_id.clone());
        Ok(())
    }

    fn on_trial_result(&mut self, trial: &Trial, result: &Metrics, _: &[Trial]) -> Result<Answer> {
        let Some(step) = result.get("training_iteration").and_then(|step| step.as_u64()) else {
            return Ok(Decision::Continue.into());
        };
        if self.changes.front().is_none_or(|(at, _)| step < *at) {
            return Ok(Decision::Continue.into());
        }
        let Some((_, config)) = self.changes.pop_front() else { return Ok(Decision::Continue.into()) };
        self.step = step;
        self.num_perturbations += 1;
        let settings: Vec<_> = config.iter().map(|(name, value)| (name.clone(), value.clone())).collect();
        let save = Order::Save(trial.trial_id.clone());
        let exploit = Order::Exploit {
            trial_id: trial.trial_id.clone(),
            source: trial.trial_id.clone(),
            experiment_tag: perturbed_tag(&self.tag, &settings),
            config,
            log: None,
        };
        Ok(Answer { decision: Decision::Noop, orders: vec![save, exploit] })
    }

    fn debug_string(&self) -> String {
        format!("{NAME}: changed at step {}, {} changes", self.step, self.num_perturbations)
    }
}
