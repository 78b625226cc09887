//! Wrappers that settings name.

use std::sync::{Arc, Mutex};

use pavlov_envs::{
    AnyVectorEnv, Element, EnvConfig, EnvCreator, Error, Result, StepOut, SyncVectorEnv, Wrapper,
    WrapperSpec, check_vector_env, make_vec,
    native::{CartPole, CartPoleConfig},
    register_wrapper,
    wrappers::{ClipReward, FlattenObservation, FrameStack, Padding, TimeLimit},
};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

fn specs(value: Value) -> Vec<WrapperSpec> {
    serde_json::from_value(value).expect("wrappers")
}

fn wrapped(id: &str, num_envs: usize, value: Value) -> Box<dyn AnyVectorEnv> {
    EnvCreator::from(id).wrapped(&specs(value)).make_vec(&EnvConfig::new(), num_envs).expect("copies")
}

#[test]
fn wrapped_environments_keep_the_contract() {
    let stacked = json!(["TimeLimit(30)", { "name": "FrameStack", "stack_size": 3 }, "FlattenObservation"]);
    for num_envs in [1, 3] {
        check_vector_env(&mut *wrapped("CartPole-v1", num_envs, stacked.clone())).expect("the contract");
        let scaled = json!(["RescaleAction(-1, 1)", "ClipAction", "ClipReward(min_reward=-1, max_reward=0)"]);
        check_vector_env(&mut *wrapped("Pendulum-v1", num_envs, scaled)).expect("the contract");
    }
    for (id, wrappers) in [
        ("Pendulum-v1", json!(["RescaleObservation(-1, 1)", "DtypeObservation(\"float64\")"])),
        ("Pendulum-v1", json!(["MaxAndSkipObservation(2)", "StickyAction(0.25, [1, 3])"])),
        ("Pendulum-v1", json!(["TimeAwareObservation(false, true)", "FlattenObservation"])),
        ("PixelPong-v0", json!(["ResizeObservation([4, 4])", "FrameStack(2)", "StickyAction(0.5)"])),
    ] {
        check_vector_env(&mut *wrapped(id, 2, wrappers)).expect("the contract");
    }
    // Without a state of its own to save, and with integers to see.
    check_vector_env(&mut *wrapped("Taxi-v4", 2, json!(["TimeLimit(20)"]))).expect("the contract");
    assert_eq!(wrapped("CartPole-v1", 2, stacked).observation_space().shape(), [12]);
}

/// 100 steps of two copies, with one seed at the start and none later.
fn play(env: &mut dyn AnyVectorEnv) -> Vec<Vec<u8>> {
    let bytes = 2 * env.observation_space().width() * env.obs_dtype().size();
    let mut words = vec![0_u64; bytes / 8];
    let obs = bytemuck::cast_slice_mut::<u64, u8>(&mut words);
    env.reset(Some(&[1, 2]), obs).expect("a reset");
    let mut rows = vec![obs.to_vec()];
    for step in 0..100_i64 {
        let actions = [step % 2, (step / 2) % 2];
        let mut final_obs = vec![0_u64; bytes / 8];
        let out = StepOut {
            obs: bytemuck::cast_slice_mut(&mut words),
            final_obs: bytemuck::cast_slice_mut(&mut final_obs),
            rewards: &mut [0.0; 2],
            terminated: &mut [false; 2],
            truncated: &mut [false; 2],
        };
        env.step(bytemuck::cast_slice(&actions), None, out).expect("a step");
        rows.push(bytemuck::cast_slice(&words).to_vec());
        rows.push(bytemuck::cast_slice(&final_obs).to_vec());
    }
    rows
}

#[test]
fn errors_of_copies_in_wrappers_name_the_environment() {
    let refused = |mut env: Box<dyn AnyVectorEnv>| {
        let mut words = vec![[0_u64; 2]; env.observation_space().width()];
        let bytes = env.observation_space().width() * env.obs_dtype().size();
        let (obs, final_obs) = bytemuck::cast_slice_mut::<[u64; 2], u8>(&mut words).split_at_mut(bytes);
        let out = StepOut {
            obs,
            final_obs: &mut final_obs[..bytes],
            rewards: &mut [0.0],
            terminated: &mut [false],
            truncated: &mut [false],
        };
        env.step(bytemuck::cast_slice(&[9_i64]), None, out).expect_err("no such action").to_string()
    };
    // The limit on steps of Gymnasium's registry is a wrapper, too.
    let registered = EnvCreator::from("FrozenLake-v1").make_vec(&EnvConfig::new(), 1).expect("a copy");
    assert!(refused(registered).contains("FrozenLake"));
    let error = refused(wrapped("FrozenLake-v1", 1, json!(["TimeLimit(9)", "FlattenObservation"])));
    assert!(error.contains("FrozenLake-v1"), "{error}");
}

#[test]
fn a_native_vector_in_wrappers_stays_one() {
    let made = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&made);
    let native = EnvCreator::new("Native", move |config, copies| {
        seen.lock().expect("the list").push(copies);
        make_vec("CartPole-v1", config, copies)
    });
    let wrappers =
        specs(json!(["TimeLimit(30)", "FrameStack(2)", "FlattenObservation", "ClipReward(0, 0.5)"]));
    let mut whole = native.wrapped(&wrappers).make_vec(&EnvConfig::new(), 1024).expect("copies");
    assert_eq!(*made.lock().expect("the list"), [1024]);
    let mut by_hand = SyncVectorEnv::new(1024, || {
        let cartpole = TimeLimit::new(CartPole::new(CartPoleConfig::default()), 30);
        ClipReward::new(FlattenObservation::new(FrameStack::new(cartpole, 2, Padding::Reset)?)?, 0.0, 0.5)
    })
    .expect("copies");
    for seeded in [false, true] {
        assert_eq!(rows(&mut *whole, 1024, seeded), rows(&mut by_hand, 1024, seeded), "seeded {seeded}");
    }
}

/// Observations, last observations, rewards and flags of all copies.
type Moment = (Vec<f32>, Vec<f32>, Vec<f32>, Vec<bool>);

/// 60 steps of `copies` copies of CartPole, with or without seeds for the next episodes.
fn rows(env: &mut dyn AnyVectorEnv, copies: usize, seeded: bool) -> Vec<Moment> {
    let width = copies * env.observation_space().width();
    let seeds: Vec<u64> = (0..copies as u64).collect();
    let mut obs = vec![0.0_f32; width];
    env.reset(Some(&seeds), bytemuck::cast_slice_mut(&mut obs)).expect("a reset");
    let mut found = Vec::new();
    for step in 0..60 {
        let actions: Vec<i64> = (0..copies).map(|copy| ((step * (copy + 3) / 2) % 2) as i64).collect();
        let next: Vec<u64> = seeds.iter().map(|seed| seed + 1000 * (step as u64 + 1)).collect();
        let mut final_obs = vec![0.0_f32; width];
        let mut rewards = vec![0.0; copies];
        let mut terminated = vec![false; copies];
        let mut truncated = vec![false; copies];
        let out = StepOut {
            obs: bytemuck::cast_slice_mut(&mut obs),
            final_obs: bytemuck::cast_slice_mut(&mut final_obs),
            rewards: &mut rewards,
            terminated: &mut terminated,
            truncated: &mut truncated,
        };
        env.step(bytemuck::cast_slice(&actions), seeded.then_some(&next[..]), out).expect("a step");
        terminated.extend(truncated);
        found.push((obs.clone(), final_obs, rewards, terminated));
    }
    found
}

/// Shows how many steps of the episode are over, times a factor, instead of the last scalar; breaks in step 9 of seed 777.
#[derive(Clone, Serialize, Deserialize)]
struct Clock {
    factor: f64,
    #[serde(skip)]
    steps: u16,
    #[serde(skip)]
    seed: Option<u64>,
}

impl Default for Clock {
    fn default() -> Self {
        Self { factor: 1.0, steps: 0, seed: None }
    }
}

impl<O: Element, A: Element> Wrapper<O, A> for Clock {
    type Obs = O;
    type Act = A;

    fn reset(&mut self, seed: Option<u64>) {
        self.steps = 0;
        self.seed = seed;
    }

    fn observation(&mut self, inner: &[O], obs: &mut [O]) -> Result<()> {
        obs.copy_from_slice(inner);
        if let Some(last) = obs.last_mut() {
            *last = O::from_f64(self.factor * f64::from(self.steps));
        }
        Ok(())
    }

    fn action(&mut self, action: &[A], inner: &mut [A]) -> Result<()> {
        self.steps += 1;
        assert!(self.seed != Some(777) || self.steps < 9, "the clock broke");
        inner.copy_from_slice(action);
        Ok(())
    }

    fn save_state(&self) -> Vec<u8> {
        self.steps.to_le_bytes().to_vec()
    }

    fn load_state(&mut self, state: &[u8]) -> Result<()> {
        let bytes = state.try_into().map_err(|_| Error::other("two bytes were saved"))?;
        self.steps = u16::from_le_bytes(bytes);
        Ok(())
    }
}

#[test]
fn a_wrapper_of_ones_own_has_a_name_and_arguments_in_settings() {
    register_wrapper("Clock", |copies, clock: Clock| copies.wrapped(|| Ok(clock.clone())))
        .expect("a new name");
    let written =
        serde_json::to_value(specs(json!(["Clock(0.5)", "Clock", { "name": "Clock", "factor": 2 }])));
    assert_eq!(written.expect("JSON"), json!(["Clock(0.5)", "Clock(1.0)", "Clock(2)"]));
    let mut env = wrapped("CartPole-v1", 2, json!(["Clock(0.5)", "FrameStack(2)"]));
    check_vector_env(&mut *wrapped("CartPole-v1", 2, json!(["Clock(0.5)", "FrameStack(2)"])))
        .expect("the contract");
    assert_eq!(env.observation_space().shape(), [2, 4]);
    let mut obs = [0.0_f32; 16];
    env.reset(Some(&[1, 777]), bytemuck::cast_slice_mut(&mut obs)).expect("a reset");
    let mut step = |action: i64| {
        let mut final_obs = [0.0_f32; 16];
        let out = StepOut {
            obs: bytemuck::cast_slice_mut(&mut obs),
            final_obs: bytemuck::cast_slice_mut(&mut final_obs),
            rewards: &mut [0.0; 2],
            terminated: &mut [false; 2],
            truncated: &mut [false; 2],
        };
        let stepped = env.step(bytemuck::cast_slice(&[action; 2]), None, out);
        stepped.map(|()| [obs[3], obs[7], obs[11], obs[15]])
    };
    assert_eq!(step(0).expect("a step"), [0.0, 0.5, 0.0, 0.5]);
    assert_eq!(step(1).expect("a step"), [0.5, 1.0, 0.5, 1.0]);
    // A panic of the wrapper is an error that says where.
    let error = (2..9).find_map(|number| step(number % 2).err()).expect("the clock breaks").to_string();
    for text in ["environment 1", "step 9", "seed 777", "the clock broke"] {
        assert!(error.contains(text), "no {text:?} in: {error}");
    }
}

#[test]
fn names_of_wrappers_are_given_once_and_in_letters() {
    let register = |name: &str| {
        let named = register_wrapper(name, |copies, clock: Clock| copies.wrapped(|| Ok(clock.clone())));
        named.expect_err("refused").to_string()
    };
    for name in ["FrameStack", "FrameStackObservation", "FullyObsWrapper"] {
        assert!(register(name).contains("is registered already"), "{name}");
    }
    for name in ["", "Half(2)", "a b"] {
        assert!(register(name).contains("must be made of letters, digits and underscores"), "{name:?}");
    }
    let number = register_wrapper("Number", |copies, _: f64| Ok(copies.into_inner()));
    assert!(number.expect_err("refused").to_string().contains("a struct with named fields"));
    let misfit = register_wrapper("Bytes", |copies, clock: Clock| {
        copies.wrapped_typed::<u8, i64, Clock>(|| Ok(clock.clone()))
    });
    misfit.expect("a new name");
    let creator = EnvCreator::from("CartPole-v1").wrapped(&specs(json!(["Bytes"])));
    let error = creator.make(&EnvConfig::new(), 1).expect_err("no bytes").to_string();
    assert!(error.contains("the scalar type of observations is f32, but it must be u8"), "{error}");
}

#[test]
fn wrappers_by_name_give_the_rows_of_wrappers_by_hand() {
    let by_hand = || {
        let cartpole = TimeLimit::new(CartPole::new(CartPoleConfig::default()), 30);
        FrameStack::new(cartpole, 4, Padding::Reset)
    };
    let mut by_hand = SyncVectorEnv::new(2, by_hand).expect("copies");
    let mut by_name = wrapped("CartPole-v1", 2, json!(["TimeLimit(30)", "FrameStack(4)"]));
    assert_eq!(play(&mut *by_name), play(&mut by_hand));
}

#[test]
fn wrappers_are_written_as_one_text_each() {
    let written = |value: Value| serde_json::to_value(specs(json!([value]))).expect("JSON")[0].clone();
    assert_eq!(written(json!(" FrameStack( 4 ) ")), "FrameStack(4)");
    assert_eq!(
        written(json!({"name": "ClipReward", "max_reward": 1.5, "min_reward": -1})),
        "ClipReward(-1, 1.5)"
    );
    assert_eq!(
        written(json!("AtariPreprocessing(screen_size=42, terminal_on_life_loss=True)")),
        "AtariPreprocessing(30, 4, 42, true, true)"
    );
    assert_eq!(written(json!("ClipAction()")), "ClipAction");
    assert_eq!(written(json!("ResizeObservation([42, 21])")), "ResizeObservation([42,21])");
    assert_eq!(written(json!(r#"FilterObservation(["A", "b"])"#)), r#"FilterObservation(["A","b"])"#);
    assert_eq!(written(json!("FrameStackObservation(4)")), "FrameStack(4)", "the name in Gymnasium 1.x");
    assert_eq!(specs(json!(["FrameStack(4)"])), specs(json!([written(json!("FrameStack(4)"))])));
}

#[test]
fn wrappers_that_cannot_be_are_refused_with_the_way_out() {
    let refusal =
        |value: Value| serde_json::from_value::<WrapperSpec>(value).expect_err("refused").to_string();
    for (value, text) in [
        (json!("FrameStak(4)"), "no wrapper \"FrameStak\"; nearest: FrameStack; there is AtariPreprocessing"),
        (json!("FrameStack"), "FrameStack lacks `stack_size`; it takes (stack_size)"),
        (json!("FrameStack(4, 5)"), "FrameStack is given 2 arguments, but it takes (stack_size)"),
        (json!("FrameStack(size=5)"), "lacks `stack_size`"),
        (json!("ClipAction(low=5)"), "ClipAction is given `low`, but it takes no arguments"),
        (json!("FrameStack(4"), "no closing parenthesis"),
        (json!("FrameStack(four)"), "the argument four of FrameStack is neither a number nor true or false"),
        (json!("NormalizeObservation"), "set `observation_filter = \"MeanStdFilter\"`"),
        (json!({"stack_size": 4}), "has no `name`"),
        (json!(4), "a wrapper is 4, but it must be a text such as \"FrameStack(4)\" or a table"),
    ] {
        let found = refusal(value);
        assert!(found.contains(text), "no {text:?} in: {found}");
    }
    for (id, wrapper, text) in [
        ("CartPole-v1", "FrameStack(0)", "`stack_size` is 0, but it must be at least 1"),
        ("CartPole-v1", "TimeLimit(0)", "`max_episode_steps` of TimeLimit is 0, but it must be at least 1"),
        ("CartPole-v1", "FrameStack(-1)", "`stack_size` of the wrapper is -1"),
        ("CartPole-v1", "AtariPreprocessing", "one of frames of bytes with discrete actions"),
        ("simple_spread_v3", "FrameStack(4)", "has no wrappers; it has several agents"),
    ] {
        let creator = EnvCreator::from(id).wrapped(&specs(json!([wrapper])));
        let found = creator.make(&EnvConfig::new(), 1).expect_err("refused").to_string();
        assert!(found.contains(text), "no {text:?} in: {found}");
    }
}
