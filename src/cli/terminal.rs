//! The terminal as a screen: it is taken, drawn on and given back, however the program ends.

use std::io::{self, IsTerminal, Stdout, Write};
use std::path::Path;
use std::sync::{Mutex, MutexGuard, Once, TryLockError};
use std::time::{Duration, Instant};

use ratatui::backend::CrosstermBackend;
use ratatui::crossterm::cursor::Show;
use ratatui::crossterm::execute;
use ratatui::crossterm::terminal::{
    EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode,
};
use ratatui::{Frame, Terminal};

use super::exit::usage;
use super::output::{program, quoted};

/// Longest wait for a drawing that another thread has begun.
const DRAWING: Duration = Duration::from_millis(200);

/// Whether the terminal is taken. Who draws holds it, so that nothing is drawn after the terminal was given back.
static IS_TAKEN: Mutex<bool> = Mutex::new(false);

/// The terminal, taken until this is dropped.
pub(super) struct Screen(Terminal<CrosstermBackend<Stdout>>);

impl Screen {
    /// Takes the terminal.
    ///
    /// # Errors
    /// Fails if it cannot be drawn on; then it is as it was.
    pub(super) fn take() -> io::Result<Screen> {
        static HOOK: Once = Once::new();
        HOOK.call_once(|| {
            let before = std::panic::take_hook();
            std::panic::set_hook(Box::new(move |panic| {
                give_back();
                before(panic);
            }));
        });
        let mut is_taken = lock();
        enable_raw_mode()?;
        *is_taken = true;
        drop(is_taken);
        // From here on, dropping gives back what was taken.
        let screen = Terminal::new(CrosstermBackend::new(io::stdout())).map(Screen);
        let entered = screen.and_then(|screen| execute!(io::stdout(), EnterAlternateScreen).map(|()| screen));
        entered.inspect_err(|_| give_back())
    }

    /// Draws, unless another thread gave the terminal back.
    pub(super) fn draw(&mut self, draw: impl FnOnce(&mut Frame<'_>)) -> io::Result<()> {
        let is_taken = lock();
        if *is_taken {
            self.0.draw(draw)?;
        }
        Ok(())
    }

    /// Draws everything again with the next drawing, because another program may have written to the terminal.
    pub(super) fn clear(&mut self) -> io::Result<()> {
        self.0.clear()
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        give_back();
    }
}

fn lock() -> MutexGuard<'static, bool> {
    IS_TAKEN.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

/// Gives the terminal back, if it is taken.
pub(super) fn give_back() {
    let started = Instant::now();
    let held = loop {
        match IS_TAKEN.try_lock() {
            Ok(held) => break Some(held),
            Err(TryLockError::Poisoned(poisoned)) => break Some(poisoned.into_inner()),
            // The thread that draws may be the one that panicked.
            Err(TryLockError::WouldBlock) if started.elapsed() > DRAWING => break None,
            Err(TryLockError::WouldBlock) => std::thread::sleep(Duration::from_millis(1)),
        }
    };
    if held.is_some_and(|mut is_taken| !std::mem::replace(&mut *is_taken, false)) {
        return;
    }
    // A terminal that is gone needs nothing back.
    let _ = execute!(io::stdout(), LeaveAlternateScreen, Show);
    let _ = disable_raw_mode();
    let _ = io::stdout().flush();
}

/// Refuses to draw where there is no terminal; `dir` is what was to be drawn, if it is there already.
pub(super) fn refuse_no_terminal(dir: Option<&Path>) -> anyhow::Result<()> {
    if io::stdout().is_terminal() && io::stdin().is_terminal() {
        return Ok(());
    }
    let program = program();
    let way_out = match dir {
        Some(dir) => format!("`{program} report {}` writes a page instead", quoted(dir)),
        None => format!("leave out --watch; `{program} report` writes a page at any time"),
    };
    Err(usage(format!("the screen needs a terminal for its input and its output; {way_out}")))
}
