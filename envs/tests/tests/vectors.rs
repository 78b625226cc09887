//! Autoreset, time limits, replay and errors.

use std::cell::Cell;

use pavlov_envs::{
    Env, Result, Space, Step, SyncVectorEnv, ThreadVectorEnv, VectorEnv, check_vector_env,
    native::{CartPole, CartPoleConfig, CartPoleVector},
    wrappers::TimeLimit,
};

use crate::{
    counter::{CUT, Counter, END, FAIL, GO, PANIC, counters},
    rows::Rows,
    states::edited,
};

#[test]
fn a_copy_that_ended_shows_its_next_first_observation_in_the_same_step() {
    let mut env = counters(3);
    let mut rows = Rows::filled(3, 2, -1);
    env.reset(Some(&[7, 8, 9]), &mut rows.obs).unwrap();
    assert_eq!(rows.obs, [7, 0, 8, 0, 9, 0]);
    env.step(&[GO, END, CUT], Some(&[17, 18, 19]), rows.out()).unwrap();
    assert_eq!(rows.obs, [7, 1, 18, 0, 19, 0]);
    assert_eq!(rows.final_obs, [-1, -1, 8, 1, 9, 1]);
    assert_eq!((rows.terminated, rows.truncated), (vec![false, true, false], vec![false, false, true]));
    assert_eq!(rows.rewards, [1.0; 3]);
}

#[test]
fn without_autoreset_a_copy_stays_as_it_ended_until_it_is_reset() {
    let mut env = counters(2);
    assert!(env.set_autoreset(false));
    let mut rows = Rows::filled(2, 2, -1);
    env.reset(Some(&[7, 8]), &mut rows.obs).unwrap();
    env.step(&[GO, END], Some(&[17, 18]), rows.out()).unwrap();
    assert_eq!(rows.obs, [7, 1, 8, 1]);
    assert_eq!(rows.final_obs, [-1, -1, 8, 1]);
    assert_eq!(env.envs().map(|copy| copy.step).collect::<Vec<_>>(), [1, 1]);
    env.reset(None, &mut rows.obs).unwrap();
    assert_eq!(rows.obs, [107, 0, 108, 0]);

    let mut pole = CartPoleVector::new(1, 2, CartPoleConfig::default());
    assert!(pole.set_autoreset(false));
    let mut rows = Rows::filled(1, 4, 0.0);
    pole.reset(Some(&[3]), &mut rows.obs).unwrap();
    for _ in 0..2 {
        pole.step(&[1], None, rows.out()).unwrap();
    }
    assert!(rows.truncated[0]);
    assert_eq!(rows.obs, rows.final_obs);
}

#[test]
fn without_seeds_a_copy_continues_its_own_stream() {
    let mut env = counters(1);
    let mut rows = Rows::filled(1, 2, -1);
    env.reset(Some(&[7]), &mut rows.obs).unwrap();
    env.step(&[END], None, rows.out()).unwrap();
    assert_eq!(rows.obs, [107, 0]);
}

#[test]
fn an_episode_that_ends_in_the_step_of_its_time_limit_is_terminated_and_truncated() {
    for (last, expected) in [(GO, (false, true)), (END, (true, true))] {
        let mut env = counters(1);
        let mut rows = Rows::filled(1, 2, -1);
        env.reset(Some(&[1]), &mut rows.obs).unwrap();
        for action in [GO, GO, GO, last] {
            assert_eq!((rows.terminated[0], rows.truncated[0]), (false, false));
            env.step(&[action], Some(&[2]), rows.out()).unwrap();
        }
        assert_eq!((rows.terminated[0], rows.truncated[0]), expected);
        let mut wrapped = TimeLimit::new(Counter::default(), 2);
        let mut obs = [0; 2];
        wrapped.reset(Some(1), &mut obs).unwrap();
        assert!(!wrapped.step(&[GO], &mut obs).unwrap().truncated);
        let step = wrapped.step(&[last], &mut obs).unwrap();
        assert_eq!((step.terminated, step.truncated), expected);
    }
    // A pole that is pushed to one side falls after so many steps.
    let mut pole = CartPole::new(CartPoleConfig::default());
    let mut obs = [0.0; 4];
    pole.reset(Some(3), &mut obs).unwrap();
    let falls_after = (1..).find(|_| pole.step(&[1], &mut obs).unwrap().terminated).unwrap();
    let mut env = CartPoleVector::new(1, falls_after, CartPoleConfig::default());
    let mut rows = Rows::filled(1, 4, 0.0);
    env.reset(Some(&[3]), &mut rows.obs).unwrap();
    for _ in 0..falls_after {
        assert_eq!((rows.terminated[0], rows.truncated[0]), (false, false));
        env.step(&[1], None, rows.out()).unwrap();
    }
    assert_eq!((rows.terminated[0], rows.truncated[0]), (true, true));
}

#[test]
fn replay_brings_every_copy_back_to_the_middle_of_its_episode() {
    let mut env = counters(2);
    let mut rows = Rows::filled(2, 2, -1);
    env.reset(Some(&[1, 2]), &mut rows.obs).unwrap();
    env.step(&[GO, END], Some(&[3, 4]), rows.out()).unwrap();
    env.step(&[GO, GO], Some(&[5, 6]), rows.out()).unwrap();
    let state = env.save_state().unwrap().unwrap();

    let mut other = counters(2);
    other.load_state(&state).unwrap();
    let mut other_rows = Rows::filled(2, 2, -1);
    other.step(&[GO, GO], Some(&[5, 6]), other_rows.out()).unwrap();
    // Seed and step of both copies went on; the first one is cut by its limit one step later.
    assert_eq!(other_rows.obs, [1, 3, 4, 2]);
    other.step(&[GO, GO], Some(&[5, 6]), other_rows.out()).unwrap();
    assert_eq!(other_rows.truncated, [true, false]);
    assert_eq!(other_rows.obs, [5, 0, 4, 3]);
}

#[test]
fn states_that_do_not_fit_are_refused_with_a_reason() {
    let mut env = counters(2);
    let mut rows = Rows::filled(2, 2, -1);
    env.reset(None, &mut rows.obs).unwrap();
    assert!(env.save_state().unwrap_err().to_string().contains("started without a seed"));
    env.reset(Some(&[1, 2]), &mut rows.obs).unwrap();
    let state = env.save_state().unwrap().unwrap();
    let mut refused = |state: &[u8], part: &str| {
        let message = env.load_state(state).unwrap_err().to_string();
        assert!(message.contains(part), "{message:?} does not contain {part:?}");
    };
    refused(&state[..state.len() - 1], "ends too early");
    refused(&[&state[..], &[0]].concat(), "1 bytes too many");
    refused(&counters_state(3), "holds 3 copies, but there are 2 here");
    let cartpole = CartPoleVector::new(2, 500, CartPoleConfig::default());
    refused(&cartpole.save_state().unwrap().unwrap(), "saved by \"CartPole vector\"");
}

#[test]
fn states_of_another_layout_are_refused_by_their_version() {
    let mut env = counters(1);
    env.reset(Some(&[1]), &mut [0; 2]).unwrap();
    let mut state = env.save_state().unwrap().unwrap();
    let mut message = |state: &[u8]| env.load_state(state).unwrap_err().to_string();
    // The first layout began with the length of the tag, in eight bytes, and the tag.
    let first = [&11_u64.to_le_bytes()[..], b"sync_vector", &1_u64.to_le_bytes()].concat();
    let expected = "its layout has version 1, but this version of pavlov reads version 3; load it with the version of pavlov that saved it";
    assert!(message(&first).ends_with(expected), "{}", message(&first));
    state[3] = 4;
    assert!(message(&state).contains("its layout has version 4"), "{}", message(&state));
    for damaged in [&b""[..], b"pv", b"\0\0\0\0\0\0\0\0\0"] {
        assert!(message(damaged).contains("does not begin as saved states do"), "{}", message(damaged));
    }
}

#[test]
fn a_state_beyond_the_time_limit_is_refused_by_its_copy() {
    let make = || Ok(TimeLimit::new(CartPole::new(CartPoleConfig::default()), 30));
    let mut env = SyncVectorEnv::new(1, make).unwrap();
    env.reset(Some(&[1]), &mut [0.0; 4]).unwrap();
    let state = env.save_state().unwrap().unwrap();
    // Seed, step, and how the copy comes back: by its own state.
    type Copy = (Option<u64>, usize, u8, Vec<u8>);
    let with = |step: usize| edited(&state, |copies: &mut Vec<Copy>| copies[0].1 = step);
    env.load_state(&with(29)).unwrap();
    for step in [30, usize::MAX] {
        let message = env.load_state(&with(step)).unwrap_err().to_string();
        let expected = format!("an episode is at step {step}, but episodes end at step 30 here");
        assert!(message.contains(&expected), "{message}");
    }
}

#[test]
fn a_limit_that_was_long_passed_truncates_at_once() {
    let mut env = TimeLimit::new(CartPole::new(CartPoleConfig::default()), 30);
    env.reset(Some(1), &mut [0.0; 4]).unwrap();
    let state = env.save_state().unwrap();
    let beyond = edited(&state, |(step, _): &mut (usize, Vec<u8>)| *step = usize::MAX);
    env.load_state(&beyond).unwrap();
    assert!(env.step(&[0], &mut [0.0; 4]).unwrap().truncated);
}

fn counters_state(n: usize) -> Vec<u8> {
    let mut env = counters(n);
    env.reset(Some(&vec![1; n]), &mut vec![0; 2 * n]).unwrap();
    env.save_state().unwrap().unwrap()
}

#[test]
fn an_error_says_which_copy_seed_and_step() {
    let mut env = counters(3);
    let mut rows = Rows::filled(3, 2, -1);
    env.reset(Some(&[7, 8, 9]), &mut rows.obs).unwrap();
    env.step(&[GO; 3], Some(&[0; 3]), rows.out()).unwrap();
    let error = env.step(&[GO, GO, FAIL], Some(&[0; 3]), rows.out()).unwrap_err();
    assert_eq!(
        error.to_string(),
        "environment 2 failed at step 2 of the episode with seed 9: the motor is gone"
    );
}

#[test]
fn a_panic_in_a_copy_is_an_error_with_its_place() {
    let blocks = vec![counters(2), counters(2)];
    let mut env = ThreadVectorEnv::new(blocks).unwrap();
    let mut rows = Rows::filled(4, 2, -1);
    env.reset(Some(&[6, 7, 8, 9]), &mut rows.obs).unwrap();
    let error = env.step(&[GO, GO, GO, PANIC], Some(&[0; 4]), rows.out()).unwrap_err();
    assert_eq!(
        error.to_string(),
        "environment 3 failed at step 1 of the episode with seed 9: panic: index 1 out of range"
    );
}

#[test]
fn an_invalid_action_is_named_with_its_space() {
    let mut env = counters(2);
    let mut rows = Rows::filled(2, 2, -1);
    env.reset(Some(&[7, 8]), &mut rows.obs).unwrap();
    let error = env.step(&[GO, 5], None, rows.out()).unwrap_err();
    assert_eq!(error.to_string(), "action 5 is not in Discrete(5) of Counter");
    let error = env.step(&[GO], None, rows.out()).unwrap_err();
    assert_eq!(error.to_string(), "`actions` is 1 long, but it must be 2 x 1 (copies x width)");
}

/// Takes whatever a vector lets through.
#[derive(Clone)]
struct Taker(Space);

impl Env for Taker {
    type Obs = f32;
    type Act = f32;

    fn observation_space(&self) -> Space {
        Space::real(&[1])
    }

    fn action_space(&self) -> Space {
        self.0.clone()
    }

    fn reset(&mut self, _: Option<u64>, obs: &mut [f32]) -> Result<()> {
        obs[0] = 0.0;
        Ok(())
    }

    fn step(&mut self, action: &[f32], obs: &mut [f32]) -> Result<Step> {
        obs[0] = action.iter().sum();
        Ok(Step::default())
    }
}

#[test]
fn finite_reals_beyond_their_bounds_are_taken_alone_and_in_a_dict_or_tuple() {
    let push = Space::boxed(-1.0, 1.0, &[1]);
    let dict = Space::dict([("gear", Space::discrete(3)), ("push", push.clone())]);
    let tuple = Space::Tuple(vec![Space::discrete(3), push.clone()]);
    for (space, gears) in [(push, 0), (dict, 1), (tuple, 1)] {
        let mut env = SyncVectorEnv::new(1, || Ok(Taker(space.clone()))).unwrap();
        let mut rows = Rows::filled(1, 1, 0.0);
        env.reset(Some(&[1]), &mut rows.obs).unwrap();
        let mut taken = |gear: f32, push: f32| {
            let action = [gear, push];
            env.step(&action[1 - gears..], None, rows.out()).is_ok()
        };
        assert!(taken(2.0, 2.0) && taken(0.0, -7.5), "{space}");
        assert!(!taken(2.0, f32::NAN) && !taken(2.0, f32::INFINITY), "{space}");
        if gears == 1 {
            assert!(!taken(3.0, 0.0) && !taken(0.5, 0.0) && !taken(f32::NAN, 0.0), "{space}");
        }
    }
}

#[test]
fn stepping_cartpole_outside_an_episode_says_to_reset() {
    let mut env = CartPole::new(CartPoleConfig::default());
    let message = env.step(&[0], &mut [0.0; 4]).unwrap_err().to_string();
    assert!(message.contains("call `reset` first"), "{message}");
}

#[test]
fn vectors_without_copies_are_refused() {
    let error = SyncVectorEnv::new(0, || Ok(Counter::default())).unwrap_err();
    assert_eq!(error.to_string(), "`num_envs` is 0, but it must be at least 1");
    let error = ThreadVectorEnv::of_env(2, 3, || Ok(Counter::default())).unwrap_err();
    assert_eq!(error.to_string(), "`num_blocks` is 3, but it must be in 1..=2 (`num_envs`)");
    let empty = || CartPoleVector::new(0, 500, CartPoleConfig::default());
    let full = || CartPoleVector::new(2, 500, CartPoleConfig::default());
    for blocks in [vec![empty()], vec![full(), empty()]] {
        let error = ThreadVectorEnv::new(blocks).unwrap_err();
        assert_eq!(error.to_string(), "`num_envs` of a block is 0, but it must be at least 1");
    }
}

#[test]
fn copies_with_other_spaces_are_refused() {
    struct Odd(i64);
    impl Env for Odd {
        type Obs = f32;
        type Act = i64;
        fn observation_space(&self) -> Space {
            Space::real(&[1])
        }
        fn action_space(&self) -> Space {
            Space::discrete(self.0)
        }
        fn reset(&mut self, _: Option<u64>, _: &mut [f32]) -> Result<()> {
            Ok(())
        }
        fn step(&mut self, _: &[i64], _: &mut [f32]) -> Result<Step> {
            Ok(Step::default())
        }
    }
    let next = Cell::new(1);
    let make = || {
        next.set(next.get() + 1);
        Ok(Odd(next.get()))
    };
    let message = SyncVectorEnv::new(2, make).err().unwrap().to_string();
    assert!(
        message.contains("Discrete(3)") && message.contains("Discrete(2), as in the first copy"),
        "{message}"
    );
}

/// Has more actions than a mask could hold; the observation is the last one's parity.
struct Wide;

impl Env for Wide {
    type Obs = f32;
    type Act = i64;

    fn observation_space(&self) -> Space {
        Space::boxed(0.0, 1.0, &[1])
    }

    fn action_space(&self) -> Space {
        Space::discrete(1 << 40)
    }

    fn reset(&mut self, _: Option<u64>, obs: &mut [f32]) -> Result<()> {
        obs[0] = 0.0;
        Ok(())
    }

    fn step(&mut self, action: &[i64], obs: &mut [f32]) -> Result<Step> {
        obs[0] = (action[0] % 2) as f32;
        Ok(Step { reward: 0.0, terminated: false, truncated: false })
    }
}

#[test]
fn the_checks_ask_for_no_mask_of_a_million_million_actions() {
    check_vector_env(&mut SyncVectorEnv::new(3, || Ok(Wide)).unwrap()).unwrap();
}
