//! A server on a thread of the test, and a client that speaks HTTP on a plain socket.

use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::thread::JoinHandle;
use std::time::Duration;

use pavlov::serve::{Limits, ServeConfig, Server, ServerHandle};
use pavlov::trainer::Loaded;
use serde_json::Value;

/// A server that runs until it is dropped.
pub(super) struct Running {
    pub(super) addr: SocketAddr,
    pub(super) handle: ServerHandle,
    thread: Option<JoinHandle<pavlov::Result<()>>>,
}

impl Running {
    /// Serves a policy on a free port.
    pub(super) fn with(
        config: ServeConfig,
        load: impl Fn() -> pavlov::Result<Loaded> + Send + Sync + 'static,
    ) -> Self {
        let addr = ([127, 0, 0, 1], 0).into();
        let server = Server::bind(ServeConfig { addr, ..config }, load).expect("a server");
        let addr = server.local_addr();
        let handle = server.handle();
        Self { addr, handle, thread: Some(std::thread::spawn(|| server.run())) }
    }

    pub(super) fn of(policy: &Loaded, limits: Limits) -> Self {
        let policy = policy.clone();
        Self::with(ServeConfig { limits, ..ServeConfig::default() }, move || Ok(policy.clone()))
    }

    pub(super) fn client(&self) -> Client {
        Client::to(self.addr)
    }

    /// Ends the server and waits until it has answered everything.
    pub(super) fn end(mut self) {
        self.handle.end();
        let thread = self.thread.take().expect("it runs");
        thread.join().expect("no panic").expect("it ended well");
    }

    /// A number of `/metrics`.
    pub(super) fn metric(&self, name: &str) -> f64 {
        let text = self.client().get("/metrics").text;
        let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        line.and_then(|number| number.parse().ok()).unwrap_or_else(|| panic!("no {name} in\n{text}"))
    }

    /// Waits until no connection is open but that which asks.
    pub(super) fn wait_until_alone(&self) {
        for _ in 0..2000 {
            if self.metric("pavlov_serve_connections") == 1.0 {
                return;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        panic!("connections stay open");
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.handle.end();
    }
}

/// An answer.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) status: u16,
    pub(super) head: String,
    pub(super) text: String,
    pub(super) bytes: Vec<u8>,
}

impl Answer {
    pub(super) fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// The code of a refusal.
    #[track_caller]
    pub(super) fn code(&self) -> String {
        let error = self.json();
        assert!(error["error"]["message"].as_str().is_some_and(|message| message.len() > 10), "{self:?}");
        error["error"]["code"].as_str().unwrap_or_else(|| panic!("no code: {self:?}")).to_owned()
    }

    pub(super) fn closes(&self) -> bool {
        self.head.to_ascii_lowercase().contains("connection: close")
    }
}

/// A connection that is kept open.
pub(super) struct Client {
    pub(super) stream: BufReader<TcpStream>,
}

impl Client {
    pub(super) fn to(addr: SocketAddr) -> Self {
        let stream = TcpStream::connect(addr).expect("a connection");
        // So that a server that never answers fails the test.
        stream.set_read_timeout(Some(Duration::from_secs(60))).expect("a time limit");
        stream.set_nodelay(true).expect("no delay");
        Self { stream: BufReader::new(stream) }
    }

    pub(super) fn send(&mut self, bytes: &[u8]) -> std::io::Result<()> {
        self.stream.get_mut().write_all(bytes)
    }

    /// Reads an answer; `None` if the server closed the connection before.
    pub(super) fn try_read(&mut self) -> Option<Answer> {
        let gone = |error: &std::io::Error| {
            matches!(
                error.kind(),
                ErrorKind::ConnectionReset | ErrorKind::BrokenPipe | ErrorKind::UnexpectedEof
            )
        };
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            match self.stream.read_line(&mut head) {
                Ok(0) => return None,
                Ok(_) => {}
                Err(error) if gone(&error) => return None,
                Err(error) => panic!("{error} after {head:?}"),
            }
        }
        let lower = head.to_ascii_lowercase();
        let length = lower.lines().find_map(|line| line.strip_prefix("content-length:")?.trim().parse().ok());
        let mut bytes = vec![0; length.unwrap_or(0)];
        self.stream.read_exact(&mut bytes).ok()?;
        let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).expect("a status");
        Some(Answer { status, head, text: String::from_utf8_lossy(&bytes).into_owned(), bytes })
    }

    #[track_caller]
    pub(super) fn read(&mut self) -> Answer {
        self.try_read().expect("an answer")
    }

    #[track_caller]
    pub(super) fn ask(&mut self, method: &str, path: &str, headers: &str, body: &[u8]) -> Answer {
        let length = body.len();
        let host = if headers.contains("Host:") { "" } else { "Host: localhost\r\n" };
        let head = format!("{method} {path} HTTP/1.1\r\n{host}{headers}Content-Length: {length}\r\n\r\n");
        let whole = [head.as_bytes(), body].concat();
        self.send(&whole).expect("a request");
        self.read()
    }

    #[track_caller]
    pub(super) fn get(&mut self, path: &str) -> Answer {
        self.ask("GET", path, "", b"")
    }

    /// Asks for actions with a body of JSON.
    #[track_caller]
    pub(super) fn act(&mut self, body: impl ToString) -> Answer {
        self.ask("POST", "/v1/act", "Content-Type: application/json\r\n", body.to_string().as_bytes())
    }

    /// Asks for actions with binary rows.
    #[track_caller]
    pub(super) fn rows(&mut self, body: &[u8]) -> Answer {
        self.ask("POST", "/v1/act", "Content-Type: application/x-pavlov-rows\r\n", body)
    }
}

/// A body of binary rows.
pub(super) fn packed(kind: u8, flags: u8, rows: usize, columns: usize, parts: &[&[u8]]) -> Vec<u8> {
    let mut body = b"pvr1".to_vec();
    body.extend([kind, flags, 0, 0]);
    body.extend((rows as u32).to_le_bytes());
    body.extend((columns as u32).to_le_bytes());
    body.extend(0_u64.to_le_bytes());
    parts.iter().for_each(|part| body.extend_from_slice(part));
    body
}

/// The header of binary rows: kind, rows, columns, version.
pub(super) fn header(body: &[u8]) -> (u8, u32, u32, u64) {
    assert_eq!(&body[..4], b"pvr1");
    let number = |at: usize| u32::from_le_bytes([body[at], body[at + 1], body[at + 2], body[at + 3]]);
    (body[4], number(8), number(12), u64::from(number(16)))
}
