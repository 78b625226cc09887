//! Disks that take nothing: every command that writes says so in one sentence, with the path and the way out.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use tempfile::TempDir;

use crate::cli::{Ran, run, text, train};

/// A place where a disk is mounted for one command at a time.
struct Disk {
    place: TempDir,
    /// What lies on the disk at the start.
    content: TempDir,
}

#[derive(Clone, Copy)]
enum State {
    ReadOnly,
    /// But for so many bytes.
    Full {
        spare: u64,
    },
}

impl Disk {
    /// `None`, and a line that says so, where this machine lets no test mount one.
    fn new() -> Option<Disk> {
        let directory = || tempfile::tempdir().expect("a directory");
        let disk = Disk { place: directory(), content: directory() };
        let mounted = disk.command(State::ReadOnly, &["true"]).output();
        if mounted.is_ok_and(|mounted| mounted.status.success()) {
            return Some(disk);
        }
        eprintln!("skipped: this machine does not let a test mount a disk (`unshare --user --mount`)");
        None
    }

    /// Runs where the disk is mounted, in a space of mounts of its own, which goes with it.
    fn command<S: AsRef<OsStr>>(&self, state: State, args: &[S]) -> Command {
        let change = match state {
            State::ReadOnly => "mount -o remount,ro \"$DISK\"".into(),
            State::Full { spare } => format!(
                "{{ cat /dev/zero > \"$DISK\"/ballast 2> /dev/null; truncate -s -{spare} \"$DISK\"/ballast; }}"
            ),
        };
        let script = format!(
            "mount -t tmpfs -o size=4m tmpfs \"$DISK\" && cp -r \"$CONTENT\"/. \"$DISK\" && {change} && exec \"$@\""
        );
        let mut command = Command::new("unshare");
        command.args(["--user", "--map-root-user", "--mount", "sh", "-c", &script, "sh"]).args(args);
        command.env("DISK", self.place.path()).env("CONTENT", self.content.path());
        command.env_remove("RUST_LOG").stdin(Stdio::null());
        command
    }

    fn pavlov(&self, state: State, args: &[&str]) -> Ran {
        run(&mut self.command(state, &[&[env!("CARGO_BIN_EXE_pavlov")], args].concat()))
    }

    fn at(&self, name: &str) -> PathBuf {
        self.place.path().join(name)
    }
}

/// The last line of an error: one sentence, which begins and ends so.
#[track_caller]
fn says(ran: &Ran, start: &str, end: &str) {
    assert_eq!(ran.code, Some(1), "{}", ran.stderr);
    let errors: Vec<&str> = ran.stderr.lines().filter(|line| line.starts_with("error: ")).collect();
    let [error] = errors[..] else { panic!("not one error: {}", ran.stderr) };
    assert!(error.starts_with(&format!("error: {start}")), "no {start:?} in: {error}");
    assert!(error.ends_with(end), "no {end:?} in: {error}");
    assert!(!ran.stderr.contains("panicked"), "{}", ran.stderr);
}

/// A run, a sweep and the sweep's file, in `dir`.
fn fill(dir: &Path) {
    run(&mut train(&dir.join("run"), &["--stop", "training_iteration=1", "--quiet"])).ok();
    let sweep = dir.join("sweep.toml");
    fs::write(&sweep, SWEEP).expect("written");
    crate::cli::pavlov(&["tune", text(&sweep), "--out", text(&dir.join("sweep")), "--quiet"]).ok();
}

const SWEEP: &str = r#"
algorithm = "PPO"
env = "CartPole-v1"
metric = "episode_reward_mean"
mode = "max"
num_samples = 1
[stop]
training_iteration = 1
[space]
num_workers = 0
num_envs_per_worker = 4
train_batch_size = 64
sgd_minibatch_size = 32
num_sgd_iter = 1
model = { fcnet_hiddens = [8] }
lr = { loguniform = [1e-4, 1e-2] }
"#;

#[test]
fn every_command_that_writes_says_that_a_disk_is_read_only() {
    let Some(disk) = Disk::new() else { return };
    fill(disk.content.path());
    let at = |name: &str| disk.at(name);
    let old = at("run");
    let old_sweep = at("sweep");
    let sweep = at("sweep.toml");
    let end = "Read-only file system (os error 30); give a directory on a file system that can be written to";
    let new = at("new");
    for (args, what, path) in [
        (vec!["train", "PPO", "--env", "CartPole-v1", "--out", text(&new)], "create", &new),
        (vec!["trial", text(&sweep), "--number", "0", "--out", text(&new)], "create", &new),
        (vec!["tune", text(&sweep), "--out", text(&new)], "create", &new),
        (vec!["resume", text(&old), "--stop", "training_iteration=2"], "write", &old),
        (vec!["tune", "--resume", text(&old_sweep), "--num-samples", "2"], "write", &old_sweep),
        (vec!["export", text(&old), "--out", text(&at("p.pt"))], "write", &at("p.pt")),
        (vec!["evaluate", text(&old), "--render", text(&at("p.gif"))], "write", &at("p.gif")),
    ] {
        let ran = disk.pavlov(State::ReadOnly, &args);
        says(&ran, &format!("cannot {what} {}", path.display()), end);
    }
    // Reading needs no more than reading.
    assert_eq!(disk.pavlov(State::ReadOnly, &["evaluate", text(&old), "--episodes", "1"]).code, Some(0));
}

#[test]
fn every_command_that_writes_says_that_a_disk_is_full() {
    let Some(disk) = Disk::new() else { return };
    fill(disk.content.path());
    let at = |name: &str| disk.at(name);
    let new = at("new");
    let old = at("run");
    let old_sweep = at("sweep");
    let sweep = at("sweep.toml");
    let end = "No space left on device (os error 28); make room there, or give a directory on another disk";
    for (args, path) in [
        (vec!["train", "PPO", "--env", "CartPole-v1", "--out", text(&new)], &new),
        (vec!["trial", text(&sweep), "--number", "0", "--out", text(&new)], &new),
        (vec!["tune", text(&sweep), "--out", text(&new)], &new),
        (vec!["resume", text(&old), "--stop", "training_iteration=2"], &old),
        (vec!["tune", "--resume", text(&old_sweep), "--num-samples", "2"], &old_sweep),
        (vec!["export", text(&old), "--out", text(&at("p.pt"))], &at("p.pt")),
        (vec!["evaluate", text(&old), "--render", text(&at("p.gif"))], &at("p.gif")),
    ] {
        says(&disk.pavlov(State::Full { spare: 0 }, &args), &format!("cannot write {}", path.display()), end);
    }
    // Room for the logs, but not for the weights.
    let large = train(&new, &["--set", "model.fcnet_hiddens=[512,512]", "--stop", "training_iteration=1"]);
    let args: Vec<&str> = large.get_args().map(|arg| arg.to_str().expect("text")).collect();
    let ran = disk.pavlov(State::Full { spare: 300_000 }, &args);
    says(&ran, &format!("cannot write {}", new.display()), end);
    assert!(ran.stderr.contains("/policies.safetensors: No space left"), "{}", ran.stderr);
}
