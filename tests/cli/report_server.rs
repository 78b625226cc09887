//! `pavlov report --serve`: the page over a socket.

use std::fs::{self, OpenOptions};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use serde_json::json;

use super::{command, finish, pavlov, scratch, signal, text};

/// A server of a page, which a signal ends.
struct Running {
    child: Child,
    addr: String,
}

struct Answer {
    status: u16,
    head: String,
    body: String,
}

impl Answer {
    fn tag(&self) -> &str {
        let line = self.head.lines().find_map(|line| line.strip_prefix("etag: "));
        line.expect("an answer with a version")
    }
}

impl Running {
    fn of(run: &Path) -> Running {
        let mut command = command(["report", text(run), "--serve", "127.0.0.1:0"]);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the binary");
        let mut line = String::new();
        BufReader::new(child.stdout.take().expect("piped")).read_line(&mut line).expect("a line");
        let after = line.split("http://").nth(1).expect(&line);
        Running { addr: after.split(';').next().expect("an address").to_owned(), child }
    }

    fn ask(&self, method: &str, path: &str, headers: &str) -> Answer {
        let host =
            if headers.contains("Host: ") { String::new() } else { format!("Host: {}\r\n", self.addr) };
        let mut stream = TcpStream::connect(&self.addr).expect("a server");
        write!(stream, "{method} {path} HTTP/1.1\r\n{host}{headers}Connection: close\r\n\r\n").expect("sent");
        let mut all = String::new();
        stream.read_to_string(&mut all).expect("an answer");
        let (head, body) = all.split_once("\r\n\r\n").expect("a header");
        let status = head.split(' ').nth(1).and_then(|code| code.parse().ok()).expect("a status");
        Answer { status, head: head.to_lowercase(), body: body.into() }
    }

    fn get(&self, path: &str) -> Answer {
        self.ask("GET", path, "")
    }
}

/// A run with one result.
fn written() -> (tempfile::TempDir, std::path::PathBuf) {
    let (home, out) = scratch();
    fs::create_dir(&out).unwrap();
    let run = json!({"algorithm": "PPO", "env": "CartPole-v1", "stop": {}});
    fs::write(out.join("run.json"), run.to_string()).unwrap();
    add(&out, 1);
    (home, out)
}

fn add(out: &Path, i: u64) {
    let result =
        json!({"training_iteration": i, "timesteps_total": 100 * i, "episode_reward_mean": 10.5 * i as f64});
    let mut file = OpenOptions::new().create(true).append(true).open(out.join("result.json")).unwrap();
    writeln!(file, "{result}").unwrap();
}

#[test]
fn the_page_is_the_same_until_a_result_is_added() {
    let (_home, out) = written();
    let server = Running::of(&out);
    let first = server.get("/");
    assert_eq!(first.status, 200, "{}", first.body);
    assert!(
        first.body.contains("<title>PPO on CartPole-v1</title>") && first.body.contains("after 100 steps")
    );
    assert!(first.body.contains("connect-src 'self'") && first.body.contains("fetch(\"version\""));
    let version = server.get("/version").body;
    assert_eq!(first.tag(), format!("\"{version}\""));
    assert!(first.body.contains(&format!("version=\"{version}\"")));
    let known = format!("If-None-Match: {}\r\n", first.tag());
    for path in ["/", "/version"] {
        let same = server.ask("GET", path, &known);
        assert_eq!((same.status, same.body.as_str()), (304, ""));
    }

    add(&out, 2);
    let started = Instant::now();
    while server.ask("GET", "/version", &known).status == 304 {
        assert!(started.elapsed() < Duration::from_secs(60), "the version stays");
        std::thread::sleep(Duration::from_millis(50));
    }
    let second = server.get("/");
    assert!(second.body.contains("after 200 steps") && second.tag() != first.tag(), "{}", second.body);

    // A run that cannot be read leaves the page as it is.
    fs::remove_file(out.join("result.json")).unwrap();
    let mut server = server;
    let mut said = BufReader::new(server.child.stderr.take().expect("piped"));
    let (sender, line) = channel();
    std::thread::spawn(move || {
        let mut line = String::new();
        said.read_line(&mut line).expect("a line");
        sender.send(line)
    });
    let line = loop {
        assert!(server.get("/").body.contains("after 200 steps"));
        if let Ok(line) = line.recv_timeout(Duration::from_millis(50)) {
            break line;
        }
    };
    assert!(line.starts_with("the page stays as it is: "), "{line}");
    signal(&server.child, "TERM");
    assert!(server.child.wait().expect("a child").success());
}

#[test]
#[ignore = "needs a browser: PAVLOV_TEST_BROWSER_PYTHON names a Python with PyQt6-WebEngine"]
fn a_page_loads_itself_again_in_a_browser_when_a_result_is_added() {
    let python = std::env::var_os("PAVLOV_TEST_BROWSER_PYTHON").expect("a Python with PyQt6-WebEngine");
    let (_home, out) = written();
    let server = Running::of(&out);
    let mut browser = Command::new(python)
        .arg(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/report_in_browser.py"))
        .args([&format!("http://{}/", server.addr), "after 200 steps"])
        .stdout(Stdio::piped())
        .spawn()
        .expect("Python");
    let mut said = BufReader::new(browser.stdout.take().expect("piped"));
    let mut line = String::new();
    said.read_line(&mut line).expect("a line");
    assert_eq!(line, "loaded\n");
    add(&out, 2);
    let mut rest = String::new();
    said.read_to_string(&mut rest).expect("an object");
    assert!(browser.wait().expect("a child").success());
    let seen: serde_json::Value = serde_json::from_str(&rest).expect("JSON");
    assert_eq!(seen, json!({"loads": 2, "shown": true, "console": []}));
    signal(&server.child, "TERM");
    finish(server.child).ok();
}

#[test]
fn other_names_paths_and_methods_are_refused_and_ctrl_c_ends() {
    let (_home, out) = written();
    let server = Running::of(&out);
    let other = server.ask("GET", "/", "Host: example.org\r\n");
    assert_eq!(other.status, 421);
    assert!(
        other.body.contains("was called by \"example.org\": call it by localhost or 127.0.0.1"),
        "{}",
        other.body
    );
    assert_eq!(server.ask("GET", "/", "Host: localhost\r\n").status, 200);
    for path in ["/run.json", "/../run.json", "//", "/favicon.ico", "/version/"] {
        let none = server.get(path);
        assert_eq!((none.status, none.body.as_str()), (404, "there is only the page, at /\n"), "{path}");
    }
    assert_eq!(server.ask("POST", "/", "Content-Length: 0\r\n").status, 405);
    let head = server.ask("HEAD", "/", "");
    assert_eq!((head.status, head.body.as_str()), (200, ""));
    signal(&server.child, "INT");
    finish(server.child).ok();
}

#[test]
fn an_address_that_others_can_reach_and_what_is_no_run_are_refused() {
    let (home, out) = written();
    pavlov(&["report", text(&out), "--serve", "0.0.0.0:0"]).refused("others could read the page there");
    pavlov(&["report", text(home.path()), text(&home.path().join("no")), "--serve", "127.0.0.1:0"])
        .refused("there is no such directory");
}
