//! Completion of trials' result files from the journal.
//!
//! The journal is uploaded after each checkpoint, but a trial's other files only now and then. A restore from the storage
//! therefore adds the missing results to the files, so that their history has no gaps.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::journal::Event;
use crate::base::{Config, Metrics, Result};
use crate::loggers;
use crate::run::{LoggerChoice, RunLog};
use crate::trainable::TrialContext;

/// Results of a trial according to the journal.
struct JournaledTrial<'a> {
    config: &'a Config,
    /// Results that count, with their iterations. Results later than a checkpoint taken over from another trial are removed.
    results: Vec<(u64, &'a Metrics)>,
}

/// Adds results from the journal to `result.json` and the other result files of each trial in `dir`. After a damaged row,
/// all rows are written again.
///
/// # Errors
/// Returns [`Error::Io`](crate::Error::Io) if a file cannot be read or written.
pub(super) fn fill(dir: &Path, events: &[Event<'_>]) -> Result<()> {
    let mut trials: BTreeMap<&str, JournaledTrial<'_>> = BTreeMap::new();
    for event in events {
        match event {
            Event::Trial { trial_id, config, .. } => {
                trials.insert(trial_id, JournaledTrial { config, results: Vec::new() });
            }
            Event::Result { trial_id, iteration, result, .. } => {
                if let Some(known) = trials.get_mut(&**trial_id) {
                    known.results.push((*iteration, result));
                }
            }
            Event::Adopted { trial_id, checkpoint, .. } => {
                if let Some(known) = trials.get_mut(&**trial_id) {
                    known.results.retain(|(iteration, _)| *iteration <= checkpoint.iteration);
                }
            }
            _ => {}
        }
    }
    trials.into_iter().try_for_each(|(trial_id, known)| fill_trial(dir.join(trial_id), trial_id, &known))
}

fn fill_trial(logdir: PathBuf, trial_id: &str, known: &JournaledTrial<'_>) -> Result<()> {
    let dir = &logdir;
    let mut there = Vec::new();
    let path = dir.join(loggers::RESULTS_FILE);
    if path.exists() {
        let mut is_whole = true;
        loggers::visit_results(&path, |result| {
            is_whole &= result.is_ok();
            there.extend(result.ok().filter(|_| is_whole));
            Ok(())
        })?;
    }
    let same =
        there.iter().zip(&known.results).take_while(|(line, (_, result))| is_same(line, result)).count();
    if same == known.results.len() {
        return Ok(());
    }
    let config = there.last().and_then(|line| line.get("config")?.as_object()).unwrap_or(known.config);
    let config = Config::from(config.clone());
    let (trial_id, trial_name) = (trial_id.to_owned(), trial_id.to_owned());
    let trial = TrialContext { trial_id, trial_name, trial_resources: None, logdir: dir.clone() };
    let mut log = RunLog::new(trial, LoggerChoice::Default, None);
    log.rewind(if same == 0 { 0 } else { known.results[same - 1].0 });
    for (_, result) in &known.results[same..] {
        let mut result = (*result).clone();
        result.insert("config".into(), config.clone().into());
        log.on_result(&result, &config)?;
    }
    log.close()
}

/// Whether a line of `result.json` equals a result in the journal, which does not repeat the settings.
fn is_same(line: &Metrics, result: &Metrics) -> bool {
    let others = line.iter().filter(|(key, _)| *key != "config");
    line.len() == result.len() + usize::from(line.contains_key("config"))
        && others.into_iter().all(|(key, value)| result.get(key) == Some(value))
}
