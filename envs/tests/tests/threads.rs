//! Threads, and what shows between steps.

use pavlov_envs::{
    Env, EnvConfig, EnvCreator, EnvSpec, IntoEnvCreator, NpRandom, Result, Space, Step, StepOut,
    SyncVectorEnv, ThreadVectorEnv, VectorEnv, check_vector_env, make_vec,
    native::{CartPole, CartPoleConfig, CartPoleVector, Taxi, TaxiConfig},
    register,
    wrappers::TimeLimit,
};

use crate::{
    counter::{CUT, Counter, END, FAIL, GO, counters},
    rows::Rows,
};

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

/// Rows of 40 steps of an environment by id, in so many threads.
fn play_by_id(id: &str, threads: Option<usize>) -> Vec<Vec<u8>> {
    let config = threads.map(|threads| ("num_threads".to_owned(), threads.into()));
    let mut env = make_vec(id, &EnvConfig::from_iter(config), 5).unwrap();
    let bytes = 5 * env.observation_space().width() * env.obs_dtype().size();
    let mut words = vec![0_u64; bytes.div_ceil(8)];
    let mut final_words = words.clone();
    env.reset(Some(&[1, 2, 3, 4, 5]), &mut bytemuck::cast_slice_mut(&mut words)[..bytes]).unwrap();
    let mut found = vec![];
    for step in 0..40_i64 {
        let mut rewards = [0.0; 5];
        let mut terminated = [false; 5];
        let mut truncated = [false; 5];
        let out = StepOut {
            obs: &mut bytemuck::cast_slice_mut(&mut words)[..bytes],
            final_obs: &mut bytemuck::cast_slice_mut(&mut final_words)[..bytes],
            rewards: &mut rewards,
            terminated: &mut terminated,
            truncated: &mut truncated,
        };
        let actions: [i64; 5] = std::array::from_fn(|copy| (step + copy as i64) % 2);
        env.step(bytemuck::cast_slice(&actions), None, out).unwrap();
        found.push(bytemuck::cast_slice(&words).to_vec());
        found.push(format!("{rewards:?} {terminated:?} {truncated:?}").into_bytes());
    }
    found
}

#[test]
fn a_setting_divides_copies_among_threads_with_equal_rows() {
    let spec = |id: &str| EnvSpec {
        id: id.into(),
        summary: "for a test".into(),
        max_episode_steps: Some(30),
        reward_threshold: None,
    };
    let plain = || CartPole::new(CartPoleConfig::default());
    register(spec("Threaded-v0"), plain).unwrap();
    let configured = EnvCreator::configured(|config: CartPoleConfig| Ok(CartPole::new(config)));
    register(spec("Threaded-v1"), configured).unwrap();
    for id in
        ["Threaded-v0", "Threaded-v1", "Taxi-v4", "LunarLander-v3", "MiniGrid-Empty-5x5-v0", "PixelPong-v0"]
    {
        let one = play_by_id(id, None);
        // More threads than copies are as many as copies.
        for threads in [1, 2, 9] {
            assert!(play_by_id(id, Some(threads)) == one, "{id}, {threads} threads");
        }
        let config = EnvConfig::from_iter([("num_threads".to_owned(), 2.into())]);
        check_vector_env(&mut *make_vec(id, &config, 3).unwrap()).unwrap();
    }
    let config = |threads: serde_json::Value| EnvConfig::from_iter([("num_threads".to_owned(), threads)]);
    let mut env = plain.into_env_creator().make_vec(&config(2.into()), 3).unwrap();
    env.reset(Some(&[1, 2, 3]), bytemuck::cast_slice_mut(&mut [0.0_f32; 12])).unwrap();
    let state = env.save_state().unwrap().unwrap();
    assert!(state.windows(13).any(|part| part == b"thread_vector"), "the copies are in no blocks");
    for wrong in [serde_json::json!(0), serde_json::json!("two")] {
        let error = plain.into_env_creator().make(&config(wrong), 2).unwrap_err().to_string();
        assert!(error.contains("but it must be a whole number of threads, at least 1"), "{error}");
    }
}

#[test]
fn one_loop_and_threads_keep_the_contract() {
    let make = || Ok(TimeLimit::new(CartPole::new(CartPoleConfig::default()), 30));
    check_vector_env(&mut SyncVectorEnv::new(5, make).unwrap()).unwrap();
    check_vector_env(&mut ThreadVectorEnv::of_env(5, 2, make).unwrap()).unwrap();
    let blocks = [2, 3].map(|n| CartPoleVector::new(n, 30, CartPoleConfig::default())).into();
    check_vector_env(&mut ThreadVectorEnv::new(blocks).unwrap()).unwrap();
}

#[test]
fn errors_of_threads_name_the_environment_and_count_copies_through() {
    fn check<V: VectorEnv<Obs = i64, Act = i64>>(mut env: V, name: &str) {
        let mut rows = Rows::filled(2, 2, -1);
        env.reset(Some(&[7, 8]), &mut rows.obs).unwrap();
        let invalid = env.step(&[GO, 5], None, rows.out()).unwrap_err().to_string();
        assert_eq!(invalid, format!("action 5 is not in Discrete(5) of {name}"));
        env.step(&[GO, GO], Some(&[1, 2]), rows.out()).unwrap();
        assert_eq!(rows.obs, [7, 1, 8, 1]);
        let error = env.step(&[GO, FAIL], None, rows.out()).unwrap_err().to_string();
        assert_eq!(error, "environment 1 failed at step 2 of the episode with seed 8: the motor is gone");
    }
    check(counters(2), "Counter");
    check(ThreadVectorEnv::of_env(2, 2, || Ok(Counter::default())).unwrap(), "Counter");
    check(ThreadVectorEnv::new(vec![counters(1), counters(1)]).unwrap(), "the environment");
}

#[test]
fn no_copy_of_any_block_moves_when_an_action_is_refused() {
    let mut env = ThreadVectorEnv::new(vec![counters(1), counters(1)]).unwrap();
    let mut rows = Rows::filled(2, 2, -1);
    env.reset(Some(&[7, 8]), &mut rows.obs).unwrap();
    env.step(&[GO, 5], None, rows.out()).unwrap_err();
    env.step(&[GO, GO], None, rows.out()).unwrap();
    assert_eq!(rows.obs, [7, 1, 8, 1]);
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
        let mut rows = Rows::filled(3, 2, -1);
        env.reset(Some(&[7, 8, 9]), &mut rows.obs).unwrap();
        assert_eq!(env.info("step"), None);
        env.step(&[GO; 3], Some(&[1; 3]), rows.out()).unwrap();
        env.step(&[GO, END, GO], Some(&[1; 3]), rows.out()).unwrap();
        let row = env.info("step").expect("copies 0 and 2 tell");
        assert!(row[0] == 2.0 && row[1].is_nan() && row[2] == 2.0, "{row:?}");
        env.step(&[GO, END, END], Some(&[1; 3]), rows.out()).unwrap();
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

/// At step `t` the actions up to it are legal.
#[derive(Default)]
struct UpTo(Counter);

impl Env for UpTo {
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

    fn action_mask(&self, mask: &mut [bool]) -> bool {
        mask.iter_mut().enumerate().for_each(|(action, legal)| *legal = action as i64 <= self.0.step);
        true
    }
}

#[test]
fn final_masks_are_those_of_the_episodes_that_ended_and_masks_those_of_the_next() {
    fn check(mut env: impl VectorEnv<Obs = i64, Act = i64>) {
        let mut rows = Rows::filled(3, 2, -1);
        let mut masks = [false; 15];
        env.reset(Some(&[7, 8, 9]), &mut rows.obs).unwrap();
        assert!(!env.final_action_masks(&mut masks), "nothing has ended");
        assert!(env.action_masks(&mut masks));
        env.step(&[GO; 3], Some(&[1; 3]), rows.out()).unwrap();
        env.step(&[GO, CUT, END], Some(&[1; 3]), rows.out()).unwrap();
        let legal = |row: &[bool]| row.iter().filter(|&&legal| legal).count();
        assert!(env.final_action_masks(&mut masks));
        assert_eq!([legal(&masks[5..10]), legal(&masks[10..])], [3, 3], "after two steps");
        assert!(env.action_masks(&mut masks));
        assert_eq!(masks.chunks(5).map(legal).collect::<Vec<_>>(), [3, 1, 1]);
        assert!(!env.final_action_masks(&mut [false; 14]));
    }
    check(SyncVectorEnv::new(3, || Ok(UpTo::default())).unwrap());
    check(ThreadVectorEnv::of_env(3, 2, || Ok(UpTo::default())).unwrap());
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
        // A taxi may not pick up, or drop, a passenger who is not there.
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

type Moment = (Vec<u32>, Vec<u32>, Vec<bool>);

/// 200 random steps: observation bits, last-observation bits where an episode ended, flags.
fn play<V: VectorEnv<Obs = f32, Act = i64>, const N: usize>(mut env: V) -> Vec<Moment> {
    let mut random = NpRandom::new(5);
    let mut rows = Rows::filled(N, 4, 0.0_f32);
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

/// A copy that shows in its first observation the task, the option `place` of its resets, and its own number.
#[derive(Clone)]
struct Told {
    number: f32,
    task: f32,
    place: f32,
}

impl Env for Told {
    type Obs = f32;
    type Act = i64;

    fn observation_space(&self) -> Space {
        Space::boxed(0.0, 100.0, &[3])
    }

    fn action_space(&self) -> Space {
        Space::discrete(2)
    }

    fn reset(&mut self, _: Option<u64>, obs: &mut [f32]) -> Result<()> {
        obs.copy_from_slice(&[self.number, self.task, self.place]);
        Ok(())
    }

    fn step(&mut self, _: &[i64], obs: &mut [f32]) -> Result<Step> {
        obs.copy_from_slice(&[self.number, self.task, self.place]);
        Ok(Step { reward: 0.0, terminated: false, truncated: false })
    }

    fn set_task(&mut self, task: &serde_json::Value) -> Result<()> {
        self.task = task.as_f64().unwrap() as f32;
        Ok(())
    }

    fn set_reset_options(&mut self, options: &pavlov_envs::ResetOptions) -> Result<()> {
        self.place = options.get("place").and_then(serde_json::Value::as_f64).unwrap_or_default() as f32;
        Ok(())
    }

    fn render(&mut self) -> Result<Option<pavlov_envs::Frame>> {
        Ok(Some(pavlov_envs::Frame { width: 1, height: 1, rgb: vec![self.number as u8; 3] }))
    }
}

fn told(numbers: std::ops::Range<u8>) -> SyncVectorEnv<Told> {
    let mut numbers = numbers;
    let count = numbers.len();
    SyncVectorEnv::new(count, move || {
        let number = f32::from(numbers.next().unwrap());
        Ok(Told { number, task: 0.0, place: 0.0 })
    })
    .unwrap()
}

fn check_what_copies_are_told<V: VectorEnv<Obs = f32, Act = i64>>(mut env: V) {
    let mut obs = [0.0; 15];
    env.set_task(&serde_json::json!(7)).unwrap();
    env.set_reset_options(&[("place".to_owned(), serde_json::json!(9))].into_iter().collect()).unwrap();
    env.reset(Some(&[0; 5]), &mut obs).unwrap();
    for (copy, row) in obs.chunks(3).enumerate() {
        assert_eq!(row, [copy as f32, 7.0, 9.0]);
        let picture = env.render(copy).unwrap().unwrap();
        assert_eq!(picture.rgb, [copy as u8; 3], "the picture of copy {copy}");
    }
    assert!(env.render(5).is_err());
    assert_eq!(env.max_episode_steps(), None);
    assert!(env.limit_episodes(3));
    assert_eq!(env.max_episode_steps(), Some(3));
    assert!(env.limit_episodes(8), "a limit is not raised");
    assert_eq!(env.max_episode_steps(), Some(3));
    assert!(env.set_autoreset(false));
}

#[test]
fn tasks_options_limits_and_pictures_reach_every_copy_in_one_loop_and_in_threads() {
    check_what_copies_are_told(told(0..5));
    check_what_copies_are_told(ThreadVectorEnv::new(vec![told(0..2), told(2..4), told(4..5)]).unwrap());
}
