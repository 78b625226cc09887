//! `pavlov doctor RUN`: what the rules of [`pavlov_report::doctor`] find in a run, or in runs that differ in their seeds.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::json;

use crate::cli::exit::usage;
use crate::cli::output::{print, print_json};
use crate::doctor::{self, Finding, Records};

/// Examines each run, and all of them together.
pub(super) fn examine(places: &[PathBuf], json: bool) -> anyhow::Result<()> {
    let mut runs: Vec<(PathBuf, Records)> = Vec::new();
    for place in places {
        let dirs = runs_in(place)?;
        for dir in dirs {
            let records = doctor::read(&dir)?;
            runs.push((dir, records));
        }
    }
    let all: Vec<(String, Vec<Finding>)> =
        runs.iter().map(|(dir, records)| (dir.display().to_string(), doctor::examine(records))).collect();
    let records: Vec<Records> = runs.into_iter().map(|(_, records)| records).collect();
    let together = doctor::seeds(&records);
    if json {
        let object = |(dir, findings): &(String, Vec<Finding>)| json!({"run": dir, "findings": findings});
        let runs: Vec<_> = all.iter().map(object).collect();
        return print_json(&json!({"runs": runs, "together": together})).map(drop);
    }
    let mut lines = Vec::new();
    for (dir, findings) in &all {
        match findings.len() {
            0 => lines.push(format!("{dir}: no rule found anything that keeps it from learning")),
            count => {
                lines.push(format!("{dir}: {count} {}", if count == 1 { "finding" } else { "findings" }))
            }
        }
        lines.extend(findings.iter().map(|finding| format!("  {finding}")));
    }
    lines.extend(together.map(|finding| format!("together: {finding}")));
    print(&lines.join("\n")).map(drop)
}

/// The directories with results in `place`: the run itself, or the trials of a sweep.
fn runs_in(place: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let shown = place.display();
    if !place.is_dir() {
        return Err(usage(format!(
            "{shown}: there is no such directory; give the run directory of `pavlov train`"
        )));
    }
    let has_results = |dir: &Path| dir.join("result.json").is_file();
    if has_results(place) {
        return Ok(vec![place.into()]);
    }
    let inner = fs::read_dir(place).into_iter().flatten().flatten().map(|entry| entry.path());
    let mut inner: Vec<PathBuf> = inner.filter(|dir| has_results(dir)).collect();
    inner.sort();
    if inner.is_empty() {
        return Err(usage(format!("{shown}: it has no result.json, so there is no run to examine")));
    }
    Ok(inner)
}
