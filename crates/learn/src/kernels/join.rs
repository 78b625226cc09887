//! Two operations at once: one on the caller's thread, one on a thread that waits for such work.
//!
//! A layer of a small network takes microseconds, and waking a thread takes as long. So the helping thread spins between
//! the operations of a learner, and sleeps after [`PATIENCE`] without work. Work that it has not begun in time is taken
//! back. On a busy machine one of the two loses its core, and the other waits for it: then the caller works alone for some
//! time, see [`Pace`].

use std::any::Any;
use std::cell::UnsafeCell;
use std::hint::spin_loop;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release, SeqCst};
use std::sync::atomic::{AtomicBool, AtomicU32};
use std::sync::{Mutex, OnceLock};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

/// Time that the helper spins without work before it sleeps. (With a millisecond the system takes a core from one of the two
/// threads more often, and the helper rests more.)
const PATIENCE: Duration = Duration::from_micros(100);
/// Time beyond [`SLOW`] times the usual one, after which an operation counts as delayed: one of its two threads had no core.
const DELAY: Duration = Duration::from_micros(200);
/// See [`DELAY`].
const SLOW: f64 = 4.0;
/// This many times within [`CROWDED_TIME`] another thread takes the caller's core, if there are more threads than cores; an
/// idle machine does it a few times a second.
const CROWDED: i64 = 6;
/// See [`CROWDED`].
const CROWDED_TIME: Duration = Duration::from_millis(25);
/// Number of operations after which the caller looks how often its core was taken.
const LOOK_EVERY: u32 = 16;
/// Number of operations in a row that a helper does not begin, though it is awake, after which it counts as delayed.
const MISSES: u32 = 8;
/// Number of times that the caller looks whether the helper is done before it offers its own core.
const YIELD: u32 = 10_000;
/// Length of the rest after a delay, in lengths of the delay. During a rest the caller computes without the helper.
const REST: u32 = 8;
/// Longest rest.
const LONGEST_REST: Duration = Duration::from_secs(1);

/// Calls `a` on this thread, and `b` on the helping thread if that is free, else on this one. `work` is the number of
/// multiply-adds of both.
///
/// # Panics
/// Panics if one of them does, when the other has ended or was not begun.
pub(crate) fn join(work: usize, a: impl FnOnce(), b: impl FnOnce() + Send) {
    match HELPER.get_or_init(Helper::start) {
        Some(helper) => helper.join(work, a, b),
        None => {
            a();
            b();
        }
    }
}

/// Whether the helping thread waits for work with a core of its own: then it begins at once, and no other thread need be woken.
pub(crate) fn is_helper_awake() -> bool {
    HELPER.get().copied().flatten().is_some_and(|helper| !helper.asleep.load(Relaxed))
}

/// The helping thread of this process, from the first operation on; `None` in it if the system refuses a thread.
static HELPER: OnceLock<Option<&'static Helper>> = OnceLock::new();

/// Where an offered operation is.
mod stage {
    /// No operation is offered.
    pub(super) const NONE: u32 = 0;
    /// An operation is offered: the helper may begin it, or the caller may withdraw it.
    pub(super) const OFFERED: u32 = 1;
    /// The helper computes the offered operation.
    pub(super) const TAKEN: u32 = 2;
    /// The helper has computed the offered operation, and the caller has not seen it yet.
    pub(super) const DONE: u32 = 3;
}

/// The helping thread, and the operation that it is offered.
struct Helper {
    /// Locked by the thread that is in [`join`](Self::join): the others compute alone meanwhile.
    pace: Mutex<Pace>,
    stage: AtomicU32,
    /// The operation; the caller writes it before stage `OFFERED`, and the helper reads it in stage `TAKEN`.
    offer: UnsafeCell<Offer>,
    asleep: AtomicBool,
    thread: OnceLock<Thread>,
}

/// When the helper is asked.
///
/// After a delay it is not asked for [`REST`] times as long; for twice the last rest, if it was delayed again sooner than
/// that. So a machine that is always busy costs little, and one that is busy now and then is used.
struct Pace {
    /// Time at which the helper's present rest ends; `None` if it does not rest.
    until: Option<Instant>,
    /// Length of the helper's last rest, and the time at which it ended.
    last: (Duration, Instant),
    /// Number of operations in a row that the helper did not begin, and the time of the first.
    missed: (u32, Instant),
    /// Usual time of a multiply-add, in nanoseconds; infinite before the first operation.
    usual: f64,
    /// The [`involuntary_switches`] of the thread that was in [`join`](Helper::join), and when they were counted.
    switches: (i64, Instant),
    /// Number of operations since they were last asked for.
    unseen: u32,
}

/// Number of times that the system has taken the core from this thread; always 0 where it does not say.
fn involuntary_switches() -> i64 {
    #[cfg(target_os = "linux")]
    {
        let mut usage = std::mem::MaybeUninit::<libc::rusage>::zeroed();
        // SAFETY: the call writes a `rusage`, which may have all bytes 0, too.
        unsafe {
            libc::getrusage(libc::RUSAGE_THREAD, usage.as_mut_ptr());
            usage.assume_init().ru_nivcsw
        }
    }
    #[cfg(not(target_os = "linux"))]
    0
}

impl Pace {
    fn new() -> Self {
        let now = Instant::now();
        Self {
            until: None,
            last: (Duration::ZERO, now),
            missed: (0, now),
            usual: f64::INFINITY,
            switches: (0, now),
            unseen: 0,
        }
    }

    fn is_resting(&mut self) -> bool {
        let Some(until) = self.until else { return false };
        if Instant::now() >= until {
            self.until = None;
            self.switches = (involuntary_switches(), Instant::now());
        }
        self.until.is_some()
    }

    /// Rests if other threads take this thread's core again and again: then there are more threads than cores, and the
    /// helper takes a core from one that needs it.
    fn look_around(&mut self) {
        // Asking the system takes as long as a small operation.
        self.unseen += 1;
        if self.unseen < LOOK_EVERY {
            return;
        }
        self.unseen = 0;
        let switches = involuntary_switches();
        if switches - self.switches.0 < CROWDED {
            return;
        }
        let time = self.switches.1.elapsed();
        self.switches = (switches, Instant::now());
        if time < CROWDED_TIME {
            self.rest(CROWDED_TIME);
        }
    }

    /// Counts an operation that the helper did not begin.
    fn missed(&mut self) {
        if self.missed.0 == 0 {
            self.missed.1 = Instant::now();
        }
        self.missed.0 += 1;
        if self.missed.0 >= MISSES {
            self.rest(REST * self.missed.1.elapsed());
        }
    }

    /// Counts an operation of `work` multiply-adds that the helper computed; it took `time`.
    fn helped(&mut self, work: usize, time: Duration) {
        self.missed.0 = 0;
        let each = time.as_nanos() as f64 / work as f64;
        if self.usual.is_infinite() {
            self.usual = each;
        }
        if time > DELAY + Duration::from_nanos((SLOW * self.usual * work as f64) as u64) {
            self.rest(REST * time);
        } else {
            self.usual += 0.01 * (each - self.usual);
        }
    }

    /// Lets the helper rest for this time, or twice as long as the last time if that is not long ago.
    fn rest(&mut self, time: Duration) {
        let now = Instant::now();
        let (last, end) = self.last;
        let again = now.duration_since(end) < last;
        let rest = time.max(if again { 2 * last } else { Duration::ZERO }).min(LONGEST_REST);
        self.last = (rest, now + rest);
        self.until = Some(now + rest);
        self.missed.0 = 0;
    }
}

/// A pointer to a [`Work`], and the function that runs it.
#[derive(Clone, Copy)]
struct Offer {
    work: *mut (),
    run: unsafe fn(*mut ()),
}

/// An operation in the caller's memory, and its panic if it ended with one.
struct Work<F> {
    operation: Option<F>,
    panic: Option<Box<dyn Any + Send>>,
}

// SAFETY: `offer` is written and read by one thread at a time, as `stage` and the lock of `pace` say.
unsafe impl Sync for Helper {}
// SAFETY: the pointer in `offer` points to a `Work<F>` with `F: Send`, which the helper alone uses in stage `TAKEN`.
unsafe impl Send for Helper {}

/// Runs the operation of a `Work<F>`.
///
/// # Safety
/// `work` must point to a `Work<F>` that no other thread uses meanwhile.
unsafe fn run<F: FnOnce()>(work: *mut ()) {
    // SAFETY: the caller promises it.
    let work = unsafe { &mut *work.cast::<Work<F>>() };
    let operation = work.operation.take().expect("an operation runs once");
    work.panic = catch_unwind(AssertUnwindSafe(operation)).err();
}

impl Helper {
    /// Starts the thread; `None` if the system refuses it.
    fn start() -> Option<&'static Self> {
        let helper: &'static Self = Box::leak(Box::new(Self {
            pace: Mutex::new(Pace::new()),
            stage: AtomicU32::new(stage::NONE),
            offer: UnsafeCell::new(Offer { work: std::ptr::null_mut(), run: |_| {} }),
            asleep: AtomicBool::new(false),
            thread: OnceLock::new(),
        }));
        let handle = thread::Builder::new().name("pavlov-kernels".into()).spawn(|| helper.serve()).ok()?;
        helper.thread.get_or_init(|| handle.thread().clone());
        Some(helper)
    }

    /// Computes what is offered, for ever.
    fn serve(&self) -> ! {
        loop {
            let mut idle = Instant::now();
            while idle.elapsed() < PATIENCE {
                for _ in 0..32 {
                    if self.compute_offered() {
                        idle = Instant::now();
                    }
                    spin_loop();
                }
            }
            // Either this thread sees an offer made meanwhile, or its caller sees that this thread sleeps.
            self.asleep.store(true, SeqCst);
            if self.stage.load(SeqCst) != stage::OFFERED {
                thread::park();
            }
            self.asleep.store(false, SeqCst);
        }
    }

    /// Computes the offered operation, if there is one.
    fn compute_offered(&self) -> bool {
        let offered = self.stage.load(Relaxed) == stage::OFFERED;
        if !offered || self.stage.compare_exchange(stage::OFFERED, stage::TAKEN, Acquire, Relaxed).is_err() {
            return false;
        }
        // SAFETY: in this stage the caller neither writes the offer nor uses the work, and it waits for the next stage.
        unsafe {
            let Offer { work, run } = *self.offer.get();
            run(work);
        }
        self.stage.store(stage::DONE, Release);
        true
    }

    fn join<B: FnOnce() + Send>(&self, amount: usize, a: impl FnOnce(), b: B) {
        let pace = self.pace.try_lock().ok();
        let Some(mut pace) = pace.and_then(|mut pace| (!pace.is_resting()).then_some(pace)) else {
            a();
            return b();
        };
        let mut work = Work { operation: Some(b), panic: None };
        let pointer = &raw mut work;
        // SAFETY: the stage is `NONE`, so the helper does not read the offer.
        unsafe { *self.offer.get() = Offer { work: pointer.cast(), run: run::<B> } };
        self.stage.store(stage::OFFERED, SeqCst);
        if self.asleep.load(SeqCst) {
            self.thread.get().into_iter().for_each(Thread::unpark);
        }
        let begun = Instant::now();
        let own = catch_unwind(AssertUnwindSafe(a));
        let taken_back = self.take_back();
        if !taken_back {
            pace.helped(amount, begun.elapsed());
        } else if !self.asleep.load(Relaxed) {
            pace.missed();
        }
        pace.look_around();
        drop(pace);
        // SAFETY: the stage is `NONE` again, so the helper does not use the work any more.
        let work = unsafe { &mut *pointer };
        if let Some(panic) = own.err().or(work.panic.take()) {
            resume_unwind(panic);
        }
        if let Some(b) = work.operation.take().filter(|_| taken_back) {
            b();
        }
    }

    /// Takes the offered operation back and returns true, or waits until the helper has computed it.
    fn take_back(&self) -> bool {
        if self.stage.compare_exchange(stage::OFFERED, stage::NONE, Acquire, Relaxed).is_ok() {
            return true;
        }
        let mut spins = 0_u32;
        while self.stage.load(Acquire) != stage::DONE {
            spin_loop();
            spins += 1;
            if spins > YIELD {
                // Perhaps the helper waits for this thread's core.
                thread::yield_now();
            }
        }
        self.stage.store(stage::NONE, Relaxed);
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicU64;

    #[test]
    fn the_helper_computes_the_second_operation_while_the_first_runs() {
        // Not the helper of the process, which other tests may be using.
        let helper = Helper::start().expect("a thread can be started");
        let begun = AtomicBool::new(false);
        let mut computed_by = None;
        let deadline = Instant::now() + Duration::from_secs(20);
        let wait = || {
            while !begun.load(Acquire) && Instant::now() < deadline {
                thread::yield_now();
            }
        };
        helper.join(1, wait, || {
            computed_by = Some(thread::current().id());
            begun.store(true, Release);
        });
        assert!(computed_by.is_some_and(|by| by != thread::current().id()), "{computed_by:?}");
    }

    #[test]
    fn both_operations_run_once_from_several_threads() {
        let sums: Vec<AtomicU64> = (0..4).map(|_| AtomicU64::new(0)).collect();
        thread::scope(|scope| {
            for sum in &sums {
                scope.spawn(move || {
                    for i in 0..20_000 {
                        let (mut one, mut two) = (0, 0);
                        join(1, || one = i, || two = 2 * i);
                        sum.fetch_add(one + two, Relaxed);
                    }
                });
            }
        });
        let expected = 3 * (0..20_000).sum::<u64>();
        assert!(sums.iter().all(|sum| sum.load(Relaxed) == expected));
    }

    #[test]
    fn a_panic_of_either_operation_reaches_the_caller_and_leaves_none_running() {
        for culprit in [0, 1] {
            for _ in 0..200 {
                let ended = AtomicBool::new(false);
                let fail = |own: usize| {
                    assert!(own != culprit, "operation {own}");
                    thread::sleep(Duration::from_micros(20));
                    ended.store(true, Relaxed);
                };
                let caught = catch_unwind(AssertUnwindSafe(|| join(1, || fail(0), || fail(1))));
                let panic = caught.expect_err("one of the operations panics");
                assert_eq!(panic.downcast_ref::<String>().expect("a text"), &format!("operation {culprit}"));
                // The second is not begun after a panic of the first, but it is never left running.
                assert!(culprit == 0 || ended.load(Relaxed));
            }
        }
    }
}
