//! The thread on which all requests run.

use std::future::{Future, pending};
use std::sync::{Mutex, PoisonError, mpsc};
use std::{io, thread};

use tokio::runtime::{Builder, Handle};

static RUNTIME: Mutex<Option<Handle>> = Mutex::new(None);

/// Runs `task` on the thread for requests and returns its result. Any thread may call this, even one of another runtime.
///
/// # Errors
/// Fails if the thread cannot be started, or if `task` panics.
pub(crate) fn block_on<T: Send + 'static>(task: impl Future<Output = T> + Send + 'static) -> io::Result<T> {
    let (send, result) = mpsc::sync_channel(1);
    runtime()?.spawn(async move { send.send(task.await) });
    result.recv().map_err(|_| io::Error::other("the request ended with a panic; this is a bug"))
}

fn runtime() -> io::Result<Handle> {
    let mut handle = RUNTIME.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(handle) = &*handle {
        return Ok(handle.clone());
    }
    let runtime = Builder::new_current_thread().enable_all().build()?;
    let made = runtime.handle().clone();
    thread::Builder::new().name("storage".into()).spawn(move || runtime.block_on(pending::<()>()))?;
    Ok(handle.insert(made).clone())
}
