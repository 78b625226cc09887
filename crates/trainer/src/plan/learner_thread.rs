//! `learner_thread`: runs a step of a plan on a separate thread (Ray's LearnerThread).

use crate::plan::learner_info::LearnerInfo;
use crate::workers::{LearnerQueue, Ledger, WorkerSet};
use crossbeam_channel::{Receiver, Sender, unbounded};
use pavlov_learn::base::{Error, Result, catch};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::thread::JoinHandle;
use std::time::Instant;

/// Returns a step that passes every item to `step` on a separate thread, and yields the reports of that thread since
/// the previous item. Up to `queue` items wait for the thread; if there are more, the plan waits as well. With 0
/// there is no separate thread: the plan itself runs `step`.
///
/// The order of sampling and learning depends on the speed of the machine, so such a run does not repeat. An error or
/// a panic of `step` is returned with the next item, and the item after that starts a new thread. Saving the run
/// waits until the queue is empty. The thread ends with the plan.
pub fn learner_thread<T, S>(
    workers: &WorkerSet,
    queue: usize,
    step: S,
) -> impl FnMut(T) -> Result<LearnerInfo> + Send + use<T, S>
where
    T: Send + 'static,
    S: FnMut(T) -> Result<LearnerInfo> + Send + 'static,
{
    let mut learner = LearnerThread {
        step: Some(step),
        running: None,
        most: queue,
        queue: Arc::clone(workers.learners.queue()),
        ledger: workers.ledger.clone(),
    };
    move |item| learner.learn(item)
}

struct LearnerThread<T, S> {
    /// The step that learns from items; `None` while the thread has it.
    step: Option<S>,
    running: Option<Running<T, S>>,
    /// Largest number of items that may wait for the thread.
    most: usize,
    queue: Arc<LearnerQueue>,
    ledger: Ledger,
}

struct Running<T, S> {
    items: Sender<T>,
    reports: Receiver<Result<LearnerInfo>>,
    /// Tells the thread to skip the remaining items.
    over: Arc<AtomicBool>,
    /// The thread, which returns the step when it ends.
    thread: JoinHandle<S>,
}

impl<T, S> LearnerThread<T, S>
where
    T: Send + 'static,
    S: FnMut(T) -> Result<LearnerInfo> + Send + 'static,
{
    fn learn(&mut self, item: T) -> Result<LearnerInfo> {
        if let (0, Some(step)) = (self.most, &mut self.step) {
            return step(item);
        }
        let running = match self.running.take() {
            Some(running) => running,
            None => self.start()?,
        };
        let start = Instant::now();
        // One item is being learned from, the others wait. If the thread has failed, its report says so.
        if self.queue.hand_over(self.most + 1) {
            let _ = running.items.send(item);
        }
        self.ledger.time("learn_wait", start, 0);
        let mut info = LearnerInfo::default();
        let reports = running.reports.try_iter().try_for_each(|report| {
            info.merge(report?);
            Ok(())
        });
        self.running = Some(running);
        if let Err(error) = reports {
            self.stop();
            return Err(error);
        }
        Ok(info)
    }

    fn start(&mut self) -> Result<Running<T, S>> {
        let refuse = |reason: String| Error::state("the learner thread", reason);
        let mut step = self.step.take().ok_or_else(|| refuse("it could not be started before".into()))?;
        let (items, inbox) = unbounded::<T>();
        let (outbox, reports) = unbounded();
        let over = Arc::new(AtomicBool::new(false));
        let queue = Arc::clone(&self.queue);
        let ledger = self.ledger.clone();
        let told = Arc::clone(&over);
        let run = move || {
            // The loop ends when the plan drops its sender.
            for item in inbox {
                if told.load(Relaxed) {
                    break;
                }
                let learned = catch(|| "the learner thread".into(), || step(item));
                let failed = learned.is_err();
                let _ = outbox.send(learned);
                if failed {
                    queue.end(true);
                    break;
                }
                ledger.learner_queue(queue.learned());
            }
            step
        };
        let thread = std::thread::Builder::new().name("learner".into()).spawn(run);
        let thread = thread.map_err(|e| refuse(format!("there is no thread for it: {e}")))?;
        Ok(Running { items, reports, over, thread })
    }
}

impl<T, S> LearnerThread<T, S> {
    /// Ends the thread, if it runs. Waiting items are dropped.
    fn stop(&mut self) {
        let Some(Running { items, over, thread, .. }) = self.running.take() else { return };
        over.store(true, Relaxed);
        drop(items);
        self.step = thread.join().ok();
        self.queue.end(false);
    }
}

impl<T, S> Drop for LearnerThread<T, S> {
    fn drop(&mut self) {
        self.stop();
    }
}
