//! Output: results on standard output, everything else on standard error. A reader that has closed a stream causes no
//! panic.

use std::ffi::{OsStr, OsString};
use std::io::{self, IsTerminal, Write};
use std::path::Path;

use anyhow::Context;
use indicatif::ProgressBar;
use serde::Serialize;
use std::sync::{Mutex, MutexGuard, OnceLock};
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

/// What stands at the end of a terminal and stays there while lines are written to standard error above it.
enum Live {
    Bar(ProgressBar),
    /// Text of a table, whose lines are no wider than the terminal.
    Table(String),
}

static LIVE: Mutex<Option<Live>> = Mutex::new(None);

/// What waits for the end of a screen before it is written to standard error; `None` if there is no screen.
static HELD: Mutex<Option<Vec<u8>>> = Mutex::new(None);

/// The command as the user typed it.
static PROGRAM: OnceLock<String> = OnceLock::new();

/// Sets the command as the user typed it.
pub(super) fn set_program(typed: Option<&OsString>) {
    let typed = typed.map(|typed| typed.to_string_lossy().into_owned()).unwrap_or_default();
    // The first call counts: there is one command per process.
    PROGRAM.get_or_init(|| typed);
}

/// Sets the live progress bar; `None` if there is none any more.
pub(super) fn set_bar(bar: Option<ProgressBar>) {
    *live() = bar.map(Live::Bar);
}

/// Shows `table` on the terminal, in place of the table before it.
pub(super) fn show_table(table: String) {
    let mut live = live();
    let text = format!("{}{table}", erased(&live));
    *live = Some(Live::Table(table));
    let _ = io::stderr().write_all(text.as_bytes());
}

/// Leaves the last table where it is; what is written from now on follows it.
pub(super) fn end_table() {
    *live() = None;
}

fn live() -> MutexGuard<'static, Option<Live>> {
    LIVE.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

/// Returns the codes that erase the table on the terminal; empty if there is none.
fn erased(live: &Option<Live>) -> String {
    match live {
        Some(Live::Table(table)) => format!("\x1b[{}A\x1b[J", table.lines().count()),
        _ => String::new(),
    }
}

/// Holds back what is written to standard error, because a screen is shown there.
pub(super) fn hold() {
    held().get_or_insert_default();
}

/// Writes what was held back, and holds back nothing more.
pub(super) fn release() {
    // The lock is free before the text is written, which takes it.
    let text = held().take();
    write_stderr(&text.unwrap_or_default());
}

/// The last line that is held back.
pub(super) fn last_held() -> Option<String> {
    let held = held();
    let text = String::from_utf8_lossy(held.as_ref()?);
    text.lines().next_back().map(str::to_owned)
}

fn held() -> MutexGuard<'static, Option<Vec<u8>>> {
    HELD.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

/// Writes to standard error above the bar or the table, if there is one, or holds the text back while there is a screen.
fn write_stderr(bytes: &[u8]) {
    if let Some(text) = &mut *held() {
        text.extend_from_slice(bytes);
        return;
    }
    let live = live();
    // A failure is ignored: no stream is left to report it on.
    match &*live {
        Some(Live::Bar(bar)) => bar.suspend(|| drop(io::stderr().write_all(bytes))),
        Some(Live::Table(table)) => {
            let text = [erased(&live).as_bytes(), bytes, table.as_bytes()].concat();
            drop(io::stderr().write_all(&text));
        }
        None => drop(io::stderr().write_all(bytes)),
    }
}

/// Returns the text that starts this program in a shell: `pavlov`, or the path of a user's program that calls `cli::main`.
pub(super) fn program() -> String {
    let typed = PROGRAM.get().cloned().unwrap_or_default();
    match Path::new(&typed).file_name() {
        Some(name) if name != "pavlov" => quoted(&typed),
        _ => "pavlov".into(),
    }
}

/// Quotes `word` for a shell if necessary, so that a command in a message can be pasted.
pub(super) fn quoted(word: impl AsRef<OsStr>) -> String {
    let word = word.as_ref().to_string_lossy();
    let is_plain = |c: char| c.is_alphanumeric() || "_-./:@%+,=".contains(c);
    if !word.is_empty() && word.chars().all(is_plain) {
        word.into_owned()
    } else {
        format!("'{}'", word.replace('\'', "'\\''"))
    }
}

/// Whether a terminal takes the character for a command, or writes what follows it in another direction.
pub(super) fn is_unsafe(c: char) -> bool {
    let is_direction = matches!(
        c,
        '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}' | '\u{2029}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}'
    );
    is_direction || (c.is_control() && c != '\n' && c != '\t')
}

/// Text that may come from a stranger, with escapes such as `\u{202e}` for characters that command a terminal or change the
/// direction of the text.
pub(super) fn visible(text: &str) -> String {
    let shown = |c: char| if is_unsafe(c) { c.escape_unicode().to_string() } else { c.into() };
    text.chars().map(shown).collect()
}

/// Prints a line to standard error.
pub(super) fn say(line: &str) {
    write_stderr(format!("{line}\n").as_bytes());
}

/// Prints a line to standard output; returns false if the reader has closed the stream.
pub(super) fn print(line: &str) -> anyhow::Result<bool> {
    let mut out = io::stdout().lock();
    match writeln!(out, "{line}").and_then(|()| out.flush()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(false),
        written => written.map(|()| true).context("cannot write to standard output"),
    }
}

/// Prints a value as one line of JSON; returns false if the reader has closed the stream.
pub(super) fn print_json(value: &impl Serialize) -> anyhow::Result<bool> {
    print(&serde_json::to_string(value)?)
}

/// Prints rows in aligned columns; the first row is the header. Returns false if the reader has closed the stream.
pub(super) fn print_table(rows: &[Vec<String>]) -> anyhow::Result<bool> {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |column: usize| {
        rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let line = |row: &Vec<String>| {
        let cells: Vec<String> =
            row.iter().zip(&widths).map(|(cell, &width)| format!("{cell:width$}")).collect();
        cells.join("  ").trim_end().to_owned()
    };
    print(&rows.iter().map(line).collect::<Vec<_>>().join("\n"))
}

/// Sends log records to standard error; `RUST_LOG` holds a level or `target=level` pairs.
pub(super) fn log_to_stderr() {
    let asked = std::env::var("RUST_LOG").unwrap_or_default();
    let (targets, wrong) = match asked.trim() {
        "" => (Targets::new().with_default(LevelFilter::WARN), None),
        text => match text.parse() {
            Ok(targets) => (targets, None),
            Err(error) => (Targets::new().with_default(LevelFilter::WARN), Some(error)),
        },
    };
    let format = tracing_subscriber::fmt::layer()
        .without_time()
        .with_target(false)
        .with_ansi(io::stderr().is_terminal())
        .with_writer(|| Stderr);
    // A program that calls `cli::main` may have a subscriber of its own.
    let _ = tracing_subscriber::registry().with(targets).with(format).try_init();
    if let Some(error) = wrong {
        say(&format!("warning: RUST_LOG={asked:?} is ignored: {error}; write e.g. RUST_LOG=info"));
    }
}

struct Stderr;

impl Write for Stderr {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        write_stderr(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_of_a_stranger_neither_commands_the_terminal_nor_reorders_its_text() {
        assert_eq!(visible("a\u{1b}[31mred\u{9b}2J\n\tb"), "a\\u{1b}[31mred\\u{9b}2J\n\tb");
        assert_eq!(visible("score \u{202e}001\u{2069} é ü"), "score \\u{202e}001\\u{2069} é ü");
    }

    #[test]
    fn a_shell_reads_a_quoted_word_as_it_was() {
        for word in ["runs/first", "mes projets/run", "it's", "a$HOME`b`\"c\"", "", "s3://bucket/run", "*?~"]
        {
            let echo = std::process::Command::new("sh")
                .args(["-c", &format!("printf %s {}", quoted(word))])
                .output();
            assert_eq!(String::from_utf8_lossy(&echo.expect("a shell").stdout), word);
        }
        assert_eq!(quoted("runs/first"), "runs/first");
        assert_eq!(quoted("mes projets/run"), "'mes projets/run'");
    }
}
