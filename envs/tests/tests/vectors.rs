//! Autoreset, time limits, replay, errors and threads.

use std::{
    cell::Cell,
    sync::{Arc, Barrier},
};

use pavlov_envs::{
    CartPole, CartPoleConfig, CartPoleVector, Env, EnvConfig, Error, FrozenLake, NpRandom, Result, Space,
    Step, StepOut, SyncVectorEnv, Taxi, TaxiConfig, ThreadVectorEnv, TimeLimit, VectorEnv, check_vector_env,
    make_vec,
};

/// Shows the seed and the step; ends as its actions say.
#[derive(Clone, Debug, Default)]
struct Counter {
    seed: u64,
    step: i64,
}

const GO: i64 = 0;
const END: i64 = 1;
const CUT: i64 = 2;
const FAIL: i64 = 3;
const PANIC: i64 = 4;

impl Env for Counter {
    type Obs = i64;
    type Act = i64;

    fn observation_space(&self) -> Space {
        Space::MultiDiscrete { nvec: vec![1000, 1000] }
    }

    fn action_space(&self) -> Space {
        Space::discrete(5)
    }

    fn reset(&mut self, seed: Option<u64>, obs: &mut [i64]) -> Result<()> {
        *self = Self { seed: seed.unwrap_or(self.seed + 100), step: 0 };
        obs.copy_from_slice(&[self.seed as i64, 0]);
        Ok(())
    }

    fn step(&mut self, action: &[i64], obs: &mut [i64]) -> Result<Step> {
        self.step += 1;
        match action[0] {
            FAIL => return Err(Error::other("the motor is gone")),
            PANIC => panic!("index {} out of range", self.step),
            _ => {}
        }
        obs.copy_from_slice(&[self.seed as i64, self.step]);
        Ok(Step { reward: self.step as f64, terminated: action[0] == END, truncated: action[0] == CUT })
    }

    fn max_episode_steps(&self) -> Option<usize> {
        Some(4)
    }
}

/// Rows of a vector environment.
struct Rows<O> {
    obs: Vec<O>,
    final_obs: Vec<O>,
    rewards: Vec<f32>,
    terminated: Vec<bool>,
    truncated: Vec<bool>,
}

impl<O: Clone> Rows<O> {
    fn new(n: usize, width: usize, value: O) -> Self {
        Self {
            obs: vec![value.clone(); n * width],
            final_obs: vec![value; n * width],
            rewards: vec![0.0; n],
            terminated: vec![false; n],
            truncated: vec![false; n],
        }
    }

    fn out(&mut self) -> StepOut<'_, O> {
        StepOut {
            obs: &mut self.obs,
            final_obs: &mut self.final_obs,
            rewards: &mut self.rewards,
            terminated: &mut self.terminated,
            truncated: &mut self.truncated,
        }
    }
}

fn counters(n: usize) -> SyncVectorEnv<Counter> {
    SyncVectorEnv::new(n, || Ok(Counter::default())).unwrap()
}

#[test]
fn a_copy_that_ended_shows_its_next_first_observation_in_the_same_step() {
    let mut env = counters(3);
    let mut rows = Rows::new(3, 2, -1);
    env.reset(Some(&[7, 8, 9]), &mut rows.obs).unwrap();
    assert_eq!(rows.obs, [7, 0, 8, 0, 9, 0]);
    env.step(&[GO, END, CUT], Some(&[17, 18, 19]), rows.out()).unwrap();
    assert_eq!(rows.obs, [7, 1, 18, 0, 19, 0]);
    assert_eq!(rows.final_obs, [-1, -1, 8, 1, 9, 1]);
    assert_eq!((rows.terminated, rows.truncated), (vec![false, true, false], vec![false, false, true]));
    assert_eq!(rows.rewards, [1.0; 3]);
}

#[test]
fn without_seeds_a_copy_continues_its_own_stream() {
    let mut env = counters(1);
    let mut rows = Rows::new(1, 2, -1);
    env.reset(Some(&[7]), &mut rows.obs).unwrap();
    env.step(&[END], None, rows.out()).unwrap();
    assert_eq!(rows.obs, [107, 0]);
}

#[test]
fn the_time_limit_truncates_but_an_end_in_the_same_step_goes_before() {
    for (last, expected) in [(GO, (false, true)), (END, (true, false))] {
        let mut env = counters(1);
        let mut rows = Rows::new(1, 2, -1);
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
}

#[test]
fn replay_brings_every_copy_back_to_the_middle_of_its_episode() {
    let mut env = counters(2);
    let mut rows = Rows::new(2, 2, -1);
    env.reset(Some(&[1, 2]), &mut rows.obs).unwrap();
    env.step(&[GO, END], Some(&[3, 4]), rows.out()).unwrap();
    env.step(&[GO, GO], Some(&[5, 6]), rows.out()).unwrap();
    let state = env.save_state().unwrap().unwrap();

    let mut other = counters(2);
    other.load_state(&state).unwrap();
    let mut other_rows = Rows::new(2, 2, -1);
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
    let mut rows = Rows::new(2, 2, -1);
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
    refused(&cartpole.save_state().unwrap().unwrap(), "saved by \"cartpole_vector\"");
}

fn counters_state(n: usize) -> Vec<u8> {
    let mut env = counters(n);
    env.reset(Some(&vec![1; n]), &mut vec![0; 2 * n]).unwrap();
    env.save_state().unwrap().unwrap()
}

#[test]
fn an_error_says_which_copy_seed_and_step() {
    let mut env = counters(3);
    let mut rows = Rows::new(3, 2, -1);
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
    let mut rows = Rows::new(4, 2, -1);
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
    let mut rows = Rows::new(2, 2, -1);
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
        let mut rows = Rows::new(1, 1, 0.0);
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
fn threads_and_one_loop_give_equal_rows_bit_for_bit() {
    const N: usize = 13;
    let make = || Ok(TimeLimit::new(CartPole::new(CartPoleConfig::default()), 30));
    let sync = play::<_, N>(SyncVectorEnv::new(N, make).unwrap());
    assert!(sync.iter().any(|(.., ended)| ended.contains(&true)), "no episode ended");
    assert!(play::<_, N>(ThreadVectorEnv::of_env(N, 4, make).unwrap()) == sync, "threads differ");
    let blocks = [5, 8].map(|n| CartPoleVector::new(n, 30, CartPoleConfig::default())).into();
    assert!(play::<_, N>(ThreadVectorEnv::new(blocks).unwrap()) == sync, "struct-of-arrays blocks differ");
}

#[test]
fn sync_threads_and_halves_of_steps_keep_the_contract() {
    let make = || Ok(TimeLimit::new(CartPole::new(CartPoleConfig::default()), 30));
    check_vector_env(&mut SyncVectorEnv::new(5, make).unwrap()).unwrap();
    check_vector_env(&mut ThreadVectorEnv::of_env(5, 2, make).unwrap()).unwrap();
    let blocks = [2, 3].map(|n| CartPoleVector::new(n, 30, CartPoleConfig::default())).into();
    check_vector_env(&mut ThreadVectorEnv::new(blocks).unwrap()).unwrap();
}

/// The step waits until the caller has sent to both vectors, so it hangs unless `send` returns at once.
#[test]
fn threads_step_between_send_and_recv() {
    let meeting = Arc::new(Barrier::new(2));
    let vector = || {
        let meeting = Arc::clone(&meeting);
        ThreadVectorEnv::of_env(1, 1, move || Ok(Meeting(Arc::clone(&meeting)))).unwrap()
    };
    let (mut a, mut b) = (vector(), vector());
    let mut rows = Rows::new(1, 1, 0.0_f32);
    for env in [&mut a, &mut b] {
        env.reset(Some(&[1]), &mut rows.obs).unwrap();
        env.send(&[0], Some(&[2])).unwrap();
    }
    for env in [&mut a, &mut b] {
        env.recv(rows.out()).unwrap();
        assert_eq!(rows.rewards, [3.0]);
    }
    a.send(&[0], None).unwrap();
    // Dropped in the middle of a step, a vector waits for its end.
    b.send(&[0], None).unwrap();
}

struct Meeting(Arc<Barrier>);

impl Env for Meeting {
    type Obs = f32;
    type Act = i64;

    fn observation_space(&self) -> Space {
        Space::real(&[1])
    }

    fn action_space(&self) -> Space {
        Space::discrete(2)
    }

    fn reset(&mut self, _: Option<u64>, obs: &mut [f32]) -> Result<()> {
        obs[0] = 0.0;
        Ok(())
    }

    fn step(&mut self, _: &[i64], obs: &mut [f32]) -> Result<Step> {
        self.0.wait();
        obs[0] = 1.0;
        Ok(Step { reward: 3.0, ..Step::default() })
    }
}

#[test]
fn calls_out_of_turn_say_what_comes_next() {
    fn check<V: VectorEnv<Obs = i64, Act = i64>>(mut env: V, name: &str) {
        let mut rows = Rows::new(2, 2, -1);
        env.reset(Some(&[7, 8]), &mut rows.obs).unwrap();
        let unsupported = |error: Error, rest: &str| {
            assert!(matches!(error, Error::Unsupported { .. }), "{error:?}");
            assert_eq!(error.to_string(), format!("{name} has no {rest}"));
        };
        let early = "step in flight; call `send` first";
        unsupported(env.recv(rows.out()).unwrap_err(), early);
        let invalid = env.send(&[GO, 5], None).unwrap_err().to_string();
        assert_eq!(invalid, format!("action 5 is not in Discrete(5) of {name}"));
        env.send(&[GO, GO], Some(&[1, 2])).unwrap();
        let second = "room for a second `send`; call `recv` first";
        unsupported(env.send(&[GO, GO], None).unwrap_err(), second);
        unsupported(env.step(&[GO, GO], None, rows.out()).unwrap_err(), second);
        let error = env.save_state().unwrap_err().to_string();
        assert_eq!(error, "environment state: a step is in flight; call `recv` first");
        env.recv(rows.out()).unwrap();
        unsupported(env.recv(rows.out()).unwrap_err(), early);
        assert_eq!(rows.obs, [7, 1, 8, 1]);
        env.send(&[GO, FAIL], None).unwrap();
        let error = env.recv(rows.out()).unwrap_err().to_string();
        assert_eq!(error, "environment 1 failed at step 2 of the episode with seed 8: the motor is gone");
    }
    check(counters(2), "Counter");
    check(ThreadVectorEnv::of_env(2, 2, || Ok(Counter::default())).unwrap(), "Counter");
    check(ThreadVectorEnv::new(vec![counters(1), counters(1)]).unwrap(), "the environment");
}

#[test]
fn no_copy_of_any_block_moves_when_an_action_is_refused() {
    let mut env = ThreadVectorEnv::new(vec![counters(1), counters(1)]).unwrap();
    let mut rows = Rows::new(2, 2, -1);
    env.reset(Some(&[7, 8]), &mut rows.obs).unwrap();
    env.step(&[GO, 5], None, rows.out()).unwrap_err();
    env.step(&[GO, GO], None, rows.out()).unwrap();
    assert_eq!(rows.obs, [7, 1, 8, 1]);
}

/// Gymnasium seeds what nobody seeded from the operating system's entropy.
#[test]
fn unseeded_copies_begin_with_streams_of_their_own() {
    const N: usize = 64;
    for id in [
        "CartPole-v1",
        "MountainCar-v0",
        "MountainCarContinuous-v0",
        "Pendulum-v1",
        "Acrobot-v1",
        "Taxi-v4",
        "Blackjack-v1",
    ] {
        let first = || {
            let mut env = make_vec(id, &EnvConfig::new(), N).unwrap();
            let width = env.observation_space().width() * env.obs_dtype().size();
            let mut words = vec![0_u64; (N * width).div_ceil(8)];
            let obs = &mut bytemuck::cast_slice_mut::<u64, u8>(&mut words)[..N * width];
            env.reset(None, obs).unwrap();
            obs.chunks(width).map(<[u8]>::to_vec).collect::<Vec<_>>()
        };
        let (rows, again) = (first(), first());
        assert!(rows.iter().any(|row| *row != rows[0]), "{id}: all copies start alike");
        assert!(rows != again, "{id}: two vectors start alike");
    }
}

#[test]
fn unseeded_walks_from_one_start_part() {
    const N: usize = 64;
    let lake = FrozenLake::new(Default::default()).unwrap();
    let mut env = SyncVectorEnv::new(N, || Ok(lake.clone())).unwrap();
    let mut rows = Rows::new(N, 1, 0);
    env.reset(None, &mut rows.obs).unwrap();
    assert_eq!(rows.obs, [0; N]);
    env.step(&[1; N], None, rows.out()).unwrap();
    assert!(rows.obs.iter().any(|&field| field != rows.obs[0]), "{:?}", rows.obs);
}

#[test]
fn a_state_keeps_a_stream_that_nobody_seeded() {
    let mut env = CartPoleVector::new(2, 500, CartPoleConfig::default());
    let (mut went, mut again) = ([0.0; 8], [0.0; 8]);
    env.reset(None, &mut went).unwrap();
    let state = env.save_state().unwrap().unwrap();
    env.reset(None, &mut went).unwrap();
    let mut other = CartPoleVector::new(2, 500, CartPoleConfig::default());
    other.load_state(&state).unwrap();
    other.reset(None, &mut again).unwrap();
    assert_eq!(went, again);
}

/// A [`Counter`] that tells its step in `info` from the second on, and masks its own number.
struct Telling(Counter, Option<usize>);

impl Env for Telling {
    type Obs = i64;
    type Act = i64;

    fn observation_space(&self) -> Space {
        self.0.observation_space()
    }

    fn action_space(&self) -> Space {
        self.0.action_space()
    }

    fn reset(&mut self, seed: Option<u64>, obs: &mut [i64]) -> Result<()> {
        self.0.reset(seed, obs)
    }

    fn step(&mut self, action: &[i64], obs: &mut [i64]) -> Result<Step> {
        self.0.step(action, obs)
    }

    fn info(&self, key: &str) -> Option<f64> {
        (key == "step" && self.0.step > 1).then_some(self.0.step as f64)
    }

    fn action_mask(&self, mask: &mut [bool]) -> bool {
        let Some(number) = self.1 else { return false };
        mask.fill(true);
        mask[number] = false;
        true
    }
}

#[test]
fn info_and_masks_of_all_copies_come_in_rows() {
    fn check<V: VectorEnv<Obs = i64, Act = i64>>(mut env: V) {
        let mut rows = Rows::new(3, 2, -1);
        env.reset(Some(&[7, 8, 9]), &mut rows.obs).unwrap();
        assert_eq!(env.info("step"), None);
        env.step(&[GO; 3], Some(&[1; 3]), rows.out()).unwrap();
        env.step(&[GO, END, GO], Some(&[1; 3]), rows.out()).unwrap();
        let row = env.info("step").expect("copies 0 and 2 tell");
        assert!(row[0] == 2.0 && row[1].is_nan() && row[2] == 2.0, "{row:?}");
        env.send(&[GO, END, END], Some(&[1; 3])).unwrap();
        assert!(env.info("step").is_none() && !env.action_masks(&mut [false; 15]), "a step is in flight");
        for error in [env.render(0).unwrap_err(), env.render_ansi(0).unwrap_err()] {
            assert!(error.to_string().ends_with(" has no picture of a step in flight; call `recv` first"));
        }
        env.recv(rows.out()).unwrap();
        let row = env.info("step").expect("it was told once");
        assert!(row[0] == 3.0 && row[1].is_nan() && row[2].is_nan(), "{row:?}");
        assert_eq!(env.info("another"), None);

        let mut masks = [false; 15];
        assert!(env.action_masks(&mut masks));
        let found: Vec<Vec<usize>> =
            masks.chunks(5).map(|row| (0..5).filter(|&i| !row[i]).collect()).collect();
        // The last copy has no mask: all is legal.
        assert_eq!(found, [vec![0], vec![1], vec![]]);
    }
    let numbers = || {
        let mut next = [Some(0), Some(1), None].into_iter();
        move || Ok(Telling(Counter::default(), next.next().unwrap()))
    };
    check(SyncVectorEnv::new(3, numbers()).unwrap());
    check(ThreadVectorEnv::of_env(3, 2, numbers()).unwrap());
    let mut masks = [false; 5];
    assert!(!counters(1).action_masks(&mut masks));
    assert_eq!(masks, [false; 5]);
}

#[test]
fn masks_of_a_wrong_length_are_refused_and_stay_as_they_are() {
    fn check(mut env: impl VectorEnv<Obs = i64, Act = i64>) {
        env.reset(Some(&[7, 8]), &mut [0; 2]).unwrap();
        for len in [0, 6, 10, 11, 13, 18] {
            let mut masks = vec![true; len];
            assert!(!env.action_masks(&mut masks), "{len} flags for 2 x 6 actions");
            assert!(masks.iter().all(|&flag| flag));
        }
        // Nobody may pick up, or drop, somebody who is not there.
        let mut masks = [true; 12];
        assert!(env.action_masks(&mut masks) && masks.contains(&false));
    }
    let taxi = || Taxi::new(TaxiConfig::default());
    check(SyncVectorEnv::new(2, taxi).unwrap());
    check(ThreadVectorEnv::of_env(2, 2, taxi).unwrap());
    let mut single = taxi().unwrap();
    single.reset(Some(7), &mut [0]).unwrap();
    assert!(single.action_mask(&mut [true; 6]) && !single.action_mask(&mut [true; 5]));
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

type Moment = (Vec<u32>, Vec<u32>, Vec<bool>);

/// 200 random steps: observation bits, last-observation bits where an episode ended, flags.
fn play<V: VectorEnv<Obs = f32, Act = i64>, const N: usize>(mut env: V) -> Vec<Moment> {
    let mut random = NpRandom::new(5);
    let mut rows = Rows::new(N, 4, 0.0_f32);
    env.reset(Some(&std::array::from_fn::<u64, N, _>(|i| i as u64)), &mut rows.obs).unwrap();
    let bits = |row: &[f32]| row.iter().map(|x| x.to_bits()).collect::<Vec<_>>();
    let mut moments = vec![];
    for _ in 0..200 {
        let actions: Vec<i64> = (0..N).map(|_| random.integers(0, 2)).collect();
        let seeds: Vec<u64> = (0..N).map(|_| random.next_u64()).collect();
        env.step(&actions, Some(&seeds), rows.out()).unwrap();
        let ended = rows.terminated.iter().chain(&rows.truncated).copied().collect();
        moments.push((bits(&rows.obs), bits(&rows.final_obs), ended));
    }
    moments
}
