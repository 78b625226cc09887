//! `pavlov verify`: trains parts of a run again and compares the results with its checkpoints.

use std::path::{Path, PathBuf};

use anyhow::bail;
use clap::Args;

use super::output::{print, say};
use super::run_dir::RunFile;
use super::state_difference::difference;
use super::trust::{self, TrustArgs};
use crate::registry::{self, AlgorithmEntry};
use crate::trainer::rng::Stream;
use crate::tune::{LoggerChoice, RunOptions, checkpoint};

/// Train parts of a run again and compare every number with its checkpoints
#[derive(Args, Debug)]
#[command(after_help = "Example:\n  pavlov verify runs/first --intervals 5\n\n\
                        An interval goes from one checkpoint to the next: `pavlov train --checkpoint-freq N` makes them. \
                        The last interval is always among those that are trained again. Weights, optimizers, buffers, \
                        filters, random streams, environments and settings must be equal bit for bit.\n\
                        Exit code 1: an interval differs.")]
pub(super) struct VerifyArgs {
    /// The run directory that `pavlov train` named at its end
    #[arg(value_name = "DIR")]
    run_dir: PathBuf,
    /// Number of intervals to train again besides the last one
    #[arg(long, value_name = "K", default_value_t = 1)]
    intervals: usize,
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
    to: PathBuf,
    /// Iteration of `to`.
    until: u64,
}

pub(super) fn verify(args: VerifyArgs) -> anyhow::Result<()> {
    let run_dir = &args.run_dir;
    let newest = checkpoint::latest(run_dir)?;
    let run = RunFile::read(run_dir, newest.as_deref())?;
    let entry = registry::algorithm(&run.algorithm)?;
    let intervals = intervals(run_dir, &run)?;
    let mut named = trust::named(&run.config);
    for interval in &intervals {
        named.extend(trust::named(&checkpoint::metadata(&interval.to)?.config));
    }
    args.trust.check(run_dir, &named)?;

    let chosen = choose(intervals.len(), args.intervals, args.seed);
    let mut first = None;
    for (i, interval) in chosen.iter().map(|&i| (i, &intervals[i])) {
        let name = interval.name();
        match interval.train_again(&entry, &run)? {
            None => print(&format!("{name}: equal")).map(drop)?,
            Some(difference) => {
                print(&format!("{name}: {difference}")).map(drop)?;
                first = first.or(Some(i));
            }
        }
    }
    match first {
        None => {
            say(&format!(
                "{} of {} intervals were trained again, all equal bit for bit",
                chosen.len(),
                intervals.len()
            ));
            Ok(())
        }
        Some(first) => bail!(
            "the run cannot be repeated: the first interval that differs is {}; a changed checkpoint, other settings, \
             another version of pavlov or an environment that draws random numbers of its own are possible causes",
            intervals[first].name()
        ),
    }
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
        intervals.push(Interval { from: None, to: to.clone(), until: *until });
    }
    for pair in found.windows(2) {
        let [(_, start, from, _), (_, until, to, _)] = pair else { continue };
        // A run that went back to an older checkpoint has a pair that training does not connect.
        if start < until {
            intervals.push(Interval { from: Some(from.clone()), to: to.clone(), until: *until });
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
        format!("from {from} to {}", name(&self.to))
    }

    /// Trains from the beginning of the interval to its end, and describes the first difference to the checkpoint there.
    fn train_again(&self, entry: &AlgorithmEntry, run: &RunFile) -> anyhow::Result<Option<String>> {
        let scratch = tempfile::tempdir()?;
        let mut config = match &self.from {
            Some(from) => checkpoint::metadata(from)?.config,
            None => run.config.clone(),
        };
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
        while driver.iteration() < self.until {
            driver.train()?;
        }
        let again = driver.save_to(&scratch.path().join("again"))?;
        difference(&self.to, &again)
    }
}
