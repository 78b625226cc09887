//! The rule over several runs that differ in their seeds.

use crate::doctor::{Finding, Records, Sure};

/// Finds runs whose settings differ in the seed alone and whose last returns differ widely; `None` for fewer than three runs.
pub fn seeds(runs: &[Records]) -> Option<Finding> {
    let same = |run: &Records| {
        let mut config = run.config.clone();
        config.shift_remove("seed");
        config
    };
    let first = same(runs.first()?);
    if runs.len() < 3 || runs.iter().any(|run| same(run) != first) {
        return None;
    }
    let last: Vec<f64> = runs.iter().filter_map(|run| run.returns().last().copied()).collect();
    let started: Vec<f64> = runs.iter().filter_map(|run| run.returns().first().copied()).collect();
    let best = last.iter().copied().reduce(f64::max)?;
    let worst = last.iter().copied().reduce(f64::min)?;
    let start = started.iter().sum::<f64>() / started.len() as f64;
    // What the best run gained is the measure.
    (best > start && best - worst > 0.5 * (best - start)).then(|| {
        Finding::new(
            "seeds",
            Sure::Possible,
            format!("{} runs that differ in their seeds end between {worst:.1} and {best:.1}", last.len()),
            "luck decides, so a comparison of two settings by one run each says nothing",
            "compare means of five seeds or more; larger batches and a smaller `lr` make runs more alike",
        )
    })
}
