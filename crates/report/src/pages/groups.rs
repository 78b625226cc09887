//! Runs in groups: those of a group differ in their seed alone.

use serde_json::{Value, json};

use super::plot::COLOURS;
use super::run::Run;
use super::statistics::iqm;
use super::text::{cut, value};
use pavlov_tune::Config;
use pavlov_tune::loggers::flatten;

/// Longest name of a group.
const LONGEST: usize = 32;

/// Runs that differ in their seed alone.
pub(super) struct Group<'a> {
    pub(super) name: String,
    /// What differs from the other groups, in full.
    pub(super) differs: String,
    pub(super) class: String,
    pub(super) runs: Vec<&'a Run>,
    /// Score of each run at the end.
    pub(super) scores: Vec<f64>,
}

/// The settings without the seed, by which runs belong together.
fn settings(run: &Run) -> Config {
    let mut settings = run.config.clone();
    settings.shift_remove("seed");
    settings.insert("algorithm".into(), json!(run.algorithm));
    settings
}

/// Parts the runs into groups, in the order in which they appear.
pub(super) fn grouped(runs: &[Run]) -> Vec<Group<'_>> {
    let mut found: Vec<(Config, Vec<&Run>)> = Vec::new();
    for run in runs {
        let own = settings(run);
        match found.iter_mut().find(|(known, of)| *known == own && of[0].env == run.env) {
            Some((_, of)) => of.push(run),
            None => found.push((own, vec![run])),
        }
    }
    let flat: Vec<Vec<(String, &Value)>> = found.iter().map(|(settings, _)| flatten(settings)).collect();
    let differing = |(key, own): &(String, &Value)| {
        let same = |other: &Vec<(String, &Value)>| other.iter().any(|(k, v)| k == key && v == own);
        !flat.iter().all(same)
    };
    let names: Vec<String> = flat
        .iter()
        .map(|own| {
            let parts = own.iter().filter(|one| differing(one)).map(|(key, found)| match key.as_str() {
                "algorithm" => value(found),
                _ => format!("{} {}", key.replace('/', "."), cut(&value(found), 40)),
            });
            parts.collect::<Vec<_>>().join(", ")
        })
        .collect();
    let are_short = names.iter().all(|name| !name.is_empty() && name.chars().count() <= LONGEST);
    let mut groups = Vec::new();
    for (i, ((_, runs), differs)) in found.iter().zip(&names).enumerate() {
        let name = match (found.len(), are_short) {
            (1, _) => "all runs".into(),
            (_, true) => differs.clone(),
            (_, false) => format!("group {}", i + 1),
        };
        let dash = if i >= COLOURS.len() { " dash" } else { "" };
        let class = format!("{}{dash}", COLOURS[i % COLOURS.len()]);
        groups.push(Group { name, differs: differs.clone(), class, runs: runs.clone(), scores: Vec::new() });
    }
    for group in &mut groups {
        group.scores =
            group.runs.iter().filter_map(|run| run.score()).filter(|score| score.is_finite()).collect();
    }
    groups
}

/// The score of a group.
pub(super) fn center(group: &Group<'_>) -> f64 {
    if group.scores.is_empty() { f64::NEG_INFINITY } else { iqm(&group.scores) }
}
