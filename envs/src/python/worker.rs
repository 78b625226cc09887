//! One Python worker process, as seen by its parent.

use std::{
    fs::File,
    io::{self, BufRead, BufReader, ErrorKind, Read, Write},
    os::{
        fd::AsRawFd,
        unix::{fs::FileExt, process::CommandExt, process::ExitStatusExt},
    },
    process::{Child, ChildStdin, ChildStdout, Command, ExitStatus, Stdio},
    sync::OnceLock,
    thread,
    time::{Duration, Instant},
};

use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, kill_process_group, waitid},
};
use serde_json::{Map, Value, json};

use super::{slabs::anonymous_file, spawn::spawn};

/// The worker's Python program, joined from several files.
const SCRIPT: &str = concat!(
    include_str!("worker.py"),
    include_str!("making.py"),
    include_str!("admitting.py"),
    include_str!("spaces.py"),
    include_str!("hosts.py"),
    include_str!("agents.py"),
    include_str!("tuples.py"),
    include_str!("turn_based.py"),
    "\n\nmain()\n"
);

/// Longest line that a worker may answer with, in bytes. The bounds of a space of large pictures take some megabytes.
const LONGEST_LINE: usize = 1 << 26;

/// Time that a worker may take to end when asked, before it is killed.
const GRACE: Duration = Duration::from_secs(2);

/// File in which all workers of this process mark the warnings that they have shown, so that each is shown once.
fn warned() -> io::Result<&'static File> {
    static FILE: OnceLock<File> = OnceLock::new();
    match FILE.get() {
        Some(file) => Ok(file),
        None => {
            let made = anonymous_file("pavlov-warned")?;
            Ok(FILE.get_or_init(|| made))
        }
    }
}

/// A worker's answer, or a message that says why the worker will not answer any more.
pub(super) type Answer<T> = Result<T, String>;

/// A Python worker process. Dropping it ends and reaps the process together with its own children.
#[derive(Debug)]
pub(super) struct Worker {
    index: usize,
    /// Process id of the interpreter, which is that of `child` unless a script started the interpreter.
    pid: u32,
    child: Child,
    /// Pipe to the worker. It is closed (`None`) to tell the worker to end.
    inbox: Option<ChildStdin>,
    outbox: BufReader<ChildStdout>,
    /// File that `faulthandler` writes to.
    log: File,
    timeout: Duration,
    /// Time at which the answer to the last message is overdue.
    deadline: Instant,
    reaped: bool,
}

impl Worker {
    /// Starts worker `index` with the interpreter `python`; `first_message` tells it what to host.
    pub(super) fn start(
        index: usize,
        python: &str,
        mut first_message: Map<String, Value>,
        timeout: Duration,
    ) -> Answer<Self> {
        let log = anonymous_file("pavlov-log").map_err(|error| format!("no memory file: {error}"))?;
        let warned = warned().map_err(|error| format!("no memory file: {error}"))?;
        let mut command = Command::new(python);
        // A process group of its own: Ctrl-C is left to the parent, and processes that the environment starts can be ended
        // with it.
        command.args(["-c", SCRIPT]).process_group(0).stdin(Stdio::piped()).stdout(Stdio::piped());
        for threads in ["OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"] {
            if std::env::var_os(threads).is_none() {
                command.env(threads, "1");
            }
        }
        let mut child = spawn(command).map_err(|error| {
            format!(
                "cannot start the interpreter {python:?}: {error}; name one by `python` in the env_config or by PAVLOV_PYTHON"
            )
        })?;
        let (Some(inbox), Some(outbox)) = (child.stdin.take(), child.stdout.take()) else {
            return Err("it was started without pipes".into());
        };
        let pid = child.id();
        let inbox = Some(inbox);
        let outbox = BufReader::new(outbox);
        let deadline = Instant::now() + timeout;
        let mut worker = Self { index, pid, child, inbox, outbox, log, timeout, deadline, reaped: false };
        // Output of the interpreter's own start-up comes before the first zero byte.
        while worker.read_byte("start")? != 0 {
            if Instant::now() > worker.deadline {
                return Err(worker.hung("start"));
            }
        }
        let pid = worker.line("start")?;
        worker.pid = pid.as_u64().and_then(|pid| u32::try_from(pid).ok()).unwrap_or(worker.pid);
        first_message.insert("parent".into(), json!(std::process::id()));
        first_message.insert("log".into(), json!(worker.log.as_raw_fd()));
        first_message.insert("warned".into(), json!(warned.as_raw_fd()));
        worker.write(&format!("{}\n", Value::Object(first_message)).into_bytes())?;
        Ok(worker)
    }

    pub(super) fn pid(&self) -> u32 {
        self.pid
    }

    /// Sets the time that every later answer may take.
    pub(super) fn set_timeout(&mut self, timeout: Duration) {
        self.timeout = timeout;
    }

    /// Writes bytes to the worker, and starts the time limit of its answer.
    pub(super) fn write(&mut self, bytes: &[u8]) -> Answer<()> {
        self.deadline = Instant::now() + self.timeout;
        let written = self.inbox.as_mut().map_or(Err(ErrorKind::BrokenPipe.into()), |to| to.write_all(bytes));
        written.map_err(|error| self.cause_of_end(&error))
    }

    /// Sends a request, which is a line of JSON.
    pub(super) fn request(&mut self, request: &Value) -> Answer<()> {
        self.write(format!("{request}\n").as_bytes())
    }

    /// Waits for the byte `.`, by which the worker says that it is done; `doing` names the request in errors.
    pub(super) fn read_done(&mut self, doing: &str) -> Answer<()> {
        match self.read_byte(doing)? {
            b'.' => Ok(()),
            first => {
                let line = self.rest_of_line(first, doing)?;
                Err(format!("worker {} answered {line} to {doing:?}", self.index))
            }
        }
    }

    /// Waits for a line of JSON; `doing` names the request in errors.
    pub(super) fn line(&mut self, doing: &str) -> Answer<Value> {
        let first = self.read_byte(doing)?;
        self.rest_of_line(first, doing)
    }

    fn rest_of_line(&mut self, first: u8, doing: &str) -> Answer<Value> {
        let mut text = vec![first];
        while text.last() != Some(&b'\n') {
            if self.outbox.buffer().is_empty() {
                self.fill(doing)?;
            }
            let heard = self.outbox.buffer();
            let end = heard.iter().position(|byte| *byte == b'\n').map_or(heard.len(), |at| at + 1);
            text.extend_from_slice(&heard[..end]);
            self.outbox.consume(end);
            if text.len() > LONGEST_LINE {
                self.kill();
                let index = self.index;
                return Err(format!(
                    "worker {index} answered {doing:?} with a line of more than {LONGEST_LINE} bytes"
                ));
            }
        }
        let line: Value = serde_json::from_slice(&text).map_err(|error| {
            let text = String::from_utf8_lossy(&text);
            format!("worker {} answered {text:?} to {doing:?}: {error}", self.index)
        })?;
        let Some(traceback) = line["error"].as_str() else { return Ok(line) };
        let hint = line["hint"].as_str().map_or(String::new(), |hint| format!("\n{hint}"));
        Err(format!("worker {} (pid {}) raised\n{}{hint}", self.index, self.pid(), traceback.trim_end()))
    }

    fn read_byte(&mut self, doing: &str) -> Answer<u8> {
        let mut byte = [0];
        self.read_exact(&mut byte, doing)?;
        Ok(byte[0])
    }

    /// Waits until raw bytes fill `out`.
    pub(super) fn read_exact(&mut self, mut out: &mut [u8], doing: &str) -> Answer<()> {
        while !out.is_empty() {
            if self.outbox.buffer().is_empty() {
                self.wait_readable(doing)?;
            }
            match self.outbox.read(out) {
                Ok(0) => return Err(self.cause_of_end(&ErrorKind::UnexpectedEof.into())),
                Ok(read) => out = &mut out[read..],
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(self.cause_of_end(&error)),
            }
        }
        Ok(())
    }

    /// Waits until the worker has written bytes, and reads them into the buffer; `doing` names the request in errors.
    fn fill(&mut self, doing: &str) -> Answer<()> {
        self.wait_readable(doing)?;
        match self.outbox.fill_buf().map(<[u8]>::is_empty) {
            Ok(false) => Ok(()),
            Ok(true) => Err(self.cause_of_end(&ErrorKind::UnexpectedEof.into())),
            Err(error) if error.kind() == ErrorKind::Interrupted => Ok(()),
            Err(error) => Err(self.cause_of_end(&error)),
        }
    }

    fn wait_readable(&mut self, doing: &str) -> Answer<()> {
        // Checks every second whether the worker lives, because a child of the worker may keep the pipe open.
        const SLICE: Duration = Duration::from_secs(1);
        loop {
            let left = self.deadline.saturating_duration_since(Instant::now());
            let wait = Timespec::try_from(left.min(SLICE)).unwrap_or_default();
            match poll(&mut [PollFd::new(self.outbox.get_ref(), PollFlags::IN)], Some(&wait)) {
                Ok(0) if left.is_zero() => return Err(self.hung(doing)),
                Ok(0) => {
                    if self.exited() {
                        return Err(self.cause_of_end(&ErrorKind::UnexpectedEof.into()));
                    }
                }
                Ok(_) => return Ok(()),
                Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(format!("worker {}: poll: {error}", self.index)),
            }
        }
    }

    /// Aborts a worker that does not answer, so that it writes its traceback; returns the error message.
    fn hung(&mut self, doing: &str) -> String {
        if let Some(pid) = process(self.pid) {
            // The process may be gone already.
            let _ = kill_process(pid, Signal::ABORT);
        }
        self.end(GRACE);
        format!(
            "worker {} (pid {}) did not answer to {doing:?} within {} s (see `timeout_s`) and was killed{}",
            self.index,
            self.pid,
            self.timeout.as_secs_f64(),
            self.traceback()
        )
    }

    /// Ends the worker after its pipe failed; returns a message with the cause.
    fn cause_of_end(&mut self, error: &io::Error) -> String {
        match self.end(GRACE) {
            Some(status) => self.dead(status),
            None => format!("worker {} (pid {}) closed its pipe: {error}", self.index, self.pid),
        }
    }

    fn dead(&self, status: ExitStatus) -> String {
        let how = match (status.code(), status.signal()) {
            (Some(code), _) => format!("exited with code {code}"),
            (_, Some(signal)) => format!("was killed by signal {signal}{}", signal_name(signal)),
            _ => format!("ended: {status}"),
        };
        format!("worker {} (pid {}) {how}{}", self.index, self.pid, self.traceback())
    }

    /// Text that `faulthandler` wrote; empty if it wrote none.
    fn traceback(&self) -> String {
        const MOST: usize = 1 << 14;
        let mut text = vec![0; MOST];
        let read = self.log.read_at(&mut text, 0).unwrap_or(0);
        let text = String::from_utf8_lossy(&text[..read]);
        if text.trim().is_empty() { String::new() } else { format!("\n{}", text.trim()) }
    }

    /// Waits up to `grace` for the process to end, then kills it and its own children. `None` if it had to be killed, or had
    /// been ended before.
    fn end(&mut self, grace: Duration) -> Option<ExitStatus> {
        if self.reaped {
            return None;
        }
        self.inbox = None;
        let deadline = Instant::now() + grace;
        while !self.exited() && Instant::now() < deadline {
            thread::sleep(Duration::from_millis(1));
        }
        let exited = self.exited();
        // The group is killed before the process is reaped: until then no other process gets its id. The group may have no
        // other member.
        if let Some(group) = process(self.child.id()) {
            let _ = kill_process_group(group, Signal::KILL);
        }
        let status = self.child.wait();
        self.reaped = true;
        status.ok().filter(|_| exited)
    }

    /// Whether the process has ended; does not reap it.
    fn exited(&self) -> bool {
        let look = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        process(self.child.id()).is_none_or(|pid| !matches!(waitid(WaitId::Pid(pid), look), Ok(None)))
    }

    /// Tells the worker to end without waiting for it, so that several can end at the same time.
    pub(super) fn dismiss(&mut self) {
        self.inbox = None;
    }

    /// Kills the worker at once.
    pub(super) fn kill(&mut self) {
        self.end(Duration::ZERO);
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.end(GRACE);
    }
}

fn process(pid: u32) -> Option<Pid> {
    i32::try_from(pid).ok().and_then(Pid::from_raw)
}

fn signal_name(signal: i32) -> &'static str {
    match signal {
        4 => " (illegal instruction)",
        6 => " (abort)",
        7 => " (bus error)",
        8 => " (floating-point exception)",
        9 => " (SIGKILL; the kernel does so when memory runs out)",
        11 => " (segmentation fault)",
        15 => " (SIGTERM)",
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use super::{super::talk::draw, *};
    use std::{fs, os::unix::fs::PermissionsExt};

    /// A worker that is a shell script: it prints its process id, reads two lines and runs `then`.
    fn worker(then: &str) -> (tempfile::TempDir, Worker) {
        let dir = tempfile::tempdir().unwrap();
        let script = dir.path().join("python");
        let first_message = r"printf '\000%d\n' $$; read first_message; read request";
        fs::write(&script, format!("#!/bin/sh\n{first_message}\n{then}\n")).unwrap();
        fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
        let python = script.to_str().unwrap();
        let worker = Worker::start(0, python, Map::new(), Duration::from_secs(100)).unwrap();
        (dir, worker)
    }

    #[test]
    fn a_line_without_an_end_is_refused_before_it_fills_the_memory() {
        let (_dir, mut worker) = worker("yes | tr -d '\\n'");
        worker.request(&json!({"do": "describe"})).unwrap();
        let message = worker.line("describe").unwrap_err();
        assert_eq!(message, "worker 0 answered \"describe\" with a line of more than 67108864 bytes");
    }

    #[test]
    fn a_picture_that_is_too_large_is_refused_before_memory_is_taken_for_it() {
        let (_dir, mut worker) = worker("echo '{\"frame\": [4000000000, 4000000000]}'; read end");
        let message = draw(&mut worker, 0).map(drop).unwrap_err();
        let expected = "its picture of 4000000000 x 4000000000 pixels is too large: it must have at most";
        assert!(message.starts_with(expected), "{message}");
    }
}
