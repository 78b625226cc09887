//! Environments written for gymnasium-rs, and pavlov's own, through both doors and against hand-made numbers.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use gymnasium_rs::core::{self, Env as _, Info, Options, Reward};
use ndarray::{Array1, Array3, array};
use pavlov_envs::{
    Env, EnvConfig, Error, IntoEnvCreator, Space, Step, StepOut, check_env,
    native::{CartPole, Pendulum},
    wrappers::TimeLimit,
};
use pavlov_gymnasium_rs::{FromGymnasium, ToGymnasium, gymnasium_rs_env};

/// A walk along a ledge, written for gymnasium-rs: falls off (terminated) left of 0, is called back (truncated) at 3.
/// The seed is the second element of every observation.
#[derive(Debug, Default)]
struct Ledge {
    place: i32,
    seed: i32,
    closed: Arc<AtomicUsize>,
}

impl Ledge {
    fn see(&self) -> (Array1<f32>, Info) {
        (array![self.place as f32, self.seed as f32], Info::from([("depth".into(), (-2.5).into())]))
    }

    fn walk(&mut self, right: bool) -> (Array1<f32>, Reward, bool, bool, Info) {
        self.place += if right { 1 } else { -1 };
        let (obs, info) = self.see();
        (obs, 0.5 * self.place as f32, self.place < 0, self.place >= 3, info)
    }
}

impl core::Env<Array1<f32>, i32> for Ledge {
    fn observation_space(&self) -> core::Space {
        core::Space::Box { low: array![-1.0, 0.0], high: array![3.0, f32::INFINITY] }
    }

    fn action_space(&self) -> core::Space {
        core::Space::Discrete(2)
    }

    fn reset(&mut self, seed: Option<i32>, _options: Options) -> (Array1<f32>, Info) {
        self.place = 0;
        self.seed = seed.unwrap_or(99);
        self.see()
    }

    fn step(&mut self, action: i32) -> (Array1<f32>, Reward, bool, bool, Info) {
        self.walk(action == 1)
    }

    fn render(&self) -> Option<Array3<u8>> {
        Some(Array3::from_shape_fn((2, 4, 3), |(y, x, c)| (100 * y + 10 * x + c) as u8))
    }

    fn close(&mut self) {
        self.closed.fetch_add(1, Ordering::Relaxed);
    }
}

/// The same ledge with types that the crate itself never uses: `Vec<f64>` and a pushing force, and a discrete view.
#[derive(Debug, Default)]
struct Push(Ledge);

impl core::Env<Vec<f64>, Array1<f32>> for Push {
    fn observation_space(&self) -> core::Space {
        self.0.observation_space()
    }

    fn action_space(&self) -> core::Space {
        core::Space::Box { low: array![-1.0], high: array![1.0] }
    }

    fn reset(&mut self, seed: Option<i32>, options: Options) -> (Vec<f64>, Info) {
        let (obs, info) = self.0.reset(seed, options);
        (obs.iter().map(|&x| x.into()).collect(), info)
    }

    fn step(&mut self, action: Array1<f32>) -> (Vec<f64>, Reward, bool, bool, Info) {
        let (obs, reward, terminated, truncated, info) = self.0.walk(action[0] > 0.0);
        (obs.iter().map(|&x| x.into()).collect(), reward, terminated, truncated, info)
    }

    fn render(&self) -> Option<Array3<u8>> {
        None
    }

    fn close(&mut self) {}
}

/// A ring of five fields whose observation is its number, and both flags at the last one.
#[derive(Debug, Default)]
struct Ring(usize);

impl core::Env<i32, usize> for Ring {
    fn observation_space(&self) -> core::Space {
        core::Space::Discrete(5)
    }

    fn action_space(&self) -> core::Space {
        core::Space::Discrete(3)
    }

    fn reset(&mut self, _seed: Option<i32>, _options: Options) -> (i32, Info) {
        self.0 = 0;
        (0, Info::new())
    }

    fn step(&mut self, action: usize) -> (i32, Reward, bool, bool, Info) {
        self.0 = (self.0 + action) % 5;
        (self.0 as i32, 1.0, self.0 == 4, self.0 == 4, Info::new())
    }

    fn render(&self) -> Option<Array3<u8>> {
        None
    }

    fn close(&mut self) {}
}

gymnasium_rs_env! {
    /// By the macro: the types of the crate itself.
    #[derive(Debug)]
    pub(crate) struct MacroLedge(Ledge) of gymnasium_rs, obs: Box(Array1<f32>), action: Discrete(i32)
}

gymnasium_rs_env! {
    #[derive(Debug)]
    struct MacroPush(Push) of gymnasium_rs, obs: Box(Vec<f64>), action: Box(Array1<f32>)
}

gymnasium_rs_env! {
    #[derive(Debug)]
    struct MacroRing(Ring) of gymnasium_rs, obs: Discrete(i32), action: Discrete(usize)
}

/// Walks one step right and off the ledge, then over to where it is called back.
fn assert_walk<E: Env<Obs = f32>>(env: &mut E, left: E::Act, right: E::Act) {
    let mut obs = [9.0; 2];
    env.reset(Some(7), &mut obs).unwrap();
    assert_eq!(obs, [0.0, 7.0]);
    let mut step = |action: E::Act| (env.step(&[action], &mut obs).unwrap(), obs[0]);
    let went = |reward, terminated, truncated, place| (Step { reward, terminated, truncated }, place);
    assert_eq!(step(right), went(0.5, false, false, 1.0));
    assert_eq!(step(left), went(0.0, false, false, 0.0));
    assert_eq!(step(left), went(-0.5, true, false, -1.0));
    env.reset(None, &mut obs).unwrap();
    assert_eq!(obs, [0.0, 99.0]);
    let steps: Vec<_> = (0..3).map(|_| env.step(&[right], &mut obs).unwrap()).collect();
    assert_eq!(steps[2], Step { reward: 1.5, terminated: false, truncated: true });
    assert_eq!(obs, [3.0, 99.0]);
    assert_eq!((env.info("depth"), env.info("height")), (Some(-2.5), None));
}

#[test]
fn a_walk_comes_through_the_adapter_with_its_numbers_and_both_ends() {
    let mut env = FromGymnasium::<_, f32, i64>::new(Ledge::default());
    assert_walk(&mut env, 0, 1);
    let space = Space::bounded(&[-1.0, 0.0], &[3.0, f64::INFINITY]).unwrap();
    assert_eq!((env.observation_space(), env.action_space()), (space, Space::discrete(2)));
}

#[test]
fn a_walk_comes_through_the_macro_with_its_numbers_and_both_ends() {
    assert_walk(&mut MacroLedge::new(Ledge::default()), 0, 1);
    let mut push = MacroPush::new(Push::default());
    assert_walk(&mut push, -0.5, 0.5);
    assert_eq!(push.action_space(), Space::boxed(-1.0, 1.0, &[1]));
}

#[test]
fn a_discrete_observation_is_one_integer_and_both_flags_of_an_ending_stay() {
    let mut env = MacroRing::new(Ring::default());
    let mut obs = [9];
    assert_eq!((env.observation_space(), env.action_space()), (Space::discrete(5), Space::discrete(3)));
    env.reset(None, &mut obs).unwrap();
    env.step(&[2], &mut obs).unwrap();
    assert_eq!(obs, [2]);
    let step = env.step(&[2], &mut obs).unwrap();
    assert_eq!((step, obs), (Step { reward: 1.0, terminated: true, truncated: true }, [4]));
}

#[test]
fn what_comes_through_keeps_pavlovs_contract() {
    check_env(&mut FromGymnasium::<_, f32, i64>::new(Ledge::default())).unwrap();
    check_env(&mut MacroLedge::new(Ledge::default())).unwrap();
    check_env(&mut MacroPush::new(Push::default())).unwrap();
    check_env(&mut TimeLimit::new(MacroRing::new(Ring::default()), 20)).unwrap();
}

#[test]
fn a_trainer_takes_it_and_resets_in_the_same_step() {
    let creator = (|| FromGymnasium::<_, f32, i64>::new(Ledge::default())).into_env_creator();
    let mut env = creator.make_vec(&EnvConfig::new(), 2).unwrap();
    let bytes = |row: &[f32]| row.iter().flat_map(|x| x.to_ne_bytes()).collect::<Vec<u8>>();
    let mut obs = vec![0_u64; 2];
    let mut final_obs = vec![0_u64; 2];
    let as_bytes = |words: &[u64]| words.iter().flat_map(|word| word.to_ne_bytes()).collect::<Vec<u8>>();
    let mut rewards = [0.0; 2];
    let mut terminated = [false; 2];
    let mut truncated = [false; 2];
    env.reset(Some(&[3, 4]), cast(&mut obs)).unwrap();
    assert_eq!(as_bytes(&obs), bytes(&[0.0, 3.0, 0.0, 4.0]));
    let mut actions = [0_u64, 1];
    let out = StepOut {
        obs: cast(&mut obs),
        final_obs: cast(&mut final_obs),
        rewards: &mut rewards,
        terminated: &mut terminated,
        truncated: &mut truncated,
    };
    env.step(cast(&mut actions), Some(&[5, 6]), out).unwrap();
    // The first copy fell: its last observation, and the first of its next episode.
    assert_eq!((rewards, terminated, truncated), ([-0.5, 0.5], [true, false], [false; 2]));
    assert_eq!(as_bytes(&obs), bytes(&[0.0, 5.0, 1.0, 4.0]));
    assert_eq!(as_bytes(&final_obs)[..8], bytes(&[-1.0, 3.0]));
}

fn cast(words: &mut [u64]) -> &mut [u8] {
    bytemuck::cast_slice_mut(words)
}

#[test]
fn seeds_below_two_to_the_31_stay_and_others_are_folded() {
    let mut env = FromGymnasium::<_, f32, i64>::new(Ledge::default());
    let mut obs = [0.0; 2];
    // The last: bit 31 goes to bit 0, bit 62 to bits 31 (cut off) and 0.
    for (seed, expected) in [(0, 0.0), (12345, 12345.0), (1 << 31, 1.0), ((1 << 62) | (1 << 31), 0.0)] {
        env.reset(Some(seed), &mut obs).unwrap();
        assert_eq!(obs[1], expected, "{seed}");
    }
}

#[test]
fn pictures_keep_rows_columns_and_colours() {
    let expected: Vec<u8> =
        (0..2).flat_map(|y| (0..4).flat_map(move |x| (0..3).map(move |c| 100 * y + 10 * x + c))).collect();
    let adapted = FromGymnasium::<_, f32, i64>::new(Ledge::default()).render().unwrap().unwrap();
    let expanded = MacroLedge::new(Ledge::default()).render().unwrap().unwrap();
    assert_eq!((adapted.width, adapted.height, &adapted.rgb), (4, 2, &expected));
    assert_eq!(adapted, expanded);
    let back = ToGymnasium::new(FromGymnasium::<_, f32, i64>::new(Ledge::default())).unwrap();
    assert_eq!(back.render(), core::Env::render(&Ledge::default()));
}

#[test]
fn an_environment_is_closed_once() {
    let closed = Arc::default();
    let ledge = || Ledge { closed: Arc::clone(&closed), ..Ledge::default() };
    drop(FromGymnasium::<_, f32, i64>::new(ledge()));
    drop(MacroLedge::new(ledge()));
    assert_eq!(closed.load(Ordering::Relaxed), 2);
}

#[test]
fn an_observation_of_another_length_than_its_space_is_an_error() {
    #[derive(Debug)]
    struct Long;

    impl core::Env<Array1<f32>, i32> for Long {
        fn observation_space(&self) -> core::Space {
            core::Space::Box { low: array![0.0], high: array![1.0] }
        }

        fn action_space(&self) -> core::Space {
            core::Space::Discrete(2)
        }

        fn reset(&mut self, _seed: Option<i32>, _options: Options) -> (Array1<f32>, Info) {
            (array![0.0, 0.0, 0.0], Info::new())
        }

        fn step(&mut self, _action: i32) -> (Array1<f32>, Reward, bool, bool, Info) {
            (array![], 0.0, false, false, Info::new())
        }

        fn render(&self) -> Option<Array3<u8>> {
            None
        }

        fn close(&mut self) {}
    }

    gymnasium_rs_env! {
        #[derive(Debug)]
        struct MacroLong(Long) of gymnasium_rs, obs: Box(Array1<f32>), action: Discrete(i32)
    }

    for error in [
        FromGymnasium::<_, f32, i64>::new(Long).reset(None, &mut [0.0]).unwrap_err(),
        MacroLong::new(Long).reset(None, &mut [0.0]).unwrap_err(),
    ] {
        let expected = "an observation of gymnasium-rs is 3 long, but it must be 1 long, as its space says";
        assert_eq!(error.to_string(), expected);
    }
    assert!(MacroLong::new(Long).step(&[0], &mut [0.0]).is_err());
}

#[test]
fn pavlovs_cartpole_is_gymnasiums_through_gymnasium_rs_too() {
    let mut env = ToGymnasium::new(CartPole::new(Default::default())).unwrap();
    let mut ours = CartPole::new(Default::default());
    let mut expected = [0.0; 4];
    let (obs, info) = env.reset_seed(42);
    ours.reset(Some(42), &mut expected).unwrap();
    assert_eq!((obs, info.len()), (Array1::from(expected.to_vec()), 0));
    assert_eq!(core::Env::action_space(&env), core::Space::Discrete(2));
    let mut ended = false;
    for _ in 0..50 {
        let step = ours.step(&[1], &mut expected).unwrap();
        let (obs, reward, terminated, truncated, _) = env.step(1);
        assert_eq!(obs.to_vec(), expected);
        assert_eq!((reward, terminated, truncated), (step.reward as f32, step.terminated, step.truncated));
        ended = terminated;
        if ended {
            break;
        }
    }
    assert!(ended, "pushing right for 50 steps drops the pole");
}

#[test]
fn gymnasium_rs_own_cartpole_is_another_one() {
    let mut theirs = gymnasium_rs::envs::cartpole::CartPole::new();
    let mut ours = CartPole::new(Default::default());
    let (start, _) = theirs.reset_seed(0);
    let mut expected = [0.0; 4];
    ours.reset(Some(0), &mut expected).unwrap();
    ours.set_state([start[0], start[1], start[2], start[3]].map(f64::from));
    ours.step(&[0], &mut expected).unwrap();
    let (obs, ..) = theirs.step(0);
    // From the same state: their cart weighs 1.0 with its pole instead of 1.1.
    assert!((obs[1] - expected[1]).abs() > 0.01, "{obs} against {expected:?}");
}

#[test]
fn the_limit_on_steps_truncates_on_the_way_out() {
    let mut env = ToGymnasium::new(TimeLimit::new(Pendulum::new(Default::default()), 3)).unwrap();
    env.reset_seed(0);
    let flags =
        |(_, _, terminated, truncated, _): (Array1<f32>, Reward, bool, bool, Info)| (terminated, truncated);
    let steps: Vec<_> = (0..3).map(|_| flags(env.step(array![0.5]))).collect();
    assert_eq!(steps, [(false, false), (false, false), (false, true)]);
}

#[test]
fn there_and_back_again_a_walk_is_the_same() {
    let mut there = Ledge::default();
    let mut back = ToGymnasium::new(FromGymnasium::<_, f32, i64>::new(Ledge::default())).unwrap();
    assert_eq!(back.observation_space(), there.observation_space());
    assert_eq!(back.reset_seed(5).0, there.reset_seed(5).0);
    for action in [1, 0, 1, 1, 1] {
        let (obs, reward, terminated, truncated, _) = back.step(action);
        let (expected, expected_reward, expected_end, expected_cut, _) = there.step(action);
        assert_eq!(
            (obs, reward, terminated, truncated),
            (expected, expected_reward, expected_end, expected_cut)
        );
    }
}

#[test]
fn what_gymnasium_rs_cannot_say_is_told() {
    #[derive(Debug)]
    struct Dice;

    impl Env for Dice {
        type Obs = i64;
        type Act = i64;

        fn observation_space(&self) -> Space {
            Space::Discrete { n: 6, start: 1 }
        }

        fn action_space(&self) -> Space {
            Space::discrete(1)
        }

        fn reset(&mut self, _seed: Option<u64>, obs: &mut [i64]) -> pavlov_envs::Result<()> {
            obs[0] = 1;
            Ok(())
        }

        fn step(&mut self, _action: &[i64], _obs: &mut [i64]) -> pavlov_envs::Result<Step> {
            Ok(Step::default())
        }
    }

    let error = ToGymnasium::new(Dice).unwrap_err();
    assert!(matches!(error, Error::Unsupported { .. }), "{error}");

    let mut env = ToGymnasium::new(CartPole::new(Default::default())).unwrap();
    let (start, _) = env.reset_seed(1);
    let (obs, reward, terminated, truncated, info) = env.step(2);
    assert_eq!((obs, reward, terminated, truncated), (start, 0.0, false, true));
    assert_eq!(info["error"], "action 2 is not in Discrete(2) of gymnasium-rs");
}

/// Gives its reward for whatever it takes.
#[derive(Debug)]
struct Taker;

impl Env for Taker {
    type Obs = f32;
    type Act = f32;

    fn observation_space(&self) -> Space {
        Space::real(&[1])
    }

    fn action_space(&self) -> Space {
        Space::boxed(-1.0, 1.0, &[2])
    }

    fn reset(&mut self, _seed: Option<u64>, obs: &mut [f32]) -> pavlov_envs::Result<()> {
        obs[0] = 0.0;
        Ok(())
    }

    fn step(&mut self, _action: &[f32], _obs: &mut [f32]) -> pavlov_envs::Result<Step> {
        Ok(Step { reward: 1.0, ..Step::default() })
    }
}

#[test]
fn actions_that_are_not_finite_do_not_reach_the_environment() {
    let mut env = ToGymnasium::new(Taker).unwrap();
    env.reset_seed(1);
    let (_, reward, _, truncated, info) = env.step(array![0.0, 2.0]);
    assert_eq!((reward, truncated, info.len()), (1.0, false, 0));
    let (_, reward, _, truncated, info) = env.step(array![0.0, f32::NAN]);
    assert_eq!((reward, truncated), (0.0, true));
    assert_eq!(info["error"], "action [0.0, NaN] is not in Box(-1, 1, [2], f32) of gymnasium-rs");
}
