//! Where the time of a run went.

use super::page::Section;
use super::plot::stacked;
use super::run::Run;
use super::text::{escape, seconds};

/// Phases of an iteration: key, name and colour.
pub(super) const PHASES: [(&str, &str, &str); 8] = [
    ("env_s", "environment", "c"),
    ("act_s", "acting", "a"),
    ("postprocess_s", "advantages", "f"),
    ("learn_s", "learning", "b"),
    ("sync_s", "sending weights", "d"),
    ("evaluate_s", "evaluation", "e"),
    ("wait_s", "waiting for workers", "d"),
    ("other_s", "other", "g"),
];

/// The section with the shares of each phase.
pub(super) fn time(run: &Run) -> Section {
    let sum = |key: &str| {
        let column = run.records.time.get(key).unwrap_or_default();
        column.iter().filter(|x| x.is_finite() && **x > 0.0).sum::<f64>()
    };
    let spent: Vec<(&str, f64, &str)> = PHASES.map(|(key, name, class)| (name, sum(key), class)).into();
    let whole: f64 = spent.iter().map(|(_, seconds, _)| seconds).sum();
    let mut content = String::new();
    if whole > 0.0 {
        let parts: Vec<(&str, f64, &str)> = spent
            .into_iter()
            .filter(|(_, s, _)| *s > 0.0)
            .map(|(name, s, class)| (name, s / whole, class))
            .collect();
        let legend = |(name, share, class): &(&str, f64, &str)| {
            let name = escape(name);
            format!(
                "<span><svg viewBox=\"0 0 10 10\" aria-hidden=\"true\"><rect class=\"{class}\" width=\"10\" height=\"10\" rx=\"2\"/></svg>{name} {:.1} %</span> ",
                100.0 * share
            )
        };
        content = stacked(&parts)
            + "<p class=\"muted parts\">"
            + &parts.iter().map(legend).collect::<String>()
            + "</p>\n";
    }
    Section {
        id: "time".into(),
        heading: format!("Where the {} went", seconds(whole)),
        short: "Time",
        content,
    }
}
