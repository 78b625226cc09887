//! A thread that only learns: what reaches it, what comes back, and when it ends.

use std::sync::Arc;
use std::sync::mpsc;

use pavlov::prelude::*;
use pavlov::trainer::batch::{Column, DEFAULT_POLICY, SampleBatch, TrainBatch};
use pavlov::trainer::plan::{PlanExt, broadcast_weights, learner_thread, train_epochs, train_in_turn};
use pavlov::trainer::policy::{Act, Learned, Policy, Seen, Stats};
use pavlov::trainer::{Error, LearnerInfo, WorkerSet};
use tch::Tensor;

use super::asynchronous::tiny_impala;
use crate::support::{at, number, quiet, refused, worker_set};

fn workers() -> WorkerSet {
    worker_set(&tiny_impala(), "CartPole-v1").expect("workers")
}

fn rows(n: usize) -> TrainBatch {
    let rows = SampleBatch::default().with(Column::REWARDS, Tensor::from_slice(&vec![0.0_f32; n]));
    TrainBatch::of(DEFAULT_POLICY, rows, n as u64)
}

#[test]
fn without_a_queue_impala_learns_what_a_plan_without_a_thread_learns() {
    let settings = Impala { num_sgd_iter: 2, broadcast_interval: 2, ..tiny_impala() };
    let learned = |plan: &dyn Fn(&WorkerSet) -> pavlov::trainer::plan::Plan| {
        let workers = worker_set(&settings, "CartPole-v1").expect("workers");
        plan(&workers).take(5).for_each(|round| drop(round.expect("a report")));
        workers.get_weights()
    };
    let by_hand = learned(&|workers| {
        let fragments = workers.rollouts_async(2, pavlov::trainer::plan::Order::Deterministic);
        let batches = fragments.concat_batches(80);
        Box::new(batches.then(train_epochs(workers, 2, 0)).then(broadcast_weights(workers, 2)))
    });
    assert!(by_hand == learned(&|workers| settings.execution_plan(workers)));
}

#[test]
fn everything_that_was_handed_over_is_learned_from_before_a_save() {
    let workers = workers();
    let ledger = workers.ledger.clone();
    let (go, gate) = mpsc::channel::<()>();
    let mut learn = learner_thread(&workers, 3, move |batch: TrainBatch| {
        gate.recv().expect("the test goes on");
        ledger.count(|c| c.num_env_steps_trained += batch.env_steps);
        Ok(LearnerInfo::default())
    });
    // One is being learned from, and three wait.
    (0..4).for_each(|_| drop(learn(rows(10)).expect("there is room")));
    assert_eq!(workers.counters().num_env_steps_trained, 0);
    std::thread::scope(|scope| {
        scope.spawn(|| (0..4).for_each(|_| go.send(()).expect("the thread listens")));
        workers.state().expect("a state");
    });
    assert_eq!(workers.counters().num_env_steps_trained, 40);
}

#[test]
fn batches_that_take_turns_are_continued_with_as_many_slots_only() {
    let saved = workers();
    drop(train_in_turn(&saved, 3, 2));
    let parts = saved.state().expect("a state");
    let part = |name: &str| {
        let found = parts.iter().find(|(part, _)| part == name);
        found.map(|(_, state)| state.clone()).ok_or_else(|| Error::state(name, "it is not there"))
    };
    let continued = |slots| {
        let workers = workers();
        drop(train_in_turn(&workers, slots, 2));
        workers.set_state(part)
    };
    continued(3).expect("equal settings");
    for slots in [1, 2] {
        let sentence = "there were 3, and `minibatch_buffer_size` is SLOTS; set it to 3 to continue this run";
        refused(continued(slots), &[&sentence.replace("SLOTS", &slots.to_string())]);
    }
}

#[test]
fn what_was_learned_is_reported_with_a_later_item() {
    let workers = workers();
    let mut learn = learner_thread(&workers, 1, |batch: TrainBatch| {
        let mut info = LearnerInfo::default();
        info.add(
            DEFAULT_POLICY,
            Learned { stats: Stats::default(), td_errors: None, stop: false },
            [].into(),
        );
        info.trained(DEFAULT_POLICY, batch.rows());
        Ok(info)
    });
    let mut trained = |n| {
        let info = learn(rows(n)).expect("a report");
        workers.state().expect("everything is learned from by then");
        info.policies().map(|(_, info)| info.rows()).sum::<u64>()
    };
    // A report may come with its own item, and has come with the next one.
    assert_eq!([5, 7, 9, 0].map(&mut trained).iter().sum::<u64>(), 21);
}

/// Learns from its first and third batch. Waits for the test before it fails on the second and the fourth.
#[derive(Debug)]
struct Refusing {
    steps: usize,
    gate: mpsc::Receiver<()>,
}

impl Policy for Refusing {
    fn compute_actions(&mut self, _: Seen<'_>, _: Act<'_>) -> Result<()> {
        unreachable!("this test samples nothing")
    }
    fn learn_on_batch(&mut self, _: &SampleBatch) -> Result<Learned> {
        self.steps += 1;
        if self.steps.is_multiple_of(2) {
            self.gate.recv().expect("the test goes on");
        }
        match self.steps {
            2 => Err(Error::state("the loss", "it has two columns")),
            4 => panic!("the loss is odd"),
            _ => Ok(Learned { stats: Stats::default(), td_errors: None, stop: false }),
        }
    }
}

#[test]
fn an_error_or_a_panic_in_the_loss_comes_back_as_one_sentence_and_learning_can_go_on() {
    let workers = workers();
    let (go, gate) = mpsc::channel();
    workers.learners.with_policies(|all| all.insert(DEFAULT_POLICY, Box::new(Refusing { steps: 0, gate })));
    let mut learn = learner_thread(&workers, 2, train_in_turn(&workers, 1, 1));
    for sentence in ["the loss: it has two columns", "the learner thread panicked: the loss is odd"] {
        learn(rows(1)).expect("the first is learned from");
        workers.state().expect("nothing is left");
        learn(rows(1)).expect("nothing has failed yet");
        go.send(()).expect("the policy waits");
        // It fails while a save waits for it.
        refused(
            workers.state(),
            &["the learner thread: it has failed", "Continue from an earlier checkpoint"],
        );
        assert_eq!(refused(learn(rows(1)), &[]), sentence);
        workers.state().expect("a run that can be saved");
    }
}

#[test]
fn the_thread_ends_with_the_plan_and_learns_from_nothing_that_waits() {
    let workers = workers();
    let alive = Arc::new(());
    let held = Arc::clone(&alive);
    let (go, gate) = mpsc::channel::<()>();
    let (started, begun) = mpsc::channel();
    let mut learn = learner_thread(&workers, 3, move |_: TrainBatch| {
        let _held = &held;
        started.send(()).expect("the test listens");
        // It ends when the test drops its sender.
        let _ = gate.recv();
        Ok(LearnerInfo::default())
    });
    (0..4).for_each(|_| drop(learn(rows(1)).expect("there is room")));
    begun.recv().expect("the first is being learned from");
    std::thread::scope(|scope| {
        let dropping = scope.spawn(move || drop(learn));
        drop(go);
        dropping.join().expect("no panic");
    });
    assert_eq!(Arc::strong_count(&alive), 1);
    workers.state().expect("nothing is left to learn from");
}

#[test]
fn results_say_how_many_batches_wait_for_the_learner() {
    let mut impala = quiet(Impala { learner_queue_size: 3, ..tiny_impala() }, "CartPole-v1")
        .expect("settings that can be");
    let results: Vec<_> = (0..8).map(|_| impala.train().expect("a result")).collect();
    // Eight batches were handed over; three may wait, and one may be in work.
    let last = &results[7];
    let count = number(last, "info.learner_queue.size_count");
    assert!((4.0..=8.0).contains(&count), "{count}");
    assert!(number(last, "info.learner_queue.size_mean") <= 3.0);
    assert!(number(last, "info.learner_queue.size_std") >= 0.0);
    let quantiles = at(last, "info.learner_queue.size_quantiles").as_array().expect("a list");
    assert_eq!(quantiles.len(), 5);
    assert!(number(last, "num_env_steps_trained") >= 4.0 * 80.0);
    let mut without = quiet(tiny_impala(), "CartPole-v1").expect("settings that can be");
    assert!(without.train().expect("a result")["info"].get("learner_queue").is_none());
}
