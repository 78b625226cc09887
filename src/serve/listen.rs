//! The event loop: connections, signals, the end.

use super::desk::Desk;
use super::memory::Held;
use super::refusal::Refusal;
use super::stream::{Phase, Timed};
use crate::{Error, Result};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use std::convert::Infallible;
use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Builder;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::time::{sleep, timeout};

/// Largest number of bytes of a request's header.
const HEADER: usize = 16 << 10;
/// Time in which a client that is about to ask can still do so when the server ends.
const GRACE: Duration = Duration::from_millis(500);
/// Time between two looks for sessions that were silent for too long.
const SWEEP: Duration = Duration::from_secs(30);
/// Exit code that shells expect of a process that Ctrl-C ended.
const QUIT: i32 = 130;

/// Answers requests until the server is asked to end. With `say` signals are watched.
pub(super) fn run(listener: std::net::TcpListener, desk: &Arc<Desk>, say: Option<fn(&str)>) -> Result<()> {
    let failed = |error: std::io::Error| Error::state("the server's event loop", error.to_string());
    let runtime = Builder::new_current_thread().enable_all().build().map_err(failed)?;
    let done = runtime.block_on(async {
        let listener = TcpListener::from_std(listener).map_err(failed)?;
        if let Some(say) = say {
            watch_signals(desk, say).map_err(failed)?;
        }
        let answering = Arc::clone(desk);
        tokio::spawn(async move { answering.queue.answer_all(|| answering.connections.used()).await });
        let sweeping = Arc::clone(desk);
        tokio::spawn(async move {
            loop {
                sleep(SWEEP).await;
                sweeping.sessions.sweep();
            }
        });
        accept(listener, desk).await;
        let closed = async {
            while desk.connections.used() > 0 {
                sleep(Duration::from_millis(5)).await;
            }
        };
        // Connections that are still open then are cut.
        let _ = timeout(desk.limits.end_timeout, closed).await;
        Ok(())
    });
    // A policy that is being loaded is not waited for.
    runtime.shutdown_background();
    done
}

/// Takes connections until the server ends, and then those that the system has taken already.
async fn accept(listener: TcpListener, desk: &Arc<Desk>) {
    let mut watch = desk.ending.subscribe();
    let mut ended = pin!(watch.wait_for(|ends| *ends));
    loop {
        let next = poll_fn(|cx| match listener.poll_accept(cx) {
            Poll::Ready(taken) => Poll::Ready(Some(taken)),
            Poll::Pending => ended.as_mut().poll(cx).map(|_| None),
        });
        match next.await {
            Some(Ok((stream, _))) => begin(stream, desk),
            // For instance too many open files: what is open may close.
            Some(Err(_)) => sleep(Duration::from_millis(20)).await,
            None => return,
        }
    }
}

/// What a connection gets that is one too many.
fn one_too_many(most: usize) -> String {
    let message = format!(
        "{most} connections are open, the most that this server takes (`--max-connections`): try again"
    );
    let body = Refusal::busy("connections", message).body();
    format!(
        "HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/json\r\nRetry-After: 1\r\nConnection: close\r\n\
         Content-Length: {}\r\n\r\n{body}",
        body.len()
    )
}

fn begin(stream: TcpStream, desk: &Arc<Desk>) {
    let Some(held) = desk.connections.take(1) else {
        // A client that does not take the answer is closed without.
        let _ = stream.try_write(one_too_many(desk.limits.max_connections).as_bytes());
        desk.metrics.answer(503);
        return;
    };
    tokio::spawn(serve(stream, Arc::clone(desk), held));
}

/// Answers the requests of one connection.
async fn serve(stream: TcpStream, desk: Arc<Desk>, _held: Held) {
    // Without it, small answers wait for the client's acknowledgement.
    if stream.set_nodelay(true).is_err() {
        return;
    }
    let phase = Arc::new(Phase::default());
    let io = Timed::new(stream, Arc::clone(&phase), &desk.limits);
    let service = service_fn(|request| {
        let phase = &phase;
        let desk = &desk;
        async move {
            phase.enter();
            let response = desk.answer(request).await;
            phase.leave();
            Ok::<_, Infallible>(response)
        }
    });
    let mut http = http1::Builder::new();
    http.header_read_timeout(None).max_buf_size(HEADER);
    let mut connection = pin!(http.serve_connection(io, service));
    let mut watch = desk.ending.subscribe();
    let mut ended = pin!(async move {
        let _ = watch.wait_for(|ends| *ends).await;
        sleep(GRACE).await;
    });
    let is_done = poll_fn(|cx| match connection.as_mut().poll(cx) {
        Poll::Ready(_) => Poll::Ready(true),
        Poll::Pending => ended.as_mut().poll(cx).map(|()| false),
    });
    if !is_done.await {
        connection.as_mut().graceful_shutdown();
        // Errors of a connection are the client's: it is closed either way.
        let _ = connection.await;
    }
}

/// Ends the server at SIGTERM or Ctrl-C, and reloads the policy at SIGHUP.
fn watch_signals(desk: &Arc<Desk>, say: fn(&str)) -> std::io::Result<()> {
    let mut hangup = signal(SignalKind::hangup())?;
    let reloading = Arc::clone(desk);
    tokio::spawn(async move {
        while hangup.recv().await.is_some() {
            let desk = Arc::clone(&reloading);
            let reloaded = tokio::task::spawn_blocking(move || desk.reload()).await;
            match reloaded.unwrap_or_else(|_| Err("loading the policy panicked".into())) {
                Ok(version) => say(&format!("version {version} of the policy is served")),
                Err(reason) => say(&format!("the policy stays: {reason}")),
            }
        }
    });
    for kind in [SignalKind::terminate(), SignalKind::interrupt()] {
        tokio::spawn(end_at(signal(kind)?, Arc::clone(desk), say));
    }
    Ok(())
}

async fn end_at(mut signal: Signal, desk: Arc<Desk>, say: fn(&str)) {
    while signal.recv().await.is_some() {
        if desk.ending.send_replace(true) {
            std::process::exit(QUIT);
        }
        say("ending when what waits is answered; again to end at once");
    }
}
