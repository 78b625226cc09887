//! A plot of the page as a picture of its own, for papers: sizes, colours and fonts stand in the picture itself.

use std::fmt::Write;

use super::compare::groups_curve;
use super::one;
use super::plot::{Frame, Plot, range, thinned};
use super::records::{Records, in_words, last};
use super::run::Run;
use super::small::{WORDS, of_values};
use super::sweep::RecordedSweep;
use super::sweep_page;
use super::text::{counted, number};

/// What a picture shows.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Shown {
    /// A number over the steps of training: of one run, of groups of runs with bands, or of the trials of a sweep.
    Curve,
    /// A small plot of each loss of one run.
    Losses,
    /// A small plot of each statistic of one run.
    Statistics,
}

/// Height of the picture of a curve, as a share of its width.
const HEIGHT: f64 = 0.48;
/// Maximum number of points of a line.
const POINTS: usize = 1000;
/// Room at the left and at the right of the plots. The label of an axis may be wider than the border of its plot.
const SIDES: (f64, f64) = (14.0, 6.0);
/// Room above the plots, and below them.
const ABOVE: f64 = 6.0;
/// Room between two small plots.
const GAP: f64 = 16.0;
/// Fonts, the first of which is there counts.
pub const FONTS: &str = "DejaVu Sans, Helvetica, Arial, sans-serif";
/// Colours of the page on light paper.
const INK: &str = "#1b1c1e";
const MUTED: &str = "#63676e";
const GRID: &str = "#e3e5e9";
const BAD: &str = "#b3261e";
const COLOURS: [(&str, &str); 7] = [
    ("a", "#0072b2"),
    ("b", "#d55e00"),
    ("c", "#009e73"),
    ("d", "#b8578f"),
    ("e", "#a67c00"),
    ("f", "#3d9bd1"),
    ("g", "#6b6f76"),
];

/// Draws runs; `width` is that of the picture in pixels. The error says what cannot be drawn and what can.
pub fn of_runs(runs: &[Run], shown: Shown, metric: Option<&str>, width: f64) -> Result<String, String> {
    if let (Some(metric), Shown::Losses | Shown::Statistics) = (metric, shown) {
        return Err(format!(
            "--metric {metric} belongs to the plot `curve`: leave one of the two options out"
        ));
    }
    let width = width - SIDES.0 - SIDES.1;
    match (shown, runs) {
        (Shown::Curve, [run]) => one_curve(run, metric, width),
        (Shown::Curve, runs) => curves(runs, metric, width),
        (_, [run]) => small_plots(run, shown, width),
        _ => Err("small plots are of one run: give one run directory, or --plot curve".into()),
    }
}

/// Draws the trials of a sweep.
pub fn of_sweep(
    sweep: &RecordedSweep,
    shown: Shown,
    metric: Option<&str>,
    width: f64,
) -> Result<String, String> {
    let dir = sweep.best_dir().map_or_else(|| "DIR/TRIAL".into(), |dir| dir.display().to_string());
    if shown != Shown::Curve {
        return Err(format!("small plots are of one run: give the directory of a trial, such as {dir}"));
    }
    if let Some(metric) = metric.filter(|metric| *metric != sweep.metric) {
        return Err(format!(
            "--metric is {metric}, but a sweep's plot has the sweep's own metric, {}: leave --metric out, or give the \
             directory of a trial, such as {dir}",
            sweep.metric
        ));
    }
    let width = width - SIDES.0 - SIDES.1;
    let svg = sweep_page::curves(sweep, frame(width, "best"));
    whole(&svg, width, (width * HEIGHT).round())
}

/// The frame of a curve, with room for the longest name at the end of a line.
fn frame(width: f64, longest: &str) -> Frame {
    let room = 16.0 + 7.2 * longest.chars().count() as f64;
    Frame::large(width, (width * HEIGHT).round()).with_names(room.min(width / 2.0))
}

fn one_curve(run: &Run, metric: Option<&str>, width: f64) -> Result<String, String> {
    let (xs, x_name) = run.records.x();
    let Some(metric) = metric else {
        let svg = one::curve(run, &xs, x_name, frame(width, "solved: 1000.5"));
        return whole(&svg, width, (width * HEIGHT).round());
    };
    let ys = values(&run.records, metric)?;
    let (Some(x), Some(y), Some(now)) = (range(&xs), range(&ys), last(&ys)) else {
        return Err(format!("{metric} has no number yet"));
    };
    let name = in_words(metric);
    let mut plot = Plot::new(frame(width, ""), (x.0.min(0.0), x.1), y, x_name, &name);
    plot.line(&thinned(&xs, &ys, POINTS), "a", None);
    let svg = plot.svg(&format!("{name} over {x_name}, {} at last.", number(now)));
    whole(&svg, width, (width * HEIGHT).round())
}

fn curves(runs: &[Run], metric: Option<&str>, width: f64) -> Result<String, String> {
    let mut tasks: Vec<&str> = runs.iter().filter_map(|run| run.env.as_deref()).collect();
    tasks.sort_unstable();
    tasks.dedup();
    if tasks.len() > 1 {
        return Err(format!(
            "the runs have {} environments ({}), whose scales differ: plot the runs of each alone",
            tasks.len(),
            tasks.join(", ")
        ));
    }
    if let Some(metric) = metric {
        // A name that no run has is a mistake; one that some runs lack is not.
        let found: Vec<_> = runs.iter().map(|run| values(&run.records, metric)).collect();
        if found.iter().all(Result::is_err) {
            return found.into_iter().next().unwrap_or(Ok(Vec::new())).map(|_| String::new());
        }
    }
    let svg = groups_curve(runs, metric, |longest| frame(width, longest));
    whole(&svg, width, (width * HEIGHT).round())
}

/// The values of a number by its name, or an error with names that there are.
fn values(records: &Records, key: &str) -> Result<Vec<f64>, String> {
    records.values(key).ok_or_else(|| {
        let names = records.names();
        let shown: Vec<&str> = names.iter().map(String::as_str).take(40).collect();
        let more = if names.len() > shown.len() { ", .." } else { "" };
        format!(
            "--metric is {key}, but the results have no number of this name; they have {}{more}",
            shown.join(", ")
        )
    })
}

/// Small plots side by side.
fn small_plots(run: &Run, shown: Shown, width: f64) -> Result<String, String> {
    let is_one = run.records.learners.len() == 1;
    let mut plots = Vec::new();
    for (policy, columns) in &run.records.learners {
        let named = |name: &str| if is_one { name.to_owned() } else { format!("{policy}: {name}") };
        let known = |key: &str| WORDS.iter().find(|(known, _)| *known == key).map(|(_, name)| *name);
        let first = WORDS.iter().filter_map(|(key, _)| Some((*key, columns.get(key)?)));
        let others = columns.iter().filter(|(key, _)| known(key).is_none());
        for (key, ys) in first.chain(others.map(|(key, ys)| (key.as_str(), ys))) {
            if shown == Shown::Statistics || key.contains("loss") {
                plots.extend(of_values(run, &named(known(key).unwrap_or(key)), ys));
            }
        }
    }
    if plots.is_empty() {
        let what = if shown == Shown::Losses { "loss" } else { "statistic" };
        return Err(format!("the results have no {what} yet; `--plot curve` shows returns"));
    }
    let (plot_width, plot_height) = Frame::small().size();
    let columns = (((width + GAP) / (plot_width + GAP)).floor() as usize).clamp(1, plots.len());
    // The small plots grow until they fill the width.
    let scale = ((width + GAP) / columns as f64 - GAP) / plot_width;
    let rows = plots.len().div_ceil(columns);
    let row = plot_height * scale + GAP;
    let mut body = String::new();
    for (i, svg) in plots.iter().enumerate() {
        let (x, y) = ((i % columns) as f64 * (plot_width * scale + GAP), (i / columns) as f64 * row);
        let _ =
            write!(body, "<g transform=\"translate({x:.1} {y:.1}) scale({scale:.4})\">{}</g>", inner(svg)?);
    }
    let says = format!("{} of {}", counted(plots.len(), "plot"), run.title());
    Ok(picture(&body, width, (rows as f64 * row - GAP).ceil(), &says))
}

/// A plot of the page as a picture of its own. What is no plot says why there is none.
fn whole(svg: &str, width: f64, height: f64) -> Result<String, String> {
    let says = svg.split("aria-label=\"").nth(1).and_then(|rest| rest.split('"').next()).unwrap_or_default();
    Ok(picture(&inner(svg)?, width, height, says))
}

/// What stands within the outermost element, with its looks.
fn inner(svg: &str) -> Result<String, String> {
    let within = || svg.trim().strip_prefix("<svg ")?.split_once('>')?.1.strip_suffix("</svg>");
    let within = within().ok_or("there is no number to draw yet")?;
    Ok(dressed(within))
}

/// Puts what is drawn on white paper with room around it; `says` is escaped already.
fn picture(body: &str, width: f64, height: f64, says: &str) -> String {
    let (left, right) = SIDES;
    let (width, height) = (width + left + right, height + 2.0 * ABOVE);
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" viewBox=\"0 0 {width} {height}\" \
         font-family=\"{FONTS}\" font-size=\"12\">\n<title>{says}</title>\n<rect width=\"{width}\" height=\"{height}\" \
         fill=\"#ffffff\"/>\n<g transform=\"translate({left} {ABOVE})\">\n{body}\n</g>\n</svg>\n"
    )
}

/// Puts the looks of each element in place of its classes. The elements are those of `plot.rs`, whose texts are escaped.
fn dressed(svg: &str) -> String {
    let mut out = String::with_capacity(svg.len() * 2);
    let mut parts = svg.split(" class=\"");
    out.push_str(parts.next().unwrap_or_default());
    for part in parts {
        let (classes, rest) = part.split_once('"').unwrap_or((part, ""));
        let is_path = out.ends_with("<path");
        out.push_str(&looks(classes, is_path));
        out.push_str(rest);
    }
    // The name of a line is for the page's script.
    for attribute in [" data-name=\"", " data-of=\""] {
        let mut kept = String::with_capacity(out.len());
        let mut parts = out.split(attribute);
        kept.push_str(parts.next().unwrap_or_default());
        parts.for_each(|part| kept.push_str(part.split_once('"').map_or("", |(_, rest)| rest)));
        out = kept;
    }
    out
}

/// The attributes that a page's style gives to these classes.
fn looks(classes: &str, is_path: bool) -> String {
    let words: Vec<&str> = classes.split(' ').collect();
    let has = |word: &str| words.contains(&word);
    let colour = COLOURS.iter().find(|(name, _)| has(name)).map_or(MUTED, |(_, colour)| *colour);
    if has("grid") {
        return format!(" stroke=\"{GRID}\" fill=\"none\"");
    }
    if has("rule") {
        return format!(" stroke=\"{MUTED}\" stroke-dasharray=\"3 4\" fill=\"none\"");
    }
    if has("mark") && has("bad") {
        return format!(" stroke=\"{BAD}\" stroke-width=\"3\" fill=\"none\"");
    }
    if has("mark") {
        return format!(" stroke=\"{MUTED}\" stroke-dasharray=\"2 3\" fill=\"none\"");
    }
    if has("band") {
        return format!(" fill=\"{colour}\" fill-opacity=\"0.17\" stroke=\"none\"");
    }
    if is_path {
        let dash = if has("dash") { " stroke-dasharray=\"7 4\"" } else { "" };
        let (wide, opacity) = if has("thin") { ("1", " stroke-opacity=\"0.35\"") } else { ("2", "") };
        return format!(
            " fill=\"none\" stroke=\"{colour}\" stroke-width=\"{wide}\" stroke-linejoin=\"round\"{opacity}{dash}"
        );
    }
    match words.first() {
        Some(&"name") => format!(" fill=\"{INK}\""),
        Some(&"end") => format!(" fill=\"{colour}\" font-weight=\"600\""),
        _ => format!(" fill=\"{colour}\""),
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{result, write};
    use super::super::text::escape;
    use super::*;
    use serde_json::{Value, json};
    use tempfile::TempDir;

    fn run(results: &[Value]) -> Run {
        let dir = TempDir::new().unwrap();
        write(dir.path(), results);
        Run::read(dir.path()).unwrap()
    }

    /// Fails if the picture needs the page's style or anything else from outside.
    fn check(svg: &str) {
        assert!(svg.starts_with("<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"600\" "), "{svg}");
        for outside in ["class=", "data-", "var(", "href", "<style", "NaN", "inf"] {
            assert!(!svg.contains(outside), "{outside} is in {svg}");
        }
        assert_eq!(svg.matches("<svg").count(), 1);
        assert_eq!(svg.matches("</svg>").count(), 1);
    }

    #[test]
    fn the_curve_of_a_run_has_its_colours_and_its_sentence_in_it() {
        let svg = of_runs(&[run(&[result(1), result(2)])], Shown::Curve, None, 600.0).unwrap();
        check(&svg);
        assert!(
            svg.contains("height=\"290\"") && svg.contains("stroke=\"#0072b2\" stroke-width=\"2\""),
            "{svg}"
        );
        assert!(svg.contains("<title>mean return of an episode goes from 10 to 20"), "{svg}");
        assert!(
            svg.contains(">training</text>") && svg.contains(">mean return of an episode</text>"),
            "{svg}"
        );
    }

    #[test]
    fn another_number_is_found_by_its_name_and_an_unknown_one_lists_the_others() {
        let one = run(&[result(1), result(2)]);
        for (name, at_last) in [("kl", "0.02"), ("default_policy/kl", "0.02"), ("episode_len_mean", "20")] {
            let svg = of_runs(std::slice::from_ref(&one), Shown::Curve, Some(name), 600.0).unwrap();
            check(&svg);
            assert!(svg.contains(&format!("{at_last} at last.")), "{svg}");
        }
        let refused = of_runs(&[one], Shown::Curve, Some("k"), 600.0).unwrap_err();
        assert!(refused.contains("--metric is k, but") && refused.contains("default_policy/kl"), "{refused}");
    }

    #[test]
    fn runs_that_differ_in_their_seed_are_a_line_with_a_band() {
        let mut other = [result(1), result(2)];
        for result in &mut other {
            result["config"]["seed"] = 1.into();
            result["episode_reward_mean"] = json!(99.0);
        }
        let runs = [run(&[result(1), result(2)]), run(&other)];
        for metric in [None, Some("kl")] {
            let svg = of_runs(&runs, Shown::Curve, metric, 600.0).unwrap();
            check(&svg);
            assert!(svg.contains("fill-opacity=\"0.17\"") && svg.contains(">all runs</text>"), "{svg}");
        }
        assert!(of_runs(&runs, Shown::Losses, None, 600.0).unwrap_err().contains("give one run directory"));
    }

    #[test]
    fn small_plots_stand_side_by_side_and_losses_are_those_of_that_name() {
        let mut with_losses = result(1);
        with_losses["info"]["learner"]["default_policy"]["learner_stats"] =
            json!({"kl": 0.1, "vf_loss": 2.0, "policy_loss": 3.0});
        let one = [run(&[with_losses])];
        let losses = of_runs(&one, Shown::Losses, None, 600.0).unwrap();
        check(&losses);
        assert_eq!(losses.matches("<g transform").count(), 3);
        assert!(losses.contains("value loss, now 2") && !losses.contains("KL"), "{losses}");
        let all = of_runs(&one, Shown::Statistics, None, 600.0).unwrap();
        check(&all);
        assert_eq!(all.matches("<g transform").count(), 4);
        let none = of_runs(&[run(&[])], Shown::Losses, None, 600.0).unwrap_err();
        assert!(none.contains("no loss yet"), "{none}");
    }

    #[test]
    fn texts_of_a_stranger_stay_texts() {
        let strange = "\"></text></svg><script>x</script> class=\"a\" data-name=\"b\"";
        let mut one = result(1);
        one["info"]["learner"]["default_policy"]["learner_stats"] = json!({format!("loss {strange}"): 1.0});
        let svg = of_runs(&[run(&[one])], Shown::Losses, None, 600.0).unwrap();
        assert!(svg.contains(&escape(strange)) && !svg.contains("<script"), "{svg}");
        assert_eq!(svg.matches("</svg>").count(), 1);
    }

    #[test]
    fn a_run_without_a_number_has_no_picture() {
        let refused = of_runs(&[run(&[])], Shown::Curve, None, 600.0).unwrap_err();
        assert_eq!(refused, "there is no number to draw yet");
    }
}
