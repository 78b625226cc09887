//! [`LocalProcess`]: a child process of this program on this machine.

use std::io;
use std::process::{Child, ExitStatus};
use std::thread;
use std::time::{Duration, Instant};

use crate::child::{ChildHandle, how_it_ended};

/// A process that this program started on this machine. It is killed when this handle is dropped.
#[derive(Debug)]
pub struct LocalProcess {
    child: Child,
    /// Hint that is appended to the description of how the process ended, e.g. "; see `stderr` in its directory".
    hint: &'static str,
    /// Time that the process has to end after its socket is closed. Exit handlers of native libraries run then, and one
    /// that hangs must not keep the program waiting.
    patience: Duration,
}

impl LocalProcess {
    /// Makes the handle of `child`. `hint` is appended to the description of how the process ended, e.g. "; see `stderr` in its
    /// directory". A process that has not ended `patience` after its socket was closed is killed by
    /// [`wait`](ChildHandle::wait).
    pub fn new(child: Child, hint: &'static str, patience: Duration) -> Self {
        LocalProcess { child, hint, patience }
    }

    /// Returns the process id.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Waits for the process and returns its status if it ends by itself in time; else kills it and returns `None`.
    fn reap(&mut self) -> io::Result<Option<ExitStatus>> {
        let deadline = Instant::now() + self.patience;
        loop {
            if let Some(status) = self.child.try_wait()? {
                return Ok(Some(status));
            }
            if Instant::now() >= deadline {
                break;
            }
            thread::sleep(Duration::from_millis(1));
        }
        self.child.kill()?;
        self.child.wait()?;
        Ok(None)
    }
}

impl ChildHandle for LocalProcess {
    fn kill(&mut self) {
        // An error means that the process has ended already.
        let _ = self.child.kill();
    }

    fn wait(&mut self) -> String {
        match self.reap() {
            Ok(Some(status)) => format!("its process {}", how_it_ended(status, self.hint)),
            Ok(None) => format!(
                "its process did not end within {} s after its connection was closed, and was killed{}",
                self.patience.as_secs(),
                self.hint
            ),
            Err(error) => format!("its process is lost: {error}"),
        }
    }
}

impl Drop for LocalProcess {
    fn drop(&mut self) {
        self.kill();
        let _ = self.child.wait();
    }
}
