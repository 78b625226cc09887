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
use pavlov_tune::Error;

/// How far a key moves the rows of the table on the screen.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Move {
    /// Moves up by this number of rows.
    Up(usize),
    /// Moves down by this number of rows.
    Down(usize),
    /// To the first row.
    First,
    /// To the last row.
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
#[derive(Debug)]
pub struct Watched(Live);

#[derive(Debug)]
enum Live {
    Run(Box<LiveRun>),
    Sweep(Box<LiveSweep>),
}

impl Watched {
    /// Begins to watch what lies in `dir`; `None` if it is neither a run nor a sweep.
    pub fn find(dir: &Path) -> Option<Watched> {
        let has = |name: &str| dir.join(name).is_file();
        if has(JOURNAL) {
            return Some(Watched(Live::Sweep(Box::new(LiveSweep::new(dir)))));
        }
        (has("result.json") || has("run.json")).then(|| Watched::run(dir))
    }

    /// Begins to watch the run in `dir`, which may have no file yet.
    pub fn run(dir: &Path) -> Watched {
        Watched(Live::Run(Box::new(LiveRun::new(dir))))
    }

    /// Reads what was added to the files.
    ///
    /// # Errors
    /// Fails if a file cannot be read, or if the journal of a sweep is of another version.
    pub fn refresh(&mut self) -> Result<(), Error> {
        match &mut self.0 {
            Live::Run(run) => run.refresh(),
            Live::Sweep(sweep) => sweep.refresh(),
        }
    }

    /// Moves the rows of the table.
    pub fn scroll(&mut self, moved: Move) {
        let first = match &mut self.0 {
            Live::Run(run) => &mut run.first,
            Live::Sweep(sweep) => &mut sweep.first,
        };
        *first = moved.from(*first);
    }

    /// Draws the screen. `foot` is its last row.
    pub fn draw(&mut self, frame: &mut Frame<'_>, foot: &str) {
        match &mut self.0 {
            Live::Run(run) => run.draw(frame, foot),
            Live::Sweep(sweep) => sweep.draw(frame, foot),
        }
    }
}
