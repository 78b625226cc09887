//! `pavlov report`, `plot` and `watch`: what a run, several runs or a sweep came to, as one page that needs no network, as pictures
//! and on the terminal.
//!
//! The page says everything without scripts: plots are SVG, tables are tables. A script adds what a reader can do with them.
//! Only files are read, and every text that comes from one is escaped. The same files give the same page, byte for byte.

mod compare;
mod episode;
pub mod figure;
mod groups;
mod lines;
mod one;
mod page;
mod parallel;
mod plot;
mod profiles;
mod records;
mod run;
mod small;
mod statistics;
mod sweep;
mod sweep_page;
#[cfg(test)]
mod tests;
mod text;
mod time;
mod watch;

pub use self::compare::of_runs;
pub use self::episode::{Episode, MAX_FRAMES, record};
pub use self::one::{Changed, Known, of_run};
pub use self::run::{Newest, Run};
pub use self::sweep::RecordedSweep;
pub use self::sweep_page::of_sweep;
pub use self::watch::{Move, Watched};
