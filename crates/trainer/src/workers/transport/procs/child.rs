//! The worker's side of a connection: code that runs in the process of a worker, reads requests and writes replies.

use crate::sample::{Reply, Request, RolloutWorker, WorkerNames, WorkerSpec};
use crate::workers::transport::pool::Fault;
use crate::workers::wire;
use crate::workers::wire::Op;
use crossbeam_channel::{Receiver, unbounded};
use pavlov_learn::base::{Error, Result, catch, libtorch, lock};
use std::collections::BTreeMap;
use std::io::{BufReader, BufWriter, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

/// Time in which a worker may end by itself after the trainer is gone.
const PATIENCE: Duration = Duration::from_millis(500);

/// Runs this process as a worker until the other end of the socket is closed. `make` builds the description of the
/// worker from its serialisable part.
///
/// # Errors
/// Fails if the first frame does not describe a worker, or a thread cannot be started.
pub(crate) fn serve(
    socket: UnixStream,
    make: impl FnOnce(WorkerNames) -> Result<WorkerSpec> + Send + 'static,
) -> Result<()> {
    libtorch::one_thread();
    let mut from = BufReader::new(socket.try_clone().map_err(lost)?);
    let Some(first) = wire::read(&mut from)? else { return Ok(()) };
    if first.op != Op::Start {
        return Err(Error::state(
            "the process of a worker",
            "its first frame does not say what it is made from",
        ));
    }
    let start: u64 = first.request;
    let worker: usize = first.message.get("worker")?;
    let names: WorkerNames = first.message.get("names")?;
    let code: BTreeMap<String, String> = first.message.get("code")?;
    let (requests, inbox) = unbounded();
    let to = Arc::new(Answers(Mutex::new(BufWriter::new(socket))));
    let lent = Arc::clone(&to);
    let run = move || {
        let made = || {
            let spec = make(names)?;
            spec.check_code(&code)?;
            Ok(spec)
        };
        work(&lent, worker, start, made, &inbox);
        // Both ends notice the shutdown, and open requests will not be answered.
        let _ = lock(&lent.0).get_ref().shutdown(Shutdown::Both);
    };
    // A panic prints the name of the thread.
    let working = thread::Builder::new().name(format!("worker-{worker}")).spawn(run).map_err(lost)?;
    while let Ok(Some(frame)) = wire::read(&mut from) {
        if frame.op == Op::Probe {
            // If the trainer is gone, the next read notices it.
            let _ = to.put(frame.request, &Ok(Reply::Done));
            continue;
        }
        let number = frame.request;
        let Ok(request) = wire::to_request(frame) else { break };
        if requests.send((number, request)).is_err() {
            break;
        }
    }
    // The trainer is gone, or has closed the connection: environments end in an orderly way, unless one hangs.
    drop(requests);
    let (ended, end) = unbounded::<()>();
    let _ = thread::Builder::new().spawn(move || {
        let _ = working.join();
        drop(ended);
    });
    if end.recv_timeout(PATIENCE) == Err(crossbeam_channel::RecvTimeoutError::Timeout) {
        std::process::exit(0);
    }
    Ok(())
}

fn lost(error: std::io::Error) -> Error {
    Error::state("the process of a worker", error.to_string())
}

/// The socket for replies to requests and probes. A lock makes each frame whole before the next one begins.
struct Answers(Mutex<BufWriter<UnixStream>>);

impl Answers {
    /// Writes the reply to the request `number`.
    fn put(&self, number: u64, answer: &Result<Reply, Fault>) -> Result<()> {
        let mut to = lock(&self.0);
        wire::write_reply(&mut *to, number, answer)?;
        to.flush().map_err(lost)
    }
}

/// Makes the worker, and answers requests until there are no more or the worker panics.
fn work(
    to: &Answers,
    worker: usize,
    start: u64,
    make: impl FnOnce() -> Result<WorkerSpec>,
    inbox: &Receiver<(u64, Request)>,
) {
    let during = || format!("making the environments of worker {worker}");
    let made = catch(during, || RolloutWorker::new(make()?, worker));
    let mut rollout_worker = match made {
        Ok(made) => made,
        Err(error) => {
            // If the trainer is gone, nobody needs this reply.
            let _ = to.put(start, &Err(Fault::of_end(&error)));
            return;
        }
    };
    let mut sent = to.put(start, &Ok(Reply::Done));
    while sent.is_ok()
        && let Ok((number, body)) = inbox.recv()
    {
        let answer = match catch(|| format!("worker {worker}"), || rollout_worker.handle(body)) {
            Ok(reply) => Ok(reply),
            Err(error @ Error::Panic { .. }) => Err(Fault::Dead(error.to_string())),
            Err(error) => Err(Fault::of(&error)),
        };
        // A reply that cannot be written does not end the worker: the trainer gets the reason instead.
        sent = to.put(number, &answer).or_else(|error| to.put(number, &Err(Fault::App(error.to_string()))));
        if matches!(answer, Err(Fault::Dead(_))) {
            return;
        }
    }
}
