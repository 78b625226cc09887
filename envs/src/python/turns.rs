//! Caller and worker take turns on one core, where that is faster.
//!
//! In a step, either the caller or the worker sleeps. By default the kernel wakes the sleeper on another core that is idle.
//! That is slow: it costs an interrupt to a sleeping core, cold caches, and in a virtual machine two exits to the host. So
//! before one of the two wakes the other, it sets the other's affinity to the core that it is about to leave. On waking up,
//! each first allows itself every core again, so that nothing that either process starts inherits the narrow affinity.
//!
//! Only threads that may run on every core take turns. A thread whose cores were restricted by other means (taskset, a
//! cpuset that changes) keeps its cores.
//!
//! A turn costs some system calls, and on a crowded machine the same core is not always the next one free. So of every
//! [`CYCLE`] steps [`TRIAL`] are taken in turns and [`TRIAL`] are left to the kernel; the other steps use the faster way.
//!
//! Steps per second of `py:CartPole-v1` with turns, divided by those without, medians of pairs on two cores: one copy 1.32
//! on idle cores and 1.41 with both cores busy; eight copies 1.08 and 1.10.

use std::{
    fs,
    time::{Duration, Instant},
};

use rustix::{
    process::Pid,
    thread::{CpuSet, gettid, sched_getaffinity, sched_getcpu, sched_setaffinity},
};

use super::{slabs::Memory, worker::Worker};

const CYCLE: u32 = 256;
const TRIAL: u32 = 8;

/// Decides for every step whether caller and worker take turns on one core, by timing both ways.
#[derive(Debug)]
pub(super) struct Turns {
    /// Offset in the shared memory at which the worker reads the caller's thread and core.
    caller: usize,
    /// The machine's cores; `None` if turns make no sense on it.
    cores: Option<Cores>,
    /// Index of the next step within the cycle.
    step: u32,
    /// Times of the trial steps: those taken in turns, and those left to the kernel.
    trials: [Trial; 2],
}

#[derive(Clone, Copy, Debug, Default)]
struct Trial {
    took: Duration,
    longest: Duration,
}

/// A step that has begun, during which the calling thread sleeps.
pub(super) struct Step {
    start: Instant,
    /// The turn; `None` if the step is left to the kernel.
    turn: Option<Turn>,
}

impl Turns {
    /// Makes the state for one worker, which reads its caller at offset `caller` of the shared memory.
    pub(super) fn new(caller: usize) -> Self {
        Self { caller, cores: Cores::online(), step: 0, trials: Default::default() }
    }

    /// Begins a step; to be called before the calling thread wakes `worker` and waits for it.
    pub(super) fn begin(&mut self, worker: &Worker, memory: &Memory) -> Step {
        let start = Instant::now();
        let turn = match self.cores {
            Some(cores) if self.takes_turns() => Turn::begin(worker.pid(), cores),
            _ => None,
        };
        if let Some(turn) = &turn {
            let thread = gettid().as_raw_nonzero().get();
            let caller = [i64::from(thread), turn.core as i64, turn.cores.end as i64];
            memory.write(self.caller, bytemuck::bytes_of(&caller));
        }
        Step { start, turn }
    }

    fn takes_turns(&self) -> bool {
        match self.step / TRIAL {
            0 => true,
            1 => false,
            _ => self.trials[0].time() < self.trials[1].time(),
        }
    }

    /// Ends a step that had no fault, and counts its time.
    pub(super) fn end(&mut self, step: Step, memory: &Memory) {
        let Step { start, turn } = step;
        if let Some(turn) = turn {
            memory.write(self.caller, bytemuck::bytes_of(&[0_i64; 3]));
            drop(turn);
        }
        if self.step == 0 {
            self.trials = Default::default();
        }
        if let Some(trial) = self.trials.get_mut((self.step / TRIAL) as usize) {
            trial.add(start.elapsed());
        }
        self.step = (self.step + 1) % CYCLE;
    }
}

impl Trial {
    fn add(&mut self, took: Duration) {
        self.took += took;
        self.longest = self.longest.max(took);
    }

    /// Total time without the longest step, in which an episode may have begun.
    fn time(&self) -> Duration {
        self.took - self.longest
    }
}

/// A step in which the calling thread and the worker use one core in turns. While this value lives, the worker may change
/// the affinity of the calling thread; dropping it restores that affinity.
struct Turn {
    /// Core of the calling thread.
    core: usize,
    cores: Cores,
}

impl Turn {
    /// Moves `worker`, which sleeps, to the core of the calling thread. `None` if that is not permitted, or if one of the
    /// two may not run on every core.
    fn begin(worker: u32, cores: Cores) -> Option<Self> {
        let worker = Pid::from_raw(i32::try_from(worker).ok()?)?;
        if sched_getaffinity(None) != Ok(cores.all) || sched_getaffinity(Some(worker)) != Ok(cores.all) {
            return None;
        }
        let core = sched_getcpu();
        sched_setaffinity(Some(worker), &set([core])?).ok()?;
        Some(Self { core, cores })
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        // A failure is ignored: the call was permitted for another process a moment ago.
        let _ = sched_setaffinity(None, &self.cores.all);
    }
}

/// The online cores of a machine with at least two.
#[derive(Clone, Copy, Debug)]
struct Cores {
    all: CpuSet,
    /// One more than the highest number of a core.
    end: usize,
}

impl Cores {
    fn online() -> Option<Self> {
        let ranges = fs::read_to_string("/sys/devices/system/cpu/online").ok()?;
        let numbers = numbers(&ranges)?;
        let end = numbers.iter().max()? + 1;
        if numbers.len() > 1 { Some(Self { all: set(numbers)?, end }) } else { None }
    }
}

/// Parses the kernel's list of cores: `0-3,8` means 0, 1, 2, 3, 8.
fn numbers(ranges: &str) -> Option<Vec<usize>> {
    let mut numbers = vec![];
    for range in ranges.trim().split(',') {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let first: usize = first.parse().ok()?;
        let last: usize = last.parse().ok()?;
        if last >= CpuSet::MAX_CPU {
            return None;
        }
        numbers.extend(first..=last);
    }
    Some(numbers)
}

fn set(cores: impl IntoIterator<Item = usize>) -> Option<CpuSet> {
    let mut set = CpuSet::new();
    for core in cores {
        if core >= CpuSet::MAX_CPU {
            return None;
        }
        set.set(core);
    }
    Some(set)
}

#[cfg(test)]
mod tests {
    use std::{
        process::{Child, Command},
        thread,
    };

    use super::*;

    /// A process that sleeps until it is dropped.
    struct Sleeper(Child);

    impl Sleeper {
        fn new() -> Self {
            Self(Command::new("sleep").arg("60").spawn().unwrap())
        }

        fn pid(&self) -> Pid {
            Pid::from_child(&self.0)
        }
    }

    impl Drop for Sleeper {
        fn drop(&mut self) {
            self.0.kill().unwrap();
            self.0.wait().unwrap();
        }
    }

    fn begin(worker: u32) -> Option<Turn> {
        Turn::begin(worker, Cores::online()?)
    }

    /// Whether the machine has several cores and the calling thread may run on all of them.
    fn is_free() -> bool {
        Cores::online().is_some_and(|cores| sched_getaffinity(None) == Ok(cores.all))
    }

    /// Runs `test` in a new thread, whose affinity may change.
    fn aside(test: impl FnOnce() + Send) {
        thread::scope(|scope| scope.spawn(test).join().unwrap());
    }

    #[test]
    fn a_turn_calls_the_worker_to_the_callers_core_and_gives_the_caller_its_cores_back() {
        aside(|| {
            let worker = Sleeper::new();
            let before = sched_getaffinity(None).unwrap();
            if !is_free() {
                assert!(begin(worker.0.id()).is_none());
                return;
            }
            let turn = begin(worker.0.id()).unwrap();
            let called = sched_getaffinity(Some(worker.pid())).unwrap();
            assert_eq!(called, set([turn.core]).unwrap());
            // As the worker does before it answers.
            sched_setaffinity(None, &called).unwrap();
            drop(turn);
            assert_eq!(sched_getaffinity(None).unwrap(), before);
        });
    }

    #[test]
    fn who_was_given_some_cores_keeps_them() {
        aside(|| {
            let worker = Sleeper::new();
            let before = sched_getaffinity(None).unwrap();
            let first = (0..CpuSet::MAX_CPU).find(|&core| before.is_set(core));
            let first = set(first).unwrap();
            sched_setaffinity(Some(worker.pid()), &first).unwrap();
            assert!(begin(worker.0.id()).is_none());
            assert_eq!(sched_getaffinity(Some(worker.pid())).unwrap(), first);
            sched_setaffinity(Some(worker.pid()), &before).unwrap();
            sched_setaffinity(None, &first).unwrap();
            if before.count() > 1 {
                assert!(begin(worker.0.id()).is_none());
            }
            assert_eq!(sched_getaffinity(Some(worker.pid())).unwrap(), before);
        });
    }

    #[test]
    fn a_worker_that_is_gone_takes_no_turns() {
        let worker = Sleeper::new();
        let pid = worker.0.id();
        drop(worker);
        assert!(begin(pid).is_none());
        assert!(begin(0).is_none());
        assert!(begin(u32::MAX).is_none());
    }

    #[test]
    fn both_ways_are_tried_and_the_faster_one_is_kept_until_the_next_trial() {
        let memory = Memory::new(24).unwrap();
        let mut turns = Turns::new(0);
        for turns_are_faster in [true, false] {
            let mut taken = vec![];
            for step in 0..CYCLE {
                let in_turns = turns.takes_turns();
                taken.push(in_turns);
                // The slowest step of all is one of the faster way, as when an episode begins.
                let seconds = match in_turns == turns_are_faster {
                    true if step % TRIAL == 3 => 1000,
                    true => 1,
                    false => 10,
                };
                let start = Instant::now() - Duration::from_secs(seconds);
                turns.end(Step { start, turn: None }, &memory);
            }
            assert_eq!(taken[..8], [true; 8]);
            assert_eq!(taken[8..16], [false; 8]);
            assert_eq!(taken[16..], [turns_are_faster; 240]);
        }
    }

    #[test]
    fn the_kernels_list_of_cores_is_read() {
        assert_eq!(numbers("0-3,8\n"), Some(vec![0, 1, 2, 3, 8]));
        assert_eq!(numbers("0\n"), Some(vec![0]));
        assert_eq!(numbers("0-5000"), None);
        assert_eq!(numbers(""), None);
    }
}
