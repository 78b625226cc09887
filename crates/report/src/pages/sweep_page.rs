//! The page of a sweep.

use std::fmt::Write;

use serde_json::Value;

use super::page::{Section, command, facts, list, page};
use super::parallel::{Axis, axes, bars, coordinates};
use super::plot::{Frame, Plot, range, thinned};
use super::records::in_words;
use super::sweep::{DecisionKind, End, Point, RecordedSweep, Trial};
use super::text::{count, counted, escape, number, seconds, short, value};

/// Number of trials above which lines have fewer points.
const MANY: usize = 100;

/// Makes the page of a sweep; `again` is the command that trains its best trial again.
pub fn of_sweep(sweep: &RecordedSweep, again: Option<&str>) -> String {
    let axes = axes(sweep);
    let sections = [
        Section {
            id: "learning".into(),
            heading: "Learning".into(),
            short: "Learning",
            content: scrolled(&curves(sweep, Frame::large(1060.0, 360.0))),
        },
        Section {
            id: "settings".into(),
            heading: "What the settings do".into(),
            short: "Settings",
            content: settings(sweep, &axes),
        },
        Section {
            id: "decisions".into(),
            heading: "What the scheduler decided".into(),
            short: "Decisions",
            content: decisions(sweep),
        },
        Section {
            id: "trials".into(),
            heading: "Trials".into(),
            short: "Trials",
            content: table(sweep, &axes),
        },
        Section {
            id: "again".into(),
            heading: "Run it again".into(),
            short: "Run it again",
            content: about(sweep),
        },
    ];
    page(&title(sweep), &head(sweep, &axes, again), &sections)
}

fn title(sweep: &RecordedSweep) -> String {
    let file = sweep.file.as_ref();
    match file.map(|file| (&file.algorithm, &file.env)) {
        Some((algorithm, Some(env))) => format!("Sweep of {algorithm} on {env}"),
        Some((algorithm, None)) => format!("Sweep of {algorithm}"),
        None => format!("Sweep of {}", sweep.trainable),
    }
}

fn head(sweep: &RecordedSweep, axes: &[Axis], again: Option<&str>) -> String {
    let trials = counted(sweep.trials.len(), "trial");
    let best = sweep.best().map(|best| &sweep.trials[best]);
    let metric = in_words(&sweep.metric);
    let verdict = match best.and_then(|best| Some((best, best.score()?))) {
        None => format!("No trial of {trials} has a number for {} yet.", sweep.metric),
        Some((best, score)) => {
            let with = axes.iter().filter_map(|axis| {
                let found = best.drawn.get(&axis.key)?;
                Some(format!("{} {}", axis.key, found.as_f64().map_or_else(|| value(found), number)))
            });
            let with: Vec<String> = with.collect();
            let with = if with.is_empty() { String::new() } else { format!(" with {}", with.join(", ")) };
            format!("Best of {trials}: {metric} {}{with}.", number(score))
        }
    };
    let ended = |end: End| sweep.trials.iter().filter(|trial| trial.end == end).count();
    let mut facts_shown = vec![(count(sweep.trials.len() as f64), "trials".to_owned())];
    for (end, of) in [
        (End::Finished, "finished"),
        (End::StoppedByScheduler, "stopped by the scheduler"),
        (End::StoppedWithSweep, "stopped with the sweep"),
        (End::Failed, "failed"),
        (End::Running, "not ended"),
    ] {
        if ended(end) > 0 {
            facts_shown.push((count(ended(end) as f64), of.into()));
        }
    }
    let steps = |trial: &Trial| {
        trial.points.last().map(|point| if point.steps.is_finite() { point.steps } else { point.iteration })
    };
    let all: Vec<f64> = sweep.trials.iter().filter_map(steps).collect();
    let most = all.iter().copied().fold(0.0, f64::max);
    let spent: f64 = all.iter().sum();
    let mut about = sweep.name.clone();
    if ended(End::StoppedByScheduler) > 0 && most > 0.0 {
        let saved = 100.0 * (1.0 - spent / (most * all.len() as f64));
        about +=
            &format!(" · {} spared {saved:.0} % of what all trials to the end would take", sweep.scheduler());
    }
    let mut out =
        format!("<p class=\"lede\">{}</p>\n<p class=\"muted\">{}</p>\n", escape(&verdict), escape(&about));
    out += &again.map(command).unwrap_or_default();
    out += &facts(&facts_shown);
    if let Some(reason) = &sweep.stopped {
        out += &format!("<p class=\"note\">All trials were stopped: {}</p>\n", escape(reason));
    }
    if sweep.damaged > 0 {
        let lines = counted(sweep.damaged, "line");
        out +=
            &format!("<p class=\"note\">{lines} of journal.jsonl could not be read and are left out.</p>\n");
    }
    out
}

/// A wide picture, which moves sideways on a narrow screen.
fn scrolled(svg: &str) -> String {
    if svg.is_empty() { String::new() } else { format!("<div class=\"plots\">{svg}</div>\n") }
}

/// Where a point lies on the x axis: at its steps, or at its iteration if no trial counts steps.
fn x_of(sweep: &RecordedSweep) -> (fn(&Point) -> f64, &'static str) {
    let counts = |trial: &Trial| trial.points.iter().any(|point| point.steps.is_finite());
    match sweep.trials.iter().any(counts) {
        true => (|point| point.steps, "steps of the environment"),
        false => (|point| point.iteration, "iterations"),
    }
}

/// A line for each trial, the best in front.
pub(super) fn curves(sweep: &RecordedSweep, frame: Frame) -> String {
    let (x_of, x_name) = x_of(sweep);
    let points = || sweep.trials.iter().flat_map(|trial| &trial.points);
    let xs: Vec<f64> = points().map(x_of).collect();
    let ys: Vec<f64> = points().map(|point| point.score).collect();
    let (Some(x), Some(y)) = (range(&xs), range(&ys)) else { return String::new() };
    let name = format!("{}, a line for each trial", in_words(&sweep.metric));
    let mut plot = Plot::new(frame, (x.0.min(0.0), x.1), y, x_name, &name);
    let most = if sweep.trials.len() > MANY { 60 } else { 240 };
    let best = sweep.best();
    let line = |trial: &Trial| {
        let xs: Vec<f64> = trial.points.iter().map(x_of).collect();
        let ys: Vec<f64> = trial.points.iter().map(|point| point.score).collect();
        thinned(&xs, &ys, most)
    };
    for (_, trial) in sweep.trials.iter().enumerate().filter(|(i, _)| Some(*i) != best) {
        plot.line(&line(trial), "a thin", None);
    }
    if let Some(best) = best {
        plot.line(&line(&sweep.trials[best]), "b", Some("best"));
    }
    plot.svg(&format!(
        "{} of {} over {x_name}.",
        in_words(&sweep.metric),
        counted(sweep.trials.len(), "trial")
    )) + "\n"
}

fn settings(sweep: &RecordedSweep, axes: &[Axis]) -> String {
    if axes.is_empty() {
        return "<p class=\"muted\">All trials have the same settings.</p>\n".into();
    }
    scrolled(&coordinates(sweep, axes)) + &bars(axes)
}

/// When trials were stopped, paused and continued from others, and how far they were.
fn decisions(sweep: &RecordedSweep) -> String {
    const KINDS: [(DecisionKind, &str, &str); 3] = [
        (DecisionKind::Stop, "b", "stopped"),
        (DecisionKind::Pause, "e", "paused"),
        (DecisionKind::Adopt, "c", "continued from another trial"),
    ];
    let all = || {
        sweep.trials.iter().flat_map(|trial| trial.decisions.iter().map(move |decision| (trial, decision)))
    };
    let xs: Vec<f64> = all().map(|(_, decision)| decision.elapsed).collect();
    let ys: Vec<f64> = all().map(|(_, decision)| decision.iteration).collect();
    let (Some(x), Some(y)) = (range(&xs), range(&ys)) else {
        return "<p class=\"muted\">It let every trial go on.</p>\n".into();
    };
    let frame = Frame::large(1060.0, 240.0).with_names(210.0);
    let mut plot = Plot::new(
        frame,
        (x.0.min(0.0), x.1),
        (y.0.min(0.0), y.1),
        "seconds of the sweep",
        "iteration of the trial",
    );
    let mut words = Vec::new();
    for (kind, class, word) in KINDS {
        let of: Vec<(&Trial, f64, f64)> = all()
            .filter(|(_, decision)| decision.kind == kind)
            .map(|(trial, decision)| (trial, decision.elapsed, decision.iteration))
            .collect();
        let Some((_, x, y)) = of.last() else { continue };
        let points: Vec<(f64, f64)> = of.iter().map(|(_, x, y)| (*x, *y)).collect();
        let titles: Vec<String> = of.iter().map(|(trial, ..)| format!("{} {word}", trial.id)).collect();
        plot.dots(&points, class, &titles);
        plot.end(*x, *y, word, class);
        words.push(format!("{word}: {}", by_iteration(&points)));
    }
    let says = format!("{}: {}.", sweep.scheduler(), words.join("; "));
    format!("<p>{}</p>\n{}", escape(&says), scrolled(&plot.svg(&says)))
}

/// How often something was decided, at which iterations.
fn by_iteration(points: &[(f64, f64)]) -> String {
    let mut at: Vec<(f64, usize)> = Vec::new();
    for (_, iteration) in points {
        match at.iter_mut().find(|(known, _)| known == iteration) {
            Some((_, times)) => *times += 1,
            None => at.push((*iteration, 1)),
        }
    }
    at.sort_by(|a, b| a.0.total_cmp(&b.0));
    if at.len() > 8 {
        let (low, high) = (at[0].0, at[at.len() - 1].0);
        return format!("{} between iterations {} and {}", points.len(), count(low), count(high));
    }
    let one = |(iteration, times): &(f64, usize)| format!("{times} at iteration {}", count(*iteration));
    at.iter().map(one).collect::<Vec<_>>().join(", ")
}

/// The table of the trials, the best first.
fn table(sweep: &RecordedSweep, axes: &[Axis]) -> String {
    let (x_of, _) = x_of(sweep);
    let reach = |trial: &Trial| trial.points.last().map(x_of).filter(|x| x.is_finite());
    let most = sweep.trials.iter().filter_map(reach).fold(0.0, f64::max);
    let sign = if sweep.is_cost { -1.0 } else { 1.0 };
    let worst = f64::NEG_INFINITY;
    let mut order: Vec<&Trial> = sweep.trials.iter().collect();
    let key = |trial: &Trial| trial.score().map_or(worst, |score| sign * score);
    order.sort_by(|a, b| key(b).total_cmp(&key(a)));
    let best = sweep.best().map(|best| sweep.trials[best].id.as_str());
    let mut out = String::from("<div class=\"wide\"><table class=\"sorts\"><thead><tr><th>trial</th>");
    for axis in axes {
        let _ = write!(out, "<th>{}</th>", escape(&axis.key));
    }
    out += "<th>score</th><th class=\"word\">how far</th><th class=\"word\">end</th></tr></thead><tbody>\n";
    for trial in order {
        out += if Some(trial.id.as_str()) == best { "<tr class=\"best\">" } else { "<tr>" };
        let _ = write!(out, "<td>{}</td>", escape(&trial.id));
        for axis in axes {
            out += &cell(trial.drawn.get(&axis.key));
        }
        let score = trial.score().map(Value::from);
        out += &cell(score.as_ref());
        match reach(trial) {
            Some(x) => {
                let width = if most > 0.0 { 120.0 * x / most } else { 0.0 };
                let shown = count(x);
                let _ = write!(
                    out,
                    "<td class=\"word\" data-v=\"{x}\"><span class=\"bar\" style=\"width:{width:.0}px\"></span>{shown}</td>"
                );
            }
            None => out += "<td class=\"word\" data-v=\"\"></td>",
        }
        let _ = writeln!(out, "<td class=\"word\">{}</td></tr>", escape(&ended(sweep, trial)));
    }
    out + "</tbody></table></div>\n"
}

/// The cell of a value; a number sorts as a number.
fn cell(found: Option<&Value>) -> String {
    match found {
        None | Some(Value::Null) => "<td data-v=\"\"></td>".into(),
        Some(found) => match found.as_f64() {
            Some(x) => {
                format!("<td data-v=\"{x}\">{}</td>", if x.abs() >= 1000.0 { count(x) } else { short(x) })
            }
            None => format!("<td>{}</td>", escape(&value(found))),
        },
    }
}

fn ended(sweep: &RecordedSweep, trial: &Trial) -> String {
    let error = || trial.error.as_deref().unwrap_or_default().lines().next().unwrap_or_default().to_owned();
    match trial.end {
        End::Running => "not ended".into(),
        End::Finished => "finished".into(),
        End::StoppedByScheduler => format!("stopped by {}", sweep.scheduler()),
        End::StoppedWithSweep => "stopped with the sweep".into(),
        End::Failed => format!("failed: {}", super::text::cut(&error(), 200)),
    }
}

fn about(sweep: &RecordedSweep) -> String {
    let mut items = vec![("pavlov", sweep.pavlov.clone()), ("trains", sweep.trainable.clone())];
    items.push((
        "metric",
        format!("{}, {} is best", sweep.metric, if sweep.is_cost { "lowest" } else { "highest" }),
    ));
    let elapsed =
        sweep.trials.iter().flat_map(|trial| &trial.decisions).map(|d| d.elapsed).fold(0.0, f64::max);
    if elapsed > 0.0 {
        items.push(("last decision", format!("after {}", seconds(elapsed))));
    }
    let mut out = String::new();
    if let Some(file) = &sweep.file {
        out += "<p class=\"muted\">The sweep's file, which `pavlov tune` takes:</p>\n";
        out += &command(&toml::to_string(file).unwrap_or_default());
    }
    out + &list(&items)
}
