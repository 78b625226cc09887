//! The small plots of a run: statistics of its policies, and what else changes from result to result.

use super::plot::{Frame, Plot, range, thinned};
use super::records::{Columns, last};
use super::run::Run;
use super::text::{escape, short};

/// Most small plots of a policy.
const MOST: usize = 24;
/// Most points of a small plot.
const POINTS: usize = 240;

/// Statistics with a name in words, in the order of the page; others follow under their own names.
pub(super) const WORDS: [(&str, &str); 12] = [
    ("kl", "KL"),
    ("clip_fraction", "clip fraction"),
    ("entropy", "entropy"),
    ("vf_explained_var", "explained variance"),
    ("vf_loss", "value loss"),
    ("policy_loss", "policy loss"),
    ("total_loss", "total loss"),
    ("grad_gnorm", "gradient norm"),
    ("cur_lr", "learning rate"),
    ("actor_loss", "actor loss"),
    ("critic_loss", "critic loss"),
    ("mean_q", "mean Q"),
];

/// The small plots of each policy; the reader chooses one of several policies.
pub(super) fn learners(run: &Run) -> String {
    let parts = run.records.learners.iter().map(|(policy, columns)| {
        let (name, plots) = (escape(policy), of_policy(run, columns));
        format!("<div data-part=\"{name}\" role=\"group\" aria-label=\"policy {name}\">{plots}</div>\n")
    });
    let parts: String = parts.collect();
    if parts.is_empty() { String::new() } else { format!("<div data-choice=\"policy\">{parts}</div>\n") }
}

fn of_policy(run: &Run, columns: &Columns) -> String {
    let known = |key: &str| WORDS.iter().any(|(known, _)| *known == key);
    let named = WORDS.iter().filter_map(|(key, name)| Some((*name, columns.get(key)?)));
    let others = columns.iter().filter(|(key, _)| !known(key)).map(|(key, ys)| (key.as_str(), ys));
    let mut plots = String::new();
    let mut constant = Vec::new();
    let mut left_out = 0;
    let mut shown = 0;
    for (name, ys) in named.chain(others) {
        let Some((low, high)) = range(ys) else { continue };
        if low == high && run.records.rows > 1 {
            constant.push(format!("{name} {}", short(low)));
        } else if shown == MOST {
            left_out += 1;
        } else {
            shown += 1;
            plots += &small(run, name, ys);
        }
    }
    let mut out = format!("<div class=\"small\">{plots}</div>\n");
    if !constant.is_empty() {
        out += &format!("<p class=\"muted\">The same throughout: {}.</p>\n", escape(&constant.join(", ")));
    }
    if left_out > 0 {
        out += &format!("<p class=\"muted\">{left_out} more statistics are in result.json.</p>\n");
    }
    out
}

/// The length of episodes, the speed, and numbers of a user's own.
pub(super) fn around(run: &Run) -> String {
    let records = &run.records;
    let mut plots = String::new();
    let mut add = |name: &str, ys: &[f64]| {
        if last(ys).is_some() {
            plots.push_str(&small(run, name, ys));
        }
    };
    add("mean length of an episode", &records.column("episode_len_mean"));
    let steps = records.column("timesteps_this_iter");
    let time = records.column("time_this_iter_s");
    let speed: Vec<f64> =
        steps.iter().zip(&time).map(|(n, s)| if *s > 0.0 { n / s } else { f64::NAN }).collect();
    add("steps a second", &speed);
    let own = records.top.iter().filter_map(|(key, ys)| Some((key.strip_prefix("custom_metrics/")?, ys)));
    own.take(MOST).for_each(|(name, ys)| add(name, ys));
    if plots.is_empty() { String::new() } else { format!("<div class=\"small\">{plots}</div>\n") }
}

fn small(run: &Run, name: &str, ys: &[f64]) -> String {
    of_values(run, name, ys).map(|svg| format!("<div>{svg}</div>\n")).unwrap_or_default()
}

/// A small plot of a statistic; `None` if it has no number.
pub(super) fn of_values(run: &Run, name: &str, ys: &[f64]) -> Option<String> {
    let (xs, x_name) = run.records.x();
    let (x, y, now) = (range(&xs)?, range(ys)?, last(ys)?);
    let mut plot =
        Plot::new(Frame::small(), (x.0.min(0.0), x.1), y, "", &format!("{name}, now {}", short(now)));
    if let Some((row, key)) = run.records.bad.as_ref().filter(|(row, _)| !ys[*row].is_finite()) {
        plot.mark(xs[*row], "bad", &format!("{key} is no number any more"));
    }
    plot.line(&thinned(&xs, ys, POINTS), "a", None);
    let first = ys.iter().copied().find(|y| y.is_finite()).unwrap_or(now);
    let says =
        format!("{name}: {} at first, {} at last, over {} {x_name}", short(first), short(now), short(x.1));
    Some(plot.svg(&says))
}
