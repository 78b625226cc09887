//! What environments may do in training: refused, said once and trained, or not worth a word; and actions of every type.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};

use pavlov::envs::{self, DType, Element, Env, IntoEnvCreator, Space, Step};
use pavlov::prelude::*;

/// An environment whose observations are what `show` says of the number of steps in the episode, which ends after `length`.
struct Shows<A> {
    space: Space,
    actions: Space,
    show: fn(usize) -> f32,
    length: usize,
    count: usize,
    action: std::marker::PhantomData<A>,
}

fn shows<A: Element>(space: Space, actions: Space, show: fn(usize) -> f32, length: usize) -> Shows<A> {
    Shows { space, actions, show, length, count: 0, action: std::marker::PhantomData }
}

impl<A: Element> Env for Shows<A> {
    type Obs = f32;
    type Act = A;

    fn observation_space(&self) -> Space {
        self.space.clone()
    }

    fn action_space(&self) -> Space {
        self.actions.clone()
    }

    fn reset(&mut self, _: Option<u64>, obs: &mut [f32]) -> envs::Result<()> {
        self.count = 0;
        obs.fill((self.show)(0));
        Ok(())
    }

    fn step(&mut self, action: &[A], obs: &mut [f32]) -> envs::Result<Step> {
        assert!(self.actions.contains(action), "{action:?} is not in {}", self.actions);
        self.count += 1;
        obs.fill((self.show)(self.count));
        Ok(Step { reward: 1.0, terminated: self.count >= self.length, truncated: false })
    }
}

fn tiny() -> Ppo {
    let mut ppo = Ppo { sgd_minibatch_size: 16, num_sgd_iter: 1, ..Ppo::get_default_config() };
    ppo.common.num_workers = 0;
    ppo.common.num_envs_per_worker = 2;
    ppo.common.rollout_fragment_length = 16;
    ppo.common.train_batch_size = 32;
    ppo.common.model.fcnet_hiddens = vec![8];
    ppo.common.seed = Some(0);
    ppo
}

fn driver(ppo: Ppo, env: impl IntoEnvCreator) -> Result<Driver<Algorithm<Ppo>>> {
    ppo.builder(env).loggers(LoggerChoice::None).build()
}

fn choices() -> Space {
    Space::discrete(2)
}

#[track_caller]
fn refused<T, E: std::fmt::Display>(result: std::result::Result<T, E>, parts: &[&str]) {
    let text = result.err().expect("an error").to_string();
    parts.iter().for_each(|part| assert!(text.contains(part), "no {part:?} in {text}"));
}

/// Shows how many steps all copies have made together, whatever the seed.
fn unrepeatable() -> Shows<i64> {
    static STEPS: AtomicUsize = AtomicUsize::new(0);
    shows(Space::real(&[1]), choices(), |_| STEPS.fetch_add(1, Relaxed) as f32, 50)
}

#[test]
fn an_environment_that_a_seed_does_not_repeat_trains_and_a_strict_check_refuses_it() {
    driver(tiny(), unrepeatable).expect("a trainer").train().expect("a result");
    let mut strict = tiny();
    strict.common.strict_env_checking = true;
    refused(
        driver(strict, unrepeatable),
        &["contract `deterministic` is broken", "leave `strict_env_checking` out"],
    );
}

#[test]
fn an_observation_that_stands_for_nothing_is_refused_with_all_other_faults() {
    // The row of a Dict is of reals, in which an integer may be a fraction.
    let space = || Space::dict([("choice", Space::discrete(3)), ("real", Space::boxed(0.0, 1.0, &[1]))]);
    let env = move || shows::<i64>(space(), choices(), |count| count as f32 + 0.5, 5);
    refused(
        driver(tiny(), env),
        &["`observation_in_space`", "element 0 is 0.5", "`disable_env_checking = true`"],
    );
}

#[test]
fn observations_beyond_their_bounds_are_used_and_results_have_their_share() {
    let trained = |show: fn(usize) -> f32| {
        let env = move || shows::<i64>(Space::boxed(-1.0, 1.0, &[1]), choices(), show, 7);
        let mut driver = driver(tiny(), env).expect("a trainer");
        let results: Vec<_> = (0..6).map(|_| driver.train().expect("a result")).collect();
        let metrics = results[5]["custom_metrics"].clone();
        metrics["obs_out_of_bounds_mean"].as_f64()
    };
    assert_eq!(trained(|_| 1.5), Some(1.0));
    assert_eq!(trained(|_| 0.5), None);
    // Rounding is no fault.
    assert_eq!(trained(|_| 1.000_000_1), None);
    let share = trained(|count| if count < 3 { 0.0 } else { 2.0 }).expect("a share");
    assert!(share > 0.2 && share < 0.9, "{share}");
}

#[test]
fn an_observation_beyond_its_bounds_is_an_error_where_everything_is() {
    let mut ppo = tiny();
    ppo.common.strict_env_checking = true;
    let env = || shows::<i64>(Space::boxed(-1.0, 1.0, &[1]), choices(), |_| 1.5, 7);
    refused(
        driver(ppo.clone(), env),
        &["element 0 is 1.5, outside -1..=1", "leave `strict_env_checking` out"],
    );
    ppo.common.disable_env_checking = true;
    refused(driver(ppo, env).expect("a trainer").train(), &["element 0 is 1.5, outside -1..=1"]);
}

#[test]
fn a_run_whose_episodes_cannot_be_played_again_is_resumed_with_new_ones() {
    fn env() -> Changing {
        Changing { step: 0 }
    }
    let dir = tempfile::tempdir().expect("a directory");
    let mut first = driver(tiny(), env).expect("a trainer");
    for _ in 0..3 {
        first.train().expect("a result");
    }
    let checkpoint = first.save_to(dir.path().join("saved")).expect("a checkpoint");
    let weights = first.get_weights().expect("weights");
    let mut second = driver(tiny(), env).expect("a trainer");
    HAS_CHANGED.store(true, Relaxed);
    second.restore(&checkpoint).expect("new episodes");
    HAS_CHANGED.store(false, Relaxed);
    assert!(second.get_weights().expect("weights") == weights, "weights are as saved");
    let result = second.train().expect("a result");
    assert_eq!(result["timesteps_total"], 4 * 32);
    assert_eq!(result["training_iteration"], 4);
}

/// Whether the episodes of a [`Changing`] end after one step.
static HAS_CHANGED: AtomicBool = AtomicBool::new(false);

struct Changing {
    step: usize,
}

impl Env for Changing {
    type Obs = f32;
    type Act = i64;

    fn observation_space(&self) -> Space {
        Space::real(&[1])
    }

    fn action_space(&self) -> Space {
        choices()
    }

    fn reset(&mut self, _: Option<u64>, obs: &mut [f32]) -> envs::Result<()> {
        self.step = 0;
        obs.fill(0.0);
        Ok(())
    }

    fn step(&mut self, _: &[i64], obs: &mut [f32]) -> envs::Result<Step> {
        self.step += 1;
        obs.fill(self.step as f32);
        Ok(Step { reward: 0.0, terminated: HAS_CHANGED.load(Relaxed), truncated: false })
    }
}

/// Trains where every action must be a member of its space.
fn acts<A: Element>(space: Space) {
    let env = move || shows::<A>(Space::real(&[1]), space.clone(), |count| count as f32, 9);
    driver(tiny(), env).expect("a trainer").train().expect("a result");
}

#[test]
fn actions_of_every_type_are_members_of_their_space() {
    // 0.1 in single precision is above 0.1.
    acts::<f64>(Space::boxed(-0.1, 0.1, &[2]).with_dtype(DType::F64));
    acts::<i64>(Space::boxed(-5.0, 5.0, &[2]).with_dtype(DType::I64));
    acts::<u8>(Space::boxed(0.0, 255.0, &[3]).with_dtype(DType::U8));
    acts::<f64>(Space::boxed(-1.0, 1.0, &[2, 3]).with_dtype(DType::F64));
    acts::<f32>(Space::bounded(&[f64::NEG_INFINITY, 0.0], &[f64::INFINITY, 1.0]).expect("bounds"));
    acts::<i64>(Space::Discrete { n: 3, start: -1 });
    acts::<i64>(Space::MultiDiscrete { nvec: vec![2, 3], start: vec![1, -3] });
}
