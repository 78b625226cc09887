//! Where the system does not say on which core a thread runs, caller and worker never take turns on one core.

use super::slabs::Memory;
use super::worker::Worker;

/// Stands for the turns of Linux: no step is taken in turns.
#[derive(Debug)]
pub(super) struct Turns;

/// A step that has begun.
pub(super) struct Step;

impl Turns {
    pub(super) fn new(_caller: usize) -> Self {
        Self
    }

    pub(super) fn begin(&mut self, _worker: &Worker, _memory: &Memory) -> Step {
        Step
    }

    pub(super) fn end(&mut self, _step: Step, _memory: &Memory) {}
}
