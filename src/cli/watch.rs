//! `pavlov watch`: a run or a sweep on the terminal, while it goes on.

use std::path::PathBuf;
use std::sync::atomic::Ordering;

use clap::Args;

use super::exit::usage;
use super::output::program;
use super::{screen, signals, terminal};
use pavlov_report::Watched;

/// Show a run or a sweep on the terminal, while it goes on and afterwards
#[derive(Args, Debug)]
#[command(after_help = "Example:\n  pavlov watch runs/first\n  pavlov watch runs/sweep\n\n\
                        Keys: q, Esc or Ctrl-C leave; arrows, page up and page down scroll the table. Only files are \
                        read, so the run goes on whatever happens to the screen. `pavlov train --watch` shows the same \
                        screen for the run that it starts.")]
pub(super) struct WatchArgs {
    /// A run directory or a sweep's directory
    #[arg(value_name = "DIR")]
    dir: PathBuf,
}

pub(super) fn watch(args: &WatchArgs) -> anyhow::Result<()> {
    let (dir, shown, program) = (&args.dir, args.dir.display(), program());
    if !dir.is_dir() {
        return Err(usage(format!(
            "{shown}: there is no such directory; give the run directory of `{program} train`"
        )));
    }
    let Some(watched) = Watched::find(dir) else {
        return Err(usage(format!(
            "{shown}: it has no run.json, result.json or journal.jsonl, so there is no run and no sweep to watch"
        )));
    };
    terminal::refuse_no_terminal(Some(dir))?;
    let asked = signals::watch("leaving; Ctrl-C again quits at once")?;
    let is_over = || asked.load(Ordering::Relaxed);
    screen::show(watched, || "q leaves, arrows scroll".into(), is_over, || true)
}
