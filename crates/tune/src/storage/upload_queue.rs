//! The jobs that a [`Mirror`](super::mirror::Mirror) gives to its uploader.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use crate::base::Error;

#[derive(Debug, Default)]
pub(super) struct Shared {
    pub(super) state: Mutex<Queue>,
    pub(super) changed: Condvar,
}

#[derive(Debug, Default)]
pub(super) struct Queue {
    pub(super) jobs: VecDeque<Job>,
    pub(super) next: u64,
    /// Journal length in bytes given by the last call.
    pub(super) journal: u64,
    /// Whether the end has been queued, so that no more jobs follow.
    pub(super) closing: bool,
    /// Whether the [`Mirror`](super::mirror::Mirror) was dropped. Then the uploads that are left are not made.
    pub(super) abandoned: bool,
    /// Last error of the job at the front of the queue.
    pub(super) last_error: Option<Error>,
    /// Whether the thread has ended.
    pub(super) ended: bool,
}

#[derive(Clone, Debug)]
pub(super) struct Job {
    pub(super) number: u64,
    pub(super) work: Work,
    pub(super) journal: u64,
}

#[derive(Clone, Debug)]
pub(super) enum Work {
    Save {
        checkpoint: PathBuf,
        manifest: u32,
        before: u64,
    },
    Delete {
        checkpoint: PathBuf,
    },
    Files {
        at: PathBuf,
    },
    /// Upload of all small files; the last job.
    End,
}

impl Shared {
    pub(super) fn lock(&self) -> MutexGuard<'_, Queue> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Queue {
    pub(super) fn push(&mut self, work: Work, journal: u64) {
        self.next += 1;
        self.jobs.push_back(Job { number: self.next, work, journal });
    }
}
