//! Actors as threads of this process.

use std::collections::HashMap;
use std::thread::{self, JoinHandle};

use crossbeam_channel::{Receiver, Sender, bounded, unbounded};

use super::{ActorId, Executor, Report, Request, Start, actor};
use crate::{Error, Result, TrainableFactory};

/// Trials share the process: a panic ends its trial alone, a crash of native code ends the sweep.
pub(crate) struct ThreadExecutor {
    factory: TrainableFactory,
    actors: HashMap<ActorId, (Sender<Request>, JoinHandle<()>)>,
    /// Told to stop.
    ending: Vec<JoinHandle<()>>,
    report: Sender<(ActorId, Report)>,
    reports: Receiver<(ActorId, Report)>,
}

impl ThreadExecutor {
    pub(crate) fn new(factory: TrainableFactory) -> Self {
        let (report, reports) = unbounded();
        ThreadExecutor { factory, actors: HashMap::new(), ending: Vec::new(), report, reports }
    }
}

impl Executor for ThreadExecutor {
    fn spawn(&mut self, actor: ActorId, start: Start) -> Result<()> {
        let (sender, requests) = bounded(1);
        let (factory, report) = (self.factory.clone(), self.report.clone());
        let thread = thread::Builder::new()
            .name(format!("trial {}", start.trial_id))
            .spawn(move || {
                actor::serve(&factory, requests.into_iter(), |answer| {
                    // The sweep is over if nobody listens.
                    let _ = report.send((actor, answer));
                });
            })
            .map_err(Error::other)?;
        let _ = sender.send(Request::Start(Box::new(start)));
        self.actors.insert(actor, (sender, thread));
        Ok(())
    }

    fn send(&mut self, actor: ActorId, request: Request) {
        let ends = matches!(request, Request::Stop);
        let sent = self.actors.get(&actor).is_some_and(|(requests, _)| requests.send(request).is_ok());
        if !sent {
            let message = "its thread has ended".to_string();
            let _ = self.report.send((actor, Report::Failed { message }));
        }
        if (ends || !sent)
            && let Some((_, thread)) = self.actors.remove(&actor)
        {
            self.ending.retain(|thread| !thread.is_finished());
            self.ending.push(thread);
        }
    }

    fn reports(&self) -> &Receiver<(ActorId, Report)> {
        &self.reports
    }
}

impl Drop for ThreadExecutor {
    /// Those that were told to stop are waited for. After an error of the sweep the others end with their current step.
    fn drop(&mut self) {
        for thread in self.ending.drain(..) {
            let _ = thread.join();
        }
    }
}
