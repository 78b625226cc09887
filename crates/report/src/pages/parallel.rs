//! Parallel coordinates of a sweep, and how much each setting matters.

use std::fmt::Write;

use serde_json::Value;

use super::statistics::importance;
use super::sweep::{RecordedSweep, Trial};
use super::text::{cut, escape, number, short, value};

/// Most axes beside the score.
const MAX_AXES: usize = 8;
/// Number of groups into which many values of a number are parted.
const GROUPS: usize = 5;
/// Fewest trials with a score from which importance is computed.
pub(super) const FEWEST: usize = 8;

/// A drawn setting, and how much it matters, if there are enough trials.
pub(super) struct Axis {
    pub(super) key: String,
    pub(super) importance: Option<f64>,
}

/// The settings that differ between trials, the most important first.
pub(super) fn axes(sweep: &RecordedSweep) -> Vec<Axis> {
    let scored: Vec<(&Trial, f64)> =
        sweep.trials.iter().filter_map(|trial| Some((trial, trial.score()?))).collect();
    let of = |key: String| {
        let values: Vec<&Value> =
            scored.iter().map(|(trial, _)| trial.drawn.get(&key).unwrap_or(&Value::Null)).collect();
        let scores: Vec<f64> = scored.iter().map(|(_, score)| *score).collect();
        let importance = (scores.len() >= FEWEST).then(|| importance(&groups(&values), &scores));
        Axis { key, importance }
    };
    let mut axes: Vec<Axis> = sweep.varied().into_iter().map(of).collect();
    axes.sort_by(|a, b| b.importance.unwrap_or(0.0).total_cmp(&a.importance.unwrap_or(0.0)));
    axes
}

/// The group of each value: equal values are one group; of many numbers those near in rank are.
fn groups(values: &[&Value]) -> Vec<usize> {
    let mut distinct: Vec<&Value> = Vec::new();
    for found in values {
        if !distinct.contains(found) {
            distinct.push(found);
        }
        if distinct.len() > GROUPS + 1 {
            break;
        }
    }
    let numbers: Option<Vec<f64>> = values.iter().map(|value| value.as_f64()).collect();
    let Some(numbers) = numbers.filter(|_| distinct.len() > GROUPS + 1) else {
        let mut names: Vec<String> = values.iter().map(ToString::to_string).collect();
        let all = names.clone();
        names.sort();
        names.dedup();
        return all.iter().map(|name| names.binary_search(name).unwrap_or(0)).collect();
    };
    let mut sorted = numbers.clone();
    sorted.sort_by(f64::total_cmp);
    numbers.iter().map(|x| sorted.partition_point(|y| y < x) * GROUPS / sorted.len()).collect()
}

/// Where the values of an axis lie: 0 at its foot, 1 at its top.
struct Scale {
    low: f64,
    high: f64,
    is_log: bool,
    /// The values of an axis that has texts.
    names: Vec<String>,
}

impl Scale {
    fn of(values: &[&Value]) -> Scale {
        let numbers: Vec<f64> = values.iter().filter_map(|value| value.as_f64()).collect();
        let mut names: Vec<String> = Vec::new();
        if numbers.len() < values.len() {
            names = values.iter().map(|found| value(found)).collect();
            names.sort();
            names.dedup();
        }
        let low = numbers.iter().copied().fold(f64::INFINITY, f64::min);
        let high = numbers.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        Scale { low, high, is_log: low > 0.0 && high / low > 50.0, names }
    }

    fn place(&self, found: &Value) -> f64 {
        if !self.names.is_empty() {
            let at = self.names.binary_search(&value(found)).unwrap_or(0);
            return at as f64 / (self.names.len() - 1).max(1) as f64;
        }
        let x = found.as_f64().unwrap_or(self.low);
        let share = if self.is_log {
            (x / self.low).ln() / (self.high / self.low).ln()
        } else {
            (x - self.low) / (self.high - self.low)
        };
        if share.is_finite() { share.clamp(0.0, 1.0) } else { 0.5 }
    }

    fn ends(&self) -> (String, String) {
        match self.names.as_slice() {
            [] => (short(self.low), short(self.high)),
            [first, .., last] => (cut(first, 14), cut(last, 14)),
            [one] => (cut(one, 14), String::new()),
        }
    }
}

/// A line for each trial through its settings to its score; the best trial's is in front.
pub(super) fn coordinates(sweep: &RecordedSweep, axes: &[Axis]) -> String {
    let axes = &axes[..axes.len().min(MAX_AXES)];
    let sign = if sweep.is_cost { -1.0 } else { 1.0 };
    let mut scored: Vec<(&Trial, f64)> =
        sweep.trials.iter().filter_map(|trial| Some((trial, trial.score()?))).collect();
    scored.sort_by(|a, b| (sign * a.1).total_cmp(&(sign * b.1)));
    if axes.is_empty() || scored.len() < 2 {
        return String::new();
    }
    let (width, top, bottom, left, right) = (1060.0, 40.0, 250.0, 60.0, 1000.0);
    let gap = (right - left) / axes.len() as f64;
    let mut columns: Vec<(String, Vec<Value>)> = Vec::new();
    for axis in axes {
        let values = scored.iter().map(|(trial, _)| trial.drawn.get(&axis.key).cloned().unwrap_or_default());
        columns.push((axis.key.clone(), values.collect()));
    }
    columns.push(("score".into(), scored.iter().map(|(_, score)| (*score).into()).collect()));
    let scales: Vec<Scale> =
        columns.iter().map(|(_, values)| Scale::of(&values.iter().collect::<Vec<_>>())).collect();
    let py = |share: f64| bottom - share * (bottom - top);
    let says = format!(
        "Parallel coordinates of {} trials over {} settings; the best has a score of {}.",
        scored.len(),
        axes.len(),
        number(scored[scored.len() - 1].1)
    );
    let mut out = format!("<svg viewBox=\"0 0 {width} 276\" role=\"img\" aria-label=\"{}\">", escape(&says));
    for (i, (trial, _)) in scored.iter().enumerate() {
        let is_best = i + 1 == scored.len();
        let share = i as f64 / scored.len() as f64;
        let mut path = String::new();
        for (j, (_, values)) in columns.iter().enumerate() {
            let pen = if j == 0 { 'M' } else { 'L' };
            let _ = write!(path, "{pen}{:.0} {:.1}", left + j as f64 * gap, py(scales[j].place(&values[i])));
        }
        let (class, opacity) = if is_best { ("b", 1.0) } else { ("a", 0.06 + 0.5 * share * share) };
        let title = escape(&trial.id);
        let _ = write!(
            out,
            "<path class=\"line {class}\" opacity=\"{opacity:.2}\" d=\"{path}\"><title>{title}</title></path>"
        );
    }
    for (j, ((key, _), scale)) in columns.iter().zip(&scales).enumerate() {
        let x = left + j as f64 * gap;
        let (low, high) = scale.ends();
        let last = key.rsplit('.').next().unwrap_or(key);
        let _ = write!(
            out,
            "<path class=\"grid\" d=\"M{x:.0} {top}V{bottom}\"/>\
             <text class=\"name\" x=\"{x:.0}\" y=\"14\" text-anchor=\"middle\">{}</text>\
             <text class=\"tick\" x=\"{x:.0}\" y=\"32\" text-anchor=\"middle\">{}</text>\
             <text class=\"tick\" x=\"{x:.0}\" y=\"268\" text-anchor=\"middle\">{}</text>",
            escape(&cut(last, 22)),
            escape(&high),
            escape(&low)
        );
    }
    out + "</svg>\n"
}

/// A bar for each setting.
pub(super) fn bars(axes: &[Axis]) -> String {
    let row = |axis: &Axis| {
        let share = axis.importance.unwrap_or(0.0);
        format!(
            "<tr><td>{}</td><td class=\"word\"><span class=\"bar\" style=\"width:{:.0}px\"></span>{:.0} %</td></tr>\n",
            escape(&axis.key),
            300.0 * share,
            100.0 * share
        )
    };
    let rows: String = axes.iter().filter(|axis| axis.importance.is_some()).map(row).collect();
    if rows.is_empty() {
        return format!(
            "<p class=\"muted\">Importance is computed from {FEWEST} trials with a score on.</p>\n"
        );
    }
    format!(
        "<div class=\"wide\"><table><thead><tr><th>setting</th><th class=\"word\">importance</th></tr></thead><tbody>{rows}</tbody></table></div>\n\
         <p class=\"muted\">Importance: the share of the spread of the scores' ranks that the setting alone explains (epsilon \
         squared of Kruskal and Wallis; many values of a number are parted into {GROUPS} groups of equal size). What settings do \
         together is not in it. A trial that was stopped early counts with its score then.</p>\n"
    )
}
