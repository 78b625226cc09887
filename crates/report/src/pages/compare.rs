//! The page of several runs: groups of runs that differ in their seed alone, on each environment.

use std::fmt::Write;

use super::groups::{Group, center, grouped};
use super::one::note;
use super::page::{Section, command, fold, page, table};
use super::plot::{Frame, Plot, range, ticks};
use super::profiles::profiles;
use super::records::in_words;
use super::run::Run;
use super::statistics::{DRAWS, deviation, interval, iqm, mean, probability_of_improvement};
use super::text::{count, counted, escape, number, seconds, short, value};
use crate::doctor;

/// Number of places at which a curve and its interval are computed.
const PLACES: usize = 100;

/// Makes the page of several runs; `commands` are those that train each of them again.
pub fn of_runs(runs: &[Run], commands: &[Option<String>]) -> String {
    let groups = grouped(runs);
    let mut tasks: Vec<(String, Vec<&Group<'_>>)> = Vec::new();
    for group in &groups {
        let task = group.runs[0].env.clone().unwrap_or_else(|| "an unnamed task".into());
        match tasks.iter_mut().find(|(known, _)| *known == task) {
            Some((_, of)) => of.push(group),
            None => tasks.push((task, vec![group])),
        }
    }
    let mut sections = Vec::new();
    let mut verdicts = Vec::new();
    for (number, (task, groups)) in tasks.iter_mut().enumerate() {
        let is_lower_better = key_of(groups).is_some_and(|key| super::sweep::is_cost(&key));
        let sign = if is_lower_better { -1.0 } else { 1.0 };
        groups.sort_by(|a, b| (sign * center(b)).total_cmp(&(sign * center(a))));
        verdicts.push(format!("{task}: {}", verdict(groups)));
        let heading = |what: &str| format!("{what}, {task}");
        // An address is that of one section.
        let id = |what: &str| if number == 0 { what.to_owned() } else { format!("{what}-{}", number + 1) };
        sections.push(Section {
            id: id("learning"),
            heading: heading("Learning"),
            short: "Learning",
            content: curves(groups),
        });
        sections.push(Section {
            id: id("end"),
            heading: heading("At the end"),
            short: "At the end",
            content: ends(groups),
        });
    }
    sections.push(Section {
        id: "checks".into(),
        heading: "What the doctor finds".into(),
        short: "Checks",
        content: checks(&groups),
    });
    sections.push(Section {
        id: "again".into(),
        heading: "Run it again".into(),
        short: "Run it again",
        content: again(&groups, runs, commands),
    });
    let title = format!("{}, {}", counted(groups.len(), "group"), counted(runs.len(), "run"));
    let lede = |verdict: &String| format!("<p class=\"lede\">{}</p>\n", escape(verdict));
    let mut head: String = verdicts.iter().map(lede).collect();
    if tasks.len() > 1 {
        head += "<p class=\"muted\">Returns of different environments have different scales, so each environment is compared \
                 alone.</p>\n";
    }
    page(&title, &head, &sections)
}

fn key_of(groups: &[&Group<'_>]) -> Option<String> {
    Some(groups.first()?.runs.first()?.records.score_key())
}

/// Who is ahead, by how much, and whether the intervals meet.
fn verdict(groups: &[&Group<'_>]) -> String {
    let scored: Vec<&&Group<'_>> = groups.iter().filter(|group| !group.scores.is_empty()).collect();
    match scored.as_slice() {
        [] => "no run has a score yet.".into(),
        [one] => {
            let (low, high) = interval(&[&one.scores]);
            let of = counted(one.scores.len(), "run");
            format!(
                "{} on average of {of}, with 95 % between {} and {}.",
                number(center(one)),
                number(low),
                number(high)
            )
        }
        [first, second, ..] => {
            let (a, b) = (interval(&[&first.scores]), interval(&[&second.scores]));
            let apart = a.0 > b.1 || b.0 > a.1;
            let few = first.scores.len().min(second.scores.len()) < 3;
            let meets = match (apart, few) {
                (_, true) => "but with fewer than three runs in a group that says little",
                (true, false) => "and their intervals do not meet",
                (false, false) => "but their intervals meet: more seeds would tell",
            };
            let (score, other) = (number(center(first)), number(center(second)));
            format!("{} is ahead, {score} against {other} of {}, {meets}.", first.name, second.name)
        }
    }
}

/// The value of a run at each place: the newest number there.
fn sampled(xs: &[f64], ys: &[f64], places: &[f64]) -> Vec<f64> {
    let mut at = 0;
    let mut newest = f64::NAN;
    let next = |place: &f64| {
        while at < xs.len() && (xs[at] <= *place || !xs[at].is_finite()) {
            if ys[at].is_finite() {
                newest = ys[at];
            }
            at += 1;
        }
        newest
    };
    places.iter().map(next).collect()
}

/// The curves of the groups with their intervals, on steps and on seconds.
fn curves(groups: &[&Group<'_>]) -> String {
    let x_name = groups[0].runs[0].records.x().1;
    let frame = Frame::large(1060.0, 380.0).with_names(210.0);
    let on_steps = curve(groups, None, x_name, |run| run.records.x().0, frame);
    let on_seconds = curve(groups, None, "seconds of training", |run| run.records.wall(), frame);
    format!(
        "<div data-choice=\"x axis\"><div data-part=\"on {x_name}\">{on_steps}</div>\n\
         <div data-part=\"on seconds of training\">{on_seconds}</div></div>\n\
         <p class=\"muted\">Line: interquartile mean over the runs of a group, the mean of their middle half. Band: its 95 % \
         interval, by a bootstrap of {} draws. A group ends where its shortest run does.</p>\n",
        count(DRAWS as f64)
    )
}

/// A curve of a group: places, lower ends, middles and upper ends.
type Band = (Vec<(f64, f64)>, Vec<(f64, f64)>, Vec<(f64, f64)>);

fn band(group: &Group<'_>, key: &str, x_of: impl Fn(&Run) -> Vec<f64>) -> Option<Band> {
    let of = |run: &&Run| (x_of(run), run.records.values(key).unwrap_or_else(|| run.records.column(key)));
    let lines: Vec<(Vec<f64>, Vec<f64>)> = group.runs.iter().map(of).collect();
    let reach = |(xs, ys): &(Vec<f64>, Vec<f64>)| {
        let seen: Vec<f64> = xs.iter().zip(ys).filter(|(_, y)| y.is_finite()).map(|(x, _)| *x).collect();
        range(&seen)
    };
    let reaches: Vec<(f64, f64)> = lines.iter().filter_map(reach).collect();
    let from = reaches.iter().map(|(low, _)| *low).reduce(f64::max)?;
    let to = reaches.iter().map(|(_, high)| *high).reduce(f64::min)?;
    if to < from {
        return None;
    }
    let longest = lines.iter().map(|(xs, _)| xs.len()).max().unwrap_or(1);
    let parts = PLACES.min(longest).max(2) - 1;
    let places: Vec<f64> = (0..=parts).map(|i| from + (to - from) * i as f64 / parts as f64).collect();
    let columns: Vec<Vec<f64>> = lines.iter().map(|(xs, ys)| sampled(xs, ys, &places)).collect();
    let (mut low, mut mid, mut high) = (Vec::new(), Vec::new(), Vec::new());
    for (i, place) in places.iter().enumerate() {
        let values: Vec<f64> = columns.iter().map(|column| column[i]).filter(|y| y.is_finite()).collect();
        if values.is_empty() {
            continue;
        }
        let (below, above) = interval(&[&values]);
        low.push((*place, below));
        mid.push((*place, iqm(&values)));
        high.push((*place, above));
    }
    Some((low, mid, high))
}

/// The curves of the runs' groups, of the score or of another number. `frame` makes room for the longest name.
pub(super) fn groups_curve(runs: &[Run], key: Option<&str>, frame: impl Fn(&str) -> Frame) -> String {
    let groups = grouped(runs);
    let groups: Vec<&Group<'_>> = groups.iter().collect();
    let longest = groups.iter().map(|group| group.name.as_str()).max_by_key(|name| name.chars().count());
    let frame = frame(longest.unwrap_or_default());
    curve(&groups, key, runs.first().map_or("steps", |run| run.records.x().1), |run| run.records.x().0, frame)
}

fn curve(
    groups: &[&Group<'_>],
    key: Option<&str>,
    x_name: &str,
    x_of: impl Fn(&Run) -> Vec<f64>,
    frame: Frame,
) -> String {
    let key = key.map(str::to_owned).or_else(|| key_of(groups));
    let Some(key) = key else { return String::new() };
    let bands: Vec<(&&Group<'_>, Band)> =
        groups.iter().filter_map(|group| Some((group, band(group, &key, &x_of)?))).collect();
    let points = || bands.iter().flat_map(|(_, (low, mid, high))| low.iter().chain(mid).chain(high));
    let xs: Vec<f64> = points().map(|(x, _)| *x).collect();
    let ys: Vec<f64> = points().map(|(_, y)| *y).collect();
    let (Some(x), Some(y)) = (range(&xs), range(&ys)) else {
        return "<p class=\"muted\">No run has a number to draw yet.</p>".into();
    };
    let name = format!("{}, interquartile mean over runs, 95 % interval", in_words(&key));
    let mut plot = Plot::new(frame, (x.0.min(0.0), x.1), y, x_name, &name);
    let mut says = Vec::new();
    for (group, (low, mid, high)) in &bands {
        if group.runs.len() > 1 {
            plot.band(low, high, &group.class);
        }
        plot.line(mid, &group.class, Some(&group.name));
        if let Some((_, last)) = mid.last() {
            says.push(format!("{} ends at {}", group.name, number(*last)));
        }
    }
    plot.svg(&format!("{} over {x_name}: {}.", in_words(&key), says.join(", ")))
}

/// The intervals at the end, and the table of the groups.
fn ends(groups: &[&Group<'_>]) -> String {
    let scored: Vec<&&Group<'_>> = groups.iter().filter(|group| !group.scores.is_empty()).collect();
    let Some(best) = scored.first() else { return String::new() };
    let evaluated = |run: &&Run| run.records.last("evaluation/episode_reward_mean").is_some();
    let what = if best.runs.iter().all(evaluated) {
        "evaluation/episode_reward_mean".into()
    } else {
        best.runs[0].records.score_key()
    };
    let rows: Vec<Vec<String>> = scored
        .iter()
        .map(|group| {
            let scores = &group.scores;
            let (low, high) = interval(&[scores]);
            let (worst, most) = range(scores).unwrap_or((f64::NAN, f64::NAN));
            let over = |key: &str| {
                let all: Vec<f64> = group.runs.iter().filter_map(|run| run.records.last(key)).collect();
                if all.is_empty() { None } else { Some(mean(&all)) }
            };
            let ahead = probability_of_improvement(&best.scores, scores);
            vec![
                group.name.clone(),
                number(iqm(scores)),
                format!("{} to {}", number(low), number(high)),
                number(mean(scores)),
                number(deviation(scores)),
                number(worst),
                number(most),
                count(scores.len() as f64),
                over("timesteps_total").map(count).unwrap_or_default(),
                over("time_total_s").map(seconds).unwrap_or_default(),
                if std::ptr::eq(**group, **best) { String::new() } else { format!("{:.0} %", 100.0 * ahead) },
            ]
        })
        .collect();
    let head = [
        "group",
        "score",
        "95 % interval",
        "mean",
        "deviation",
        "lowest",
        "highest",
        "runs",
        "steps",
        "time of a run",
        "first is better",
    ];
    let mut out =
        intervals(&scored, &in_words(&what)) + &profiles(&scored, &in_words(&what)) + &table(&head, &rows);
    out += &format!(
        "<p class=\"muted\">Score: interquartile mean over the runs of a group of their {} at the end. First is better: the share \
         of pairs of a run of the first group and one of this group in which the first is better.</p>\n",
        escape(&in_words(&what))
    );
    if groups.len() > 1 {
        let rows: Vec<Vec<String>> =
            groups.iter().map(|group| vec![group.name.clone(), group.differs.clone()]).collect();
        out += &fold("what differs between the groups", &table(&["group", "differs in"], &rows));
    }
    out
}

/// One row for each group: its interval as a bar, its score as a line, its runs as dots.
fn intervals(groups: &[&&Group<'_>], name: &str) -> String {
    let all: Vec<f64> = groups.iter().flat_map(|group| group.scores.iter().copied()).collect();
    let Some((low, high)) = range(&all) else { return String::new() };
    let pad = if high > low { 0.03 * (high - low) } else { low.abs().max(1.0) * 0.05 };
    let (low, high) = (low - pad, high + pad);
    let (left, right, row) = (220.0, 1040.0, 30.0);
    let px = |x: f64| left + (x - low) / (high - low) * (right - left);
    let height = 30.0 + row * groups.len() as f64 + 22.0;
    let says = groups.iter().map(|group| {
        let (from, to) = interval(&[&group.scores]);
        format!("{}: {} ({} to {})", group.name, number(iqm(&group.scores)), number(from), number(to))
    });
    let says = escape(&says.collect::<Vec<_>>().join("; "));
    let mut out = format!("<svg viewBox=\"0 0 1060 {height}\" role=\"img\" aria-label=\"{says}\">");
    let name = escape(&format!("{name} at the end: score, 95 % interval, each run"));
    let _ = write!(out, "<text class=\"name\" x=\"0\" y=\"12\">{name}</text>");
    for x in ticks(low, high, 6) {
        let at = px(x);
        let bottom = height - 20.0;
        let _ = write!(out, "<path class=\"grid\" d=\"M{at:.1} 24V{bottom}\"/>");
        let _ = write!(
            out,
            "<text class=\"tick\" x=\"{at:.1}\" y=\"{}\" text-anchor=\"middle\">{}</text>",
            height - 4.0,
            short(x)
        );
    }
    for (i, group) in groups.iter().enumerate() {
        let y = 30.0 + row * i as f64 + row / 2.0;
        let (from, to) = interval(&[&group.scores]);
        let (from, to, middle) = (px(from), px(to), px(iqm(&group.scores)));
        let (class, name) = (&group.class, escape(&group.name));
        let _ = write!(
            out,
            "<text class=\"name\" x=\"0\" y=\"{:.1}\">{name}</text>\
             <rect class=\"{class}\" opacity=\".3\" x=\"{from:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"14\" rx=\"3\"/>\
             <rect class=\"{class}\" x=\"{:.1}\" y=\"{:.1}\" width=\"3\" height=\"22\"/>",
            y + 4.0,
            y - 7.0,
            (to - from).max(2.0),
            middle - 1.5,
            y - 11.0
        );
        for score in &group.scores {
            let _ =
                write!(out, "<circle class=\"dot {class}\" cx=\"{:.1}\" cy=\"{y:.1}\" r=\"3\"/>", px(*score));
        }
    }
    out + "</svg>\n"
}

/// What the rules find in the runs of each group together, and in each run alone.
fn checks(groups: &[Group<'_>]) -> String {
    let mut out = String::new();
    let mut alone = Vec::new();
    for group in groups {
        let seen: Vec<doctor::Records> = group.runs.iter().filter_map(|run| run.seen().ok()).collect();
        if let Some(finding) = doctor::seeds(&seen) {
            out += &format!("<p class=\"muted\">{}</p>\n{}", escape(&group.name), note(&finding));
        }
        for run in &group.runs {
            let found = match run.findings() {
                Ok(found) => found.iter().map(ToString::to_string).collect(),
                Err(reason) => vec![format!("not read: {reason}")],
            };
            alone.extend(found.into_iter().map(|line| vec![group.name.clone(), run.name.clone(), line]));
        }
    }
    if alone.is_empty() {
        return out + "<p class=\"note ok\">The doctor found nothing in any run alone.</p>\n";
    }
    out + &fold(&counted(alone.len(), "finding"), &table(&["group", "run", "finding"], &alone))
}

/// The command of each group's first run, with the seeds of all its runs.
fn again(groups: &[Group<'_>], runs: &[Run], commands: &[Option<String>]) -> String {
    let mut lines = String::new();
    for group in groups {
        let first = runs.iter().position(|run| std::ptr::eq(run, group.runs[0]));
        let Some(line) = first.and_then(|first| commands.get(first)?.as_deref()) else {
            let name = escape(&group.name);
            lines += &format!(
                "<p class=\"muted\">{name}: the algorithm or the environment is not known here.</p>\n"
            );
            continue;
        };
        let seed = |run: &&Run| run.config.get("seed").filter(|seed| !seed.is_null()).map(value);
        let seeds: Vec<String> = group.runs.iter().filter_map(seed).collect();
        let seeds =
            if seeds.len() > 1 { format!(", with the seeds {}", seeds.join(", ")) } else { String::new() };
        let whole = format!("{}{seeds}:", group.name);
        lines += &format!("<p class=\"muted\">{}</p>\n{}", escape(&whole), command(line));
    }
    let dirs: Vec<Vec<String>> =
        groups.iter().flat_map(|group| group.runs.iter().map(|run| row_of(&group.name, run))).collect();
    lines
        + &fold(&counted(runs.len(), "run"), &table(&["group", "directory", "last result", "pavlov"], &dirs))
}

fn row_of(group: &str, run: &Run) -> Vec<String> {
    let date = run.records.date.clone().unwrap_or_default();
    vec![group.to_owned(), run.dir.display().to_string(), date, run.pavlov.clone().unwrap_or_default()]
}
