//! In the process of a worker: requests come in, replies go out.

use crate::base::{Error, Result, catch, lock};
use crate::sample::{Reply, Request, RolloutWorker, SpecByName, WorkerSpec};
use crate::workers::transport::pool::Fault;
use crate::workers::wire;
use crate::workers::wire::Op;
use crossbeam_channel::{Receiver, unbounded};
use std::io::{BufReader, BufWriter, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

/// How long a worker whose driver is gone may take to end by itself.
const PATIENCE: Duration = Duration::from_millis(500);

/// Is a worker, made from what `make` finds by its names, until the other end of the socket is closed.
///
/// # Errors
/// Fails if the first frame says no worker, or there is no thread.
pub(crate) fn serve(
    socket: UnixStream,
    make: impl FnOnce(SpecByName) -> Result<WorkerSpec> + Send + 'static,
) -> Result<()> {
    tch::set_num_threads(1);
    let mut from = BufReader::new(socket.try_clone().map_err(lost)?);
    let Some(first) = wire::read(&mut from)? else { return Ok(()) };
    if first.op != Op::Start {
        return Err(Error::state(
            "the process of a worker",
            "its first frame does not say what it is made from",
        ));
    }
    let (start, worker): (u64, usize) = (first.request, first.message.get("worker")?);
    let spec: SpecByName = first.message.get("spec")?;
    let (requests, inbox) = unbounded();
    let to = Arc::new(Answers(Mutex::new(BufWriter::new(socket))));
    let lent = Arc::clone(&to);
    let run = move || {
        work(&lent, worker, start, || make(spec), &inbox);
        // Both ends learn of it: what is still asked will not be answered.
        let _ = lock(&lent.0).get_ref().shutdown(Shutdown::Both);
    };
    // The name that a panic prints.
    let working = thread::Builder::new().name(format!("worker-{worker}")).spawn(run).map_err(lost)?;
    while let Ok(Some(frame)) = wire::read(&mut from) {
        if frame.op == Op::Probe {
            // A driver that is gone is noticed by the next read.
            let _ = to.put(frame.request, &Ok(Reply::Done));
            continue;
        }
        let number = frame.request;
        let Ok(request) = wire::to_request(frame) else { break };
        if requests.send((number, request)).is_err() {
            break;
        }
    }
    // The driver is gone, or needs nothing more: environments end in order, unless one hangs.
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

/// Where the answers of the worker go, and those to probes. A frame is written whole before the next one.
struct Answers(Mutex<BufWriter<UnixStream>>);

impl Answers {
    fn put(&self, number: u64, answer: &Result<Reply, Fault>) -> Result<()> {
        let mut to = lock(&self.0);
        wire::write_reply(&mut *to, number, answer)?;
        to.flush().map_err(lost)
    }
}

/// Answers requests until there are no more, or the worker is lost.
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
            // A driver that is gone need not know.
            let _ = to.put(start, &Err(Fault::Dead(error.to_string())));
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
            Err(error) => Err(Fault::App(error.to_string())),
        };
        // What cannot be written is not gone: the driver learns why.
        sent = to.put(number, &answer).or_else(|error| to.put(number, &Err(Fault::App(error.to_string()))));
        if matches!(answer, Err(Fault::Dead(_))) {
            return;
        }
    }
}
