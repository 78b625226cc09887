//! `tests/s3_server.py`: moto's S3 server with objects that survive `kill -9`.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

use pavlov_storage::open_with;
use pavlov_tune::storage::Storage;
use tempfile::TempDir;

/// A running server with the bucket `pavlov`; ends with the test, whatever becomes of it.
pub(crate) struct Server {
    /// Its objects are in the folder `objects`.
    directory: TempDir,
    child: Child,
    port: String,
    writer: Key,
    reader: Key,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Key {
    pub(crate) id: String,
    pub(crate) secret: String,
}

impl Server {
    /// `None` without a Python that has it.
    pub(crate) fn start() -> Option<Self> {
        let Some(python) = std::env::var_os("PAVLOV_TEST_PYTHON") else {
            // To the stream itself: the test harness would swallow `eprintln!`.
            let note = b"skipped: set PAVLOV_TEST_PYTHON to a Python that has moto[server]\n";
            std::io::stderr().write_all(note).unwrap();
            return None;
        };
        let directory = tempfile::tempdir().unwrap();
        let (child, words) = launch(Path::new(&python), &directory.path().join("objects"), "0");
        let [port, id, secret, reader_id, reader_secret] = <[String; 5]>::try_from(words).unwrap();
        let writer = Key { id, secret };
        let reader = Key { id: reader_id, secret: reader_secret };
        Some(Server { directory, child, port, writer, reader })
    }

    /// What a user has in the environment.
    pub(crate) fn environment(&self) -> Vec<(String, String)> {
        self.environment_of(&self.writer)
    }

    /// The storage at `url`.
    pub(crate) fn open(&self, url: &str) -> Arc<dyn Storage> {
        open_with(url, self.environment()).unwrap()
    }

    pub(crate) fn environment_of(&self, key: &Key) -> Vec<(String, String)> {
        let endpoint = format!("http://127.0.0.1:{}", self.port);
        [
            ("AWS_ACCESS_KEY_ID", &key.id),
            ("AWS_SECRET_ACCESS_KEY", &key.secret),
            ("AWS_ENDPOINT_URL", &endpoint),
        ]
        .map(|(name, value)| (name.to_owned(), value.clone()))
        .to_vec()
    }

    /// May read and change everything.
    pub(crate) fn writer(&self) -> Key {
        self.writer.clone()
    }

    /// May list and read.
    pub(crate) fn reader(&self) -> Key {
        self.reader.clone()
    }

    /// Until a part of a large object has come.
    pub(crate) fn wait_for_part(&self) {
        let part = self.directory.path().join("part");
        for _ in 0..12_000 {
            if part.exists() {
                return std::fs::remove_file(part).unwrap();
            }
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        panic!("no part has come");
    }

    /// What [`in_child`] starts.
    pub(crate) fn command(&self, name: &str) -> Command {
        let mut child = Command::new(std::env::current_exe().unwrap());
        child
            .args(["--exact", name, "--nocapture", "--include-ignored"])
            .env("PAVLOV_TEST_CHILD", "1")
            .envs(self.environment());
        child.env("PAVLOV_RESULTS_DIR", self.results());
        child
    }

    /// Runs it to its end.
    pub(crate) fn run(&self, name: &str) {
        let output = self.command(name).output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success() && text.contains("1 passed"), "{text}");
    }

    /// The results root of children.
    pub(crate) fn results(&self) -> PathBuf {
        self.directory.path().join("results")
    }

    /// `kill -9`.
    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// After [`kill`](Self::kill), on the same port, with what was acknowledged.
    pub(crate) fn restart(&mut self) {
        let python = std::env::var_os("PAVLOV_TEST_PYTHON").unwrap();
        self.child = launch(Path::new(&python), &self.directory.path().join("objects"), &self.port).0;
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Runs the test of that name in a process that has a server and a results directory in its environment, as a user's has.
pub(crate) fn in_child(name: &str, test: fn()) {
    if std::env::var_os("PAVLOV_TEST_CHILD").is_some() {
        pavlov_storage::register();
        return test();
    }
    let Some(server) = Server::start() else { return };
    server.run(name);
}

/// A server, and the words of the line that it prints when it listens.
fn launch(python: &Path, directory: &Path, port: &str) -> (Child, Vec<String>) {
    let mut child = Command::new(python)
        .args(["-c", include_str!("s3_server.py")])
        .args([directory.as_os_str(), port.as_ref()])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap_or_else(|error| panic!("PAVLOV_TEST_PYTHON={}: {error}", python.display()));
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
    assert!(!words.is_empty(), "{}: the S3 server does not start; has it moto[server]?", python.display());
    (child, words)
}
