//! Actors as threads of this process.

use std::collections::HashMap;
use std::thread::{self, JoinHandle};

use crossbeam_channel::{Receiver, Sender, bounded, unbounded};

use super::{ActorId, Executor, Report, Request, Start, actor};
use crate::{Error, Result, TrainableFactory};

/// Runs each actor in a thread of this process. A panic ends only its trial; a crash of native code ends the whole
/// sweep.
pub(crate) struct ThreadExecutor {
    factory: TrainableFactory,
    actors: HashMap<ActorId, (Sender<Request>, JoinHandle<()>)>,
    report: Sender<(ActorId, Report)>,
    reports: Receiver<(ActorId, Report)>,
}

impl ThreadExecutor {
    /// Makes an executor without actors.
    pub(crate) fn new(factory: TrainableFactory) -> Self {
        let (report, reports) = unbounded();
        ThreadExecutor { factory, actors: HashMap::new(), report, reports }
    }
}

impl Executor for ThreadExecutor {
    fn spawn(&mut self, actor: ActorId, start: Start) -> Result<()> {
        let (sender, requests) = bounded(1);
        let factory = self.factory.clone();
        let report = self.report.clone();
        let thread = thread::Builder::new()
            .name(format!("trial {}", start.trial_id))
            .spawn(move || {
                actor::serve(&factory, requests.into_iter(), |answer| {
                    // A closed channel means that the sweep is over.
                    let _ = report.send((actor, answer));
                });
            })
            .map_err(Error::other)?;
        let _ = sender.send(Request::Start(Box::new(start)));
        self.actors.insert(actor, (sender, thread));
        Ok(())
    }

    fn send(&mut self, actor: ActorId, request: Request) {
        let sent = self.actors.get(&actor).is_some_and(|(requests, _)| requests.send(request).is_ok());
        if !sent {
            let message = "its thread has ended".to_string();
            let _ = self.report.send((actor, Report::Failed { message }));
        }
    }

    fn forget(&mut self, actor: ActorId) {
        if let Some((_, thread)) = self.actors.remove(&actor) {
            let _ = thread.join();
        }
    }

    fn reports(&self) -> &Receiver<(ActorId, Report)> {
        &self.reports
    }
}
