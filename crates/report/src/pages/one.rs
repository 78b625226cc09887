//! The page of one run.

use serde_json::Value;

use super::episode::Episode;
use super::page::{Section, command, facts, fold, list, page, table};
use super::plot::{Frame, Plot, range, thinned};
use super::records::{in_words, last};
use super::run::{End, Run};
use super::small;
use super::text::{count, counted, escape, number, seconds, short, value};
use super::time::time;
use crate::doctor::{Finding, Sure};

/// Most points of a line.
pub(super) const MAX_POINTS: usize = 1000;

/// What the command knows of a run besides its files.
#[derive(Debug, Default)]
pub struct Known {
    /// Settings that differ from the algorithm's defaults; `None` if the algorithm is not known here.
    pub changed: Option<Vec<Changed>>,
    /// The command that trains the same run.
    pub again: Option<String>,
    /// Other commands for the run, each after what it does.
    pub commands: Vec<(&'static str, String)>,
    /// An episode of the trained policy, or why there is none.
    pub episode: Option<Result<Episode, String>>,
}

/// A setting that differs from its default.
#[derive(Debug)]
pub struct Changed {
    /// Dotted name of the setting.
    pub key: String,
    /// Its value in the run.
    pub here: Value,
    /// Its default; `None` if the defaults have no such setting.
    pub default: Option<Value>,
    /// What the setting means, in words.
    pub meaning: String,
}

/// Makes the page of a run.
pub fn of_run(run: &Run, known: &Known) -> String {
    let found = run.findings();
    let notes = |place: Place| match &found {
        Ok(all) => all.iter().filter(|finding| place_of(finding.rule) == place).map(note).collect::<String>(),
        Err(_) => String::new(),
    };
    let checked = match &found {
        Ok(all) if all.is_empty() => {
            "<p class=\"note ok\">The doctor found nothing that keeps this run from learning.</p>\n".into()
        }
        Ok(_) => String::new(),
        Err(reason) => {
            format!("<p class=\"note\">The doctor could not read the run: {}</p>\n", escape(reason))
        }
    };
    let sections = [
        Section {
            id: "learning".into(),
            heading: "Learning".into(),
            short: "Learning",
            content: notes(Place::Learning) + &learning(run, known),
        },
        Section {
            id: "inside".into(),
            heading: "Inside the updates".into(),
            short: "Inside",
            content: checked + &notes(Place::Inside) + &small::learners(run),
        },
        Section {
            id: "around".into(),
            heading: "Episodes and speed".into(),
            short: "Speed",
            content: small::around(run),
        },
        time(run),
        Section {
            id: "settings".into(),
            heading: "Settings".into(),
            short: "Settings",
            content: notes(Place::Settings) + &settings(run, known),
        },
        Section {
            id: "again".into(),
            heading: "Run it again".into(),
            short: "Run it again",
            content: again(run, known),
        },
    ];
    page(&run.title(), &head(run), &sections)
}

/// The section of the page beside which a finding stands.
#[derive(Clone, Copy, PartialEq)]
enum Place {
    Learning,
    Inside,
    Settings,
}

fn place_of(rule: &str) -> Place {
    match rule {
        "reward_never_changes"
        | "reward_scale"
        | "all_cut"
        | "none_ended"
        | "evaluation_far_from_training"
        | "exploration_never_ended"
        | "exploration_never_began"
        | "learning_never_began" => Place::Learning,
        "workers" | "updates" | "step_size_ended" | "observation_scales" => Place::Settings,
        _ => Place::Inside,
    }
}

/// A finding of the doctor as a note.
pub(super) fn note(finding: &Finding) -> String {
    let class = if finding.sure == Sure::Certain { "note certain" } else { "note" };
    format!("<p class=\"{class}\">{}</p>\n", escape(&finding.to_string()))
}

/// The sentence that says what came out.
pub(super) fn verdict(run: &Run) -> String {
    let records = &run.records;
    let steps = records.last("timesteps_total").map(|steps| format!("{} steps", count(steps)));
    let steps = steps.unwrap_or_else(|| counted(records.rows, "iteration"));
    let after = match records.last("time_total_s") {
        Some(time) => format!("after {steps} and {} of training", seconds(time)),
        None => format!("after {steps}"),
    };
    let Some(score) = run.score() else {
        return format!("No episode has ended {after}.");
    };
    let key = records.score_key();
    let evaluated = records.last("evaluation/episode_reward_mean").is_some();
    let greedy = run.config.get("evaluation_config").is_some_and(|c| c["explore"] == false);
    let kind = if greedy { "greedy episode" } else { "episode" };
    let of = match (evaluated, records.last("evaluation/episodes_this_iter")) {
        (true, Some(n)) => format!(" over {} of the last evaluation", counted(n as usize, kind)),
        (true, None) => " in the last evaluation".into(),
        (false, _) if key == "episode_reward_mean" => " over the last episodes of training".into(),
        (false, _) => " in the last result".into(),
    };
    let is_return = evaluated || key == "episode_reward_mean";
    let what = if is_return { "mean return".into() } else { in_words(&key) };
    let came = format!("{what} {}{of}", number(score));
    let ended = match run.end() {
        End::Finished => String::new(),
        End::Stopped => " It was stopped there and can go on.".into(),
        End::Unsaved => {
            " No checkpoint has its last results: it was killed and has not gone on, or it is still going."
                .into()
        }
    };
    match run.asked().filter(|_| is_return) {
        Some(asked) => {
            let solved = if score >= asked { "Solved" } else { "Not solved" };
            format!("{solved}: {came}, where {} counts as solved, {after}.{ended}", number(asked))
        }
        None => format!("{came}, {after}.{ended}", came = capital(&came)),
    }
}

/// A text with a capital letter at its beginning.
fn capital(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().into_iter().flat_map(char::to_uppercase).chain(letters).collect()
}

fn head(run: &Run) -> String {
    let records = &run.records;
    let mut about = vec![run.name.clone()];
    about.extend(records.date.as_ref().map(|date| format!("last result {}", date.replacen('_', " ", 1))));
    about.extend(run.config.get("seed").filter(|seed| !seed.is_null()).map(|seed| format!("seed {seed}")));
    if !records.restarts.is_empty() {
        about.push(format!("continued {}", counted(records.restarts.len(), "time")));
    }
    let mut notes = String::new();
    if records.damaged > 0 {
        let lines = counted(records.damaged, "line");
        notes +=
            &format!("<p class=\"note\">{lines} of result.json could not be read and are left out.</p>\n");
    }
    if let Some((row, key)) = &records.bad {
        let x = records.x();
        let (at, of) = (count(x.0.get(*row).copied().unwrap_or(f64::NAN)), x.1);
        notes += &format!(
            "<p class=\"note certain\">{} is no number any more at {at} {}; the plots have a red mark there.</p>\n",
            escape(key),
            escape(of)
        );
    }
    let about = about.join(" · ");
    format!(
        "<p class=\"lede\">{}</p>\n<p class=\"muted\">{}</p>\n{}{notes}",
        escape(&verdict(run)),
        escape(&about),
        facts(&figures(run))
    )
}

fn figures(run: &Run) -> Vec<(String, String)> {
    let records = &run.records;
    let mut figures = Vec::new();
    if let Some(score) = run.score() {
        let evaluated = records.last("evaluation/episode_reward_mean").is_some();
        let key = if evaluated { "evaluation/episode_reward_mean".into() } else { records.score_key() };
        figures.push((number(score), in_words(&key)));
    }
    let mut add = |key: &str, of: &str, show: fn(f64) -> String| {
        figures.extend(records.last(key).map(|x| (show(x), of.to_owned())));
    };
    add("timesteps_total", "steps of the environment", count);
    add("time_total_s", "training", seconds);
    if let (Some(steps), Some(time)) = (records.last("timesteps_total"), records.last("time_total_s"))
        && time > 0.0
    {
        figures.push((count(steps / time), "steps a second".into()));
    }
    let mut add = |key: &str, of: &str| {
        figures.extend(records.last(key).map(|x| (count(x), of.to_owned())));
    };
    add("episodes_total", "episodes");
    add("num_remote_worker_restarts", "workers begun again");
    figures
}

/// The learning curve on steps and on wall time, with evaluations, and the episode beside it.
fn learning(run: &Run, known: &Known) -> String {
    let records = &run.records;
    let (steps, x_name) = records.x();
    let frame = Frame::large(820.0, 340.0);
    let mut parts = vec![("on ".to_owned() + x_name, curve(run, &steps, x_name, frame))];
    if records.last("time_total_s").is_some() {
        parts.push((
            "on seconds of training".into(),
            curve(run, &records.wall(), "seconds of training", frame),
        ));
    }
    let parts: String = parts
        .into_iter()
        .map(|(name, svg)| format!("<div data-part=\"{}\">{svg}</div>\n", escape(&name)))
        .collect();
    let curves = format!("<div data-choice=\"x axis\">{parts}</div>\n");
    match &known.episode {
        None => curves,
        Some(Ok(episode)) => format!("<div class=\"split\">{curves}{}</div>\n", episode.html()),
        Some(Err(why)) => {
            format!("{curves}<p class=\"muted\">No episode is shown: {}</p>\n", escape(why))
        }
    }
}

/// The curve of training with its evaluations.
pub(super) fn curve(run: &Run, xs: &[f64], x_name: &str, frame: Frame) -> String {
    let records = &run.records;
    let key = records.score_key();
    let score = records.column(&key);
    let evaluated = records.column("evaluation/episode_reward_mean");
    let policies: Vec<(&String, &[f64])> = records.policies.iter().collect();
    let policies = if policies.len() > 1 && key == "episode_reward_mean" { policies } else { Vec::new() };
    let asked = run.asked().filter(|_| key == "episode_reward_mean");
    let measured: Vec<f64> =
        policies.iter().flat_map(|(_, ys)| ys.iter()).chain(&score).chain(&evaluated).copied().collect();
    let shown = range(&measured).and_then(|_| range(measured.iter().chain(&asked)));
    let (Some(x), Some(y)) = (range(xs), shown) else {
        return "<p class=\"muted\">No episode has ended, so there is no curve yet.</p>".into();
    };
    let mut plot = Plot::new(frame, (x.0.min(0.0), x.1), y, x_name, &in_words(&key));
    if let Some(asked) = asked {
        plot.rule(asked, &format!("solved: {}", number(asked)));
    }
    for row in &records.restarts {
        plot.mark(xs[*row], "start", "a process continued the run here");
    }
    if let Some((row, key)) = &records.bad {
        plot.mark(xs[*row], "bad", &format!("{key} is no number any more"));
    }
    let name = if key == "episode_reward_mean" { "training" } else { key.as_str() };
    plot.line(&thinned(xs, &score, MAX_POINTS), "a", Some(name));
    for (i, (policy, ys)) in policies.iter().enumerate() {
        let class = format!("{} dash", super::plot::COLOURS[(i + 2) % super::plot::COLOURS.len()]);
        plot.line(&thinned(xs, ys, MAX_POINTS), &class, Some(policy));
    }
    let played = records.column("evaluation/episodes_this_iter");
    let mut points = Vec::new();
    let mut titles = Vec::new();
    for (i, y) in evaluated.iter().enumerate().filter(|(_, y)| y.is_finite()) {
        points.push((xs[i], *y));
        let over = if played[i].is_finite() {
            format!(" over {} episodes", count(played[i]))
        } else {
            String::new()
        };
        titles.push(format!("evaluation: {}{over} at {} {x_name}", number(*y), count(xs[i])));
    }
    if points.len() > MAX_POINTS {
        plot.line(&thinned(xs, &evaluated, MAX_POINTS), "b", Some("evaluation"));
    } else if let Some((x, y)) = points.last().copied() {
        plot.dots(&points, "b", &titles);
        plot.end(x, y, "evaluation", "b");
    }
    let first = score.iter().copied().find(|y| y.is_finite());
    let from = first.zip(last(&score)).map(|(first, last)| {
        format!(
            "{} goes from {} to {} over {} {x_name}.",
            in_words(&key),
            number(first),
            number(last),
            short(x.1)
        )
    });
    let tests = last(&evaluated).map(|y| format!(" The last evaluation is {}.", number(y)));
    plot.svg(&(from.unwrap_or_default() + &tests.unwrap_or_default()))
}

fn settings(run: &Run, known: &Known) -> String {
    let name = run.algorithm.as_deref().unwrap_or("the algorithm");
    let changed = match &known.changed {
        None => "<p class=\"muted\">This program does not know the algorithm, and so not its defaults.</p>\n"
            .into(),
        Some(changed) if changed.is_empty() => {
            format!("<p>Every setting is the default of {}.</p>\n", escape(name))
        }
        Some(changed) => {
            let head = format!("differs from {name}'s defaults");
            let row = |c: &Changed| {
                let default = c.default.as_ref().map(value).unwrap_or_default();
                vec![c.key.clone(), value(&c.here), default, c.meaning.clone()]
            };
            table(&[&head, "here", "default", "meaning"], &changed.iter().map(row).collect::<Vec<_>>())
        }
    };
    if run.config.is_empty() {
        return changed;
    }
    let all = serde_json::to_string_pretty(&run.config).unwrap_or_default();
    changed + &fold(&format!("all {}", counted(run.config.len(), "setting")), &command(&all))
}

fn again(run: &Run, known: &Known) -> String {
    let records = &run.records;
    let mut out = known.again.as_deref().map(command).unwrap_or_default();
    for (what, line) in &known.commands {
        out += &format!("<p class=\"muted\">{}</p>\n{}", escape(what), command(line));
    }
    let mut items = vec![("directory", run.dir.display().to_string())];
    items.extend(run.pavlov.clone().map(|version| ("pavlov", version)));
    items.extend(records.engine.clone().map(|engine| ("engine", engine)));
    items.extend(records.hostname.clone().map(|name| ("machine", name)));
    if !run.stop.is_empty() {
        let stop = |(key, limit): (&String, &Value)| {
            format!("{key} {}", limit.as_f64().map_or_else(|| value(limit), number))
        };
        items.push(("stops at", run.stop.iter().map(stop).collect::<Vec<_>>().join(", ")));
    }
    if let Some(newest) = &run.newest {
        items.push(("newest checkpoint", format!("iteration {}, {}", newest.iteration, newest.created)));
        items.extend(newest.hash.clone().map(|hash| ("its SHA-256", hash)));
    }
    out + &list(&items)
}
