//! Requests per second of a policy behind HTTP, and how long the slowest wait.
//!
//! `cargo bench --bench serve -- [--clients 64] [--seconds 60] [--rows 1] [--binary] [--addr 127.0.0.1:8200]`. Each client has
//! one request under way over a connection that stays open. Without `--addr` the server is one of our own, with a network of
//! 64x64 for the pole, on another thread of this process; with it, a server that runs already and answers `POST /v1/act`, for
//! instance one of another library.

use std::{
    env,
    error::Error,
    io,
    net::SocketAddr,
    thread,
    time::{Duration, Instant},
};

use pavlov::{
    prelude::*,
    serve::{ServeConfig, Server},
};
use tokio::{net::TcpStream, runtime::Builder};

/// Time that is not measured, at the start.
const WARMING: Duration = Duration::from_millis(500);
/// Numbers of an observation of the pole.
const WIDTH: usize = 4;

/// What the command line says.
#[derive(Debug)]
struct Load {
    clients: usize,
    seconds: f64,
    rows: usize,
    is_binary: bool,
    addr: Option<SocketAddr>,
}

impl Load {
    fn parse() -> Result<Self, Box<dyn Error>> {
        let mut load = Self { clients: 64, seconds: 60.0, rows: 1, is_binary: false, addr: None };
        let mut args = env::args().skip(1);
        while let Some(arg) = args.next() {
            let mut value = || args.next().ok_or(format!("{arg} needs a value"));
            match arg.as_str() {
                "--clients" => load.clients = value()?.parse()?,
                "--seconds" => load.seconds = value()?.parse()?,
                "--rows" => load.rows = value()?.parse()?,
                "--addr" => load.addr = Some(value()?.parse()?),
                "--binary" => load.is_binary = true,
                // Cargo's own.
                "--bench" => {}
                other => {
                    let known = "--clients, --seconds, --rows, --binary and --addr";
                    return Err(format!("{other} is unknown; there is {known}").into());
                }
            }
        }
        Ok(load)
    }

    /// One request, header and body.
    fn request(&self) -> Vec<u8> {
        let obs: Vec<f32> = (0..WIDTH * self.rows).map(|i| (i as f32 * 0.37).sin() * 0.2).collect();
        let rows: Vec<&[f32]> = obs.chunks(WIDTH).collect();
        let (content, body) = if self.is_binary {
            let mut body = b"pvr1\0\0\0\0".to_vec();
            body.extend((self.rows as u32).to_le_bytes());
            body.extend((WIDTH as u32).to_le_bytes());
            body.extend(0_u64.to_le_bytes());
            obs.iter().for_each(|x| body.extend(x.to_le_bytes()));
            ("application/x-pavlov-rows", body)
        } else if self.rows == 1 {
            ("application/json", format!("{{\"obs\":{obs:?}}}").into_bytes())
        } else {
            ("application/json", format!("{{\"obs\":{rows:?}}}").into_bytes())
        };
        let length = body.len();
        let head = format!(
            "POST /v1/act HTTP/1.1\r\nHost: localhost\r\nContent-Type: {content}\r\nContent-Length: {length}\r\n\r\n"
        );
        [head.into_bytes(), body].concat()
    }
}

/// What one client saw.
#[derive(Debug, Default)]
struct Seen {
    /// Nanoseconds of each request that was answered with 200.
    times: Vec<u64>,
    /// Number of other answers, and of connections that broke.
    errors: u64,
}

fn main() -> Result<(), Box<dyn Error>> {
    let load = Load::parse()?;
    let own = if load.addr.is_none() { Some(own_server()?) } else { None };
    let addr = load.addr.or(own.as_ref().map(Server::local_addr)).ok_or("no address")?;
    let end = own.as_ref().map(Server::handle);
    let server = own.map(|server| thread::spawn(|| server.run()));
    let mut seen = Builder::new_current_thread().enable_all().build()?.block_on(run(&load, addr))?;
    end.iter().for_each(pavlov::serve::ServerHandle::end);
    if let Some(server) = server {
        server.join().map_err(|_| "the server panicked")??;
    }
    seen.times.sort_unstable();
    let at = |share: f64| {
        let last = seen.times.len().saturating_sub(1) as f64;
        seen.times.get((last * share) as usize).map_or(f64::NAN, |&time| time as f64 / 1e6)
    };
    println!(
        "{} clients, {} rows in {}, {} s",
        load.clients,
        load.rows,
        if load.is_binary { "binary" } else { "JSON" },
        load.seconds
    );
    println!("{:>12}{:>10}{:>10}{:>10}{:>10}", "requests/s", "p50 ms", "p99 ms", "max ms", "errors");
    let rate = seen.times.len() as f64 / load.seconds;
    println!("{rate:>12.0}{:>10.3}{:>10.3}{:>10.3}{:>10}", at(0.5), at(0.99), at(1.0), seen.errors);
    Ok(())
}

/// A server of our own with an untrained network of the size that is usual for the pole.
fn own_server() -> pavlov::Result<Server> {
    let mut ppo = Ppo::get_default_config();
    ppo.common.num_workers = 0;
    ppo.common.model.fcnet_hiddens = vec![64, 64];
    let mut trainer = ppo.builder("CartPole-v1").loggers(LoggerChoice::None).build()?;
    let policy = trainer.session(1)?.into_loaded()?;
    let addr = ([127, 0, 0, 1], 0).into();
    Server::bind(ServeConfig { addr, ..ServeConfig::default() }, move || Ok(policy.clone()))
}

async fn run(load: &Load, addr: SocketAddr) -> Result<Seen, Box<dyn Error>> {
    let begin = Instant::now() + WARMING;
    let end = begin + Duration::from_secs_f64(load.seconds);
    let clients: Vec<_> =
        (0..load.clients).map(|_| tokio::spawn(client(addr, load.request(), begin, end))).collect();
    let mut all = Seen::default();
    for client in clients {
        let seen = client.await??;
        all.times.extend(seen.times);
        all.errors += seen.errors;
    }
    Ok(all)
}

async fn client(addr: SocketAddr, request: Vec<u8>, begin: Instant, end: Instant) -> io::Result<Seen> {
    let mut seen = Seen::default();
    let mut answer = Vec::new();
    let mut stream = connect(addr).await?;
    loop {
        let start = Instant::now();
        if start >= end {
            return Ok(seen);
        }
        match ask(&stream, &request, &mut answer).await {
            Ok(200) if start >= begin => seen.times.push(start.elapsed().as_nanos() as u64),
            Ok(200) => {}
            Ok(_) => seen.errors += 1,
            Err(_) => {
                seen.errors += 1;
                stream = connect(addr).await?;
            }
        }
    }
}

async fn connect(addr: SocketAddr) -> io::Result<TcpStream> {
    let stream = TcpStream::connect(addr).await?;
    stream.set_nodelay(true)?;
    Ok(stream)
}

/// Sends a request and reads the answer; returns its status.
async fn ask(stream: &TcpStream, request: &[u8], answer: &mut Vec<u8>) -> io::Result<u16> {
    let mut rest = request;
    while !rest.is_empty() {
        stream.writable().await?;
        match stream.try_write(rest) {
            Ok(written) => rest = &rest[written..],
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => return Err(error),
        }
    }
    answer.clear();
    loop {
        stream.readable().await?;
        let mut chunk = [0; 4096];
        match stream.try_read(&mut chunk) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(read) => answer.extend_from_slice(&chunk[..read]),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => continue,
            Err(error) => return Err(error),
        }
        let Some(head) = answer.windows(4).position(|end| end == b"\r\n\r\n") else { continue };
        let text = String::from_utf8_lossy(&answer[..head]).to_ascii_lowercase();
        let length =
            text.lines().find_map(|line| line.strip_prefix("content-length:")?.trim().parse::<usize>().ok());
        // Without a length the body comes in chunks, and an empty one is the last.
        let is_whole = match length {
            Some(length) => answer.len() >= head + 4 + length,
            None => answer.ends_with(b"0\r\n\r\n"),
        };
        if is_whole {
            return Ok(text.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or(0));
        }
    }
}
