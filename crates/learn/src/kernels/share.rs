//! Sharing work between the machine's threads.

use crate::base::lock;
use std::hint::spin_loop;
use std::sync::Mutex;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

/// Time that the calling thread spins until the others finish: sleeping and waking would take longer.
const PATIENCE: Duration = Duration::from_micros(200);

/// Calls `f` with every job, on several threads, and returns when all jobs are done.
///
/// The calling thread works too, and every thread takes the next job that is left. So a thread that gets little of its
/// core delays the others by the job that it has begun, and no more.
pub(crate) fn share_out<J: Send>(jobs: Vec<J>, f: impl Fn(J) + Sync) {
    let all = jobs.len();
    let done = AtomicUsize::new(0);
    let jobs = Mutex::new(jobs.into_iter());
    let work = || {
        // In a statement of its own, so that the lock is released at once.
        let next = || lock(&jobs).next();
        while let Some(job) = next() {
            f(job);
            done.fetch_add(1, Relaxed);
        }
    };
    rayon::in_place_scope(|scope| {
        for _ in 1..rayon::current_num_threads().min(all) {
            scope.spawn(|_| work());
        }
        work();
        let waiting = Instant::now();
        while done.load(Relaxed) < all && waiting.elapsed() < PATIENCE {
            spin_loop();
        }
    });
}
