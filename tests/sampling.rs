//! What workers sample: equal rollouts on any number of workers, endings, fragments, transforms on the way, failures.

mod acting;
mod allocations;
mod asynchronous;
mod bridge;
mod endings;
mod faults;
mod learner_thread;
mod observations;
mod transforms;
mod workers;
