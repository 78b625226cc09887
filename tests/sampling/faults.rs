//! Environments that fail, and what a run makes of it.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use pavlov::envs::{self, Env, Space, Step};
use pavlov::prelude::*;
use pavlov::trainer::Device;
use pavlov::trainer::WorkerSet;
use pavlov::trainer::batch::Column;
use pavlov::trainer::plan::Order;
use pavlov::trainer::rng::{derive, episode_seed};
use pavlov::trainer::workers::EvaluationTask;
use pavlov::trainer::workers::Request;
use pavlov::trainer::workers::{Completion, Fault, ThreadPool, WorkerPool};

use crate::support::{
    Clockwork, clockwork, going_on, number, numbers, quiet, refused, scripted, tiny_ppo, worker_set,
    worker_spec,
};

const SEED: u64 = 11;

#[derive(Clone, Copy, Debug)]
enum Failure {
    Error,
    Panic,
}

/// A [`Clockwork`] that fails at step 3 of episodes with these seeds, each so many times in all.
#[derive(Clone)]
struct Failing {
    inner: Clockwork,
    how: Failure,
    fuses: Arc<Mutex<BTreeMap<u64, usize>>>,
}

impl Failing {
    /// In the first episode of these copies of the run.
    fn copies(copies: &[u64], how: Failure, times: usize) -> Self {
        Self::episodes(copies.iter().map(|&copy| episode_seed(SEED, copy, 0)), how, times)
    }

    /// In episodes with these seeds.
    fn episodes(seeds: impl IntoIterator<Item = u64>, how: Failure, times: usize) -> Self {
        let fuses = seeds.into_iter().map(|seed| (seed, times)).collect();
        Self { inner: Clockwork::terminating(5), how, fuses: Arc::new(Mutex::new(fuses)) }
    }
}

impl Env for Failing {
    type Obs = f32;
    type Act = i64;

    fn observation_space(&self) -> Space {
        self.inner.observation_space()
    }

    fn action_space(&self) -> Space {
        self.inner.action_space()
    }

    fn reset(&mut self, seed: Option<u64>, obs: &mut [f32]) -> envs::Result<()> {
        self.inner.reset(seed, obs)
    }

    fn step(&mut self, action: &[i64], obs: &mut [f32]) -> envs::Result<Step> {
        let step = self.inner.step(action, obs)?;
        let mut fuses = self.fuses.lock().expect("no thread panics while it holds the lock");
        let fuse = fuses.get_mut(&self.inner.seed()).filter(|left| self.inner.t() == 3 && **left > 0);
        if let Some(left) = fuse {
            *left -= 1;
            drop(fuses);
            match self.how {
                Failure::Error => return Err(envs::Error::other("the simulator is gone")),
                Failure::Panic => panic!("the simulator fell over"),
            }
        }
        Ok(step)
    }
}

/// Two workers with two copies each.
fn two_workers(change: impl FnOnce(&mut Common)) -> Ppo {
    let mut ppo = tiny_ppo();
    ppo.common.num_workers = 2;
    ppo.common.rollout_fragment_length = 8;
    ppo.common.seed = Some(SEED);
    change(&mut ppo.common);
    ppo
}

fn build(ppo: Ppo, env: &Failing) -> Driver<Algorithm<Ppo>> {
    let env = env.clone();
    quiet(ppo, move || env.clone()).expect("a trainer")
}

#[test]
fn a_failing_environment_is_named_by_worker_copy_seed_and_step() {
    // Copy 3 of the run is copy 1 of worker 2.
    let seed = episode_seed(SEED, 3, 0);
    let place = format!("worker 2 failed: environment 1 failed at step 3 of the episode with seed {seed}: ");
    let way_out = "; set `recreate_failed_workers` or `ignore_worker_failures` to carry on";
    for (how, reason) in
        [(Failure::Error, "the simulator is gone"), (Failure::Panic, "panic: the simulator fell over")]
    {
        let mut trainer = build(two_workers(|_| {}), &Failing::copies(&[3], how, 99));
        let text = refused(trainer.train(), &[]);
        assert_eq!(text, format!("{place}{reason}{way_out}"));
    }
}

#[test]
fn a_failing_environment_of_the_trainer_itself_is_named_by_copy_seed_and_step() {
    let mut ppo = tiny_ppo();
    ppo.common.seed = Some(SEED);
    let mut trainer = build(ppo, &Failing::copies(&[1], Failure::Panic, 99));
    let seed = episode_seed(SEED, 1, 0);
    let place = format!("environment 1 failed at step 3 of the episode with seed {seed}: ");
    refused(trainer.train(), &[&place, "panic: the simulator fell over"]);
}

#[test]
fn a_failed_worker_is_replaced_and_training_goes_on() {
    for how in [Failure::Error, Failure::Panic] {
        let ppo = two_workers(|common| common.recreate_failed_workers = true);
        let mut trainer = build(ppo, &Failing::copies(&[0], how, 1));
        let result = trainer.train().expect("a result");
        assert_eq!(number(&result, "num_healthy_workers"), 2.0);
        assert_eq!(number(&result, "num_remote_worker_restarts"), 1.0);
        assert_eq!(number(&result, "timesteps_total"), 32.0);
        let result = trainer.train().expect("another result");
        assert_eq!(number(&result, "num_remote_worker_restarts"), 1.0);
        assert_eq!(number(&result, "timesteps_total"), 64.0);
    }
}

#[test]
fn a_worker_that_fails_while_it_samples_ahead_is_replaced_too() {
    for how in [Failure::Error, Failure::Panic] {
        let ppo = two_workers(|common| {
            common.recreate_failed_workers = true;
            common.sample_async = true;
        });
        // The third episode begins in the second fragment, which was not asked for yet.
        let mut trainer = build(ppo, &Failing::episodes([episode_seed(SEED, 0, 2)], how, 1));
        let steps: Vec<f64> =
            (0..3).map(|_| number(&trainer.train().expect("a result"), "timesteps_total")).collect();
        assert_eq!(steps, [32.0, 64.0, 96.0]);
        let result = trainer.train().expect("a result");
        assert_eq!(number(&result, "num_healthy_workers"), 2.0);
        assert_eq!(number(&result, "num_remote_worker_restarts"), 1.0);
    }
}

#[test]
fn an_asynchronous_worker_that_fails_is_replaced_and_owes_its_fragments_still() {
    for how in [Failure::Error, Failure::Panic] {
        let ppo = two_workers(|common| common.recreate_failed_workers = true);
        let env = Failing::episodes([episode_seed(SEED, 0, 2)], how, 1);
        let workers = worker_set(&ppo, move || env.clone()).expect("workers");
        let fragments = workers.rollouts_async(2, Order::Deterministic).take(8);
        let whose: Vec<usize> =
            fragments.map(|fragment| fragment.expect("a fragment").sources[0].worker).collect();
        assert_eq!(whose, [1, 2, 1, 2, 1, 2, 1, 2]);
        assert_eq!(workers.num_worker_restarts(), 1);
    }
}

#[test]
fn without_an_asynchronous_worker_that_failed_the_others_go_on() {
    for order in [Order::Deterministic, Order::FirstCome] {
        let ppo = two_workers(|common| common.ignore_worker_failures = true);
        // In the second fragment of worker 1; the first was delivered.
        let env = Failing::episodes([episode_seed(SEED, 0, 2)], Failure::Error, 99);
        let workers = worker_set(&ppo, move || env.clone()).expect("workers");
        let mut fragments = workers.rollouts_async(2, order);
        let mut next = || fragments.next().expect("fragments").expect("a fragment").sources[0].worker;
        // Whoever comes first may come often before the other fails.
        let mut whose = Vec::new();
        while workers.num_healthy_workers() == 2 && whose.len() < 100_000 {
            whose.push(next());
        }
        assert_eq!(whose.iter().filter(|&&worker| worker == 1).count(), 1, "{order:?}: {whose:?}");
        assert_eq!([(); 4].map(|()| next()), [2; 4], "{order:?}");
        assert_eq!(workers.num_healthy_workers(), 1);
    }
}

#[test]
fn a_worker_that_always_fails_is_given_up() {
    let ppo = two_workers(|common| common.recreate_failed_workers = true);
    let mut trainer = build(ppo, &Failing::copies(&[0], Failure::Error, 99));
    let parts = ["worker 1 failed: ", "that is failure 4 in a row, and 3 are tolerated"];
    refused(trainer.train(), &parts);
}

#[test]
fn as_many_failures_in_a_row_are_tolerated_as_the_setting_says() {
    for (tolerated, failures) in [(0, 1), (2, 3)] {
        let ppo = two_workers(|common| {
            common.recreate_failed_workers = true;
            common.num_consecutive_worker_failures_tolerance = tolerated;
        });
        let mut trainer = build(ppo, &Failing::copies(&[0], Failure::Panic, 99));
        let counted = format!("that is failure {failures} in a row, and {tolerated} are tolerated");
        refused(trainer.train(), &["worker 1 failed: ", &counted]);
    }
}

#[test]
fn a_failure_counts_once_however_many_fragments_were_asked_for() {
    let ppo = two_workers(|common| common.recreate_failed_workers = true);
    let env = Failing::copies(&[0], Failure::Error, 99);
    let workers = worker_set(&ppo, move || env.clone()).expect("workers");
    let mut fragments = workers.rollouts_async(3, Order::Deterministic);
    let first = fragments.next().expect("an answer");
    refused(first, &["worker 1 failed: ", "that is failure 4 in a row, and 3 are tolerated"]);
    assert_eq!(workers.num_worker_restarts(), 3);
}

#[test]
fn a_worker_that_cannot_start_fails_the_set_up_or_what_it_is_asked_first() {
    let env = || {
        let is_worker = std::thread::current().name().is_some_and(|name| name.starts_with("worker-"));
        assert!(!is_worker, "no licence for the simulator");
        Clockwork::terminating(5)
    };
    let parts =
        ["worker 1 failed: making the environments of worker 1 panicked: no licence for the simulator"];
    refused(quiet(two_workers(|common| common.num_workers = 1), env), &parts);
    let later = two_workers(|common| {
        common.num_workers = 1;
        common.validate_workers_after_construction = false;
    });
    refused(quiet(later, env).expect("a trainer").train(), &parts);
}

#[test]
fn failures_are_counted_for_each_worker_until_it_delivers() {
    // Both workers fail three times before their first fragment, and again whenever they come to episode 4, twice in
    // all. A replaced worker starts anew, so that is in the third round and in the fifth.
    let ppo = two_workers(|common| common.recreate_failed_workers = true);
    let env = Failing::copies(&[0, 2], Failure::Error, 3);
    let later = [0, 2].map(|copy| (episode_seed(SEED, copy, 4), 2));
    env.fuses.lock().expect("no thread panicked while it held the lock").extend(later);
    let mut trainer = build(ppo, &env);
    let restarts: Vec<f64> =
        (0..6).map(|_| number(&trainer.train().expect("a result"), "num_remote_worker_restarts")).collect();
    assert_eq!(restarts, [6.0, 6.0, 8.0, 8.0, 10.0, 10.0]);
}

/// A transport that delivers every completion twice.
#[derive(Debug)]
struct Twice {
    inner: ThreadPool,
    again: Vec<Completion>,
}

impl WorkerPool for Twice {
    fn len(&self) -> usize {
        self.inner.len()
    }
    fn submit(&mut self, worker: usize, request: Request) -> Result<u64> {
        self.inner.submit(worker, request)
    }
    fn next(&mut self, timeout: Option<Duration>) -> Result<Option<Completion>> {
        if let Some(again) = self.again.pop() {
            return Ok(Some(again));
        }
        let next = self.inner.next(timeout)?;
        if let Some(Completion { worker, incarnation, request, .. }) = next {
            let result = Err(Fault::App("a repetition that must not count".into()));
            self.again.push(Completion { worker, incarnation, request, result });
        }
        Ok(next)
    }
    fn respawn(&mut self, worker: usize) -> Result<u64> {
        self.inner.respawn(worker)
    }
    fn incarnation(&self, worker: usize) -> u64 {
        self.inner.incarnation(worker)
    }
}

#[test]
fn a_completion_that_comes_again_is_dropped() {
    let spec = worker_spec(&two_workers(|_| {}), clockwork(Clockwork::terminating(5))).expect("a spec");
    let pool = Twice { inner: ThreadPool::new(spec.clone(), 2).expect("workers"), again: Vec::new() };
    let workers = WorkerSet::over(&spec, Device::Cpu, Box::new(pool)).expect("workers");
    let plain = WorkerSet::new(&spec, Device::Cpu).expect("workers");
    for _ in 0..3 {
        let [twice, once] =
            [&workers, &plain].map(|w| w.sample().and_then(|batch| batch.single()).expect("a fragment"));
        assert_eq!(numbers(&twice, Column::OBS), numbers(&once, Column::OBS));
        workers.set_weights(&plain.get_weights()).expect("weights that fit");
    }
}

#[test]
fn a_failed_worker_is_left_out_and_training_goes_on() {
    let ppo = two_workers(|common| common.ignore_worker_failures = true);
    let mut trainer = build(ppo, &Failing::copies(&[0], Failure::Panic, 99));
    let mut steps = 0.0;
    for _ in 0..3 {
        let result = trainer.train().expect("a result");
        assert_eq!(number(&result, "num_healthy_workers"), 1.0);
        // Half as many steps per round: two rounds make the batch.
        steps += 32.0;
        assert_eq!(number(&result, "timesteps_total"), steps);
    }
}

#[test]
fn a_run_without_workers_left_is_an_error() {
    let ppo = two_workers(|common| common.ignore_worker_failures = true);
    let mut trainer = build(ppo, &Failing::copies(&[0, 2], Failure::Error, 99));
    refused(trainer.train(), &["no healthy worker is left"]);
}

#[test]
fn a_worker_that_does_not_answer_in_time_has_failed() {
    let gate = Arc::new(Mutex::new(()));
    let closed = gate.lock().expect("no thread panicked while it held the lock");
    let ppo = two_workers(|common| {
        common.worker_timeout_s = Some(0.2);
        common.disable_env_checking = true;
    });
    let shared = Arc::clone(&gate);
    let env = move || {
        let gate = Arc::clone(&shared);
        scripted(Space::discrete(2), move |_, _, _: &[i64], obs: &mut [f32]| {
            drop(gate.lock());
            obs[0] = 0.0;
            Ok(going_on(0.0))
        })
    };
    let mut trainer = quiet(ppo, env).expect("a trainer");
    refused(trainer.train(), &["worker 1 failed: no answer in 0.2 s (`worker_timeout_s`)"]);
    drop(closed);
}

#[test]
fn an_environment_in_which_nothing_is_learned_is_refused_unless_that_is_asked_for() {
    let env = || {
        scripted(Space::discrete(2), |_, t, _: &[i64], obs: &mut [f32]| {
            obs[0] = t as f32;
            // Not in the first fragment.
            Ok(going_on(if t > 40 { f64::NAN } else { 0.0 }))
        })
    };
    refused(quiet(tiny_ppo(), env), &["contract `finite_reward` is broken", "`disable_env_checking = true`"]);
    let mut ppo = tiny_ppo();
    ppo.common.disable_env_checking = true;
    quiet(ppo, env).expect("a trainer").train().expect("an iteration");
}

#[test]
fn an_evaluation_plays_every_episode_once_although_a_worker_is_lost() {
    // Of three workers the second plays episodes 1 and 4; its environment fails in the first of them.
    let task = EvaluationTask { episodes: (0..6).collect(), seed: 3, explore: false, timestep: 0, frames: 0 };
    let mut ppo = tiny_ppo();
    ppo.common.num_workers = 3;
    ppo.common.ignore_worker_failures = true;
    let numbers = |workers: &WorkerSet| {
        let episodes = workers.evaluate(&task).expect("an evaluation").episodes;
        episodes.iter().map(|e| e.number).collect::<Vec<_>>()
    };
    let env = Failing::episodes([derive(3, "evaluation episode", 1) >> 1], Failure::Panic, 1);
    let workers = worker_set(&ppo, move || env.clone()).expect("workers");
    assert_eq!(numbers(&workers), [0, 1, 2, 3, 4, 5]);
    assert_eq!(workers.num_healthy_workers(), 2);
    // And with the gap that it left.
    assert_eq!(numbers(&workers), [0, 1, 2, 3, 4, 5]);
}

/// Two copies, 4 steps; the second step of copy 1 gives `reward` and observes `value`, and ends if `ends`.
fn not_finite(reward: f64, value: f32, ends: bool) -> String {
    let mut ppo = tiny_ppo();
    ppo.common.rollout_fragment_length = 4;
    ppo.common.seed = Some(SEED);
    let bad = episode_seed(SEED, 1, 0);
    let env = move || {
        scripted(Space::discrete(2), move |seed, t, _: &[i64], obs: &mut [f32]| {
            let hit = seed == bad && t == 2;
            obs[0] = if hit { value } else { t as f32 };
            let step = going_on(if hit { reward } else { 1.0 });
            Ok(Step { truncated: hit && ends, ..step })
        })
    };
    let workers = worker_set(&ppo, env).expect("workers");
    refused(workers.sample(), &["look at what the environment computes"])
}

#[test]
fn numbers_that_are_not_finite_name_component_copy_and_step() {
    // Copy 1 takes the run's steps 2, 4, 6, ...
    let text = not_finite(f64::NAN, 0.0, false);
    assert!(text.starts_with("the reward of environment copy 1 is NaN at step 4; "), "{text}");
    let text = not_finite(0.0, f32::INFINITY, false);
    let start = "component 0 of an observation of environment copy 1 is inf at step 4; ";
    assert!(text.starts_with(start), "{text}");
    // The observation that an episode is cut at never shows up in a row to act on.
    let text = not_finite(0.0, f32::NAN, true);
    let start = "component 0 of an observation of environment copy 1 is NaN at step 4; ";
    assert!(text.starts_with(start), "{text}");
}

#[test]
fn a_bad_observation_is_named_and_not_the_action_that_follows_from_it() {
    let mut ppo = tiny_ppo();
    ppo.common.rollout_fragment_length = 8;
    ppo.common.disable_env_checking = true;
    let env = || {
        scripted(Space::boxed(-1.0, 1.0, &[1]), |_, t, _: &[f32], obs: &mut [f32]| {
            obs[0] = if t == 2 { f32::NAN } else { t as f32 };
            Ok(going_on(1.0))
        })
    };
    let text =
        refused(worker_set(&ppo, env).expect("workers").sample(), &["look at what the environment computes"]);
    assert!(text.contains("component 0 of an observation of environment copy 0 is NaN"), "{text}");
}
