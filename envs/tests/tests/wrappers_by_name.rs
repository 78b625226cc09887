//! Wrappers that settings name.

use pavlov_envs::{
    AnyVectorEnv, CartPole, CartPoleConfig, EnvConfig, EnvCreator, FrameStack, Padding, StepOut,
    SyncVectorEnv, TimeLimit, WrapperSpec, check_vector_env,
};
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
        env.recv(StepOut {
            obs: bytemuck::cast_slice_mut(&mut [0_i64]),
            final_obs: bytemuck::cast_slice_mut(&mut [0_i64]),
            rewards: &mut [0.0],
            terminated: &mut [false],
            truncated: &mut [false],
        })
        .expect_err("nothing was sent")
        .to_string()
    };
    // The limit on steps of Gymnasium's registry is a wrapper, too.
    let registered = EnvCreator::from("FrozenLake-v1").make_vec(&EnvConfig::new(), 1).expect("a copy");
    assert_eq!(refused(registered), "FrozenLake has no step in flight; call `send` first");
    let wrapped = wrapped("FrozenLake-v1", 1, json!(["TimeLimit(9)", "ClipReward(0, 1)"]));
    assert_eq!(refused(wrapped), "FrozenLake-v1 has no step in flight; call `send` first");
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
        ("CartPole-v1", "FrameStack(-1)", "`stack_size` of the wrapper is -1"),
        ("CartPole-v1", "AtariPreprocessing", "one of frames of bytes with discrete actions"),
        ("simple_spread_v3", "FrameStack(4)", "has no wrappers; it has several agents"),
    ] {
        let creator = EnvCreator::from(id).wrapped(&specs(json!([wrapper])));
        let found = creator.make(&EnvConfig::new(), 1).expect_err("refused").to_string();
        assert!(found.contains(text), "no {text:?} in: {found}");
    }
}
