//! `pavlov report`: one page about a run, several runs or a sweep.

use std::fs;
use std::io::ErrorKind;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use clap::Args;
use serde_json::Value;

use super::evaluate::for_acting;
use super::exit::usage;
use super::explain::first_sentence;
use super::leaves::leaves;
use super::output::{print, program, quoted, say};
use super::trust;
use crate::registry;
use crate::tune::config::parse_assignment;
use crate::tune::{Config, Error, LoggerChoice, RunOptions, checkpoint, replace_file};
use pavlov_report::{self as report, Changed, Episode, Known, RecordedSweep, Run};
use pavlov_serve::{PageServer, Source};

/// Most frames of the episode on the page.
const MAX_FRAMES: usize = report::MAX_FRAMES;

/// Make a page about a run, several runs or a sweep
#[derive(Args, Debug)]
#[command(
    after_help = "Example:\n  pavlov report runs/first\n  pavlov report runs/seed* --out seeds.html\n  \
                        pavlov report runs/sweep --out sweep.html\n  pavlov report runs/first --serve 127.0.0.1:8080\n\n\
                        The page is one file that needs no network. Nothing is written but the page. Runs that differ \
                        in their seed alone are one group; groups are compared."
)]
pub(super) struct ReportArgs {
    /// A run directory or a sweep's directory; several run directories are compared
    #[arg(value_name = "RUN", required = true)]
    places: Vec<PathBuf>,
    /// The page to write
    #[arg(long, value_name = "FILE.html", default_value = "report.html")]
    out: PathBuf,
    /// Show the page in a browser at this address of this machine, made anew when the files change, in place of writing it;
    /// with port 0 the system chooses one
    #[arg(long, value_name = "IP:PORT", conflicts_with = "out")]
    serve: Option<SocketAddr>,
}

pub(super) fn report(args: &ReportArgs) -> anyhow::Result<()> {
    if let Some(addr) = args.serve {
        return serve(addr, &args.places);
    }
    refuse_unwritable("--out", &args.out)?;
    let bytes = write(&args.places, &args.out)?;
    print(&format!("report: {} ({} kB)", args.out.display(), bytes.div_ceil(1000))).map(drop)
}

/// Serves the page about what lies in the directories until a signal.
fn serve(addr: SocketAddr, places: &[PathBuf]) -> anyhow::Result<()> {
    // What is wrong with the directories is told as bad input.
    page(places)?;
    let (stamped, made) = (places.to_vec(), places.to_vec());
    let source = Source {
        stamp: Box::new(move || stamp(&stamped)),
        make: Box::new(move || page(&made).map_err(|error| format!("{error:#}"))),
    };
    let server = PageServer::bind(addr, source, say).map_err(|error| match error.kind() {
        ErrorKind::InvalidInput => usage(error.to_string()),
        _ => error.into(),
    })?;
    print(&format!("the page is at http://{}; Ctrl-C ends", server.local_addr()))?;
    Ok(server.run()?)
}

/// Differs whenever a file of the directories has changed that a page is made of.
fn stamp(places: &[PathBuf]) -> String {
    let inner = |place: &PathBuf| {
        let entries = fs::read_dir(place).into_iter().flatten().flatten().map(|entry| entry.path());
        entries.filter(|path| path.is_dir()).collect::<Vec<_>>()
    };
    let mut dirs = places.to_vec();
    dirs.extend(places.iter().flat_map(inner));
    dirs.sort();
    let mut all = String::new();
    for path in dirs.iter().flat_map(|dir| {
        ["", "result.json", "run.json", "params.json", "journal.jsonl", "sweep.toml"]
            .map(|name| dir.join(name))
    }) {
        if let Ok(metadata) = path.metadata() {
            all += &format!("{} {} {:?}\n", path.display(), metadata.len(), metadata.modified().ok());
        }
    }
    all
}

/// Writes the page about what lies in the directories, and returns its size in bytes.
pub(super) fn write(places: &[PathBuf], out: &Path) -> anyhow::Result<usize> {
    let page = page(places)?;
    replace_file(out, page.as_bytes())?;
    Ok(page.len())
}

/// Makes the page about what lies in the directories.
pub(super) fn page(places: &[PathBuf]) -> anyhow::Result<String> {
    for place in places {
        refuse_no_dir(place)?;
    }
    if let Some(place) = places.iter().find(|place| is_sweep(place)) {
        if places.len() > 1 {
            let shown = place.display();
            return Err(usage(format!(
                "{shown} is a sweep, and a sweep has a page of its own: give it alone"
            )));
        }
        let sweep = RecordedSweep::read(place)?;
        let best = sweep.best_dir().and_then(|dir| Run::read(&dir).ok());
        let again = best.as_ref().and_then(|run| again(run, &changed(run)?));
        return Ok(report::of_sweep(&sweep, again.as_deref()));
    }
    let mut dirs = Vec::new();
    for place in places {
        dirs.extend(runs_in(place)?);
    }
    let runs = dirs.iter().map(|dir| Run::read(dir)).collect::<Result<Vec<Run>, Error>>()?;
    match runs.as_slice() {
        [run] => Ok(report::of_run(run, &known(run))),
        runs => {
            let commands: Vec<_> = runs.iter().map(|run| again(run, &changed(run)?)).collect();
            Ok(report::of_runs(runs, &commands))
        }
    }
}

/// Refuses what is no directory.
pub(super) fn refuse_no_dir(place: &Path) -> anyhow::Result<()> {
    if place.is_dir() {
        return Ok(());
    }
    let shown = place.display();
    Err(usage(format!("{shown}: there is no such directory; give the run directory of `pavlov train`")))
}

pub(super) fn is_sweep(place: &Path) -> bool {
    place.join("journal.jsonl").is_file()
}

/// The directories with results in `place`: the run itself, or the runs in the folder.
pub(super) fn runs_in(place: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let has_results = |dir: &Path| dir.join("result.json").is_file();
    if has_results(place) {
        return Ok(vec![place.into()]);
    }
    let inner = fs::read_dir(place).map_err(Error::io("list", place))?.flatten().map(|entry| entry.path());
    let mut inner: Vec<PathBuf> = inner.filter(|dir| has_results(dir)).collect();
    inner.sort();
    if inner.is_empty() {
        return Err(usage(format!(
            "{}: it has no result.json, so there is no run to report",
            place.display()
        )));
    }
    Ok(inner)
}

/// Refuses a file that cannot become a page; `option` names it.
pub(super) fn refuse_unwritable(option: &str, out: &Path) -> anyhow::Result<()> {
    let shown = out.display();
    let ends = |end: &str| out.extension().is_some_and(|extension| extension.eq_ignore_ascii_case(end));
    if !ends("html") && !ends("htm") {
        return Err(usage(format!(
            "{option} is {shown}, but its name must end in .html, because it is a page"
        )));
    }
    match out.parent() {
        Some(dir) if !dir.as_os_str().is_empty() && !dir.is_dir() => {
            Err(usage(format!("{option} is {shown}, but there is no directory {}", dir.display())))
        }
        _ => Ok(()),
    }
}

/// What is known of a run besides its files.
fn known(run: &Run) -> Known {
    let changed = changed(run);
    let again = changed.as_ref().and_then(|changed| again(run, changed));
    let mut commands = Vec::new();
    if run.newest.is_some() {
        let (program, dir) = (program(), quoted(run.dir()));
        commands.push(("Play episodes with its policy:", format!("{program} evaluate {dir} --episodes 20")));
        if run.stop.contains_key("timesteps_total") {
            commands.push(("Train it further:", format!("{program} resume {dir} --stop timesteps_total=N")));
        }
    }
    let episode = run.newest.as_ref().and_then(|newest| episode(&newest.path).transpose());
    Known { changed, again, commands, episode }
}

/// The settings of the run that differ from its algorithm's defaults; `None` if the algorithm is not known.
fn changed(run: &Run) -> Option<Vec<Changed>> {
    let entry = registry::algorithm(run.algorithm.as_deref()?).ok()?;
    let defaults = entry.default_config().ok()?;
    let defaults = leaves(&defaults, "");
    let differs = |(key, here): (String, &Value)| {
        let default = defaults.iter().find(|(known, _)| *known == key).map(|(_, value)| *value);
        if default.is_some_and(|default| is_same(default, here)) {
            return None;
        }
        Some(Changed {
            meaning: first_sentence(entry.name(), &key),
            here: here.clone(),
            default: default.cloned(),
            key,
        })
    };
    Some(leaves(&run.config, "").into_iter().filter_map(differs).collect())
}

/// Whether two settings are equal; 1 and 1.0 are.
fn is_same(a: &Value, b: &Value) -> bool {
    match (a.as_f64(), b.as_f64()) {
        (Some(a), Some(b)) => a == b,
        _ => a == b,
    }
}

/// The command that trains the run again; `None` if its environment is not known.
fn again(run: &Run, changed: &[Changed]) -> Option<String> {
    let mut words = vec![program(), "train".into(), quoted(run.algorithm.as_ref()?), "--env".into()];
    words.push(quoted(run.env.as_ref()?));
    let mut beside = Vec::new();
    for Changed { key, here, .. } in changed {
        match (key.as_str(), assignment(key, here)) {
            ("seed", Some(_)) => words.extend(["--seed".into(), here.to_string()]),
            (_, Some(assignment)) => words.extend(["--set".into(), quoted(assignment)]),
            (_, None) => beside.push(format!("\n# and in a file for --config: {key} = {here}")),
        }
    }
    for (key, limit) in &run.stop {
        let whole = limit.as_f64().filter(|x| x.fract() == 0.0 && x.abs() < 1e15);
        let limit = &whole.map_or_else(|| limit.clone(), |x| (x as i64).into());
        words.extend(["--stop".into(), quoted(assignment(key, limit)?)]);
    }
    Some(words.join(" ") + &beside.concat())
}

/// An assignment that is read as this value; `None` if there is none, as for an object in a list.
fn assignment(key: &str, value: &Value) -> Option<String> {
    let plain = value.as_str().map(str::to_owned);
    let texts = plain.into_iter().chain([value.to_string()]);
    let reads_so = |text: &String| {
        parse_assignment(&format!("{key}={text}"))
            .is_ok_and(|(path, read)| path.join(".") == key && read == *value)
    };
    texts.filter(|text| !text.contains('\n')).find(reads_so).map(|text| format!("{key}={text}"))
}

/// Plays an episode with the policy of a checkpoint. `None` if the environment draws no pictures. An environment of another
/// program is not run, and a setting that opens a path is not followed: a run may come from anyone.
fn episode(path: &Path) -> Result<Option<Episode>, String> {
    let words = |error: &dyn std::fmt::Display| error.to_string();
    let metadata = checkpoint::metadata(path).map_err(|error| words(&error))?;
    let named = trust::named(&metadata.config);
    let (env, config): (String, Config) = for_acting(metadata.config, path).map_err(|error| words(&error))?;
    if env.contains(':') {
        return Err("the environment belongs to another program, and a report runs none".into());
    }
    if let Some(named) = named.first() {
        return Err(format!("the settings would {named}, and a report does not"));
    }
    let kind = checkpoint::verify(path, None).map_err(|error| words(&error))?.kind;
    let entry = registry::algorithm(&kind).map_err(|error| words(&error))?;
    let options = RunOptions { loggers: LoggerChoice::None, ..RunOptions::default() };
    let played = entry.build(env.as_str().into(), config, options).and_then(|mut driver| {
        driver.restore_policies(path)?;
        driver.play(1, 0, false, MAX_FRAMES)
    });
    let played = played.map_err(|error| words(&error))?;
    match played.episodes.first() {
        Some(first) if !played.frames.is_empty() => {
            report::record(&played.frames, played.render_fps, first.length, first.total_reward).map(Some)
        }
        _ => Ok(None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn an_assignment_is_read_as_the_value_it_was_made_of() {
        let of = |value: Value| assignment("a.b", &value);
        assert_eq!(of(json!("relu")), Some("a.b=relu".into()));
        assert_eq!(of(json!("1e3")), Some("a.b=\"1e3\"".into()));
        assert_eq!(of(json!([[0, 0.001], [5e4, 0.0]])), Some("a.b=[[0,0.001],[50000.0,0.0]]".into()));
        assert_eq!(of(json!(null)), Some("a.b=null".into()));
        assert_eq!(of(json!([{"type": "x"}])), Some("a.b=[{\"type\":\"x\"}]".into()));
    }
}
