//! Steps of plans over batches of several policies, which are put together by hand.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use pavlov::prelude::*;
use pavlov::trainer::batch::{Column, DEFAULT_POLICY, SampleBatch, TrainBatch};
use pavlov::trainer::plan::{
    Plan, PlanExt, after_training, keep_in_replay, owed, replay, standardize, store_to_replay, train_epochs,
    train_in_turn, train_on_replay, update_priorities, update_target, when,
};
use pavlov::trainer::policy::{Act, Learned, Policy, PolicyClass, Seen, Spaces, Stats};
use pavlov::trainer::replay::{OffPolicy, ReplayBufferConfig, ReplayKind};
use pavlov::trainer::settings::Piecewise;
use pavlov::trainer::{LearnerInfo, WorkerSet};
use serde::{Deserialize, Serialize};
use tch::Tensor;

use crate::support::{number, numbers, quiet, refused, tiny_ppo, tiny_sac, tiny_td3, worker_set};

/// What a [`Noting`] policy was asked, in order.
#[derive(Clone, Debug, PartialEq)]
enum Note {
    Prepared(Vec<f64>),
    Learned(Vec<f64>),
    Heard(BTreeMap<String, f64>),
    Target,
}
use Note::{Heard, Learned as LearnedFrom, Prepared, Target};

/// Writes down what it is asked. Its statistic `step` counts its learning steps; `other` comes with every other one.
#[derive(Debug)]
struct Noting {
    steps: usize,
    notes: Arc<Mutex<Vec<Note>>>,
}

impl Noting {
    fn note(&self, note: Note) {
        self.notes.lock().expect("no panic while it is held").push(note);
    }
}

impl Policy for Noting {
    fn compute_actions(&mut self, _: Seen<'_>, _: Act<'_>) -> Result<()> {
        unreachable!("this test samples nothing")
    }
    fn prepare(&mut self, batch: &mut SampleBatch) -> Result<()> {
        self.note(Prepared(numbers(batch, Column::REWARDS)));
        let doubled = batch.get(Column::REWARDS)?.to_tensor() * 2.0;
        batch.set(Column::ADVANTAGES, doubled);
        Ok(())
    }
    fn learn_on_batch(&mut self, batch: &SampleBatch) -> Result<Learned> {
        let rewards = numbers(batch, Column::REWARDS);
        let doubled: Vec<f64> = rewards.iter().map(|r| 2.0 * r).collect();
        assert_eq!(numbers(batch, Column::ADVANTAGES), doubled, "prepared before it was cut");
        self.note(LearnedFrom(rewards));
        self.steps += 1;
        let mut stats = Stats::new([("step", self.steps as f64)]);
        if self.steps.is_multiple_of(2) {
            stats.push("other", 10.0 * self.steps as f64);
        }
        let errors = batch.get(Column::REWARDS)?.clone();
        Ok(Learned { stats, td_errors: Some(errors), stop: false })
    }
    fn update_target(&mut self) {
        self.note(Target);
    }
    fn after_training(&mut self, means: &BTreeMap<String, f64>) {
        self.note(Heard(means.clone()));
    }
}

/// Learning policies `a`, `b` and `idle` beside the default one, and what they note.
struct Three {
    workers: WorkerSet,
    notes: BTreeMap<&'static str, Arc<Mutex<Vec<Note>>>>,
}

impl Three {
    fn new() -> Self {
        let workers = worker_set(&tiny_ppo(), "CartPole-v1").expect("workers");
        let mut notes = BTreeMap::new();
        for id in ["a", "b", "idle"] {
            let shared: Arc<Mutex<Vec<Note>>> = Arc::default();
            let policy = Noting { steps: 0, notes: Arc::clone(&shared) };
            workers.learners.with_policies(|policies| policies.insert(id, Box::new(policy)));
            notes.insert(id, shared);
        }
        Self { workers, notes }
    }

    fn take(&self, id: &str) -> Vec<Note> {
        std::mem::take(&mut *self.notes[id].lock().expect("no panic while it is held"))
    }
}

/// Rows whose rewards are `from..to`.
fn rows(from: usize, to: usize) -> SampleBatch {
    let rewards: Vec<f32> = (from..to).map(|i| i as f32).collect();
    SampleBatch::default().with(Column::REWARDS, Tensor::from_slice(&rewards))
}

fn batch<const N: usize>(policies: [(&str, SampleBatch); N], env_steps: u64) -> TrainBatch {
    let policies = policies.into_iter().map(|(id, rows)| (id.to_owned(), rows)).collect();
    TrainBatch { policies, env_steps, sources: Vec::new() }
}

/// The rewards of all learning steps, and in sorted order.
fn learned(notes: &[Note]) -> (Vec<Vec<f64>>, Vec<f64>) {
    let steps: Vec<_> =
        notes.iter().filter_map(|n| if let LearnedFrom(r) = n { Some(r.clone()) } else { None }).collect();
    let mut all = steps.concat();
    all.sort_by(f64::total_cmp);
    (steps, all)
}

fn ids(info: &LearnerInfo) -> Vec<&str> {
    info.policies().map(|(id, _)| id).collect()
}

fn range(from: usize, to: usize) -> Vec<f64> {
    (from..to).map(|i| i as f64).collect()
}

#[test]
fn every_policy_learns_from_its_own_rows_and_one_without_rows_is_skipped() {
    let three = Three::new();
    let both = batch([("a", rows(0, 4)), ("b", rows(10, 16)), ("idle", rows(0, 0))], 5);
    let info = train_epochs(&three.workers, 2, 2)(both).expect("a report");
    assert_eq!(ids(&info), ["a", "b"]);
    let a = three.take("a");
    let b = three.take("b");
    assert_eq!(learned(&a).1, [0, 0, 1, 1, 2, 2, 3, 3].map(f64::from));
    assert_eq!(learned(&b).0.len(), 6);
    assert_eq!(three.take("idle"), []);
    // Prepared before each pass, whole and in order.
    assert_eq!(a.iter().filter(|note| **note == Prepared(range(0, 4))).count(), 2);
    assert_eq!((&a[0], &a[3]), (&Prepared(range(0, 4)), &Prepared(range(0, 4))));
    let counters = three.workers.counters();
    assert_eq!((counters.num_env_steps_trained, counters.num_agent_steps_trained), (5, 10));
    let of = |id| counters.of_policy(id).num_steps_trained;
    assert_eq!((of("a"), of("b"), of("idle"), of(DEFAULT_POLICY)), (4, 6, 0, 0));
}

#[test]
fn batches_that_take_turns_are_learned_in_rays_order_and_counted_once() {
    let three = Three::new();
    let mut learn = train_in_turn(&three.workers, 2, 3);
    let mut first_rows = |from| {
        let info = learn(batch([("a", rows(from, from + 2))], 2)).expect("a report");
        assert_eq!(info.policies().map(|(_, a)| a.rows()).sum::<u64>(), 2);
        let (steps, _) = learned(&three.take("a"));
        steps.iter().map(|rewards| rewards[0]).collect::<Vec<_>>()
    };
    // Ray's MinibatchBuffer of two batches with three passes each: 0 and 10 in turn, then 20 and 30.
    assert_eq!(first_rows(0), [0.0]);
    assert_eq!(first_rows(10), [10.0, 0.0, 10.0, 0.0, 10.0]);
    assert_eq!(first_rows(20), [20.0]);
    assert_eq!(first_rows(30), [30.0, 20.0, 30.0, 20.0, 30.0]);
    assert_eq!(three.workers.counters().num_env_steps_trained, 8);
    // With one slot a batch has its passes at once.
    let info = train_in_turn(&three.workers, 1, 3)(batch([("b", rows(0, 4))], 4)).expect("a report");
    assert_eq!(ids(&info), ["b"]);
    assert_eq!(learned(&three.take("b")).0, [range(0, 4), range(0, 4), range(0, 4)]);
}

#[test]
fn shuffling_and_cutting_keep_sequences_whole() {
    let three = Three::new();
    let memory: Vec<f32> = (0..10).map(|i| (3 * i) as f32).collect();
    let sequences = rows(0, 29).with_sequences(
        vec![3, 3, 3, 3, 3, 3, 3, 3, 3, 2],
        Column::STATE_IN,
        Tensor::from_slice(&memory).view([10, 1]),
    );
    // Four minibatches have about 7 rows, which are two sequences or three.
    train_epochs(&three.workers, 1, 7)(batch([("a", sequences)], 29)).expect("a report");
    let (steps, all) = learned(&three.take("a"));
    assert_eq!(all, range(0, 29));
    assert_ne!(steps.concat(), all, "shuffled");
    assert_eq!(steps.len(), 4);
    for step in steps {
        assert!((5..=9).contains(&step.len()), "{step:?}");
        let first = step.iter().filter(|row| *row % 3.0 == 0.0).count();
        assert!(first == 2 || first == 3, "{step:?}");
        assert!(step.windows(2).all(|w| w[1] == w[0] + 1.0 || w[1] % 3.0 == 0.0), "{step:?}");
    }
}

#[test]
fn columns_of_sequences_follow_their_rows() {
    let memory = Tensor::from_slice(&[0.0_f32, 20.0, 50.0]).view([3, 1]);
    let all = rows(0, 9).with_sequences(vec![2, 3, 4], Column::STATE_IN, memory);
    let rewards = |b: &SampleBatch| numbers(b, Column::REWARDS);
    let states = |b: &SampleBatch| numbers(b, Column::STATE_IN);
    let shuffled = all.select_sequences(vec![2, 0]);
    assert_eq!(rewards(&shuffled), [5.0, 6.0, 7.0, 8.0, 0.0, 1.0]);
    assert_eq!((states(&shuffled), shuffled.sequences()), (vec![50.0, 0.0], Some(&[4, 2][..])));
    let cut = shuffled.slice(4, 2);
    assert_eq!((rewards(&cut), states(&cut)), (vec![0.0, 1.0], vec![0.0]));
    let joined = SampleBatch::concat(vec![cut, all.slice(2, 3)]).expect("equal columns");
    assert_eq!((rewards(&joined), states(&joined)), (vec![0.0, 1.0, 2.0, 3.0, 4.0], vec![0.0, 20.0]));
    assert_eq!(joined.sequences(), Some(&[2, 3][..]));
    // Rows that are picked one by one are sequences no more.
    let picked = all.select(&vec![1_i64, 7].into());
    assert_eq!((picked.sequences(), picked.has(Column::STATE_IN)), (None, false));
}

#[test]
#[should_panic(expected = "rows 1..4 would cut a sequence")]
fn a_slice_that_would_cut_a_sequence_is_a_bug() {
    let memory = Tensor::from_slice(&[0.0_f32, 20.0]).view([2, 1]);
    let _ = rows(0, 5).with_sequences(vec![2, 3], Column::STATE_IN, memory).slice(1, 3);
}

#[test]
fn a_mean_is_over_the_steps_that_reported_the_name_and_policies_hear_their_own() {
    let three = Three::new();
    let info = train_epochs(&three.workers, 1, 1)(batch([("a", rows(0, 4)), ("b", rows(0, 1))], 4));
    let info = after_training(&three.workers)(info.expect("a report")).expect("the same");
    // Steps 1 to 4; `other` was 20 and 40.
    let wanted = BTreeMap::from([("step".to_owned(), 2.5), ("other".to_owned(), 30.0)]);
    assert_eq!(info.policies().next().map(|(_, a)| a.means()), Some(wanted.clone()));
    assert_eq!(three.take("a").last(), Some(&Heard(wanted)));
    assert_eq!(three.take("b").last(), Some(&Heard(BTreeMap::from([("step".to_owned(), 1.0)]))));
    assert_eq!(three.take("idle"), []);
}

#[test]
fn concat_batches_counts_environment_steps_and_joins_policy_by_policy() {
    let fragments = [
        batch([("a", rows(0, 2)), ("b", rows(20, 21))], 3),
        batch([("b", rows(21, 23))], 3),
        batch([("a", rows(2, 4)), ("b", rows(23, 23))], 3),
    ];
    let mut plan = fragments.into_iter().map(Ok).concat_batches(7);
    let joined = plan.next().expect("a batch").expect("joined");
    assert_eq!((joined.env_steps, joined.rows()), (9, 7));
    assert_eq!(numbers(&joined.policies["a"], Column::REWARDS), range(0, 4));
    assert_eq!(numbers(&joined.policies["b"], Column::REWARDS), range(20, 23));
    refused(joined.single(), &["it has rows of a, b"]);
    assert!(plan.next().is_none());
}

#[test]
fn select_and_when_hand_on_what_they_are_told_to() {
    let both = || Ok(batch([("a", rows(0, 2)), ("b", rows(0, 3))], 4));
    let selected = std::iter::once(both()).select(&["b"]).next().expect("a batch").expect("selected");
    assert_eq!((selected.rows(), selected.env_steps), (3, 4));
    for (condition, wanted) in [(false, 5), (true, 3)] {
        let only_b = |mut batch: TrainBatch| {
            batch.policies.remove("a");
            Ok(batch)
        };
        assert_eq!(when(condition, only_b)(both().expect("a batch")).expect("a batch").rows(), wanted);
    }
}

#[test]
fn a_replay_buffer_keeps_the_rows_of_its_policy() {
    let three = Three::new();
    let workers = &three.workers;
    let config = ReplayBufferConfig {
        kind: ReplayKind::PrioritizedReplayBuffer,
        capacity: 8,
        learning_starts: 2,
        ..ReplayBufferConfig::default()
    };
    let buffer = workers.replay_buffer_of("b", &config, true);
    let both = || batch([("a", rows(0, 3)), ("b", rows(10, 12))], 3);
    let kept = keep_in_replay(&buffer)(both()).expect("the batch goes on");
    assert_eq!(kept.rows(), 5);
    assert!(store_to_replay(&buffer)(batch([("a", rows(0, 3))], 3)).expect("nothing").is_empty());
    assert_eq!(buffer.lock("b").expect("its buffer").len(), 2);

    let mut learn = replay(&buffer, 4).then(train_on_replay(workers)).then(update_priorities(&buffer));
    let info = learn.next().expect("a pull").expect("a report");
    assert_eq!(ids(&info), ["b"]);
    let notes = three.take("b");
    let [Prepared(prepared), LearnedFrom(learned)] = &notes[..] else { panic!("{notes:?}") };
    assert_eq!(prepared, learned);
    assert!(learned.len() == 4 && learned.iter().all(|r| [10.0, 11.0].contains(r)), "{learned:?}");
    assert_eq!(workers.counters().of_policy("b").num_steps_trained, 4);
    assert!(buffer.lock("a").is_none());
    // Another policy's buffer is another part of a checkpoint, and draws from a stream of its own.
    let all = workers.replay_buffer(&config, true);
    assert_eq!(all.policies().collect::<Vec<_>>(), [DEFAULT_POLICY]);
    let parts: Vec<String> = workers.state().expect("a state").into_iter().map(|(name, _)| name).collect();
    assert!(
        parts.contains(&"replay_buffer_b".into()) && parts.contains(&"replay_buffer".into()),
        "{parts:?}"
    );
}

#[test]
fn what_is_owed_follows_from_the_counters_of_the_policy() {
    let three = Three::new();
    let config = ReplayBufferConfig { learning_starts: 10, ..ReplayBufferConfig::default() };
    let buffer = three.workers.replay_buffer_of("b", &config, true);
    let mut every = owed(&three.workers, &buffer, None, 4);
    let mut twice = owed(&three.workers, &buffer, Some(2.0), 4);
    assert_eq!((every(), twice()), (1, 0));
    // 17 rows: 7 more than where learning starts, twice each, in batches of 4.
    three.workers.ledger.count(|c| c.policies.entry("b".into()).or_default().num_steps_sampled = 17);
    assert_eq!((every(), twice()), (1, 3));
    three.workers.ledger.count(|c| c.policies.entry("b".into()).or_default().num_steps_trained = 8);
    assert_eq!(twice(), 1);
}

#[test]
fn sac_and_td3_learn_as_often_as_training_intensity_says_with_many_copies() {
    /// Rows sampled and learned in the end.
    fn counted<T: Trainer>(mut settings: T) -> [f64; 2] {
        settings.common_mut().num_envs_per_worker = 16;
        let mut trainer = quiet(settings, "Pendulum-v1").expect("a trainer");
        (0..3).for_each(|_| drop(trainer.train().expect("a result")));
        let result = trainer.train().expect("a result");
        ["num_env_steps_sampled", "num_env_steps_trained"].map(|key| number(&result, key))
    }
    let change = |off: &mut OffPolicy| {
        off.training_intensity = Some(4.0);
        off.n_step = 3;
        off.replay_buffer_config.kind = ReplayKind::PrioritizedReplayBuffer;
    };
    let mut sac = tiny_sac();
    let mut td3 = tiny_td3();
    change(&mut sac.off_policy);
    change(&mut td3.off_policy);
    // A round is one step of 16 copies. The last two steps of each copy wait for later rewards; learning starts after 16
    // rows.
    let wanted = [4.0 * 16.0, 4.0 * (4.0 * 16.0 - 2.0 * 16.0 - 16.0)];
    assert_eq!(counted(sac), wanted);
    assert_eq!(counted(td3), wanted);
}

#[test]
fn the_targets_of_policies_that_learned_move_when_they_are_due() {
    let three = Three::new();
    let mut learn = train_epochs(&three.workers, 1, 0);
    let mut step = update_target(&three.workers, 10);
    let mut targets = |id: &str, sampled| {
        three.workers.ledger.count(|c| c.num_env_steps_sampled = sampled);
        let info = learn(batch([(id, rows(0, 1))], 1)).expect("a report");
        step(info).expect("the same");
        ["a", "b"].map(|id| three.take(id).contains(&Target))
    };
    assert_eq!(targets("a", 9), [false, false]);
    assert_eq!(targets("a", 10), [true, false]);
    assert_eq!(targets("b", 11), [false, true]);
    assert_eq!(targets("a", 19), [false, false]);
    assert_eq!(targets("b", 20), [false, false]);
    assert_eq!(targets("a", 20), [true, false]);
    assert_eq!(three.workers.counters().num_target_updates, 3);
}

/// PPO by a plan that sends no weights.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(transparent)]
struct Unsent(Ppo);

impl Trainer for Unsent {
    const NAME: &'static str = "Unsent";

    fn get_default_config() -> Self {
        Self(Ppo::default())
    }
    fn get_default_policy_class(&self, spaces: &Spaces) -> Result<PolicyClass> {
        self.0.get_default_policy_class(spaces)
    }
    fn execution_plan(&self, workers: &WorkerSet) -> Plan {
        let batches = workers.rollouts().concat_batches(self.0.common.train_batch_size);
        let standardized = batches.then(standardize(Column::ADVANTAGES));
        let learned =
            standardized.then(train_epochs(workers, self.0.num_sgd_iter, self.0.sgd_minibatch_size));
        Box::new(learned.then(after_training(workers)))
    }
    fn common(&self) -> &Common {
        &self.0.common
    }
    fn common_mut(&mut self) -> &mut Common {
        &mut self.0.common
    }
}

#[test]
fn schedules_go_on_in_a_plan_that_sends_no_weights() {
    let mut ppo = tiny_ppo();
    ppo.lr_schedule = Some(Piecewise::linear(0.1, 0.0, 1000));
    let mut sent = quiet(ppo.clone(), "CartPole-v1").expect("a driver");
    let mut unsent = quiet(Unsent(ppo), "CartPole-v1").expect("a driver");
    for round in 1..=3 {
        let results = [sent.train().expect("a result"), unsent.train().expect("a result")];
        // 32 steps each.
        let lr = 0.1 * (1.0 - 0.032 * f64::from(round));
        for result in &results {
            let found = number(result, "info.learner.default_policy.learner_stats.cur_lr");
            assert!((found - lr).abs() < 1e-9, "{found}, not {lr}");
        }
        assert_eq!(sent.get_weights().expect("weights"), unsent.get_weights().expect("weights"));
    }
}
