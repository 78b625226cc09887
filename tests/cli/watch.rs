//! `pavlov watch` and `train --watch` in a terminal. The program `script` makes the terminal.

use std::fs::{self, OpenOptions};
use std::io::{Read, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::{TINY, finish, pavlov, run, scratch, text, train};

/// Begins and ends the terminal's other screen.
const ENTER: &str = "\u{1b}[?1049h";
const LEAVE: &str = "\u{1b}[?1049l";

/// A shell in a terminal of 80 columns and 24 rows, whose settings before and after the command are kept in files.
struct Shell {
    child: Child,
    bytes: Receiver<Vec<u8>>,
    seen: Vec<u8>,
}

impl Shell {
    /// Runs `pavlov` with these arguments. Its process writes its number to `home/pid`.
    fn start(home: &Path, arguments: &[&str]) -> Shell {
        let file = home.join("shell.sh");
        let quoted: Vec<String> = arguments.iter().map(|word| format!("'{word}'")).collect();
        let lines = format!(
            "cd '{}'\nstty rows 24 cols 80\nstty -g > before\nsh -c 'echo $$ > pid; exec \"$0\" \"$@\"' '{}' {}\n\
             echo $? > code\nstty -g > after\n",
            text(home),
            env!("CARGO_BIN_EXE_pavlov"),
            quoted.join(" ")
        );
        fs::write(&file, lines).unwrap();
        let mut script = Command::new("script");
        script.args(["-qec", &format!("sh '{}'", text(&file)), "/dev/null"]).env("TERM", "xterm");
        script.env_remove("RUST_LOG").stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = script.spawn().expect("the program script, of util-linux");
        let mut out = child.stdout.take().expect("piped");
        let (sender, bytes) = channel();
        std::thread::spawn(move || {
            let mut buffer = [0; 4096];
            while let Ok(n @ 1..) = out.read(&mut buffer) {
                if sender.send(buffer[..n].to_vec()).is_err() {
                    return;
                }
            }
        });
        Shell { child, bytes, seen: Vec::new() }
    }

    fn text(&self) -> String {
        String::from_utf8_lossy(&self.seen).into_owned()
    }

    /// Waits until the terminal was sent this text.
    #[track_caller]
    fn wait_for(&mut self, text: &str) {
        self.wait_behind("", text);
    }

    /// Waits until the terminal was sent this text some time after `before`.
    #[track_caller]
    fn wait_behind(&mut self, before: &str, text: &str) {
        let started = Instant::now();
        while !self.text().split_once(before).is_some_and(|(_, behind)| behind.contains(text)) {
            assert!(started.elapsed() < Duration::from_secs(60), "no {text:?} in {:?}", self.text());
            match self.bytes.recv_timeout(Duration::from_millis(100)) {
                Ok(more) => self.seen.extend(more),
                Err(error) if self.child.try_wait().expect("a child").is_some() => {
                    panic!("{error}: no {text:?} in {:?}", self.text())
                }
                Err(_) => {}
            }
        }
    }

    fn type_key(&mut self, key: &str) {
        self.child.stdin.as_mut().expect("piped").write_all(key.as_bytes()).expect("a terminal");
    }

    /// Waits for the end. The terminal must be as it was, and the command's exit code 0. Returns what was shown.
    #[track_caller]
    fn end(mut self, home: &Path) -> String {
        let started = Instant::now();
        while self.child.try_wait().expect("a child").is_none() {
            assert!(started.elapsed() < Duration::from_secs(60), "it goes on: {:?}", self.text());
            std::thread::sleep(Duration::from_millis(20));
        }
        while let Ok(more) = self.bytes.recv_timeout(Duration::from_secs(5)) {
            self.seen.extend(more);
        }
        let shown = self.text();
        finish(self.child);
        let read = |name: &str| fs::read_to_string(home.join(name)).unwrap_or_default();
        assert_eq!(read("code"), "0\n", "{shown:?}");
        assert!(!read("before").is_empty() && read("before") == read("after"), "{shown:?}");
        assert!(shown.rfind(ENTER) < shown.rfind(LEAVE), "{shown:?}");
        assert!(shown.rfind("\u{1b}[?25h") > shown.rfind("\u{1b}[?25l"), "the cursor is back: {shown:?}");
        shown
    }
}

/// The pid of the command.
fn pid(home: &Path) -> String {
    fs::read_to_string(home.join("pid")).expect("the shell wrote it").trim().to_owned()
}

fn result(i: u64) -> Value {
    json!({"training_iteration": i, "timesteps_total": 100 * i, "episode_reward_mean": 5.0 * i as f64,
        "time_breakdown": {"env_s": 1.0, "learn_s": 3.0}})
}

#[test]
fn a_run_that_is_being_written_is_drawn_and_the_terminal_is_as_before_after_q_ctrl_c_and_signals() {
    for way in ["q", "\u{1b}", "\u{3}", "INT", "TERM"] {
        let (home, out) = scratch();
        fs::create_dir(&out).unwrap();
        fs::write(out.join("run.json"), json!({"algorithm": "PPO", "env": "CartPole-v1"}).to_string())
            .unwrap();
        let mut shell = Shell::start(home.path(), &["watch", text(&out)]);
        shell.wait_for("CartPole-v1");
        let mut results = OpenOptions::new().create(true).append(true).open(out.join("result.json")).unwrap();
        let line = format!("{}\n", result(1));
        // A line comes in two parts, as a process writes it that is stopped in between.
        results.write_all(&line.as_bytes()[..20]).unwrap();
        results.write_all(&line.as_bytes()[20..]).unwrap();
        shell.wait_for("learning");
        match way {
            "INT" | "TERM" => {
                let sent = Command::new("kill").args([&format!("-{way}"), &pid(home.path())]).status();
                assert!(sent.expect("the program kill").success());
            }
            key => shell.type_key(key),
        }
        shell.end(home.path());
    }
}

#[test]
fn a_screen_beside_a_run_ends_with_it_and_the_last_lines_follow() {
    let (home, out) = scratch();
    let mut arguments = vec!["train"];
    arguments.extend(TINY);
    arguments.extend(["--out", text(&out), "--watch", "--stop", "timesteps_total=3200"]);
    let shown = Shell::start(home.path(), &arguments).end(home.path());
    let after = shown.rsplit(LEAVE).next().unwrap();
    assert!(after.contains("done: timesteps_total is 3200") && after.contains("evaluate it: "), "{shown:?}");
}

#[test]
fn a_run_goes_on_without_its_screen_and_ctrl_c_on_the_screen_stops_it_with_a_checkpoint() {
    let (home, out) = scratch();
    let mut arguments = vec!["train"];
    arguments.extend(TINY);
    arguments.extend(["--out", text(&out), "--watch"]);
    let mut shell = Shell::start(home.path(), &arguments);
    shell.wait_for("learning");
    shell.type_key("\u{3}");
    let shown = shell.end(home.path());
    assert!(shown.rsplit(LEAVE).next().unwrap().contains("stopped by a signal"), "{shown:?}");
    assert_eq!(super::checkpoints(&out).len(), 1);

    let other = home.path().join("other");
    let place = arguments.iter().position(|word| *word == text(&out)).unwrap();
    arguments[place] = text(&other);
    let mut shell = Shell::start(home.path(), &arguments);
    shell.wait_for("learning");
    shell.type_key("q");
    // A line of progress: the screen is gone, and the terminal turns Ctrl-C into a signal again.
    shell.wait_behind(LEAVE, ", mean return ");
    // Without a screen Ctrl-C is a signal.
    shell.type_key("\u{3}");
    let shown = shell.end(home.path());
    assert!(shown.rsplit(LEAVE).next().unwrap().contains("stopped by a signal"), "{shown:?}");
}

#[test]
fn without_a_terminal_the_way_out_is_named_and_what_is_no_run_is_refused() {
    let (home, out) = scratch();
    pavlov(&["watch", text(&out)]).refused("there is no such directory");
    pavlov(&["watch", text(home.path())]).refused("there is no run and no sweep to watch");
    run(&mut train(&out, &["--watch"])).refused("leave out --watch");
    assert!(!out.exists());
    run(&mut train(&out, &["--stop", "training_iteration=1"])).ok();
    pavlov(&["watch", text(&out)]).refused(&format!("`pavlov report {}` writes a page instead", text(&out)));
}
