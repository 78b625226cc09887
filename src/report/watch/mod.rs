//! What `pavlov watch` shows of a run or a sweep. It reads files and nothing else.

#[cfg(test)]
mod damaged;
mod held;
mod parts;
mod run;
mod sweep;
mod tail;
#[cfg(test)]
mod tests;

use std::path::Path;

use ratatui::Frame;

use self::run::LiveRun;
use self::sweep::LiveSweep;
use super::sweep::JOURNAL;
use crate::tune::Error;

/// How far a key moves the rows.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Move {
    Up(usize),
    Down(usize),
    First,
    Last,
}

impl Move {
    /// The first row that is shown then; it is larger than the last one if there are too few rows.
    fn from(self, first: usize) -> usize {
        match self {
            Move::Up(rows) => first.saturating_sub(rows),
            Move::Down(rows) => first.saturating_add(rows),
            Move::First => 0,
            Move::Last => usize::MAX,
        }
    }
}

/// A run or a sweep that may be going on.
pub(crate) enum Watched {
    Run(Box<LiveRun>),
    Sweep(Box<LiveSweep>),
}

impl Watched {
    /// Begins to watch what lies in `dir`; `None` if it is neither a run nor a sweep.
    pub(crate) fn find(dir: &Path) -> Option<Watched> {
        let has = |name: &str| dir.join(name).is_file();
        if has(JOURNAL) {
            return Some(Watched::Sweep(Box::new(LiveSweep::new(dir))));
        }
        (has("result.json") || has("run.json")).then(|| Watched::run(dir))
    }

    /// Begins to watch the run in `dir`, which may have no file yet.
    pub(crate) fn run(dir: &Path) -> Watched {
        Watched::Run(Box::new(LiveRun::new(dir)))
    }

    /// Reads what was added to the files.
    ///
    /// # Errors
    /// Fails if a file cannot be read, or if the journal of a sweep is of another version.
    pub(crate) fn refresh(&mut self) -> Result<(), Error> {
        match self {
            Watched::Run(run) => run.refresh(),
            Watched::Sweep(sweep) => sweep.refresh(),
        }
    }

    /// Moves the rows of the table.
    pub(crate) fn scroll(&mut self, moved: Move) {
        let first = match self {
            Watched::Run(run) => &mut run.first,
            Watched::Sweep(sweep) => &mut sweep.first,
        };
        *first = moved.from(*first);
    }

    /// Draws the screen. `foot` is its last row.
    pub(crate) fn draw(&mut self, frame: &mut Frame<'_>, foot: &str) {
        match self {
            Watched::Run(run) => run.draw(frame, foot),
            Watched::Sweep(sweep) => sweep.draw(frame, foot),
        }
    }
}
