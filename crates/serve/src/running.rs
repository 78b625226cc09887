//! The event loop of a server: requests, signals, the end.

use super::desk::Desk;
use super::listen::answer_all;
use pavlov_trainer::{Error, Result};
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::runtime::Builder;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::time::sleep;

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
        answer_all(listener, desk).await;
        Ok(())
    });
    // A policy that is being loaded is not waited for.
    runtime.shutdown_background();
    done
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
