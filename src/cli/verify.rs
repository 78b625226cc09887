//! `pavlov verify`: trains parts of a run again and compares the results with what the run has published: checkpoints, rows,
//! settings, and what was made of them.

mod made;
mod rows;
mod settings;

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::bail;
use clap::Args;

use super::exit::usage;
use super::output::{print, say, visible};
use super::run_dir::RunFile;
use super::state_difference::difference;
use super::trust::{self, TrustArgs};
use crate::envs::{EnvCopies, EnvCreator, Finding, examine_multi_agent_env, examine_vector_env};
use crate::load::is_pack;
use crate::registry::{self, AlgorithmEntry};
use crate::trainer::rng::Stream;
use crate::tune::{Config, LoggerChoice, Metrics, RunOptions, checkpoint};
use rows::Rows;
use settings::Settings;

/// Train parts of a run again and compare every number with what the run has published
#[derive(Args, Debug)]
#[command(after_help = "Example:\n  pavlov verify runs/first --intervals 5\n  \
                        pavlov verify runs/first pole.pavlov report.html --all\n\n\
                        An interval goes from one checkpoint to the next: `pavlov train --checkpoint-freq N` makes them. \
                        The last interval is always among those that are trained again. Weights, optimizers, buffers, \
                        filters, random streams, environments and settings must be equal bit for bit, and every number of \
                        the rows of result.json, evaluations included. Other rows are compared with the copies that \
                        checkpoints hold. run.json and params.json must have the settings of the checkpoints, progress.csv \
                        the numbers of result.json. Times, the machine and the counts of failed workers are not compared.\n\
                        Exit code 1: something differs.")]
pub(super) struct VerifyArgs {
    /// The run directory that `pavlov train` named at its end, or the directory of a sweep's trial
    #[arg(value_name = "DIR")]
    run_dir: PathBuf,
    /// What was made of the run: packed models (.pavlov), whose card says numbers, and pages of `pavlov report` (.html)
    #[arg(value_name = "FILE")]
    made: Vec<PathBuf>,
    /// Number of intervals to train again besides the last one
    #[arg(long, value_name = "K", default_value_t = 1)]
    intervals: usize,
    /// Train everything again, from the beginning to the last row
    #[arg(long, conflicts_with = "intervals")]
    all: bool,
    /// Seed of the choice of intervals
    #[arg(long, value_name = "N", default_value_t = 0)]
    seed: u64,
    #[command(flatten)]
    trust: TrustArgs,
}

/// From one checkpoint of a run to the one that was written after it.
struct Interval {
    /// The checkpoint that training starts from. `None`: the beginning of the run.
    from: Option<PathBuf>,
    /// `None` behind the last checkpoint: there are rows only.
    to: Option<PathBuf>,
    /// Iteration of `to`, or that of the last row.
    until: u64,
}

pub(super) fn verify(args: VerifyArgs) -> anyhow::Result<()> {
    let run_dir = &args.run_dir;
    if is_pack(run_dir) {
        return Err(usage(format!(
            "{}: a packed model is verified with the run that it was made of: `pavlov verify RUN {0}`",
            run_dir.display()
        )));
    }
    args.made.iter().try_for_each(|file| made::refuse_unknown(file))?;
    let newest = checkpoint::latest(run_dir)?;
    let run = RunFile::of_run_or_trial(run_dir, newest.as_deref())?;
    let entry = registry::algorithm(&run.algorithm)?;
    let mut intervals = intervals(run_dir, &run)?;
    let mut named = trust::named(&run.config);
    for to in intervals.iter().filter_map(|interval| interval.to.as_ref()) {
        named.extend(trust::named(&checkpoint::metadata(to)?.config));
    }
    args.trust.check(run_dir, &named)?;

    let mut rows = Rows::read(run_dir)?;
    let checkpoints = ends(&intervals);
    let mut found = Settings::read(&checkpoints)?.differences(&run, &rows, run_dir)?;
    found.extend(rows.against_checkpoints(&checkpoints)?);
    found.extend(rows.against_table(run_dir)?);
    let chosen: Vec<usize> = if args.all {
        intervals.extend(behind_the_last(&intervals, &rows));
        (0..intervals.len()).collect()
    } else {
        choose(intervals.len(), args.intervals, args.seed)
    };
    let mut first = None;
    for (i, interval) in chosen.iter().map(|&i| (i, &intervals[i])) {
        let name = interval.name();
        let (difference, trained) = interval.train_again(&entry, &run)?;
        match difference {
            None => print(&format!("{name}: equal")).map(drop)?,
            Some(difference) => {
                print(&format!("{name}: {difference}")).map(drop)?;
                first = first.or(Some(i));
            }
        }
        found.extend(rows.against_training(&trained)?);
    }
    for file in &args.made {
        let differences = made::differences(file, run_dir)?;
        if differences.is_empty() {
            print(&visible(&format!("{}: equal", file.display()))).map(drop)?;
        }
        found.extend(differences);
    }
    // What was changed in a file is in it, whatever it does to a terminal.
    found.iter().try_for_each(|line| print(&visible(line)).map(drop))?;
    let summary = rows.summary();
    if let Some(first) = first {
        say(&summary);
        let cause = unrepeatable(&run).unwrap_or_else(|| {
            "a changed checkpoint, other settings, another version of pavlov or an environment that draws random numbers of \
             its own are possible causes"
                .to_owned()
        });
        bail!(
            "the run cannot be repeated: the first interval that differs is {}; {cause}",
            intervals[first].name()
        );
    }
    say(&format!(
        "{} of {} intervals were trained again, all equal bit for bit; {summary}",
        chosen.len(),
        intervals.len()
    ));
    match found.as_slice() {
        [] => Ok(()),
        [first, rest @ ..] => bail!(
            "the files of {} are not those of the run: {first}{}",
            run_dir.display(),
            if rest.is_empty() { String::new() } else { format!(" (and {} more)", rest.len()) }
        ),
    }
}

/// Says that the environment of a run is not repeatable under a seed, if a check finds that it is not.
fn unrepeatable(run: &RunFile) -> Option<String> {
    const CHECK: Duration = Duration::from_secs(10);
    let own = run.config.get("env_config").and_then(|own| serde_json::from_value(own.clone()).ok());
    let found = match EnvCreator::from(run.env.as_str()).make(&own.unwrap_or_default(), 2).ok()? {
        EnvCopies::Vector(mut copies) => examine_vector_env(copies.as_mut(), CHECK),
        EnvCopies::MultiAgent(copies) => examine_multi_agent_env(copies.into_envs().swap_remove(0), CHECK),
        EnvCopies::External(_) => return None,
    };
    found.ok()?.findings.iter().find(|finding| finding.rule == "deterministic").map(Finding::remark)
}

/// The checkpoints at the ends of the intervals, in the order in which they were written.
fn ends(intervals: &[Interval]) -> Vec<PathBuf> {
    let mut ends: Vec<PathBuf> = Vec::new();
    for path in intervals.iter().flat_map(|interval| interval.from.iter().chain(&interval.to)) {
        if !ends.contains(path) {
            ends.push(path.clone());
        }
    }
    ends
}

/// The interval from the last checkpoint to the last row, if there are rows behind it.
fn behind_the_last(intervals: &[Interval], rows: &Rows) -> Option<Interval> {
    let last = intervals.last()?;
    let until = rows.last_iteration()?;
    (until > last.until).then(|| Interval { from: last.to.clone(), to: None, until })
}

/// The intervals of a run, in the order in which its checkpoints were written; their checkpoints are whole, and hashes
/// and chains fit.
fn intervals(run_dir: &Path, run: &RunFile) -> anyhow::Result<Vec<Interval>> {
    let mut found = Vec::new();
    for (iteration, path) in checkpoint::list(run_dir)? {
        let manifest = checkpoint::verify(&path, None)?;
        found.push((manifest.number, iteration, path, manifest.hash));
    }
    found.sort_by_key(|(number, iteration, ..)| (*number, *iteration));
    for (_, _, path, hash) in &found {
        let Some(hash) = hash else { continue };
        let state = checkpoint::state_hash(path)?;
        if state != hash.state {
            bail!(
                "{}: its files are not those that were written: their hash is {state}, not {}. Bring back a copy of the \
                 checkpoint, or move it away to verify the others",
                path.display(),
                hash.state
            );
        }
        let before = found.iter().find(|(number, ..)| number.is_some() && *number == hash.after);
        let Some((_, _, _, Some(before))) = before else { continue };
        let chain = checkpoint::chain(Some(&before.chain), &state);
        if chain != hash.chain {
            bail!(
                "{}: it does not follow the checkpoint before it: the chain is {chain}, not {}. One of the two is of \
                 another run; move it away to verify the others",
                path.display(),
                hash.chain
            );
        }
    }
    let mut intervals = Vec::new();
    let has_seed = run.config.get("seed").is_some_and(|seed| !seed.is_null());
    if let Some((_, until, to, _)) = found.first().filter(|_| has_seed) {
        intervals.push(Interval { from: None, to: Some(to.clone()), until: *until });
    }
    for pair in found.windows(2) {
        let [(_, start, from, _), (_, until, to, _)] = pair else { continue };
        // A run that went back to an older checkpoint has a pair that training does not connect.
        if start < until {
            intervals.push(Interval { from: Some(from.clone()), to: Some(to.clone()), until: *until });
        }
    }
    if intervals.is_empty() {
        bail!(
            "{} has no two checkpoints to compare; `pavlov train --checkpoint-freq N` saves one every N iterations",
            run_dir.display()
        );
    }
    Ok(intervals)
}

/// Indices of the last of `count` intervals and of `more` others, drawn at random, in order.
fn choose(count: usize, more: usize, seed: u64) -> Vec<usize> {
    let mut others = Stream::new(seed, "intervals", 0).permutation(count - 1);
    others.truncate(more);
    let mut chosen: Vec<usize> = others.into_iter().map(|i| i as usize).chain([count - 1]).collect();
    chosen.sort_unstable();
    chosen
}

impl Interval {
    fn name(&self) -> String {
        let name = |path: &Path| path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let from = self.from.as_deref().map_or_else(|| "the beginning".into(), name);
        let to = self.to.as_deref().map_or_else(|| format!("iteration {}", self.until), name);
        format!("from {from} to {to}")
    }

    /// The settings with which the interval was trained: those of its end, since a resume may have changed them at its
    /// beginning.
    fn config(&self, run: &RunFile) -> anyhow::Result<Config> {
        let of = |path: &PathBuf| anyhow::Ok(checkpoint::metadata(path)?.config);
        let begin = self.from.as_ref().map_or_else(|| Ok(run.config.clone()), of)?;
        let end = self.to.as_ref().map(of).transpose()?;
        // Policies that were added within the interval are no part of its beginning.
        let is_same = |end: &Config| end.get("multiagent") == begin.get("multiagent");
        Ok(end.filter(is_same).unwrap_or(begin))
    }

    /// Trains from the beginning of the interval to its end. Describes the first difference to the checkpoint there, and
    /// returns the results.
    fn train_again(
        &self,
        entry: &AlgorithmEntry,
        run: &RunFile,
    ) -> anyhow::Result<(Option<String>, Vec<Metrics>)> {
        let scratch = tempfile::tempdir()?;
        let mut config = self.config(run)?;
        config.shift_remove("env");
        let options = RunOptions {
            logdir: Some(scratch.path().join("run")),
            loggers: LoggerChoice::None,
            ..RunOptions::default()
        };
        let mut driver = entry.build(run.env.as_str().into(), config, options)?;
        if let Some(from) = &self.from {
            driver.restore(from)?;
        }
        let mut trained = Vec::new();
        while driver.iteration() < self.until {
            trained.push(driver.train()?);
        }
        let Some(to) = &self.to else { return Ok((None, trained)) };
        let again = driver.save_to(scratch.path().join("again"))?;
        Ok((difference(to, &again)?, trained))
    }
}

#[cfg(test)]
mod fuzz;
