//! The screen of a run or a sweep: keys, looks at the files, drawing.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::Context;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};

use super::terminal::{Screen, give_back};
use super::{output, signals};
use pavlov_report::{Move, Watched};

/// Time between two looks at the files.
const REFRESH: Duration = Duration::from_millis(500);
/// Longest wait for a key, after which the end is looked for.
const KEY: Duration = Duration::from_millis(100);
/// What a key asks for.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Key {
    Leave,
    Interrupt,
    Redraw,
    Scroll(Move),
}

fn key(key: KeyEvent) -> Option<Key> {
    if key.kind == KeyEventKind::Release {
        return None;
    }
    if key.modifiers.contains(KeyModifiers::CONTROL) {
        return match key.code {
            KeyCode::Char('c') => Some(Key::Interrupt),
            KeyCode::Char('l') => Some(Key::Redraw),
            _ => None,
        };
    }
    Some(match key.code {
        KeyCode::Char('q' | 'Q') | KeyCode::Esc => Key::Leave,
        KeyCode::Up | KeyCode::Char('k') => Key::Scroll(Move::Up(1)),
        KeyCode::Down | KeyCode::Char('j') => Key::Scroll(Move::Down(1)),
        KeyCode::PageUp => Key::Scroll(Move::Up(10)),
        KeyCode::PageDown | KeyCode::Char(' ') => Key::Scroll(Move::Down(10)),
        KeyCode::Home => Key::Scroll(Move::First),
        KeyCode::End => Key::Scroll(Move::Last),
        _ => return None,
    })
}

/// Shows the screen until a key leaves it or `is_over` returns true. `interrupt` is called for Ctrl-C, which is a key here,
/// and returns whether it leaves the screen.
pub(super) fn show(
    mut watched: Watched,
    foot: impl Fn() -> String,
    is_over: impl Fn() -> bool,
    interrupt: impl Fn() -> bool,
) -> anyhow::Result<()> {
    // An error of the first look is printed without a screen.
    watched.refresh()?;
    let mut screen = Screen::take().context("cannot draw on the terminal")?;
    let mut refreshed = Instant::now();
    loop {
        screen.draw(|frame| watched.draw(frame, &foot())).context("cannot draw on the terminal")?;
        loop {
            if is_over() {
                return Ok(());
            }
            let left = REFRESH.saturating_sub(refreshed.elapsed());
            if left.is_zero() {
                watched.refresh()?;
                refreshed = Instant::now();
                break;
            }
            if !event::poll(left.min(KEY)).context("cannot read keys")? {
                continue;
            }
            let pressed = match event::read().context("cannot read keys")? {
                Event::Key(pressed) => key(pressed),
                Event::Resize(..) => break,
                _ => None,
            };
            match pressed {
                Some(Key::Leave) => return Ok(()),
                Some(Key::Interrupt) if interrupt() => return Ok(()),
                Some(Key::Scroll(moved)) => watched.scroll(moved),
                Some(Key::Redraw) => screen.clear().context("cannot draw on the terminal")?,
                Some(Key::Interrupt) => {}
                None => continue,
            }
            break;
        }
    }
}

/// The screen beside a run that this process trains. Lines for standard error wait until it is closed.
pub(super) struct Beside {
    is_over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Beside {
    /// Opens the screen of the run in `dir`.
    ///
    /// # Errors
    /// Fails if no thread can be started.
    pub(super) fn open(dir: PathBuf) -> io::Result<Beside> {
        let is_over = Arc::new(AtomicBool::new(false));
        let ends = is_over.clone();
        let draw = move || {
            output::hold();
            let foot = || {
                let said = output::last_held().map(|line| format!(" | {line}")).unwrap_or_default();
                format!("q closes the screen, Ctrl-C stops the run, arrows scroll{said}")
            };
            let is_over = || ends.load(Ordering::Relaxed);
            let interrupt = || {
                signals::press();
                false
            };
            let shown = show(Watched::run(&dir), foot, is_over, interrupt);
            output::release();
            if let Err(error) = shown {
                output::say(&format!("the screen is closed: {error:#}"));
            }
        };
        let thread = std::thread::Builder::new().name("screen".into()).spawn(draw)?;
        Ok(Beside { is_over, thread: Some(thread) })
    }

    /// Whether the reader closed the screen.
    pub(super) fn is_closed(&self) -> bool {
        self.thread.as_ref().is_none_or(JoinHandle::is_finished)
    }
}

impl Drop for Beside {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        // A panic of the thread was printed by its hook, and the terminal is given back.
        drop(self.thread.take().map(JoinHandle::join));
        give_back();
        output::release();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_leave_scroll_and_interrupt() {
        let of = |code, modifiers| key(KeyEvent::new(code, modifiers));
        let none = KeyModifiers::NONE;
        assert_eq!(of(KeyCode::Char('q'), none), Some(Key::Leave));
        assert_eq!(of(KeyCode::Esc, none), Some(Key::Leave));
        assert_eq!(of(KeyCode::Char('c'), KeyModifiers::CONTROL), Some(Key::Interrupt));
        assert_eq!(of(KeyCode::Char('c'), none), None);
        assert_eq!(of(KeyCode::Down, none), Some(Key::Scroll(Move::Down(1))));
        assert_eq!(of(KeyCode::End, none), Some(Key::Scroll(Move::Last)));
    }
}
